"""The SQLite bridge: both directions, no echo, one order for conflicts, nothing lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quicksilver.live.components.applications.sqlite import SqliteTable
from quicksilver.live.components.applications.table import Table
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from tests.live.applications.desk import Desk, User
from tests.live.applications.memory_channels import MemoryCheckpointed

KINDS = (SqliteTable, Table, MemoryCheckpointed)
CHANNEL = primitive("test.checkpointed", group="t")
TABLE = primitive("quicksilver.table", channel=CHANNEL)


class Shop:
    """A database with a legacy application in it."""

    def __init__(self, path: Path, extra: str = "") -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute(
            f"CREATE TABLE stock (id INTEGER PRIMARY KEY, name TEXT, price REAL, photo BLOB{extra})"
        )

    @property
    def reference(self) -> Reference:
        return primitive("quicksilver.sqlite", channel=CHANNEL, path=str(self.path), table="stock")

    def run(self, statement: str, *values: Any) -> None:
        self.db.execute(statement, values)

    def put(self, number: int, name: str, price: float = 1.0) -> None:
        self.run(
            "INSERT INTO stock VALUES (?, ?, ?, NULL) "
            "ON CONFLICT DO UPDATE SET name = excluded.name, price = excluded.price",
            number,
            name,
            price,
        )

    @property
    def rows(self) -> dict[int, str]:
        return dict(self.db.execute("SELECT id, name FROM stock ORDER BY id").fetchall())


@pytest.fixture
def shops(tmp_path: Path) -> Iterator[tuple[Shop, Shop]]:
    made = Shop(tmp_path / "north.db"), Shop(tmp_path / "south.db")
    yield made
    for shop in made:
        shop.db.close()


def join(desk: Desk, shop: Shop) -> User:
    return desk.join(shop.reference, "Table")


def row(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name, "price": 1.0, "photo": None}


def test_changes_go_both_ways_and_never_come_back_as_new(shops: tuple[Shop, Shop]) -> None:
    north, south = shops
    desk = Desk(kinds=KINDS)
    north.put(1, "there before")
    users = [join(desk, shop) for shop in shops]
    desk.run(3.0)
    north.put(2, "apple")
    south.put(3, "pear")
    desk.run(3.0)
    south.put(2, "Apple")
    north.run("DELETE FROM stock WHERE id = 1")
    desk.run(3.0)
    assert north.rows == south.rows == {2: "Apple", 3: "pear"}
    sent = len(desk.hub.sent)
    desk.run(60.0)
    assert len(desk.hub.sent) == sent == 5
    assert [user.got("problem") for user in users] == [[], []]


def test_all_types_survive(shops: tuple[Shop, Shop]) -> None:
    north, south = shops
    desk = Desk(kinds=KINDS)
    for shop in shops:
        join(desk, shop)
    values = (-(2**63), "zoë 😀", 1e300, b"\x00\xff")
    north.run("INSERT INTO stock VALUES (?, ?, ?, ?)", *values)
    north.run("INSERT INTO stock VALUES (2, NULL, NULL, NULL)")
    desk.run(3.0)
    found = south.db.execute("SELECT * FROM stock ORDER BY id").fetchall()
    assert found == [values, (2, None, None, None)]


def test_a_program_changes_a_database_elsewhere_and_hears_of_its_changes(
    shops: tuple[Shop, Shop],
) -> None:
    north, _ = shops
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    join(desk, north)
    desk.run()
    program.port.put("[7]", row(7, "plum"))
    desk.run(3.0)
    assert north.rows == {7: "plum"}
    north.put(7, "prune")
    desk.run(3.0)
    assert program.last("changed") == ("[7]", row(7, "prune"))
    program.port.remove("[7]")
    desk.run(3.0)
    assert north.rows == {}


def test_of_two_changes_of_one_row_the_later_counts_everywhere(shops: tuple[Shop, Shop]) -> None:
    north, south = shops
    desk = Desk(kinds=KINDS)
    for shop in shops:
        join(desk, shop)
    desk.run(3.0)
    for round_ in range(10):
        north.put(1, f"north {round_}")
        south.put(1, f"south {round_}")
        desk.run(0.13 * round_)
    desk.run(5.0)
    assert north.rows == south.rows
    assert north.rows[1] in {"north 9", "south 9"}


def test_what_changed_while_no_bridge_ran_is_sent_when_one_starts(
    shops: tuple[Shop, Shop],
) -> None:
    north, south = shops
    desk = Desk(kinds=KINDS)
    users = [join(desk, shop) for shop in shops]
    for number in range(1, 5):
        north.put(number, "old")
    desk.run(3.0)
    users[1].proxy.close()
    south.put(1, "changed while away")
    south.run("DELETE FROM stock WHERE id = 2")
    south.put(9, "new while away")
    north.put(3, "changed meanwhile")
    north.run("DELETE FROM stock WHERE id = 4")
    desk.run(3.0)
    join(desk, south)
    desk.run(5.0)
    expected = {1: "changed while away", 3: "changed meanwhile", 9: "new while away"}
    assert north.rows == south.rows == expected


def test_a_database_brings_its_rows_to_a_channel_that_has_lost_its_state(
    shops: tuple[Shop, Shop],
) -> None:
    north, south = shops
    desk = Desk(kinds=KINDS)
    user = join(desk, north)
    north.put(1, "kept")
    desk.run(3.0)
    user.proxy.close()
    desk.run()
    join(desk, north)
    desk.run(3.0)
    join(desk, south)
    desk.run(3.0)
    assert north.rows == south.rows == {1: "kept"}


def test_a_row_that_cannot_be_shared_stays_and_is_told_of(shops: tuple[Shop, Shop]) -> None:
    north, south = shops
    desk = Desk(kinds=KINDS)
    users = [join(desk, shop) for shop in shops]
    desk.run()
    north.put(1, "x" * 100_000)
    north.run("INSERT INTO stock VALUES (2, CAST(x'ff' AS TEXT), 1, NULL)")
    north.put(3, "fine")
    desk.run(3.0)
    assert south.rows == {3: "fine"}
    assert len(users[0].got("problem")) == 2
    users[0].proxy.close()
    again = join(desk, north)
    desk.run(3.0)
    names = north.db.execute("SELECT id, length(name) FROM stock ORDER BY id").fetchall()
    assert [number for number, _ in names] == [1, 2, 3]
    assert not again.proxy.failures


def test_rows_of_other_columns_or_keys_change_no_database(shops: tuple[Shop, Shop]) -> None:
    north, _ = shops
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    user = join(desk, north)
    desk.run()
    program.port.put("[1]", {"id": 1})
    program.port.put("[1]", row(2, "of another key"))
    program.port.put("nonsense", row(3, "no key"))
    program.port.put("[1, 2]", row(1, "two keys"))
    program.port.put("[4]", row(4, 'fine"; DROP TABLE stock; --'))
    desk.run(3.0)
    assert north.rows == {4: 'fine"; DROP TABLE stock; --'}
    assert len(user.got("problem")) == 3  # the first two are one row by then
    user.port.put("[5]", {"id": 5})
    assert "must have the columns" in user.last("refused")


def test_a_row_that_breaks_a_constraint_is_told_of(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "strict.db", ", CHECK (price > 0)")
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    user = join(desk, shop)
    desk.run()
    program.port.put("[1]", {**row(1, "free"), "price": 0.0})
    program.port.put("[2]", row(2, "fine"))
    desk.run(3.0)
    assert shop.rows == {2: "fine"}
    assert "CHECK constraint failed" in user.last("problem")
    shop.put(3, "still journaled")
    desk.run(3.0)
    assert program.last("changed")[0] == "[3]"
    shop.db.close()


def test_rows_removed_by_replacing_are_found(tmp_path: Path) -> None:
    """INSERT OR REPLACE removes a row of another key, and no trigger tells."""
    shop = Shop(tmp_path / "unique.db", ", UNIQUE (name)")
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    join(desk, shop)
    desk.run()
    shop.put(1, "apple")
    desk.run(3.0)
    shop.run("INSERT OR REPLACE INTO stock VALUES (2, 'apple', 1, NULL)")
    desk.run(3.0)
    assert set(program.component.rows) == {"[2]"}
    shop.db.close()


def test_a_changed_key_is_a_row_less_and_a_row_more(shops: tuple[Shop, Shop]) -> None:
    north, south = shops
    desk = Desk(kinds=KINDS)
    for shop in shops:
        join(desk, shop)
    north.put(1, "apple")
    desk.run(3.0)
    north.run("UPDATE stock SET id = 5")
    desk.run(3.0)
    assert south.rows == {5: "apple"}


def test_while_another_writes_nothing_is_lost(shops: tuple[Shop, Shop]) -> None:
    north, _ = shops
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    user = join(desk, north)
    desk.run()
    north.run("BEGIN IMMEDIATE")
    north.put(1, "held")
    program.port.put("[2]", row(2, "waits"))
    desk.run(0.6)
    north.run("COMMIT")
    desk.run(3.0)
    assert north.rows == {1: "held", 2: "waits"}
    assert not user.proxy.failures
    assert set(program.component.rows) == {"[1]", "[2]"}


@pytest.mark.slow
def test_a_large_table_is_sent_in_portions(shops: tuple[Shop, Shop]) -> None:
    north, south = shops
    with north.db:
        north.run("BEGIN")
        for number in range(3000):
            north.put(number, f"row {number}")
    desk = Desk(kinds=KINDS)
    users = [join(desk, shop) for shop in shops]
    desk.run(20.0)
    assert len(south.rows) == 3000
    assert [user.got("refused") for user in users] == [[], []]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [("", "no table"), ("CREATE TABLE stock (a)", "no PRIMARY KEY")],
)
def test_what_cannot_be_bridged_is_said_in_one_line(
    tmp_path: Path, schema: str, problem: str
) -> None:
    path = tmp_path / "odd.db"
    db = sqlite3.connect(path)
    db.execute(schema or "CREATE TABLE other (a)")
    db.close()
    reference = primitive("quicksilver.sqlite", channel=CHANNEL, path=str(path), table="stock")
    with pytest.raises(Exception, match=problem) as caught:
        Desk(kinds=KINDS).join(reference, "Table")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_database_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "no.db"
    reference = primitive("quicksilver.sqlite", channel=CHANNEL, path=str(path), table="stock")
    with pytest.raises(Exception, match="create it first"):
        Desk(kinds=KINDS).join(reference, "Table")
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(Exception, match="not a database"):
        Desk(kinds=KINDS).join(reference, "Table")


ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["put", "delete", "wait", "restart", "program"]),
        st.integers(1, 3),
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=20,
)


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(actions=ACTIONS)
def test_databases_converge_whatever_is_done_to_them(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[int, str, int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("shops")
    shops = [Shop(folder / "north.db"), Shop(folder / "south.db")]
    desk = Desk(kinds=KINDS)
    program = desk.join(TABLE, "Table")
    users = [join(desk, shop) for shop in shops]
    desk.run()
    for who, what, number, name in actions:
        match what:
            case "put":
                shops[who].put(number, name)
            case "delete":
                shops[who].run("DELETE FROM stock WHERE id = ?", number)
            case "wait":
                desk.run(0.3 * number)
            case "restart":
                users[who].proxy.close()
                shops[who].put(number, name)
                desk.run(0.3)
                users[who] = join(desk, shops[who])
            case "program":
                program.port.put(f"[{number}]", row(number, name))
    desk.run(10.0)
    sent = len(desk.hub.sent)
    desk.run(10.0)
    assert len(desk.hub.sent) == sent
    shared = {values["id"]: values["name"] for values in program.component.rows.values()}
    assert shops[0].rows == shops[1].rows == dict(sorted(shared.items()))
    for user in users:
        user.proxy.close()
    for shop in shops:
        shop.db.close()
