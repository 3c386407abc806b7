"""Futures that are answered at the latest when the node ends."""

from __future__ import annotations

import pytest

import quicksilver
from quicksilver.node.promises import Promises


def test_a_promise_made_after_the_end_is_answered_at_once() -> None:
    """A thread may ask while another one closes the node: it must not wait for ever."""
    promises = Promises()
    before = promises.make()
    promises.fail_all(quicksilver.CoreFailedError("first"))
    promises.fail_all(quicksilver.ClosedError("the node"))
    after = promises.make()
    for future in (before, after):
        with pytest.raises(quicksilver.CoreFailedError, match="first"):
            future.result(0)


def test_a_promise_that_is_answered_is_forgotten() -> None:
    promises = Promises()
    promises.make().set_result(1)
    assert not promises._unanswered
