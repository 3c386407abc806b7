"""Batches and messages, the receive queue, and addresses: no sockets."""

from __future__ import annotations

import pytest

from quicksilver import AddressError, Batch, Message, View
from quicksilver.node.inbox import (
    PER_MEMBER_BYTES,
    PER_MESSAGE_BYTES,
    PER_VIEW_BYTES,
    VIEWS_KEPT_MAX,
    Inbox,
    KeptViews,
    Views,
    cost,
)
from quicksilver.node.options import Overflow, parse_gms_address
from quicksilver.wire.ids import NodeId


def batch(first: int, count: int = 1, size: int = 36) -> Batch:
    return Batch("g", 7, 3, [bytes([first]) * size for _ in range(count)], first)


ONE = PER_MESSAGE_BYTES + 36
"""What a message of these tests counts for."""

ONE_VIEW = PER_VIEW_BYTES + PER_MEMBER_BYTES
"""What a view with one member counts for."""


class TestBatch:
    def test_messages_are_numbered_from_the_first(self) -> None:
        """A run of one group carries one number, not one for each message."""
        assert list(Batch("g", 7, 3, [b"a", b"b"], 5)) == [
            Message(b"a", 7, 5, "g", 3),
            Message(b"b", 7, 6, "g", 3),
        ]

    def test_given_sequences_win(self) -> None:
        """Messages cut out of a mixed packet keep their own numbers."""
        found = Batch("g", 7, 3, [b"a", b"b"], 5, [5, 9])
        assert [m.sequence for m in found] == [5, 9]
        assert len(found) == 2

    def test_too_few_sequences_are_noticed(self) -> None:
        """A number for each payload, or messages would vanish silently."""
        with pytest.raises(ValueError, match="shorter"):
            list(Batch("g", 7, 3, [b"a", b"b"], 5, [5]))


def test_a_message_cannot_be_changed() -> None:
    """Several readers may hold the same one."""
    message = Message(b"a", 7, 5, "g", 3)
    with pytest.raises(AttributeError):
        message.sequence = 6  # type: ignore[misc]


class TestInbox:
    def test_batches_come_out_in_order_and_the_bytes_return_to_zero(self) -> None:
        """The count is what the bound works with: it must not drift."""
        inbox = Inbox(1000, "block")
        for first in range(3):
            inbox.put(batch(first, count=2))
        assert inbox
        assert inbox.bytes == 6 * ONE
        taken = [inbox.take() for _ in range(4)]
        assert [b and b.first for b in taken] == [0, 1, 2, None]
        assert not inbox
        assert inbox.bytes == 0

    def test_the_cost_includes_what_an_empty_message_costs(self) -> None:
        """Empty payloads must not fill memory for free."""
        assert cost(batch(0, count=10, size=0)) == 10 * PER_MESSAGE_BYTES

    def test_block_keeps_everything_and_says_stop(self) -> None:
        """The batch at hand cannot be given back to the kernel: it is kept."""
        inbox = Inbox(2 * ONE, "block")
        assert [inbox.put(batch(n)) for n in range(4)] == [False, False, True, True]
        assert inbox.dropped == 0
        assert inbox.bytes == 4 * ONE

    def test_block_goes_on_at_half(self) -> None:
        """Some slack, or node and consumer would stop and go for each batch."""
        inbox = Inbox(2 * ONE, "block")
        for n in range(3):
            inbox.put(batch(n))
        rooms = []
        while inbox.take() is not None:
            rooms.append(inbox.has_room())
        assert rooms == [False, True, True]

    def test_drop_newest_keeps_the_oldest(self) -> None:
        """Whole batches go, and each lost message is counted."""
        inbox = Inbox(2 * ONE, "drop_newest")
        assert [inbox.put(batch(n)) for n in range(2)] == [False, False]
        assert inbox.put(batch(2, count=5)) is False
        assert inbox.dropped == 5
        assert [b.first for b in iter(inbox.take, None)] == [0, 1]

    def test_drop_oldest_keeps_the_newest(self) -> None:
        """For those who want to know how things are now."""
        inbox = Inbox(2 * ONE, "drop_oldest")
        for n in range(5):
            assert inbox.put(batch(n)) is False
        assert inbox.dropped == 3
        assert inbox.bytes == 2 * ONE
        assert [b.first for b in iter(inbox.take, None)] == [3, 4]
        assert inbox.bytes == 0

    @pytest.mark.parametrize("overflow", ["block", "drop_oldest"])
    def test_a_batch_larger_than_the_queue_is_still_delivered(self, overflow: Overflow) -> None:
        """A bound below one packet must not mean that nothing ever arrives."""
        inbox = Inbox(ONE // 2, overflow)
        inbox.put(batch(0))
        found = inbox.take()
        assert found is not None
        assert found.first == 0

    def test_drop_oldest_never_holds_the_senders_back(self) -> None:
        """Only ``block`` may: a batch over the bound alone is no reason to pause."""
        assert Inbox(ONE // 2, "drop_oldest").put(batch(0)) is False


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("127.0.0.1:7401", ("127.0.0.1", 7401)),
            ("gms.example:1", ("gms.example", 1)),
            ("localhost:65535", ("localhost", 65535)),
        ],
    )
    def test_host_and_port(self, text: str, address: tuple[str, int]) -> None:
        """The form that the GMS prints."""
        assert parse_gms_address(text) == address

    @pytest.mark.parametrize(
        "text",
        ["", ":", "localhost", ":7401", "localhost:", "localhost:gms", "h:0", "h:65536", "h:-1",
         "h: 7401", "h:74.01",
         pytest.param("h:²", id="superscript"),
         pytest.param("h:" + "9" * 5000, id="endless")],
    )  # fmt: skip
    def test_anything_else_is_an_address_error(self, text: str) -> None:
        """One line that shows a right one."""
        with pytest.raises(AddressError) as caught:
            parse_gms_address(text)
        assert caught.value.text == text
        assert "127.0.0.1:7401" in str(caught.value)
        assert "\n" not in str(caught.value)


def view(number: int, group: str = "g", members: int = 1) -> View:
    return View(group, number, tuple(NodeId(member) for member in range(members)))


class TestKeptViews:
    def test_the_oldest_go_first_whatever_group_they_are_of(self) -> None:
        """Who joins thousands of groups and takes no views must not keep a thousand of each."""
        kept = KeptViews(bytes_max=4 * ONE_VIEW)
        a, b = Views(), Views()
        for number in range(1, 4):
            kept.put(a, view(number))
            kept.put(b, view(number))
        assert [each.number for each in a] == [2, 3]
        assert [each.number for each in b] == [2, 3]

    def test_the_newest_view_of_each_group_stays(self) -> None:
        """With more groups than there is room for, whoever asks still gets the view that counts."""
        kept = KeptViews(bytes_max=2 * ONE_VIEW)
        groups = [Views() for _ in range(5)]
        for number in (1, 2):
            for each in groups:
                kept.put(each, view(number))
        assert [[each.number for each in views] for views in groups] == [[2]] * 5

    def test_views_that_were_taken_cost_nobody_his_own(self) -> None:
        """A group whose views are taken drops none of them, and gets all that come later."""
        kept = KeptViews(bytes_max=3 * ONE_VIEW)
        taken, left = Views(), Views()
        seen = []
        for number in range(10):
            kept.put(taken, view(number))
            seen.append(taken.popleft().number)
            if number == 8:
                kept.put(left, view(1))
                kept.put(left, view(2))
        assert seen == list(range(10))
        assert [each.number for each in left] == [1, 2]

    def test_large_views_count_for_more(self) -> None:
        """A view lists its members: a thousand of them take more than a kilobyte."""
        kept = KeptViews(bytes_max=4 * ONE_VIEW)
        views = Views()
        for number in range(3):
            kept.put(views, view(number, members=1000))
        assert [each.number for each in views] == [2]

    def test_one_group_keeps_no_more_than_its_limit(self) -> None:
        """The limit of a group holds as well where the node has room."""
        kept = KeptViews()
        views = Views()
        for number in range(VIEWS_KEPT_MAX + 10):
            kept.put(views, view(number))
        assert len(views) == VIEWS_KEPT_MAX
        assert views[-1].number == VIEWS_KEPT_MAX + 9
