"""What a member of a topic says of the messages that it got."""

from __future__ import annotations

from quicksilver.lab.scopes.members import COUNTED, PROBE, Checker, FromSender, make_message
from quicksilver.node.messages import Batch


def batch(*payloads: bytes) -> Batch:
    return Batch("campus/news", 1, 0, list(payloads), 0)


def messages(*numbers: int, tag: int = 3) -> Batch:
    return batch(*(make_message(tag, COUNTED, number, 60) for number in numbers))


def judge(*numbers: int, expected: int) -> FromSender:
    checker = Checker()
    checker.handle_batch(messages(*numbers))
    return checker.judge(7, {3: expected}, {}).senders[3]


def counts(found: FromSender) -> tuple[int, int, int]:
    return found.missing, found.duplicates, found.disordered


def test_all_in_order_is_complete() -> None:
    found = judge(0, 1, 2, 3, expected=4)
    assert counts(found) == (0, 0, 0)
    assert found.messages == 4


def test_what_never_came_is_missing() -> None:
    """In the middle, at the end, or all of it."""
    assert counts(judge(0, 2, 3, expected=4)) == (1, 0, 0)
    assert counts(judge(0, 1, expected=4)) == (2, 0, 0)
    assert counts(judge(expected=4)) == (4, 0, 0)


def test_what_comes_twice_is_counted_once_and_told() -> None:
    """Before and after a gap, and right after itself."""
    assert counts(judge(0, 1, 1, 2, 0, expected=3)) == (0, 2, 0)
    assert counts(judge(0, 2, 2, expected=3)) == (1, 1, 0)


def test_what_comes_after_a_later_one_is_out_of_order_and_not_missing() -> None:
    assert counts(judge(0, 2, 1, 3, expected=4)) == (0, 0, 1)
    assert counts(judge(3, 2, 1, 0, expected=4)) == (0, 0, 3)


def test_a_damaged_message_does_not_count() -> None:
    """One bit is enough, wherever it is; and what is too short to be a message."""
    checker = Checker()
    whole = make_message(3, COUNTED, 0, 60)
    for place in (0, 4, 30, 59):
        harmed = bytearray(whole)
        harmed[place] ^= 1
        checker.handle_batch(batch(bytes(harmed)))
    checker.handle_batch(batch(b"", b"short"))
    found = checker.judge(7, {3: 1}, {})
    assert (found.damaged, found.senders[3].missing) == (6, 1)


def test_messages_of_a_sender_that_sent_none_are_told() -> None:
    checker = Checker()
    checker.handle_batch(messages(0, 1, tag=5))
    assert checker.judge(7, {3: 0}, {}).unasked == 2


def test_probes_show_a_way_and_do_not_count() -> None:
    checker = Checker()
    checker.handle_batch(batch(make_message(3, PROBE, 0, 60)))
    assert checker.probed == {3}
    assert checker.has_all({3: 0})
    assert not checker.has_all({3: 1})
