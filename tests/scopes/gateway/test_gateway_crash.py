"""Every member gets every message once and in order, whatever happens to gateways.

The argument: the gateway that goes on begins below or at the first message that any member
lacks, since all below it are confirmed. What it and others send are runs without gaps that
begin there or before, so each next message of any of them was had, or is the next (see
``multicast.carried``).
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.gateway.forms import name_sender
from quicksilver.wire.envelope import parse_run
from tests.scopes.gateway.lan import ALICE, Lan, T

BOB = Sender("campus/lan3", "bob", 4)
TOTAL = 40


def got_of(got: list[tuple[str, int]], sender: Sender) -> list[int]:
    return [number for name, number in got if name == name_sender(sender)]


def test_messages_come_in_once_though_each_gateway_has_them() -> None:
    lan = Lan()
    for host in lan.hosts.values():
        host.feed(ALICE, 5)
    lan.settle()
    for member in lan.members.values():
        assert got_of(member.got, ALICE) == [0, 1, 2, 3, 4]
    assert len(lan.presenters()) == 1


@pytest.mark.parametrize("kept_a", range(6))
@pytest.mark.parametrize("kept_b", range(6))
@pytest.mark.parametrize("is_told", [False, True])
def test_a_crash_in_the_middle_of_a_run(kept_a: int, kept_b: int, is_told: bool) -> None:
    """Regions are told the end of a crashed sender's messages each for itself."""
    lan = Lan()
    (old,) = lan.presenters()
    host = lan.hosts[old]
    for each in lan.hosts.values():
        each.feed(ALICE, 3)
    for region in lan.regions:
        lan.arrive(host, region, 3)
    host.end_flush()
    if is_told:
        lan.hear(host, 3 - old, 1)
    for each in lan.hosts.values():
        each.feed(ALICE, 5)
    lan.crash(old, {"a": kept_a, "b": kept_b})
    lan.settle()
    for each in lan.hosts.values():
        each.feed(ALICE, 2)
    lan.settle()
    for member in lan.members.values():
        assert got_of(member.got, ALICE) == list(range(10))


def test_what_was_confirmed_is_not_sent_again() -> None:
    """A gateway that comes is told how far everybody is."""
    lan = Lan(gateways=1)
    lan.hosts[1].feed(ALICE, 20)
    lan.settle()
    late = lan.start(2)
    late.feed(ALICE, 20)
    lan.settle()
    lan.crash(1, {})
    lan.settle()
    late.feed(ALICE, 1)
    lan.settle()
    assert max(way.sent for way in late.ways.values()) == 1
    for member in lan.members.values():
        assert got_of(member.got, ALICE) == list(range(21))


def test_a_flush_that_failed_is_made_good() -> None:
    """Members that live may lack what was sent: it is sent again, and dropped where it was had."""
    lan = Lan(gateways=1)
    host = lan.hosts[1]
    host.feed(ALICE, 4)
    lan.arrive(host, "a", 4)
    lan.arrive(host, "b", 4)
    host.end_flush(has_failed=True)
    lan.settle()
    assert host.ways["a"].sent == 8
    for member in lan.members.values():
        assert got_of(member.got, ALICE) == [0, 1, 2, 3]


def test_messages_that_nobody_can_give_are_passed_over_by_who_takes_over() -> None:
    lan = Lan()
    (old,) = lan.presenters()
    for each in lan.hosts.values():
        each.feed(ALICE, 3)
    lan.settle()
    lan.crash(old, {})
    (new,) = lan.hosts.values()
    new.forwarder.pass_over("campus/news", ALICE, 10)
    new.feed(ALICE, 2, first=10)
    lan.tell(new)
    for region in lan.regions:
        lan.arrive(new, region, 9)
    for member in lan.members.values():
        assert got_of(member.got, ALICE) == [0, 1, 2, 10, 11], "though the dead one is counted in"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_crash_loses_or_repeats_a_message(data: st.DataObject) -> None:
    # One message at a time, two or three, or all at once.
    run_bytes = data.draw(st.sampled_from([1, 90, 1000]))
    lan = Lan(gateways=data.draw(st.integers(2, 3)), run_bytes=run_bytes)
    crashes = 0
    for _ in range(data.draw(st.integers(0, 40))):
        # Most happens where messages are brought in.
        chosen = [*sorted(lan.hosts), *lan.presenters()]
        node = data.draw(st.sampled_from(chosen))
        host = lan.hosts[node]
        step = data.draw(st.integers(0, 9))
        if step <= 2:
            sender = data.draw(st.sampled_from([ALICE, BOB]))
            ahead = host.fed.get(sender, 0)
            if ahead < TOTAL:
                host.feed(sender, data.draw(st.integers(1, min(5, TOTAL - ahead))))
        elif step <= 5:
            region = data.draw(st.sampled_from(lan.regions))
            lan.arrive(host, region, data.draw(st.integers(1, 9)))
        elif step <= 7:
            host.end_flush()
            if step == 7:
                for other in list(host.said):
                    lan.hear(host, other, 9)
        elif step == 8 and len(lan.hosts) > 1 and crashes < 2:
            crashes += 1
            kept = {region: data.draw(st.integers(0, 9)) for region in lan.regions}
            lan.crash(node, kept, data.draw(st.integers(0, 2)))
        elif step == 9:
            # Views come to each gateway in its own time.
            lan.tell(host)
            if data.draw(st.booleans()) and crashes:
                lan.living -= lan.dead.keys()
    for host in lan.hosts.values():
        for sender in (ALICE, BOB):
            if host.fed.get(sender, 0) < TOTAL:
                host.feed(sender, TOTAL - host.fed.get(sender, 0))
    lan.settle()
    for member in lan.members.values():
        assert got_of(member.got, ALICE) == list(range(TOTAL))
        assert got_of(member.got, BOB) == list(range(TOTAL))


def test_a_gateway_numbers_what_it_brings_in_without_a_gap_and_never_twice() -> None:
    """Recorders know messages of a group by these numbers, whoever they come from."""
    lan = Lan(gateways=1, run_bytes=90)
    host = lan.hosts[1]
    numbers: list[int] = []

    def bring(sender: Sender, count: int) -> None:
        host.feed(sender, count)
        for payload in host.ways["a"].under_way:
            run = parse_run(payload)
            assert run is not None
            numbers.extend(range(run[1], run[1] + len(run[2])))
        lan.settle()

    bring(ALICE, 7)
    bring(BOB, 2)
    host.gateway.handle_left(T)
    host.gateway._inflow.handle_presented(T, is_presented=True)
    bring(ALICE, 3)
    assert len(numbers) == 21, "what it has copies of comes again when the topic does"
    assert numbers == list(range(21))
