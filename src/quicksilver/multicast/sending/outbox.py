"""Messages between application threads and the core, without a lock.

Application threads add to the end of a list, the core moves all that is there
into columns of its own and cuts packets out of those. Each step is one call
into C, which no other thread can interrupt: an ``append`` or ``extend`` on one
side, a copy of a list and the deletion of as many items on the other. To take
messages one by one from a deque cost 40 ns each; whole slices cost 4.

A lane with a single group holds bare payloads; with several, each payload is
preceded by the group it is for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Generic, Protocol, TypeVar


class Named(Protocol):
    """A group, as the outbox needs it."""

    @property
    def name(self) -> str: ...


S = TypeVar("S", bound=Named)


class Outbox(Generic[S]):
    """The queue of one lane."""

    __slots__ = (
        "_at",
        "_groups",
        "_payloads",
        "bare",
        "is_single",
        "is_uniform",
        "pairs",
        "primary",
        "size",
    )

    def __init__(self) -> None:
        self.bare: list[bytes] = []
        """Payloads for ``primary``, added only while ``is_single``."""
        self.pairs: list[Any] = []
        """A group, its payload, a group, its payload …; added together or not at all."""
        self.primary: S | None = None
        self.is_single = False
        """True while no group but ``primary`` uses the lane."""
        self.size = -1
        """How long the message is that was added last; -1: none since all were taken."""
        self.is_uniform = True
        """True while all messages here are ``size`` long: to look at each length once
        more took a third of the time to make a packet. Whoever adds a message changes the two
        in the same breath: from there to its end there is no call but the one that
        adds, so no other thread can come between."""
        # The core's columns: what lies before ``_at`` has been taken.
        self._payloads: list[bytes] = []
        self._groups: list[S] | None = None
        self._at = 0

    def attach(self, sender: S) -> None:
        """A group begins to use the lane."""
        if self.primary is None:
            self.primary = sender
            self.is_single = True
        elif sender is not self.primary:
            self.is_single = False

    def put(self, sender: S, payload: bytes) -> None:
        """Queue one message; what ``send`` does, for callers that need no speed."""
        size = len(payload)
        if size != self.size:
            self.is_uniform = self.size < 0
            self.size = size
        if self.is_single:
            self.bare.append(payload)
        else:
            self.pairs.extend((sender, payload))

    def put_all(self, sender: S, payloads: list[bytes], *, is_even: bool) -> None:
        """Queue messages of one group; ``is_even``: all are equally long."""
        size = len(payloads[-1])
        pairs: list[Any] = [None] * (2 * len(payloads))
        pairs[::2] = [sender] * len(payloads)
        pairs[1::2] = payloads
        if size != self.size or not is_even:
            self.is_uniform = self.size < 0 and is_even
            self.size = size
        if self.is_single:
            self.bare.extend(payloads)
        else:
            self.pairs.extend(pairs)

    def __bool__(self) -> bool:
        return self._at < len(self._payloads) or bool(self.bare) or bool(self.pairs)

    def count(self) -> int:
        """Return how many messages wait."""
        return len(self._payloads) - self._at + len(self.bare) + len(self.pairs) // 2

    def count_by_group(self) -> dict[str, int]:
        """Return how many messages wait for each group, by its name."""
        self._fill()
        if self._groups is None:
            waiting = len(self._payloads)
            return {self.primary.name: waiting} if self.primary and waiting else {}
        return dict(Counter(group.name for group in self._groups))

    def identities(self) -> set[int]:
        """Return the identities of all payloads that wait (core thread)."""
        self._fill()
        return set(map(id, self._payloads))

    def put_first(self, sender: S, payloads: list[bytes]) -> None:
        """Queue messages in front of all others (core thread)."""
        self.attach(sender)
        self.is_uniform = False
        self.size = len(payloads[-1])
        self._fill()
        self.put_back([sender] * len(payloads), payloads)

    def head(self) -> S:
        """Return the group of the next message."""
        if self._at == len(self._payloads):
            self._fill()
        if self._groups is not None:
            return self._groups[self._at]
        assert self.primary is not None
        return self.primary

    def take(self, count: int) -> tuple[list[S] | None, list[bytes]]:
        """Remove up to ``count`` messages; without groups if all are the primary's."""
        at = self._at
        end = at + count
        if end > len(self._payloads) and (self.bare or self.pairs):
            self._fill()
            at, end = 0, count
        payloads = self._payloads[at:end]
        groups = self._groups
        if groups is not None:
            groups = groups[at:end]
        self._at = at + len(payloads)
        if self._at == len(self._payloads):
            self._payloads, self._groups, self._at = [], None, 0
        return groups, payloads

    def forget_size(self) -> None:
        """Everything was taken and is gone: the next messages may have another length."""
        if self._at == len(self._payloads) and not self.bare and not self.pairs:
            # After ``len`` no call until here: see ``is_uniform``.
            self.size = -1
            self.is_uniform = True

    def put_back(self, groups: list[S] | None, payloads: list[bytes]) -> None:
        """Return messages to the front, in their order."""
        if groups is not None or self._groups is not None:
            self._name_groups()
            assert self._groups is not None
            self._groups[: self._at] = groups or self._primaries(len(payloads))
        self._payloads[: self._at] = payloads
        self._at = 0

    def _fill(self) -> None:
        """Move all that was added to the end of the columns."""
        pairs = self.pairs[:]
        del self.pairs[: len(pairs)]
        # Looked at after ``pairs``: a thread that saw ``is_single`` and was then
        # held up may add here what comes before anything it adds there.
        bare = self.bare[:]
        del self.bare[: len(bare)]
        if self._at:
            del self._payloads[: self._at]
            if self._groups is not None:
                del self._groups[: self._at]
            self._at = 0
        if pairs:
            self._name_groups()
        if self._groups is not None:
            self._groups += self._primaries(len(bare))
            self._groups += pairs[::2]
        self._payloads += bare
        self._payloads += pairs[1::2]

    def _name_groups(self) -> None:
        if self._groups is None:
            self._groups = self._primaries(len(self._payloads))

    def _primaries(self, count: int) -> list[S]:
        assert self.primary is not None or not count
        return [self.primary] * count  # type: ignore[list-item]  # checked
