"""A worker of a soak sees damage, repetition, disorder and gaps, and nothing else."""

from __future__ import annotations

import pytest

from quicksilver.lab.soak.records import Stamp, encode_message, group_name, parse_message
from quicksilver.lab.soak.worker import Listener
from quicksilver.node.messages import Batch

GROUP = group_name(7)
STAMP: Stamp = (3, 1, 0)


def message(number: int, stamp: Stamp = STAMP, group: int = 7) -> bytes:
    return encode_message(stamp, group, number, b"filler")


def batch(*payloads: bytes, sender: int = 20) -> Batch:
    return Batch(GROUP, sender, 1, list(payloads), 0)


class Stay:
    """A listener in one group, as incarnation ``node``."""

    def __init__(self) -> None:
        self.node = 11
        self.listener = Listener(lambda: self.node)
        self.take = self.listener.stay(GROUP)

    def problems(self) -> list[str]:
        return self.listener.take()[1]


def test_runs_of_numbers_are_told_once() -> None:
    stay = Stay()
    stay.take(batch(*map(message, range(5, 9))))
    stay.take(batch(message(9)))
    assert stay.listener.take() == ([(11, 3, 1, 0, GROUP, 5, 10)], [])
    assert stay.listener.take() == ([], [])
    assert stay.listener.messages == 5


@pytest.mark.parametrize("place", [0, 10, -1])
def test_damage_is_seen(place: int) -> None:
    whole = bytearray(message(1))
    whole[place] ^= 0x10
    assert parse_message(bytes(whole)) is None
    stay = Stay()
    stay.take(batch(bytes(whole)))
    assert "damaged" in stay.problems()[0]


def test_a_message_of_another_group_is_seen() -> None:
    stay = Stay()
    stay.take(batch(message(1, group=8)))
    assert "group 8" in stay.problems()[0]


@pytest.mark.parametrize("numbers", [(1, 1), (2, 1)], ids=["twice", "disorder"])
def test_repetition_and_disorder_are_seen(numbers: tuple[int, int]) -> None:
    stay = Stay()
    stay.take(batch(*map(message, numbers)))
    assert "although" in stay.problems()[0]


def test_repetition_is_seen_across_incarnations_of_one_process() -> None:
    """An application that was counted out for a while must not be given a message twice."""
    stay = Stay()
    stay.take(batch(message(1)))
    stay.node = 12
    stay.take(batch(message(1)))
    assert "although" in stay.problems()[0]


def test_a_gap_is_seen() -> None:
    stay = Stay()
    stay.take(batch(message(1), message(3)))
    assert "after 1" in stay.problems()[0]


def test_a_gap_is_allowed_where_something_ended() -> None:
    """A stay, our incarnation, the sender's incarnation, its epoch, its process."""
    stay = Stay()
    stay.take(batch(message(1)))
    stay.listener.stay(GROUP)(batch(message(3)))
    stay.node = 12
    stay.take(batch(message(5)))
    stay.take(batch(message(7), sender=21))
    stay.take(batch(message(0, (3, 1, 1)), sender=21))
    stay.take(batch(message(4, (3, 2, 0)), sender=22))
    assert stay.problems() == []
