"""Every check accepts a good history and rejects a bad one.

The clusters are real and quiet; what goes wrong is told to the checks by hand.
"""

from __future__ import annotations

from typing import TypeVar

import pytest

from quicksilver.membership.directory import GroupView, RegionView
from quicksilver.membership.events import ViewsChanged, WasExcluded, Welcomed
from quicksilver.multicast.events import FlushEnded, GroupViewChanged
from quicksilver.multicast.repair.loss_rounds import RECORDS_SENT_MAX
from quicksilver.multicast.sending.unconfirmed import Reason, Unconfirmed
from quicksilver.trials.checks import ALL
from quicksilver.trials.checks.cleanup import Cleanup
from quicksilver.trials.checks.complete import Complete
from quicksilver.trials.checks.content import Content
from quicksilver.trials.checks.convergence import Convergence
from quicksilver.trials.checks.duplicates import Duplicates
from quicksilver.trials.checks.fifo import Fifo
from quicksilver.trials.checks.gaps import Gaps
from quicksilver.trials.checks.joins import Joins
from quicksilver.trials.checks.ledger import Ledger, lacking
from quicksilver.trials.checks.members_only import MembersOnly
from quicksilver.trials.checks.memory import AUDIT_EVERY, Memory
from quicksilver.trials.checks.proof import Proof
from quicksilver.trials.checks.quiescence import Quiescence
from quicksilver.trials.checks.survivors import Survivors
from quicksilver.trials.checks.tokens import Tokens
from quicksilver.trials.checks.views import Views
from quicksilver.trials.checks.views_told import ViewsTold
from quicksilver.trials.checks.vouched import Vouched
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import make_payload
from quicksilver.trials.watch import Watcher
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.control import Record, Token, encode_control
from quicksilver.wire.ids import GroupId, NodeId, RegionId, ViewNumber
from tests.kit import packets

Check = TypeVar("Check", bound=Watcher)


class Bench:
    """Nodes a, b and c in group g, d in none; one check watches."""

    def __init__(self, kind: type[Check]) -> None:
        self.cluster = Cluster(seed=1)
        (self.check,) = self.cluster.watch(kind)
        self.a, self.b, self.c, self.d = self.cluster.start(4)
        for node in (self.a, self.b, self.c):
            node.join("g")
        self.d.join("other")
        assert self.cluster.settle()
        self.g = self.cluster.group_id("g")

    def deliver(self, node: SimNode, *numbers: int, batch: int | None = None) -> None:
        """Say that messages of a were delivered."""
        for number in numbers:
            payload = make_payload("g", self.a.index, self.a.life, number, 60)
            facts = (node, self.g, self.a.id, number, payload)
            self.cluster.watching.on_delivered(*facts, batch or self.a.engine.batch)

    def send(self, count: int) -> None:
        """Have a send, and everybody get it."""
        send_numbered(self.a, "g", count)
        self.cluster.run(1.0)

    def found(self) -> list[str]:
        return [violation.what for violation in self.check.violations]

    def is_bad(self, *words: str) -> bool:
        """Whether something was found, and says these words."""
        return bool(self.found()) and all(word in " ".join(self.found()) for word in words)

    def is_good(self) -> bool:
        return not self.found()


def test_every_check_has_a_name_of_its_own() -> None:
    """Reports, shrinking and broken engines refer to checks by name."""
    names = [check.name for check in ALL]
    assert len(set(names)) == len(names)
    assert "watcher" not in names


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_good_run_is_accepted(kind: type[Watcher]) -> None:
    """A quiet cluster in which some messages are sent, and everything ends well."""
    bench = Bench(kind)
    bench.send(30)
    bench.cluster.watching.on_healed()
    bench.send(3)
    for _ in range(150):
        bench.cluster.run(0.1)
        bench.cluster.watching.on_look()
    bench.cluster.watching.on_settled()
    assert bench.is_good()
    assert bench.b.delivered[bench.g] == 33


def test_a_join_is_judged_against_those_who_may_send() -> None:
    """A check that looked at no pair of a member and a sender would find nothing."""
    bench = Bench(Joins)
    assert isinstance(bench.check, Joins)
    judged = bench.check.judged
    bench.d.join("g")
    assert bench.cluster.settle()
    assert bench.check.judged == judged + 3
    assert bench.is_good()


def test_an_answer_to_an_opening_is_not_taken_for_that_to_a_join() -> None:
    """Both may be asked for in one batch, and whoever only sends need not be known to others."""
    bench = Bench(Joins)
    assert isinstance(bench.check, Joins)
    judged = bench.check.judged
    bench.d.open("g")
    bench.d.join("g")
    bench.cluster.run(1.0)
    assert bench.check.judged == judged + 3
    assert bench.is_good()


class TestVouched:
    def flush(self, bench: Bench, *unconfirmed: Unconfirmed) -> None:
        """Say that a sent three messages and flushed, and what the flush said."""
        bench.a.sent["g"] = 3
        bench.cluster.watching.on_flushing(bench.a, 1)
        bench.cluster.watching.on_event(bench.a, FlushEnded(1, unconfirmed))

    def lost(self, bench: Bench, first: int, last: int) -> Unconfirmed:
        count = last - first + 1
        return Unconfirmed(Reason.EXCLUDED, bench.a.id, "g", count, ((first, last),), ())

    def test_it_rejects_a_flush_that_says_nothing_of_what_a_member_lacks(self) -> None:
        bench = Bench(Vouched)
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0, 1)
        self.flush(bench)
        bench.cluster.watching.on_settled()
        assert bench.is_bad("never got messages 2 to 2", "vouched")

    def test_it_rejects_a_flush_that_says_nothing_of_what_nobody_got(self) -> None:
        bench = Bench(Vouched)
        for node in (bench.b, bench.c):
            bench.deliver(node, 0)
        self.flush(bench, self.lost(bench, 1, 1))
        bench.cluster.watching.on_settled()
        assert bench.is_bad("never got messages 2 to 2", "vouched")

    def test_it_accepts_what_was_reported(self) -> None:
        bench = Bench(Vouched)
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0)
        self.flush(bench, self.lost(bench, 1, 2))
        bench.cluster.watching.on_settled()
        assert bench.is_good()

    def test_it_takes_no_excuse_that_members_are_gone_for_those_that_are_not(self) -> None:
        bench = Bench(Vouched)
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0)
        gone = Unconfirmed(Reason.MEMBERS_GONE, bench.a.id, "g", 2, ((1, 2),), (bench.d.id,))
        self.flush(bench, gone)
        bench.cluster.watching.on_settled()
        assert bench.is_bad("never got messages 1 to 2")

    def test_it_rejects_a_flush_that_never_ends(self) -> None:
        bench = Bench(Vouched)
        bench.cluster.watching.on_flushing(bench.a, 1)
        bench.cluster.watching.on_settled()
        assert bench.is_bad("never end")


class TestOrder:
    def test_fifo_rejects_an_older_message_after_a_newer_one(self) -> None:
        bench = Bench(Fifo)
        bench.deliver(bench.b, 0, 1, 3)
        assert bench.is_good()
        bench.deliver(bench.b, 2)
        assert bench.is_bad("message 2 after 3")

    def test_duplicates_rejects_a_message_that_comes_again(self) -> None:
        bench = Bench(Duplicates)
        bench.deliver(bench.b, 4, 5, 8, 6)
        bench.deliver(bench.c, 4, 5)
        assert bench.is_good()
        bench.deliver(bench.b, 6)
        assert bench.is_bad("message 6 again")

    def test_duplicates_sees_the_one_before_last(self) -> None:
        bench = Bench(Duplicates)
        bench.deliver(bench.b, 0, 1, 2, 0)
        assert bench.is_bad("message 0 again")

    def test_gaps_rejects_a_number_passed_over(self) -> None:
        bench = Bench(Gaps)
        bench.deliver(bench.b, 5, 6)
        assert bench.is_good()
        bench.deliver(bench.b, 8)
        assert bench.is_bad("message 8 after 6")

    def test_gaps_accepts_what_was_missed_outside_of_the_group(self) -> None:
        bench = Bench(Gaps)
        bench.deliver(bench.b, 5, 6)
        bench.b.member_since[bench.g] += 1
        bench.deliver(bench.b, 8)
        assert bench.is_good()


class TestContent:
    @pytest.fixture
    def bench(self) -> Bench:
        bench = Bench(Content)
        bench.send(3)
        assert bench.is_good()
        return bench

    def tell(self, bench: Bench, sender: int, number: int, payload: bytes) -> None:
        bench.check.on_delivered(bench.b, bench.g, sender, number, payload, 1)

    def test_a_message_never_sent(self, bench: Bench) -> None:
        self.tell(bench, bench.a.id, 3, make_payload("g", 0, 0, 3, 100))
        assert bench.is_bad("was not sent")

    def test_a_message_altered(self, bench: Bench) -> None:
        self.tell(bench, bench.a.id, 1, make_payload("g", 0, 0, 1, 100) + b"x")
        assert bench.is_bad("altered")

    def test_another_sender(self, bench: Bench) -> None:
        self.tell(bench, bench.c.id, 1, make_payload("g", 0, 0, 1, 100))
        assert bench.is_bad("said to be from")

    def test_another_number(self, bench: Bench) -> None:
        self.tell(bench, bench.a.id, 2, make_payload("g", 0, 0, 1, 100))
        assert bench.is_bad("has the number 2")

    def test_another_group(self, bench: Bench) -> None:
        other = bench.cluster.group_id("other")
        payload = make_payload("g", 0, 0, 1, 100)
        bench.check.on_delivered(bench.b, other, bench.a.id, 1, payload, 1)
        assert bench.is_bad("delivered in group other")

    def test_noise(self, bench: Bench) -> None:
        self.tell(bench, bench.a.id, 1, b"\xff\xfe")
        assert bench.is_bad("no message of this trial")


class TestViewsOfMessages:
    def test_a_node_outside_of_the_view(self) -> None:
        bench = Bench(MembersOnly)
        bench.deliver(bench.b, 0)
        assert bench.is_good()
        bench.deliver(bench.d, 0)
        assert bench.is_bad("node 3.0 is not in the view")

    def test_a_batch_that_the_sender_never_had(self) -> None:
        bench = Bench(MembersOnly)
        bench.check.on_delivered(bench.b, bench.g, 99, 0, b"", 1)
        assert bench.is_bad("had no view")

    def test_one_member_does_not_get_it(self) -> None:
        bench = Bench(Complete)
        bench.a.sent["g"] = 3
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0)
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 2.0", "messages 1 to 2")

    def test_nobody_gets_it(self) -> None:
        """Without anybody who delivered it, the sender's own count is all there is."""
        bench = Bench(Complete)
        bench.a.sent["g"] = 1
        bench.a.engine.outgoing.groups.sender_for("g").next_sequence = 1
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 1.0", "node 2.0", "messages 0 to 0")

    @pytest.mark.parametrize("end", ["crash", "leave"])
    def test_whoever_does_not_stay_is_owed_nothing(self, end: str) -> None:
        bench = Bench(Complete)
        bench.a.sent["g"] = 3
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0)
        bench.c.crash() if end == "crash" else bench.c.leave("g")
        bench.cluster.watching.on_settled()
        assert bench.is_good()

    def test_survivors_do_not_agree_on_a_dead_sender(self) -> None:
        bench = Bench(Survivors)
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0)
        bench.a.crash()
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 2.0", "messages 1 to 2", "now dead")

    def test_what_only_the_dead_had_is_gone(self) -> None:
        bench = Bench(Survivors)
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0)
        bench.a.crash()
        bench.b.crash()
        bench.cluster.watching.on_settled()
        assert bench.is_good()

    def test_a_copy_may_be_kept_by_others(self) -> None:
        """With one replica of each packet, that of these may have died with a."""
        bench = Bench(Survivors)
        bench.cluster.gms.settings = type(bench.cluster.gms.settings)(replication=1)
        bench.deliver(bench.b, 0, 1, 2)
        bench.deliver(bench.c, 0)
        bench.a.crash()
        bench.cluster.watching.on_settled()
        assert bench.is_good()

    def test_lacking_finds_the_first_hole(self) -> None:
        assert lacking([[0, 4], [7, 9]], 0, 9) == [5, 6]
        assert lacking([[7, 9], [0, 6]], 2, 8) is None
        assert lacking([], 2, 8) == [2, 8]
        assert lacking([[0, 4]], 3, 6) == [5, 6]

    def test_checks_share_one_ledger(self) -> None:
        cluster = Cluster(seed=1)
        cluster.watch(Complete, Survivors, MembersOnly)
        assert sum(isinstance(watcher, Ledger) for watcher in cluster.watchers) == 1
        assert isinstance(cluster.watchers[0], Ledger)


def _changed(*, members: tuple[int, ...], group: int = 50, view: int = 1) -> ViewsChanged:
    nodes = tuple(NodeId(node) for node in members)
    region = RegionView(RegionId(60), ViewNumber(view), "239.0.0.1", nodes, frozenset())
    regions = ((RegionId(60), ViewNumber(view)),)
    told = GroupView(GroupId(group), "x", ViewNumber(view), nodes, regions, "")
    return ViewsChanged((region,), (told,), (), (), ())


class TestViews:
    def test_one_number_two_meanings(self) -> None:
        bench = Bench(Views)
        bench.check.on_event(bench.a, _changed(members=(1, 2)))
        bench.check.on_event(bench.b, _changed(members=(1, 2)))
        assert bench.is_good()
        bench.check.on_event(bench.c, _changed(members=(1, 3)))
        assert bench.is_bad("view 1 of region 60", "view 1 of group 50")

    def test_a_view_that_goes_back(self) -> None:
        bench = Bench(Views)
        bench.check.on_event(bench.a, _changed(members=(1, 2), view=2))
        bench.check.on_event(bench.a, _changed(members=(1, 2, 3), view=1))
        assert bench.is_bad("view 1 of group 50 after view 2")

    def test_a_batch_that_goes_back(self) -> None:
        bench = Bench(Views)
        bench.a.engine.environment.batch -= 1
        bench.check.on_event(bench.a, ViewsChanged((), (), (), (), ()))
        assert bench.is_bad("batch")

    def test_a_member_that_no_region_covers(self) -> None:
        bench = Bench(Views)
        event = _changed(members=(1, 2))
        bench.check.on_event(bench.a, ViewsChanged((), event.groups, (), (), ()))
        assert bench.is_bad("do not cover")

    def test_an_identifier_given_twice(self) -> None:
        bench = Bench(Views)
        event = Welcomed(NodeId(bench.a.id), 1, bench.cluster.gms.settings, False)
        bench.check.on_event(bench.b, event)
        assert bench.is_bad("which node 0.0 had been")


class TestTold:
    def _tell(self, bench: Bench, *members: int, view: int, joined: tuple[int, ...] = ()) -> None:
        nodes = tuple(NodeId(node) for node in members)
        told = GroupView(GroupId(50), "x", ViewNumber(view), nodes, (), "")
        news = GroupViewChanged(told, tuple(NodeId(node) for node in joined), (), True)
        bench.check.on_event(bench.a, news)

    def test_a_view_told_again(self) -> None:
        bench = Bench(ViewsTold)
        self._tell(bench, bench.a.id, view=2, joined=(bench.a.id,))
        assert bench.is_good()
        self._tell(bench, bench.a.id, view=2)
        assert bench.is_bad("is told view 2 of x after view 2")

    def test_differences_that_do_not_add_up(self) -> None:
        bench = Bench(ViewsTold)
        self._tell(bench, bench.a.id, 90, view=1, joined=(bench.a.id,))
        assert bench.is_bad("it is told")

    def test_a_view_without_the_member(self) -> None:
        bench = Bench(ViewsTold)
        self._tell(bench, 90, view=1, joined=(90,))
        assert bench.is_bad("in which it is not")

    def test_a_message_after_leaving(self) -> None:
        bench = Bench(ViewsTold)
        bench.deliver(bench.b, 0)
        assert bench.is_good()
        bench.b.leave("g")
        bench.cluster.run(1.0)
        bench.deliver(bench.b, 1)
        assert bench.is_bad("gets message 1", "is not in it")

    def test_a_view_never_told(self) -> None:
        bench = Bench(ViewsTold)
        bench.check.on_left(bench.b, ("g",))
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 1.0 knows view", "was told 0")


class TestProof:
    def _ask(self, bench: Bench) -> None:
        bench.cluster.run(1.0)
        bench.cluster.watching.on_look()
        bench.b.engine.counters.missing += 1
        bench.cluster.watching.on_settled()

    def test_asking_for_what_was_not_lost(self) -> None:
        bench = Bench(Proof)
        self._ask(bench)
        assert bench.is_bad("1 packets counted as missing")

    def test_asking_after_a_loss(self) -> None:
        bench = Bench(Proof)
        bench.cluster.network.loss = lambda host, packet: host is bench.b.host
        bench.send(1)
        self._ask(bench)
        assert bench.is_good()


class TestTheEnd:
    @pytest.mark.parametrize("budget", ["copies", "waiting"])
    def test_bytes_left(self, budget: str) -> None:
        bench = Bench(Cleanup)
        getattr(bench.b.engine.environment, budget).used = 10
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 1.0", "is 10 in the end")

    def test_an_old_view_left(self) -> None:
        bench = Bench(Cleanup)
        bench.b.session.directory.regions.clear()
        bench.cluster.watching.on_settled()
        assert bench.is_bad("is over and still there")

    def test_holes_left(self) -> None:
        bench = Bench(Cleanup)
        bench.send(3)
        (stream,) = bench.b.engine.environment.regions.streams.values()
        stream.note_high(10)
        bench.cluster.watching.on_settled()
        assert bench.is_bad("still misses")

    def test_the_dead_are_not_asked(self) -> None:
        bench = Bench(Cleanup)
        bench.b.engine.environment.copies.used = 10
        bench.b.crash()
        bench.cluster.watching.on_settled()
        assert bench.is_good()

    @pytest.mark.parametrize(("seconds", "is_good"), [(10.1, True), (9.8, False)])
    def test_silence_must_last(self, seconds: float, is_good: bool) -> None:
        bench = Bench(Quiescence)
        bench.cluster.run(20.0)
        bench.cluster.network.sent_packets += 1
        bench.cluster.watching.on_look()
        bench.cluster.run(seconds)
        bench.cluster.watching.on_settled()
        assert bench.is_good() is is_good


class TestBounds:
    def test_more_than_the_limit(self) -> None:
        bench = Bench(Memory)
        bench.cluster.watching.on_look()
        assert bench.is_good()
        bench.b.engine.environment.waiting.used = bench.b.config.ahead_bytes_max + 1
        bench.cluster.watching.on_look()
        assert bench.is_bad("node 1.0: ahead holds")

    def test_more_than_the_window(self) -> None:
        bench = Bench(Memory)
        bench.send(1)
        (stream,) = bench.a.engine.outgoing.streams.sending.values()
        stream.flow.window.pending_bytes = 2 << 20
        bench.cluster.watching.on_look()
        assert bench.is_bad("pending")

    def test_books_that_lie(self) -> None:
        bench = Bench(Memory)
        bench.b.engine.environment.copies.used = 5
        for _ in range(AUDIT_EVERY):
            bench.cluster.watching.on_look()
        assert bench.is_bad("0 bytes are cached, 5 counted")

    def token(self, bench: Bench, *records: Record) -> None:
        packet = encode_control(
            Token(1, 1, 1, 1, 0, 0, 1, 1, (), False, 1000, 0, records),
        )
        for tap in bench.cluster.network.taps:
            tap(0.0, ("10.0.0.1", 1), ("10.0.0.2", 1), packet)

    def record(self, sender: int, ranges: int = 0) -> Record:
        flat = tuple(n for at in range(ranges) for n in (10 * at, 1))
        return packets.record(sender, missing=flat)

    def test_too_many_ranges(self) -> None:
        bench = Bench(Tokens)
        self.token(bench, self.record(1, ranges=24))
        assert bench.is_good()
        self.token(bench, self.record(1, ranges=25))
        assert bench.is_bad("25 ranges")

    def test_too_many_records(self) -> None:
        bench = Bench(Tokens)
        self.token(bench, *(self.record(n) for n in range(RECORDS_SENT_MAX + 1)))
        assert bench.is_bad(f"{RECORDS_SENT_MAX + 1} records")

    def test_a_sender_listed_twice(self) -> None:
        bench = Bench(Tokens)
        self.token(bench, self.record(1), self.record(1))
        assert bench.is_bad("two records of one sender")

    def test_a_packet_longer_than_agreed(self) -> None:
        bench = Bench(Tokens)
        packet = bytes((0x51, 4)) + bytes(bench.cluster.config.packet_bytes)
        for tap in bench.cluster.network.taps:
            tap(0.0, ("10.0.0.1", 1), ("10.0.0.2", 1), packet)
        assert bench.is_bad("1402 bytes")


class TestConvergence:
    def test_a_message_sent_after_the_healing_is_lost(self) -> None:
        bench = Bench(Convergence)
        bench.cluster.watching.on_healed()
        payload = make_payload("g", 0, 0, 0, 60)
        bench.cluster.watching.on_sent(bench.a, "g", 0, (payload,))
        bench.deliver(bench.b, 0)
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 2.0 never got messages [0] of node 0.0")
        assert not bench.is_bad("node 1.0 never got")

    def test_a_message_sent_before_is_not_its_business(self) -> None:
        bench = Bench(Convergence)
        payload = make_payload("g", 0, 0, 0, 60)
        bench.cluster.watching.on_sent(bench.a, "g", 0, (payload,))
        bench.cluster.watching.on_healed()
        bench.cluster.watching.on_settled()
        assert bench.is_good()

    @pytest.mark.parametrize(("seconds", "is_good"), [(1.0, True), (6.0, False)])
    def test_somebody_is_counted_out_late(self, seconds: float, is_good: bool) -> None:
        bench = Bench(Convergence)
        bench.cluster.watching.on_healed()
        bench.cluster.run(seconds)
        bench.check.on_event(bench.b, WasExcluded("no reason"))
        assert bench.is_good() is is_good

    def test_somebody_has_an_old_view(self) -> None:
        bench = Bench(Convergence)
        bench.cluster.watching.on_healed()
        groups = bench.b.session.directory.groups
        old = groups[GroupId(bench.g)]
        groups[GroupId(bench.g)] = GroupView(
            old.id, old.name, ViewNumber(old.view - 1), old.members[1:], old.regions, ""
        )
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 1.0: g is")

    def test_somebody_still_waits(self) -> None:
        bench = Bench(Convergence)
        bench.cluster.watching.on_healed()
        bench.b.ready.clear()
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 1.0 still waits for ['g']")
