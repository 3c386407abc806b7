"""What flushes say is kept as it was said: what was confirmed, what was not, what is open."""

from __future__ import annotations

from quicksilver.lab.promises import Promises


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
