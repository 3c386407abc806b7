"""What gateways bring in is delivered once and in order, whichever of them brings it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.multicast.carried import SENDERS_MAX, CarriedMessages
from quicksilver.wire.envelope import CARRIED_AFTER, CARRIED_SENDER, Envelope, Kind

OLD, NEW = 1, 2


def carried(number: int, sender: str = "lan1:7:alice", **headers: object) -> Envelope:
    return Envelope(None, {CARRIED_SENDER: sender, **headers}, Kind.CARRIED, number)


def deliver(member: CarriedMessages, gateway: int, *numbers: int, living: object = ()) -> list[int]:
    """Let a gateway bring messages, as runs; return the numbers of those that are delivered."""
    alive = {OLD, NEW} if living == () else living
    envelopes: list[Envelope] = []
    for at, number in enumerate(numbers):
        is_next = at > 0 and number == numbers[at - 1] + 1
        envelopes.append(envelopes[-1] if is_next else carried(number))
    return [numbers[place] for place in member.pick(gateway, envelopes, alive)]  # type: ignore[arg-type]


def test_what_was_had_is_dropped_whoever_brings_it_again() -> None:
    member = CarriedMessages()
    assert deliver(member, OLD, 0, 1, 2) == [0, 1, 2]
    assert deliver(member, NEW, 1, 2, 3) == [3]
    assert deliver(member, OLD, 3, 4) == [4]


def test_of_a_run_that_overlaps_what_was_had_the_rest_is_delivered() -> None:
    """Gateways cut runs differently."""
    member = CarriedMessages()
    run = carried(3)
    assert list(member.pick(OLD, [run] * 4, {OLD})) == [0, 1, 2, 3]
    other = carried(5)
    later = carried(9)
    assert list(member.pick(NEW, [other] * 4 + [later] * 2, {NEW})) == [2, 3, 4, 5]


def test_messages_of_the_network_itself_are_no_business_of_it() -> None:
    member = CarriedMessages()
    plain = Envelope(b"key", {"a": "b"})
    assert list(member.pick(OLD, [carried(5), plain, carried(5), plain], {OLD})) == [0, 1, 3]


def test_who_came_in_the_middle_follows_one_gateway() -> None:
    """Messages 96 to 102 are sent to a view that has the member in: it gets them."""
    member = CarriedMessages()
    assert deliver(member, NEW, 95) == [95]
    assert deliver(member, OLD, 103, 104) == []
    assert deliver(member, NEW, *range(96, 106)) == list(range(96, 106))


def test_when_the_one_that_it_follows_is_dead_another_may_begin_later() -> None:
    """Whatever was lost with it, the member must not stay deaf for ever."""
    member = CarriedMessages()
    assert deliver(member, OLD, 0, 1) == [0, 1]
    assert deliver(member, NEW, 9) == []
    assert deliver(member, NEW, 9, 10, living={NEW}) == [9, 10]


def test_a_gap_that_is_told_is_passed_over() -> None:
    member = CarriedMessages()
    deliver(member, OLD, 0, 1)
    assert list(member.pick(NEW, [carried(9, **{CARRIED_AFTER: "3"})], {OLD, NEW})) == []
    assert list(member.pick(NEW, [carried(9, **{CARRIED_AFTER: "2"})], {OLD, NEW})) == [0]
    for lie in (b"2", "", "-1", "9" * 30, "x"):
        assert list(member.pick(OLD, [carried(19, **{CARRIED_AFTER: lie})], {OLD, NEW})) == []


def test_senders_and_memory_are_bounded() -> None:
    member = CarriedMessages()
    for number in range(SENDERS_MAX + 5):
        member.pick(OLD, [carried(0, f"lan1:{number}:x")], {OLD})
    assert len(member._had) == SENDERS_MAX


@given(st.data())
def test_no_interleaving_of_gateways_loses_or_repeats_a_message(data: st.DataObject) -> None:
    """Each gateway begins where every member has all before; from there on both go on."""
    member = CarriedMessages()
    low = data.draw(st.integers(0, 20))
    got = deliver(member, OLD, *range(low))
    ahead = {OLD: low, NEW: data.draw(st.integers(0, low))}
    for _ in range(data.draw(st.integers(0, 30))):
        gateway = data.draw(st.sampled_from([OLD, NEW]))
        count = data.draw(st.integers(1, 5))
        got += deliver(member, gateway, *range(ahead[gateway], ahead[gateway] + count))
        ahead[gateway] += count
    assert got == list(range(len(got)))
    assert len(got) == max(ahead.values())
