"""Patterns and queues as applications ask for them, checked at the call."""

from __future__ import annotations

from typing import Any

from quicksilver.membership.names import check_group_name, check_pattern
from quicksilver.membership.patterns import is_pattern
from quicksilver.multicast.queues import queue_attendance
from quicksilver.node.errors import OptionError, PatternError
from quicksilver.wire.gms import GROUP_NAME_BYTES_MAX

QUEUE_CHARS_MAX = 64
QUEUE_AND_GROUP_BYTES_MAX = GROUP_NAME_BYTES_MAX - len(queue_attendance("", ""))
"""The GMS knows the members of a queue by a name that has both."""

QUEUE_DRAIN_S = 0.5
"""How long whoever leaves a queue stays in its group: what senders sent to it before they
heard of it arrives within a few round trips."""


def check_join(name: Any, *, queue: str | None, echo: bool, has_history: bool) -> None:
    """Refuse what cannot be asked of a pattern or a queue, before anything is sent."""
    if queue is not None:
        _check_queue(name, queue)
    if not isinstance(name, str) or not is_pattern(name):
        return
    check_pattern(name)
    if queue is not None:
        raise PatternError(name, "cannot have a queue")
    if echo:
        raise PatternError(name, "cannot echo what this node sends")
    if has_history:
        raise PatternError(name, "has no history of its own")


def _check_queue(name: Any, queue: Any) -> None:
    if not isinstance(queue, str) or not queue or not queue.isprintable():
        raise OptionError("queue", "must be a printable name that is not empty")
    if len(queue) > QUEUE_CHARS_MAX or "." in queue or is_pattern(queue):
        raise OptionError(
            "queue", f"must have at most {QUEUE_CHARS_MAX} characters, no dot and no wildcard"
        )
    if not isinstance(name, str) or is_pattern(name):
        return
    check_group_name(name)
    size = len(queue.encode() + name.encode())
    if size > QUEUE_AND_GROUP_BYTES_MAX:
        problem = f"must have at most {QUEUE_AND_GROUP_BYTES_MAX} bytes together with the group's"
        raise OptionError("queue", f"{problem} name, not {size}: shorten one of them")
