"""What a manager saves, and how it goes on with it after a restart."""

from __future__ import annotations

from collections import Counter

import pytest

from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import (
    MemberGone,
    SourceClosed,
    SourceOpened,
    TargetClosed,
)
from quicksilver.scopes.management.saving import (
    NUMBERS_BLOCK,
    BadRecordError,
    Numbers,
    SavedMember,
    Savings,
)
from tests.scopes.management.test_manager import T, lecture
from tests.scopes.peers import Alone

WANTS = say.Subscribe("lan/t", 0, publishes=True, subscribes=True)


class TestRecords:
    def test_numbers_are_written_in_blocks_and_never_used_twice(self) -> None:
        savings = Savings({})
        numbers = Numbers(savings)
        used = [numbers.next() for _ in range(NUMBERS_BLOCK + 10)]
        assert used == sorted(set(used))
        record = savings.poll()
        assert record is not None
        assert record.value is not None
        assert savings.poll() is None
        again = Numbers(Savings({record.name: record.value}))
        assert again.next() > used[-1]

    def test_a_number_is_on_disk_before_anything_that_has_it_can_be_sent(self) -> None:
        """Whatever the caller had written when the manager died."""
        savings = Savings({})
        numbers, disk = Numbers(savings), dict[str, bytes]()
        for _ in range(3 * NUMBERS_BLOCK):
            number = numbers.next()
            while (saved := savings.poll()) is not None:
                assert saved.value is not None
                disk[saved.name] = saved.value
            assert Numbers(Savings(disk)).next() > number

    def test_a_record_that_changes_often_is_written_once_each_time(self) -> None:
        savings = Savings({})
        for address in "abc":
            savings.put("member/x", SavedMember(address, is_member=True, grace_s=1.0))
        first = savings.poll()
        assert first is not None
        assert savings.poll() is None
        savings.put("member/x", SavedMember("c", is_member=True, grace_s=1.0))
        assert savings.poll() is None, "it is not news"
        savings.put("member/x", None)
        gone = savings.poll()
        assert gone is not None
        assert gone.value is None

    def test_a_record_that_cannot_be_read_is_named(self) -> None:
        with pytest.raises(BadRecordError, match="'numbers'"):
            Alone("lan", saved={"numbers": b"\xff"})
        with pytest.raises(BadRecordError, match="'member/a'"):
            Alone("lan", saved={"member/a": b"\x01"})


class TestRestarts:
    def started_again(self, *wants: int) -> Alone:
        """A manager with three members has died, and another one has its records."""
        before = Alone("lan")
        for conn in (1, 2, 3):
            before.join(conn, f"n{conn}", grace_s=5.0)
            before.tell(conn, WANTS)
        after = Alone("lan", saved=before.saved)
        for conn in wants:
            after.join(conn, f"n{conn}", grace_s=5.0)
            after.tell(conn, WANTS)
        return after

    def orders(self, lan: Alone) -> list[int]:
        return [conn for conn, message in lan.said if isinstance(message, say.Orders)]

    def test_no_orders_are_given_before_all_members_are_back(self) -> None:
        lan = self.started_again(1, 2)
        lan.run(1.0, 1, 2)
        assert self.orders(lan) == []
        lan.join(3, "n3")
        lan.tell(3, WANTS)
        assert self.orders(lan) == []
        lan.run(0.2, 1, 2, 3)
        assert sorted(self.orders(lan)) == [1, 2, 3]

    def test_who_does_not_come_back_is_not_waited_for_for_ever(self) -> None:
        lan = self.started_again(1, 2)
        lan.run(Config().settle_s + 1.0, 1, 2)
        assert sorted(self.orders(lan)) == [1, 2]
        (gone,) = [event for event in lan.events if isinstance(event, MemberGone)]
        assert gone.name == "n3"
        assert "started again" in gone.reason
        assert "member/n3" not in lan.saved

    def test_members_that_are_forgotten_leave_no_record(self) -> None:
        lan = Alone("lan")
        lan.join(1, "a")
        assert "member/a" in lan.saved
        lan.manager.handle_closed(1, lan.now)
        lan.run(1.0)
        assert "member/a" not in lan.saved

    def test_topics_that_nobody_comes_back_for_leave_no_record(self) -> None:
        lan = self.started_again()
        assert "topic/lan/t" in lan.saved
        lan.run(Config().grace_s_max + 1.0)
        assert sorted(lan.saved) == ["numbers"]

    @pytest.mark.parametrize("victims", ["X", "P", "Q", "R", "XPQR"])
    @pytest.mark.parametrize("away_s", [0.1, 4.0])
    def test_channels_are_not_touched_by_a_restart(self, victims: str, away_s: float) -> None:
        """A manager that comes back comes to the same result, and tells it when it is sure."""
        network = lecture()
        before = {node: len(events) for node, events in network.events.items()}
        for victim in victims:
            network.kill(victim)
        network.run(away_s)
        assert network.publish("A", T) == Counter("BCDE")
        for victim in victims:
            owners = () if victim == "X" else ("X",)
            network.add(victim, *owners, policy="chain", starts=2)
        network.run(20.0)
        kinds = SourceOpened, SourceClosed, TargetClosed
        for node in "ABCDE":
            assert not [e for e in network.events[node][before[node] :] if isinstance(e, kinds)]
        assert network.publish("A", T) == Counter("BCDE")
