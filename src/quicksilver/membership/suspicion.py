"""Whom nodes report as silent on the data path, and who is excluded for it.

A node whose heartbeats arrive may still be unreachable for its peers. They say so in their
heartbeats, having asked it themselves. One of them alone may be the one that is cut off, so
at least two must agree, and a reporter counts only if fewer nodes report it than report the
node that it accuses. When a ring breaks into parts that all reach the GMS, the members of
the smaller part are reported by more, and go; of two equal parts nobody does.
"""

from __future__ import annotations

from collections.abc import Iterable

REPORTERS_MIN = 2
"""One alone never suffices."""

REPORTERS_NAMED_MAX = 4
"""Reporters that a reason names."""


class Suspicions:
    """What nodes say of each other; drive it with ``handle_*`` and ask for ``convicted``."""

    def __init__(self, silence_timeout_s: float) -> None:
        self._silence_timeout_s = silence_timeout_s
        self._reports: dict[int, frozenset[int]] = {}
        """By reporter: whom its last heartbeat called silent; never empty."""
        self._accusers: dict[int, set[int]] = {}
        """By whom it is about: the same; never empty."""
        self._accused_since: dict[int, float] = {}
        """Nodes that enough reporters accuse, and since when without a break."""

    # Inputs

    def handle_report(self, reporter: int, silent: Iterable[int], now: float) -> None:
        """A heartbeat says whom its node does not hear; it replaces the last one's list."""
        named = frozenset(silent) - {reporter}
        if named != self._reports.get(reporter, frozenset()):
            self._replace(reporter, named)
            self._weigh(now)

    def handle_gone(self, node: int, now: float) -> None:
        """A node is disconnected or excluded: its word counts no more, nor what is said of it."""
        self._accused_since.pop(node, None)
        self._replace(node, frozenset())
        for reporter in self._accusers_of(node):
            self._replace(reporter, self._reports[reporter] - {node})
        self._weigh(now)

    def handle_held_up(self, now: float) -> None:
        """The GMS stood still: what nodes have said since is not read yet, so begin again."""
        self._accused_since = dict.fromkeys(self._accused_since, now)

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
        accused = [node for node in self._accusers if len(self.reporters_of(node)) >= REPORTERS_MIN]
        self._accused_since = {node: self._accused_since.get(node, now) for node in accused}

    # Outputs

    def next_timeout(self) -> float | None:
        """Return when the first node has been silent for too long."""
        if not self._accused_since:
            return None
        return min(self._accused_since.values()) + self._silence_timeout_s

    def convicted(self, now: float) -> list[tuple[int, str]]:
        """Return the nodes that were silent for too long, and why they are excluded."""
        timeout_s = self._silence_timeout_s
        found = sorted(n for n, at in self._accused_since.items() if now >= at + timeout_s)
        return [(node, self._reason(node)) for node in found]

    def reporters_of(self, node: int) -> list[int]:
        """Return those whose word counts against a node."""
        accusers = self._accusers
        count = len(accusers.get(node, ()))
        return [r for r in self._accusers_of(node) if len(accusers.get(r, ())) < count]

    def _accusers_of(self, node: int) -> list[int]:
        return sorted(self._accusers.get(node, ()))

    def _reason(self, node: int) -> str:
        reporters = self.reporters_of(node)
        named = ", ".join(str(reporter) for reporter in reporters[:REPORTERS_NAMED_MAX])
        more = len(reporters) - REPORTERS_NAMED_MAX
        also = f" and {more} more" if more > 0 else ""
        return (
            f"the node answered no datagram for {self._silence_timeout_s:g} s, say nodes "
            f"{named}{also}: check its UDP port and firewall"
        )
