"""Requests and who answers them, without a node around them."""

from __future__ import annotations

import pytest

from quicksilver.multicast.requests import Pending, find_requests, reply_group
from quicksilver.wire.envelope import Envelope, Kind


@pytest.mark.parametrize(
    "reply", ["", "other", "$private.*", "$private.a\n", "$private." + "n" * 300]
)
def test_a_request_whose_reply_group_cannot_be_opened_is_none(reply: str) -> None:
    """Whoever sends it would have a server close the reply groups of others for nothing."""
    good = reply_group("a")
    envelopes = [Envelope(None, {}, Kind.REQUEST, 1, name) for name in (good, reply, good)]
    assert find_requests(envelopes) == [0, 2]


def test_two_answers_of_one_server_count_once() -> None:
    """A server that cannot tell whether its answer is on its way sends it again."""
    pending = Pending("g", 2, {1, 2, 3})
    pending.handle_answer(1, "a")
    pending.handle_answer(1, "a")
    pending.handle_failure(1, "no")
    assert (pending.answers, pending.failures, pending.is_ended) == (["a"], [], False)
    pending.handle_answer(4, "b")  # began to serve after the request
    assert (pending.answers, pending.is_ended) == (["a", "b"], True)
