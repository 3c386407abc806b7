"""What a task of the sink does, without Spark around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from quicksilver.spark.connector.packing import NORMAL, Packer
from quicksilver.spark.connector.publishing import LEASES, Destination
from quicksilver.spark.errors import PublishError
from tests.cli.processes import running_gms
from tests.spark.connector.cluster import recording, rows, wait_rows

pytestmark = pytest.mark.integration

QUERY = b"q" * 16


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address
    LEASES.close()


def some_rows(count: int, *topics: str) -> list[pa.RecordBatch]:
    named = [
        {"topic": topics[n % len(topics)], "key": None, "value": b"%d" % n, "headers": None}
        for n in range(count)
    ]
    return [pa.RecordBatch.from_pylist(named, schema=NORMAL)]


def task(batch: int, count: int, *topics: str) -> Iterator[tuple[str, list[bytes]]]:
    """The messages of one run of one task."""
    return Packer(QUERY, batch, 0).messages(some_rows(count, *topics), by_content=False)


def test_rows_are_on_disk_when_it_returns_and_once_when_it_is_run_again(
    gms: str, tmp_path: Path
) -> None:
    """A first run that was cut short, then a whole one: as after a crash of the worker."""
    with recording(gms, tmp_path, "a", "b") as recorder:
        destination = Destination(gms, interface="lo", recorders=(recorder.address,))
        assert destination.publish(task(3, 40, "a", "b")) == 40
        assert len(rows(tmp_path, "a")) == len(rows(tmp_path, "b")) == 20
        destination.publish(task(3, 100, "a", "b"))
        for name, rest in (("a", 0), ("b", 1)):
            wait_rows(tmp_path, name, 50)
            assert [row["value"] for row in rows(tmp_path, name)] == [
                b"%d" % n for n in range(rest, 100, 2)
            ]


def test_a_process_keeps_its_node_from_task_to_task(gms: str, tmp_path: Path) -> None:
    """And gives it up when there was nothing to do for a while, or something went wrong."""
    with recording(gms, tmp_path, "c"):
        destination = Destination(gms, interface="lo")
        senders = set()
        for batch in range(3):
            destination.publish(task(batch, 5, "c"))
        wait_rows(tmp_path, "c", 15)
        senders = {row["sender"] for row in rows(tmp_path, "c")}
        assert len(senders) == 1
        LEASES.close()
        destination.publish(task(9, 5, "c"))
        wait_rows(tmp_path, "c", 20)
        assert len({row["sender"] for row in rows(tmp_path, "c")}) == 2


def test_rows_that_would_reach_nobody_are_not_sent(gms: str) -> None:
    """Unless that is meant."""
    lonely = Destination(gms, interface="lo", flush_timeout_s=0.3)
    with pytest.raises(PublishError, match=r"0 members.*rows would reach nobody"):
        lonely.publish(task(0, 1, "deserted"))
    careless = Destination(gms, interface="lo", members_min=0)
    assert careless.publish(task(0, 1, "deserted")) == 1


def test_a_recorder_that_does_not_have_them_fails_the_task(gms: str, tmp_path: Path) -> None:
    """It records another group, or is not there."""
    with recording(gms, tmp_path, "d", "e") as recorder:
        asked = Destination(gms, interface="lo", recorders=("127.0.0.1:1",))
        with pytest.raises(PublishError, match="recorder at"):
            asked.publish(task(0, 1, "d"))
        other = Destination(gms, interface="lo", recorders=(recorder.address,), members_min=0)
        with pytest.raises(PublishError, match="'f' is not recorded here"):
            other.publish(task(0, 1, "f"))


def test_a_message_that_is_too_large_is_named(gms: str, tmp_path: Path) -> None:
    """Not a crash of the worker."""
    large = pa.RecordBatch.from_pylist(
        [{"topic": "g", "key": None, "value": bytes(17 << 20), "headers": None}], schema=NORMAL
    )
    destination = Destination(gms, interface="lo", members_min=0)
    with pytest.raises(PublishError, match="is over the limit"):
        destination.publish(Packer(QUERY, 0, 0).messages([large], by_content=True))
