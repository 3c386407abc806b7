"""Whom nodes report as silent on the data path, and who is excluded for it.

A node whose heartbeats arrive may still be unreachable for its peers. They say so in their
heartbeats, having asked it themselves. Whoever says so may be the one that is cut off, so
the accused and its accuser are compared: who of the two is reported by more nodes goes, and
one reporter alone never suffices. When the network breaks into parts that all reach the GMS,
nodes of a smaller part are reported by more than those of a larger one; of two equal parts
nobody goes.

To compare the numbers is fair only if everybody was asked about both. Nodes notice silent
members of their own rings first, and of a ring the larger part may be the smaller one of the
network. So once two nodes accuse a third, a *dispute* begins: answers to heartbeats name the
accused and their accusers, and every node that knows one of them asks it. What others find
out then counts as a report, but makes them no party to the dispute. Where more are in dispute
than can be named, nobody is judged: who does not answer is not waited for all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from quicksilver.wire.gms import DISPUTED_NAMED_MAX

REPORTERS_MIN = 2
"""One alone never suffices."""

REPORTERS_NAMED_MAX = 4
"""Reporters that a reason names."""

WEIGH_S = 0.1
"""When something is broken, many reports come at once: they are weighed together."""


class Suspicions:
    """What nodes say of each other; drive it with ``handle_*`` and ask for ``convicted``.

    Whoever excludes a node, or learns that it is gone, calls ``handle_gone``.
    """

    def __init__(self, silence_timeout_s: float, ask_s: float) -> None:
        """``ask_s``: how long it takes until everybody has been asked, and has answered."""
        self._silence_timeout_s = max(silence_timeout_s, ask_s)
        self._ask_s = ask_s
        self._reports: dict[int, frozenset[int]] = {}
        """By reporter: whom its last heartbeat called silent; never empty."""
        self._accusers: dict[int, set[int]] = {}
        """By whom it is about: the same; never empty."""
        self._accused_since: dict[int, float] = {}
        """Nodes that enough reporters accuse, and since when without a break."""
        self._weigh_at: float | None = None
        """When reports that came since the last time are weighed."""
        self._disputed: tuple[int, ...] = ()
        """The accused and those who found them silent on their own; empty while nobody is
        accused by two."""

    # Inputs

    def handle_report(self, reporter: int, silent: Iterable[int], now: float) -> None:
        """A heartbeat says whom its node does not hear; it replaces the last one's list."""
        named = frozenset(silent) - {reporter}
        if named != self._reports.get(reporter, frozenset()):
            self._replace(reporter, named)
            self._weigh_at = self._weigh_at or now + WEIGH_S

    def handle_gone(self, node: int, now: float) -> None:
        """A node is disconnected or excluded: its word counts no more, nor what is said of it."""
        self._accused_since.pop(node, None)
        self._replace(node, frozenset())
        for reporter in self.accusers_of(node):
            self._replace(reporter, self._reports[reporter] - {node})
        self._weigh_at = self._weigh_at or now + WEIGH_S

    def handle_held_up(self, now: float) -> None:
        """The GMS stood still: what nodes have said since is not read yet, so begin again."""
        self._accused_since = dict.fromkeys(self._accused_since, now)

    def handle_timeout(self, now: float) -> None:
        """Weigh what was reported."""
        if self._weigh_at is not None and now >= self._weigh_at:
            self._weigh_at = None
            self._weigh(now)

    def _replace(self, reporter: int, named: frozenset[int]) -> None:
        before = self._reports.pop(reporter, frozenset())
        if named:
            self._reports[reporter] = named
        for node in before - named:
            self._accusers[node].discard(reporter)
            if not self._accusers[node]:
                del self._accusers[node]
        for node in named - before:
            self._accusers.setdefault(node, set()).add(reporter)

    def _weigh(self, now: float) -> None:
        self._disputed = tuple(sorted(self._find_disputed()))
        is_judged = len(self._disputed) <= DISPUTED_NAMED_MAX
        accused = [node for node in self._disputed if self._is_accused(node)] if is_judged else []
        self._accused_since = {node: self._accused_since.get(node, now) for node in accused}

    def _find_disputed(self) -> set[int]:
        accusers, reports = self._accusers, self._reports
        if all(len(reporters) < REPORTERS_MIN for reporters in accusers.values()):
            return set()
        known = {node for node in self._disputed if node in accusers or node in reports}
        for node, reporters in accusers.items():
            if node not in known:
                known = known | reporters | {node}
        return known

    def _is_accused(self, node: int) -> bool:
        """Whether enough report it, among them a party to the dispute that fewer report."""
        accusers = self._accusers
        reporters = accusers.get(node, ())
        if len(reporters) < REPORTERS_MIN:
            return False
        parties = (other for other in self._disputed if other in reporters)
        return any(len(accusers.get(other, ())) < len(reporters) for other in parties)

    # Outputs

    def next_timeout(self) -> float | None:
        """Return when to call ``handle_timeout`` and ask for ``convicted``, or None."""
        due = self._weigh_at
        if self._accused_since:
            first = min(self._accused_since.values()) + self._silence_timeout_s
            due = first if due is None else min(due, first)
        return due

    def disputed(self) -> tuple[int, ...]:
        """Return whom every node that knows them should ask, in order."""
        return self._disputed if len(self._disputed) <= DISPUTED_NAMED_MAX else ()

    def convicted(self, now: float) -> list[tuple[int, str]]:
        """Return the nodes that were silent for too long, and why they are excluded.

        All go together of whom the same is known: whoever stays a little longer than others
        of its part meets them again as new nodes, and has messages that nobody else got.
        """
        if not self._is_due(now):
            return []
        if self._weigh_at is not None:
            # Who has been heard again in this very moment must not go for what was said before.
            self._weigh_at = None
            self._weigh(now)
            if not self._is_due(now):
                return []
        since = self._accused_since
        found = sorted(node for node, at in since.items() if now >= at + self._ask_s)
        return [(node, self._reason(node)) for node in found]

    def _is_due(self, now: float) -> bool:
        since = self._accused_since.values()
        return bool(since) and now >= min(since) + self._silence_timeout_s

    def accused(self) -> frozenset[int]:
        """Return the nodes that enough others call silent, be it for a moment."""
        return frozenset(self._accused_since)

    def is_accused(self, node: int) -> bool:
        """Whether enough nodes say that one is silent, be it for a moment."""
        return node in self._accused_since

    def accusers_of(self, node: int) -> list[int]:
        """Return who says that a node is silent."""
        return sorted(self._accusers.get(node, ()))

    def _reason(self, node: int) -> str:
        reporters = self.accusers_of(node)
        named = ", ".join(str(reporter) for reporter in reporters[:REPORTERS_NAMED_MAX])
        more = len(reporters) - REPORTERS_NAMED_MAX
        also = f" and {more} more" if more > 0 else ""
        return (
            f"the node answered no datagram for {self._silence_timeout_s:g} s, say nodes "
            f"{named}{also}: check its UDP port and firewall"
        )
