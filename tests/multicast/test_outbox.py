"""The queue between application threads and the core: order, whoever puts."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.multicast.sending.outbox import Outbox


def group(name: str) -> Any:
    return SimpleNamespace(name=name)


def drain(outbox: Outbox, at_once: int = 3) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    while outbox:
        head = outbox.head()
        groups, payloads = outbox.take(at_once)
        assert 0 < len(payloads) <= 2 * at_once
        owners = [outbox.primary] * len(payloads) if groups is None else groups
        assert owners[0] is head
        found += [(owner.name, p) for owner, p in zip(owners, payloads, strict=True)]
    return found


def test_a_lane_of_one_group_gives_back_what_was_put() -> None:
    """Bare payloads, in order."""
    outbox, a = Outbox(), group("a")
    outbox.attach(a)
    for number in range(7):
        outbox.put(a, b"%d" % number)
    assert outbox.count() == 7
    assert drain(outbox) == [("a", b"%d" % number) for number in range(7)]


@pytest.mark.parametrize("before", range(6))
def test_a_second_group_may_come_while_messages_of_the_first_wait(before: int) -> None:
    """However many wait, none changes its group."""
    outbox, a, b = Outbox(), group("a"), group("b")
    outbox.attach(a)
    expected = []
    for number in range(before):
        outbox.put(a, b"%d" % number)
        expected.append(("a", b"%d" % number))
    outbox.attach(b)
    for number in range(3):
        outbox.put(b, b"b%d" % number)
        outbox.put(a, b"a%d" % number)
        expected += [("b", b"b%d" % number), ("a", b"a%d" % number)]
    assert outbox.count() == len(expected)
    assert drain(outbox) == expected


def test_a_payload_that_comes_late_is_the_first_groups_and_goes_first() -> None:
    """Its thread saw a lane of one group, was held up, and then added to the others' queue."""
    outbox, a, b = Outbox(), group("a"), group("b")
    outbox.attach(a)
    outbox.attach(b)
    outbox.bare.append(b"late")
    outbox.put(a, b"next")
    outbox.put(b, b"other")
    assert drain(outbox) == [("a", b"late"), ("a", b"next"), ("b", b"other")]


def test_what_was_put_back_comes_before_what_was_put_meanwhile() -> None:
    """Also when a second group has come since."""
    outbox, a, b = Outbox(), group("a"), group("b")
    outbox.attach(a)
    for number in range(4):
        outbox.put(a, b"%d" % number)
    taken, payloads = outbox.take(3)
    outbox.attach(b)
    outbox.put(b, b"b")
    outbox.put_back(taken, payloads)
    assert outbox.count() == 5
    assert drain(outbox) == [("a", b"0"), ("a", b"1"), ("a", b"2"), ("a", b"3"), ("b", b"b")]


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=30),
    st.integers(1, 5),
    st.integers(0, 30),
)
def test_any_puts_come_out_in_order(names: list[str], at_once: int, attach_at: int) -> None:
    """A queue is a queue, also when messages are put back."""
    outbox = Outbox()
    groups = {name: group(name) for name in "abc"}
    outbox.attach(groups["a"])
    expected = []
    for turn, chosen in enumerate(names):
        name = chosen if turn >= attach_at else "a"
        if turn == attach_at:
            for other in groups.values():
                outbox.attach(other)
        outbox.put(groups[name], b"%d" % turn)
        expected.append((name, b"%d" % turn))
    if outbox:
        taken, payloads = outbox.take(at_once)
        outbox.put_back(taken, payloads)
    assert drain(outbox, at_once) == expected


def test_threads_put_and_the_core_takes() -> None:
    """Each thread's messages stay in order and none is lost or given to another group."""
    outbox = Outbox()
    groups = [group(str(number)) for number in range(4)]
    for each in groups:
        outbox.attach(each)

    def put(each: Any) -> None:
        for number in range(500):
            outbox.put(each, b"%d" % number)

    threads = [threading.Thread(target=put, args=(each,)) for each in groups]
    found: list[tuple[str, bytes]] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        found += drain(outbox)
    found += drain(outbox)
    for each in groups:
        mine = [int(payload) for name, payload in found if name == each.name]
        assert mine == list(range(500))


@given(steps=st.lists(st.sampled_from(["short", "long", "take", "rest"]), max_size=40))
def test_uniform_means_that_all_are_equally_long(steps: list[str]) -> None:
    """Packets are cut by it without another look at the lengths."""
    outbox, a = Outbox(), group("a")
    outbox.attach(a)
    waiting: list[bytes] = []
    for step in steps:
        if step == "take" and outbox:
            _, taken = outbox.take(2)
            del waiting[: len(taken)]
        elif step == "rest":
            outbox.forget_size()
            if not waiting:
                assert outbox.is_uniform
        elif step in ("short", "long"):
            payload = b"1" if step == "short" else b"12345"
            outbox.put(a, payload)
            waiting.append(payload)
        if outbox.is_uniform:
            assert len({len(payload) for payload in waiting}) <= 1


def test_threads_with_messages_of_two_lengths_never_look_uniform() -> None:
    """What is taken together while the box says so has one length."""
    outbox, a = Outbox(), group("a")
    outbox.attach(a)
    each = 20_000

    def work(size: int) -> None:
        payload = bytes(size)
        for _ in range(each):
            outbox.put(a, payload)

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 3, 7)]
    for thread in threads:
        thread.start()
    taken = 0
    while taken < 3 * each:
        if not outbox:
            outbox.forget_size()
            continue
        _, payloads = outbox.take(64)
        if outbox.is_uniform:
            assert len(set(map(len, payloads))) == 1
        taken += len(payloads)
    for thread in threads:
        thread.join()
