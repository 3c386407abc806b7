"""The counter and the dictionary: equal everywhere, late comers too, whatever arrives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.live.components.applications.counter import TOTAL_MAX
from quicksilver.live.components.applications.dictionary import Dictionary
from quicksilver.live.references.builder import primitive
from tests.live.applications.desk import Desk
from tests.live.applications.memory_channels import MemoryCheckpointed

COUNTER = primitive("quicksilver.counter", channel=primitive("test.checkpointed", group="c"))
DICTIONARY = primitive("quicksilver.dictionary", channel=primitive("test.checkpointed", group="d"))


def test_everybody_sees_the_same_totals_in_the_same_order() -> None:
    desk = Desk()
    users = [desk.join(COUNTER, "Counter") for _ in range(3)]
    desk.run()
    for amount, user in enumerate(users, start=1):
        user.port.add(amount)
        user.port.add(-10)
    desk.run()
    totals = [user.got("total") for user in users]
    assert totals[0][-1] == 6 - 30
    assert totals[0][-6:] == totals[1][-6:] == totals[2][-6:]


def test_a_late_comer_begins_with_the_total_so_far() -> None:
    desk = Desk()
    first = desk.join(COUNTER, "Counter")
    first.port.add(41)
    desk.run()
    late = desk.join(COUNTER, "Counter")
    desk.run()
    assert late.got("total") == [41]
    late.port.add(1)
    desk.run()
    assert first.last("total") == late.last("total") == 42


def test_what_is_added_before_the_channel_is_ready_is_added_then() -> None:
    desk = Desk()
    desk.join(COUNTER, "Counter").port.add(1)
    late = desk.join(COUNTER, "Counter")
    late.port.add(2)
    desk.run()
    assert late.last("total") == 3


@pytest.mark.parametrize("bad", [b"", b"\xff", b"\x91\xa1x", b"\x92\x01\x02", b"\x00" * 100])
def test_a_bad_update_is_counted_and_dropped(bad: bytes) -> None:
    desk = Desk()
    users = [desk.join(COUNTER, "Counter") for _ in range(2)]
    desk.run()
    desk.disturb("c", bad)
    users[1].port.add(5)
    desk.run()
    assert [user.component.bad_updates for user in users] == [1, 1]
    assert [user.last("total") for user in users] == [5, 5]


def test_totals_stay_within_64_bits() -> None:
    desk = Desk()
    user = desk.join(COUNTER, "Counter")
    desk.run()
    user.port.add(TOTAL_MAX)
    user.port.add(1)
    user.port.add(1 << 70)
    desk.run()
    assert user.last("total") == TOTAL_MAX
    assert user.component.bad_updates == 1
    assert len(user.got("refused")) == 1


def test_a_state_that_cannot_be_read_ends_the_replica_and_nobody_else() -> None:
    desk = Desk()
    first = desk.join(COUNTER, "Counter")
    desk.run()
    late = desk.join(COUNTER, "Counter")
    desk.hub.members("c")[-1].channel.initialize(b"nonsense")
    desk.run()
    assert "a total is malformed" in str(late.proxy.failures[0])
    assert not late.attachment.is_connected
    first.port.add(1)
    desk.run()
    assert first.last("total") == 1


def test_a_replica_ends_with_its_channel() -> None:
    desk = Desk()
    user = desk.join(COUNTER, "Counter")
    desk.run()
    channel = desk.hub.members("c")[0]
    channel.context.fail(ValueError("cable cut"))
    desk.run()
    assert not user.attachment.is_connected
    assert "the channel of" in str(user.proxy.failures[0])


def test_closing_is_no_failure() -> None:
    desk = Desk()
    for kind in ("counter", "text"):
        channel = primitive("test.checkpointed", group=kind)
        reference = primitive(f"quicksilver.{kind}", channel=channel)
        user = desk.join(reference, kind.capitalize())
        desk.run()
        user.proxy.close()
        desk.run()
        assert user.runtime.failures == []
        assert desk.hub.members(kind) == []


# The dictionary

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["put", "remove", "clear", "join"]),
        st.sampled_from("abc"),
        PLAIN,
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(STEPS)
def test_dictionaries_are_equal_whatever_is_done_and_whoever_joins(
    steps: list[tuple[int, str, str, Any]],
) -> None:
    desk = Desk(kinds=(Dictionary, MemoryCheckpointed))
    users = [desk.join(DICTIONARY, "Dictionary") for _ in range(3)]
    desk.run()
    model: dict[str, Any] = {}
    for who, what, key, value in steps:
        match what:
            case "put":
                users[who].port.put(key, value)
            case "remove":
                users[who].port.remove(key)
            case "clear":
                users[who].port.clear()
            case "join":
                users.append(desk.join(DICTIONARY, "Dictionary"))
                desk.run()
                continue
        desk.run()
        if what == "put":
            model[key] = value
        elif what == "remove":
            model.pop(key, None)
        else:
            model.clear()
    desk.run()
    for user in users:
        assert follow(user.seen) == model
        assert user.component.save() == model
        assert user.component.bad_updates == 0


def follow(seen: list[tuple[Any, ...]]) -> dict[str, Any]:
    """What a user knows who looks at events alone."""
    known: dict[str, Any] = {}
    for event, *values in seen:
        match event:
            case "snapshot":
                known = dict(values[0])
            case "changed":
                known[values[0]] = values[1]
            case "removed":
                del known[values[0]]
            case "cleared":
                known.clear()
    return known


def test_values_that_are_not_plain_or_too_large_are_refused() -> None:
    desk = Desk()
    user = desk.join(DICTIONARY, "Dictionary")
    desk.run()
    deep: Any = 0
    for _ in range(20):
        deep = [deep]
    for value in (object(), deep, {1: 2}, "x" * 70_000, 1 << 70):
        user.port.put("key", value)
    user.port.put("k" * 2000, 1)
    desk.run()
    assert len(user.got("refused")) == 6
    assert user.got("changed") == []


def test_a_full_dictionary_is_full_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "quicksilver.live.components.applications.dictionary"
    monkeypatch.setattr(f"{module}.ENTRIES_MAX", 2)
    desk = Desk()
    users = [desk.join(DICTIONARY, "Dictionary") for _ in range(2)]
    desk.run()
    for key in "abc":
        users[0].port.put(key, 1)
    users[0].port.put("a", 2)
    desk.run()
    assert [user.component.save() for user in users] == [{"a": 2, "b": 1}] * 2
    assert [user.component.bad_updates for user in users] == [1, 1]
