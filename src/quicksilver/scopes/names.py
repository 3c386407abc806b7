"""Names of scopes and topics.

A scope's name is a path, ``campus/library``; a node is a scope as well, the smallest one. A
topic's name is the name of its root scope and one more part, ``campus/library/news``: so a
topic has one root, and everybody knows which. Parts are separated by ``/``. In routing records
and in what commands print ``-``, ``:`` and ``,`` stand between names, so no name has them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

NAME_BYTES_MAX = 200
"""A topic is a group in each network that it spans, and group names have 255 bytes."""

PARTS_MAX = 16
"""Levels of the deepest hierarchy."""

Name = Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)]
"""A name as peers may write it: its length is bounded, and nothing else is checked."""

Path = Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=PARTS_MAX)]
"""A scope, a member of it, a member of that one, and so on."""

Address = Annotated[str, msgspec.Meta(max_length=255)]
"""Where somebody listens."""

_FORBIDDEN = frozenset("-:, \t\r\n*>")


def find_scope_name_problem(name: str) -> str | None:
    """Return what is wrong with a scope's name, or None."""
    if not name:
        return "a scope's name is empty"
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        return f"a scope's name has more than {NAME_BYTES_MAX} bytes"
    parts = name.split("/")
    if len(parts) > PARTS_MAX:
        return f"a scope's name has more than {PARTS_MAX} parts"
    if not all(parts):
        return f"a part of {name!r} is empty: write campus/library, without / at the ends"
    bad = sorted({c for c in name if c in _FORBIDDEN or not c.isprintable()})
    if bad:
        return f"{name!r} has {bad[0]!r}, which no scope's name can have"
    return None


def find_topic_name_problem(topic: str) -> str | None:
    """Return what is wrong with a topic's name, or None."""
    problem = find_scope_name_problem(topic)
    if problem is not None:
        return problem.replace("scope's", "topic's")
    if "/" not in topic:
        return f"{topic!r} names no scope: write SCOPE/{topic}, where SCOPE is its root"
    return None


def root_of(topic: str) -> str:
    """Return the name of the scope that a topic is rooted in."""
    return topic.rpartition("/")[0]
