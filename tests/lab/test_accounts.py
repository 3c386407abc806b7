"""Accounts: they must notice every way in which a message can go wrong."""

from __future__ import annotations

from zlib import crc32

from quicksilver.lab.accounts import (
    Accounts,
    Promises,
    Published,
    Received,
    expected_of,
    find_faults,
)
from quicksilver.node.messages import Batch

PAYLOADS = [b"one", b"two", b"three", b"four"]


def published(node: int = 9, groups: list[str] | None = None) -> Published:
    checksum = 0
    for payload in PAYLOADS:
        checksum = crc32(payload, checksum)
    return Published(
        node=node,
        groups=groups or ["a"],
        messages=len(PAYLOADS),
        checksum=checksum,
        started_at=0.0,
        accepted_at=1.0,
        flushed_at=1.0,
    )


def received(*batches: Batch) -> Received:
    accounts = Accounts()
    for batch in batches:
        accounts.handle_batch(batch)
    return Received(
        node=1,
        streams=list(accounts.streams.values()),
        messages=accounts.messages,
        bytes=accounts.bytes,
        last_at=1.0,
    )


def batch(payloads: list[bytes], first: int = 0, sequences: list[int] | None = None) -> Batch:
    return Batch("a", 9, 1, payloads, first, sequences)


def test_all_messages_in_order_are_complete() -> None:
    """However the stream was cut into batches."""
    whole = received(batch(PAYLOADS))
    cut = received(batch(PAYLOADS[:1]), batch(PAYLOADS[1:], 1, [1, 2, 3]))
    assert find_faults([published()], whole, ["a"]) == []
    assert find_faults([published()], cut, ["a"]) == []


def test_a_missing_end_is_noticed() -> None:
    """The last messages are the ones most easily lost."""
    faults = find_faults([published()], received(batch(PAYLOADS[:3])), ["a"])
    assert faults == ["node 1, sender 9, group a: 3 of 4, first 0"]


def test_a_missing_beginning_is_noticed() -> None:
    """Members were in the view before the first message was sent."""
    assert find_faults([published()], received(batch(PAYLOADS[1:], 1)), ["a"])


def test_a_gap_is_noticed_though_the_count_is_right() -> None:
    """A lost message and a doubled one must not cancel out."""
    gap = received(batch(PAYLOADS[:2]), batch(PAYLOADS[2:], 3))
    assert "sequence broken" in find_faults([published()], gap, ["a"])[0]
    mixed = received(batch(PAYLOADS, 0, [0, 1, 3, 2]))
    assert "sequence broken" in find_faults([published()], mixed, ["a"])[0]


def test_a_changed_payload_is_noticed() -> None:
    """Numbers alone do not prove that the content arrived."""
    faults = find_faults([published()], received(batch([*PAYLOADS[:3], b"fear"])), ["a"])
    assert faults == ["node 1, sender 9, group a: the checksum differs"]


def test_a_stream_that_never_came_is_noticed() -> None:
    """Silence is the worst loss."""
    assert find_faults([published()], received(), ["a"]) == [
        "node 1, sender 9, group a: none of 4 messages"
    ]


def test_a_stream_that_was_not_asked_for_is_noticed() -> None:
    """Members of merged regions drop what they did not join."""
    faults = find_faults([published(groups=["b"])], received(batch(PAYLOADS)), ["b"])
    assert "node 1 got group a of 9 unasked" in faults


def test_a_member_is_owed_only_its_own_groups() -> None:
    """Groups overlap; nobody waits for what others joined."""
    assert expected_of([published(groups=["a", "b"])], ["b", "c"]) == [(9, "b", 4)]


def test_a_flush_vouches_for_what_was_sent_before_it_began() -> None:
    promises = Promises()
    promises.begin_flush(10, 1.0)
    assert promises.is_asked
    promises.end_flush(15, 1.5, is_confirmed=True)
    assert list(promises.confirmed) == [(0, 10)]
    assert promises.unanswered(15) == 5


def test_a_flush_that_fails_speaks_of_all_that_was_sent_until_then() -> None:
    """What is sent meanwhile may be lost for the same reason: it is not promised."""
    promises = Promises()
    promises.begin_flush(10, 1.0)
    promises.end_flush(15, 1.5, is_confirmed=False)
    promises.begin_flush(20, 2.0)
    promises.end_flush(20, 2.5, is_confirmed=True)
    assert list(promises.reported) == [(0, 15)]
    assert list(promises.confirmed) == [(15, 20)]
    assert promises.unanswered(20) == 0


def test_a_flush_that_does_not_end_counts_as_long_as_it_takes() -> None:
    promises = Promises()
    promises.begin_flush(0, 1.0)
    promises.end_flush(0, 3.0, is_confirmed=True)
    assert promises.longest_s(9.0) == 2.0
    promises.begin_flush(0, 4.0)
    assert promises.longest_s(9.0) == 5.0
