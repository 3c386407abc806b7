"""The examples are opened on two simulated nodes: nothing fails, and what one does, both see."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from quicksilver.live.references.xml import load
from quicksilver.live.services.datagrams import Datagrams
from quicksilver.live.services.storage import SharedFiles
from quicksilver.stdx.rand import Rng
from quicksilver.trials.cluster import Cluster
from tests.live.applications.desk import User
from tests.live.applications.test_image import png
from tests.live.media import DatagramMedium, MediumDatagrams
from tests.live.simulated import runtime_on

EXAMPLES = Path(__file__).parents[3] / "examples" / "live"
ROW = {"id": 1, "name": "apple", "price": 1.0}
DEEDS: dict[str, tuple[str, str, tuple[Any, ...], str]] = {
    "counter": ("Counter", "add", (2,), "total"),
    "dictionary": ("Dictionary", "put", ("key", 1), "changed"),
    "shared-text": ("Text", "edit", (0, 0, "hello"), "changed"),
    "shared-text-over-a-group": ("Text", "edit", (0, 0, "hello"), "changed"),
    "desktop": ("Desktop", "drop", ("note", 0.0, 0.0, "NOTE"), "opened"),
    "image": ("Image", "replace", (png(3, 3),), "shown"),
    "sensor": ("Sensor", "measure", (1.5,), "reading"),
    "coordinates": ("Coordinates", "move", (1.0, 2.0, 3.0), "moved"),
    "video-over-a-group": ("Video", "show", (b"frame",), "frame"),
    "table": ("Table", "put", ("[1]", ROW), "changed"),
    "sqlite": ("Table", "put", ("[1]", ROW), "changed"),
    "spreadsheet": ("Table", "put", ("B2", {"value": 1}), "changed"),
}


class Node:
    """A simulated node with files and datagrams, and an example opened there."""

    def __init__(self, cluster: Cluster, medium: DatagramMedium, files: Path) -> None:
        (self._node,) = cluster.start(1)
        self.runtime = runtime_on(self._node)
        datagrams = MediumDatagrams(medium, self.runtime.executor)
        self.runtime.provide(Datagrams, datagrams)
        self.runtime.provide(SharedFiles, SharedFiles(files))
        self.user: User | None = None
        self.proxy: Any = None

    def open(self, name: str, endpoint: str | None) -> None:
        def opened(done: Any) -> None:
            self.proxy = done.result()
            if endpoint is not None:
                self.user = User(self.runtime, self.proxy, endpoint)

        reference = load(EXAMPLES / f"{name}.liveobject")
        self._node.host.submit(lambda: self.runtime.open(reference).when_done(opened))

    def do(self, event: str, *values: Any) -> None:
        assert self.user is not None
        port = self.user.port
        self._node.host.submit(lambda: getattr(port, event)(*values))


def make_files(folder: Path) -> None:
    """Make the files that the examples of bridges are about."""
    folder.mkdir()
    with sqlite3.connect(folder / "stock.db") as db:
        db.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
    db.close()
    openpyxl.Workbook().save(folder / "budget.xlsx")


def make_nodes(tmp_path: Path) -> tuple[Cluster, list[Node]]:
    cluster = Cluster(seed=5)
    medium = DatagramMedium(Rng(5), cluster.events.after)
    nodes = []
    for name in ("north", "south"):
        make_files(tmp_path / name)
        nodes.append(Node(cluster, medium, tmp_path / name))
    return cluster, nodes


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEDS)
def test_what_one_does_both_see(name: str, tmp_path: Path) -> None:
    endpoint, event, values, told = DEEDS[name]
    cluster, nodes = make_nodes(tmp_path)
    for node in nodes:
        node.open(name, endpoint)
    assert cluster.run(30, lambda: all(node.user is not None for node in nodes))
    cluster.run(5)
    note = (EXAMPLES / "shared-text.liveobject").read_text(encoding="utf-8")
    before = [len(node.user.got(told)) for node in nodes if node.user is not None]
    nodes[0].do(event, *(note if value == "NOTE" else value for value in values))
    cluster.run(5)
    after = [len(node.user.got(told)) for node in nodes if node.user is not None]
    assert all(now > then for now, then in zip(after, before, strict=True))
    for node in nodes:
        assert [str(one) for one in node.runtime.failures] == []
        node.proxy.close()


@pytest.mark.slow
def test_the_test_card_plays(tmp_path: Path) -> None:
    cluster, nodes = make_nodes(tmp_path)
    for node in nodes:
        node.open("video", None)
    cluster.run(10)
    for node in nodes:
        source = next(c.instance for c in node.proxy.cells if hasattr(c.instance, "received"))
        assert source.received > source.shown > 10
        assert node.runtime.failures == []
