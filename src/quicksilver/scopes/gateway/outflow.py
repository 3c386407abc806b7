"""What the nodes of a network send, as runs of messages that go to other networks.

A message's number is the one that its sender gave it in the group. It is the same at every
gateway, whatever views there were, whether or not the message has headers, and however long it
is; so any gateway can go on where another one stopped. A gateway that came later begins with
the first message that it hears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from quicksilver.scopes.dissemination.batches import PAYLOAD_BYTES_MAX
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.gateway.forms import ENVELOPED, PLAIN, VOID, void
from quicksilver.wire.envelope import ENVELOPE_BYTES_MAX, Envelope, Kind, encode_enveloped

HOLE_MAX = 4096
"""Numbers that are missing between two messages of a sender and count as void. With more of
them the gateway was away: what it missed is for others to give."""

SENDERS_MAX = 100_000
"""Senders in topics; past it the oldest is forgotten, and begins anew."""


class Run(NamedTuple):
    """Consecutive messages of one sender."""

    topic: str
    sender: Sender
    number: int
    attributes: dict[str, str]
    messages: Sequence[bytes]
    is_new: bool
    """True: nothing was heard of the sender before, or something was missed."""


class Outflow:
    """Numbers of local senders' messages, and the forms in which these travel."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._next: dict[tuple[str, Sender], int] = {}

    def forget(self, topic: str) -> None:
        """A topic has ended here; what is heard of it later begins anew."""
        for key in [key for key in self._next if key[0] == topic]:
            del self._next[key]

    def take(
        self,
        topic: str,
        sender: Sender,
        numbers: Sequence[int],
        payloads: Sequence[bytes],
        envelopes: Sequence[Envelope] | None = None,
    ) -> list[Run]:
        """Return what goes out of messages that a local node has sent.

        Their numbers ascend: a node's messages to a group are heard in order.
        """
        key = topic, sender
        expected = self._next.pop(key, None)
        if expected is None and len(self._next) >= SENDERS_MAX:
            del self._next[next(iter(self._next))]
        self._next[key] = max(numbers[-1] + 1, expected or 0)
        if expected is not None and numbers[0] < expected:
            # It gave the same number twice: it has forgotten the group, and 100,000 others.
            self._counters["local_again"] += len(numbers)
            return []
        runs: list[Run] = []
        last = numbers[-1]
        is_even = last - numbers[0] + 1 == len(numbers)
        longest = PAYLOAD_BYTES_MAX - ENVELOPE_BYTES_MAX
        if envelopes is None and is_even and max(map(len, payloads)) <= longest:
            self._add(runs, topic, sender, expected, numbers[0], PLAIN, payloads)
            return runs
        for at, (number, payload) in enumerate(zip(numbers, payloads, strict=True)):
            form, message = PLAIN, payload
            if len(payload) > longest:
                self._counters["local_too_long"] += 1
                form, message = VOID, b""
            elif envelopes is not None and envelopes[at].kind == Kind.MESSAGE:
                form, message = ENVELOPED, encode_enveloped(envelopes[at], payload)
            elif envelopes is not None:
                form, message = VOID, b""
            self._add(runs, topic, sender, expected, number, form, [message])
            expected = number + 1
        return runs

    def _add(
        self,
        runs: list[Run],
        topic: str,
        sender: Sender,
        expected: int | None,
        number: int,
        form: dict[str, str],
        messages: Sequence[bytes],
    ) -> None:
        """Add messages to the last run or begin another one; numbers before them are void."""
        hole = 0 if expected is None else number - expected
        is_new = expected is None or hole > HOLE_MAX
        if hole and not is_new:
            runs.append(Run(topic, sender, number - hole, VOID, void(hole), is_new=False))
        last = runs[-1] if runs else None
        if last is not None and last.attributes == form and not is_new:
            runs[-1] = last._replace(messages=[*last.messages, *messages])
        else:
            runs.append(Run(topic, sender, number, form, messages, is_new))
