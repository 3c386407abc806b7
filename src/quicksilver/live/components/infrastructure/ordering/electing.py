"""Becoming the leader: after another who is gone, or as the first of all.

A candidate asks everybody how far they are. After another leader it needs an
answer of every member of the log who is in the view; as a founder, an answer of
every node in the view that nobody there has a state. Who is silent for too long
counts as gone. Of two candidates the one with the higher epoch goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.live.components.infrastructure.ordering.messages import (
    Epoch,
    Hello,
    Member,
    Need,
    Query,
    Report,
)

if TYPE_CHECKING:
    from quicksilver.live.components.infrastructure.ordering.replica import Replica

ASK_S = 0.25


class Election:
    """A candidacy of this replica."""

    def __init__(self, replica: Replica, epoch: Epoch, *, is_founding: bool) -> None:
        self._replica = replica
        self.epoch = epoch
        self._is_founding = is_founding
        self._reports: dict[Member, Report] = {}
        self._began_at = replica.now
        self._asked_at = replica.now
        self._needed_at = -1.0
        self._silent_nodes: frozenset[int] = frozenset()
        replica.emit(Query(epoch, is_founding))

    # When to stand

    @staticmethod
    def consider(replica: Replica) -> None:
        """Stand if it is this replica's turn; nobody leads."""
        if replica.has_state:
            if replica.successor() == replica.me:
                Election.stand(replica)
            return
        if not _may_found(replica):
            return
        kept = replica.former or replica.saved
        before = 0 if kept is None else kept.epoch[0]
        number = max(replica.promised[0], replica.founding[0], before) + 1
        replica.founding = (number, *replica.me)
        replica.election = Election(replica, replica.founding, is_founding=True)

    @staticmethod
    def stand(replica: Replica) -> None:
        """Want to lead the next epoch."""
        epoch = (replica.promised[0] + 1, *replica.me)
        replica.promised = epoch
        replica.log.ahead.clear()
        replica.election = Election(replica, epoch, is_founding=False)
        replica.election.check()

    # Inputs

    def handle_report(self, report: Report) -> None:
        """Somebody answered."""
        if report.epoch != self.epoch:
            return
        if self._is_founding:
            if report.has_state:
                # There is a state: its members will find a leader, and greet us.
                self._replica.election = None
                return
            self._reports.setdefault(report.who, report)
        else:
            self._reports[report.who] = report
        self.check()

    def restart_patience(self) -> None:
        """Nobody could be heard for a while."""
        self._began_at = self._replica.now

    def handle_tick(self, *, may_suspect: bool) -> None:
        """Ask again; give up waiting for who is silent for too long."""
        replica = self._replica
        now = replica.now
        if may_suspect and now - self._began_at >= replica.patience_s:
            self._began_at = now
            if self._is_founding:
                self._silent_nodes = replica.nodes
            else:
                replica.gone.update(self._waiting())
        elif now - self._asked_at >= ASK_S:
            self._asked_at = now
            replica.emit(Query(self.epoch, self._is_founding))
        self.check()

    def check(self) -> None:
        """See whether all have answered."""
        replica = self._replica
        if replica.election is not self:
            return
        if self._is_founding:
            heard = {who[0] for who in self._reports} | self._silent_nodes
            if replica.nodes <= heard and len(replica.nodes) >= replica.founders:
                replica.found(self.epoch)
            return
        if self._waiting():
            return
        reports = [
            report
            for who, report in sorted(self._reports.items())
            if report.has_state and replica.is_there(who)
        ]
        best = max(reports, key=lambda report: report.top, default=None)
        if best is not None and best.top > replica.log.top:
            if replica.now - self._needed_at >= ASK_S or self._needed_at < 0:
                self._needed_at = replica.now
                replica.emit(Need(replica.me, best.who, replica.log.top + 1, best.top))
            return
        replica.begin_epoch(self.epoch, {report.who: report.top for report in reports})

    def _waiting(self) -> list[Member]:
        replica = self._replica
        return [
            one
            for one in replica.table.roster
            if one != replica.me and one not in self._reports and replica.is_there(one)
        ]


def _may_found(replica: Replica) -> bool:
    """Whether this newcomer is the one that should found, as far as it has heard."""
    if len(replica.nodes) < replica.founders:
        return False
    hellos = [hello for hello in replica.hellos.values() if replica.is_there(hello.who)]
    heard = {hello.who[0] for hello in hellos}
    is_patient = replica.now - replica.viewed_at >= replica.patience_s
    if not (replica.nodes <= heard or is_patient):
        return False
    best = max(hellos, key=_worth, default=None)
    return best is not None and best.who == replica.me


def _worth(hello: Hello) -> tuple[Epoch, int, bool, int, int]:
    who = hello.who
    return (hello.saved_epoch, hello.saved_index, not hello.is_passive, -who[0], -who[1])
