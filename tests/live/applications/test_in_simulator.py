"""Every object over the real channels: simulated nodes, loss, a late comer and a crash."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.references.xml import write
from tests.live.applications.sim_stage import Seat, SimStage, checkpointed, reliable
from tests.live.applications.test_image import png

pytestmark = pytest.mark.slow

Work = Callable[[Seat, int], None]


def live_through(stage: SimStage, work: Work, rounds: int = 6) -> None:
    """Four begin; all work while datagrams are lost; one crashes; one comes late; all work on."""
    seats = stage.sit(4)
    stage.lose(0.05)
    number = 0
    for _ in range(rounds):
        for seat in seats:
            work(seat, number := number + 1)
        stage.cluster.run(0.05)
    seats[0].node.crash()
    seats += stage.sit(1)
    for _ in range(rounds):
        for seat in stage.alive:
            work(seat, number := number + 1)
        stage.cluster.run(0.05)
    stage.lose(0.0)


SEEDS = pytest.mark.parametrize("seed", [1, 2, 3])


@SEEDS
def test_counter(seed: int) -> None:
    stage = SimStage(primitive("quicksilver.counter", channel=checkpointed("c")), "Counter", seed)
    added: list[int] = []

    def work(seat: Seat, number: int) -> None:
        if seat.node is not stage.seats[0].node:
            added.append(number)
            seat.do("add", number)

    live_through(stage, work)
    stage.await_same(lambda counter: counter.save().value, lambda value: value == sum(added))


@SEEDS
def test_dictionary(seed: int) -> None:
    reference = primitive("quicksilver.dictionary", channel=checkpointed("d"))
    stage = SimStage(reference, "Dictionary", seed)

    def work(seat: Seat, number: int) -> None:
        seat.do("put", f"key {number % 5}", number)
        if number % 7 == 0:
            seat.do("remove", f"key {number % 3}")

    live_through(stage, work)
    for seat in stage.alive:
        seat.do("put", f"last {seat.node.index}", True)
    lasts = {f"last {seat.node.index}" for seat in stage.alive}
    stage.await_same(lambda one: dict(one.save()), lambda entries: lasts <= entries.keys())


@SEEDS
@pytest.mark.parametrize(
    "reference",
    [
        primitive("0x3", Channel=reliable("t")),
        primitive("quicksilver.text", channel=checkpointed("t")),
    ],
    ids=["reliable", "checkpointed"],
)
def test_text(seed: int, reference: Reference) -> None:
    stage = SimStage(reference, "Editor", seed)

    made: dict[Seat, list[str]] = {}

    def work(seat: Seat, number: int) -> None:
        mark = chr(0x4E00 + number)  # one character: no other edit can tear it apart
        made.setdefault(seat, []).append(mark)
        length = len(seat.component.document.text)
        seat.do("edit", number % (length + 1), 0, mark)

    live_through(stage, work)
    for seat in stage.alive:
        seat.do("edit", 0, 0, f"[{seat.node.index}]")
    ends = [f"[{seat.node.index}]" for seat in stage.alive]
    stage.await_same(lambda one: one.document.text, lambda text: all(end in text for end in ends))
    text = stage.alive[0].component.document.text
    for seat in stage.alive:
        assert seat.user is not None
        assert seat.user.last("changed") == text
        # Of those who live, nothing is missing.
        assert [text.count(mark) for mark in made[seat]] == [1] * len(made[seat])
    crashed = made[stage.seats[0]]
    assert all(text.count(mark) <= 1 for mark in crashed)


@SEEDS
def test_desktop(seed: int) -> None:
    reference = primitive("quicksilver.desktop", channel=checkpointed("desk"))
    stage = SimStage(reference, "Desktop", seed)

    def work(seat: Seat, number: int) -> None:
        if number % 3 == 1:
            inner = primitive("quicksilver.counter", channel=checkpointed(f"item {number % 5}"))
            seat.do("drop", f"{number}", 0.0, 0.0, write(inner))
        elif number % 3 == 2:
            seat.do("move", number // 3, float(number), 1.0)
        elif number % 9 == 0:
            seat.do("remove", number // 9)

    live_through(stage, work, rounds=4)
    for seat in stage.alive:
        inner = primitive("quicksilver.counter", channel=checkpointed("common"))
        seat.do("drop", f"last {seat.node.index}", 0.0, 0.0, write(inner))
    count = len(stage.alive)

    def is_done(contents: Any) -> bool:
        items = contents.items
        return sum(item.title.startswith("last") for item in items) == count

    stage.await_same(lambda desktop: desktop.save(), is_done)

    def all_open() -> bool:
        return all(
            seat.component.opening.proxies.keys() == seat.component.items.by_number.keys()
            for seat in stage.alive
        )

    assert stage.cluster.run(30, all_open)
    assert all(not seat.component.opening.failures for seat in stage.alive)


def test_image() -> None:
    stage = SimStage(primitive("quicksilver.image", channel=checkpointed("i")), "Image")

    def work(seat: Seat, number: int) -> None:
        if number == 1:
            seat.do("replace", png(200, 200))
        seat.do("draw", number % 100, number % 50, png(4, 4, number % 255))

    live_through(stage, work)
    for seat in stage.alive:
        seat.do("draw", 199, seat.node.index, png(1, 1, seat.node.index))
    count = len(stage.alive)
    stage.await_same(
        lambda image: image.save(),
        lambda drawing: sum(region.x == 199 for region in drawing.regions) == count,
    )


def test_video_over_a_group() -> None:
    reference = primitive("quicksilver.reliable-video", channel=reliable("v"), rate_hz=100.0)
    stage = SimStage(reference, "Video")
    seats = stage.sit(3)
    stage.lose(0.05)
    frames = [bytes([number]) * 5000 for number in range(30)]
    for frame in frames:
        seats[0].do("show", frame)
        stage.cluster.run(0.05)
    stage.lose(0.0)

    def all_saw() -> bool:
        shown = [seat.user.got("frame") for seat in seats if seat.user is not None]
        return all(got and got[-1][2] == frames[-1] for got in shown)

    assert stage.cluster.run(30, all_saw)
    for seat in seats:
        assert seat.user is not None
        got = [data for _, _, data in seat.user.got("frame")]
        assert got == [frame for frame in frames if frame in got]
        assert len(got) + seats[0].component.skipped == len(frames)


@SEEDS
def test_databases_and_a_program(seed: int, tmp_path: Path) -> None:
    table = primitive("quicksilver.table", channel=checkpointed("stock"))
    stage = SimStage(table, "Table", seed)
    databases = []
    for name in ("north", "south"):
        path = tmp_path / f"{name}.db"
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("INSERT INTO stock VALUES (?, ?)", (len(databases), name))
        databases.append(db)
        stage.sit(
            1,
            primitive(
                "quicksilver.sqlite", channel=checkpointed("stock"), path=str(path), table="stock"
            ),
        )
    (program,) = stage.sit(1)
    stage.lose(0.05)
    for number in range(20):
        databases[number % 2].execute(
            "INSERT INTO stock VALUES (?, ?) ON CONFLICT DO UPDATE SET name = excluded.name",
            (number % 7, f"from {number % 2}: {number}"),
        )
        program.do("put", f"[{100 + number}]", {"id": 100 + number, "name": "program"})
        stage.cluster.run(0.3)
    stage.lose(0.0)
    stage.cluster.run(5)
    rows = [dict(db.execute("SELECT id, name FROM stock").fetchall()) for db in databases]
    shared = {row["id"]: row["name"] for row in program.component.rows.values()}
    assert rows[0] == rows[1] == shared
    assert len(shared) == 27
    stage.await_same(lambda one: dict(one.rows), lambda _: True)
    for db in databases:
        db.close()


def test_spreadsheets(tmp_path: Path) -> None:
    stage = SimStage(primitive("quicksilver.table", channel=checkpointed("s")), "Table")
    paths = [tmp_path / "north.xlsx", tmp_path / "south.xlsx"]
    for number, path in enumerate(paths):
        workbook = openpyxl.Workbook()
        workbook.active.title = "Prices"
        workbook["Prices"][f"A{number + 1}"] = path.stem
        workbook.save(path)
        stage.sit(
            1,
            primitive(
                "quicksilver.spreadsheet",
                channel=checkpointed("s"),
                path=str(path),
                sheet="Prices",
                cells="A1:B5",
            ),
        )
    (program,) = stage.sit(1)
    stage.lose(0.05)
    program.do("put", "B2", {"value": 2.5})
    stage.cluster.run(5)
    for path in paths:
        sheet = openpyxl.load_workbook(path)["Prices"]
        assert (sheet["A1"].value, sheet["A2"].value, sheet["B2"].value) == ("north", "south", 2.5)


def test_the_same_seed_gives_the_same_text() -> None:
    texts = []
    for _ in range(2):
        reference = primitive("quicksilver.text", channel=checkpointed("t"))
        stage = SimStage(reference, "Editor", seed=9)
        live_through(stage, lambda seat, number: seat.do("edit", 0, 0, f"{number},"), rounds=3)
        stage.cluster.run(10)
        texts.append([seat.component.document.text for seat in stage.alive])
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 1


@pytest.mark.parametrize(
    ("reference", "endpoint", "request_"),
    [
        (primitive("0x3", Channel=reliable("t")), "Editor", ("edit", 0, 0, "last")),
        (
            primitive("quicksilver.text", channel=checkpointed("t")),
            "Editor",
            ("edit", 0, 0, "last"),
        ),
        (primitive("quicksilver.counter", channel=checkpointed("c")), "Counter", ("add", 7)),
    ],
    ids=["reliable text", "text", "counter"],
)
def test_who_settles_may_leave(
    reference: Reference, endpoint: str, request_: tuple[Any, ...]
) -> None:
    """A request made right after opening, while datagrams are lost, is with the others."""
    stage = SimStage(reference, endpoint)
    (stays,) = stage.sit(1)
    stage.cluster.run(2)
    (leaves,) = stage.sit(1)
    stage.lose(0.05)
    assert leaves.user is not None
    runtime = leaves.user.runtime
    late: list[list[str]] = []

    def ask() -> None:
        assert leaves.user is not None
        getattr(leaves.user.port, request_[0])(*request_[1:])
        assert not all(cell.is_settled() for cell in runtime.cells)
        runtime.settle(30.0).when_done(lambda done: late.append(done.result()))

    leaves.node.host.submit(ask)
    assert stage.cluster.run(40, lambda: bool(late))
    assert late == [[]]
    leaves.node.crash()
    component = stays.component

    def has_it() -> bool:
        if endpoint == "Editor":
            return bool(component.document.text == "last")
        return bool(component.save().value == 7)

    assert stage.cluster.run(30, has_it)
