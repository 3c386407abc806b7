"""``top`` shows what others called themselves, and does not obey it."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from quicksilver.cli.gms_snapshots import RateMeter
from quicksilver.cli.top import as_dict, render
from quicksilver.wire.gms import HybridStatus, NodeStatus, RegionStatus, Snapshot


def show(snapshot: Snapshot, width: int = 160) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(
        render(snapshot, RateMeter(), 5, width)
    )
    return out.getvalue()


def make(name: str, held_s: float = 0.0) -> Snapshot:
    stats = {"regions": name, "token_ms": name, "pending_bytes": name, "waits_for": 1}
    node = NodeStatus(1, name, "10.0.0.1", 1, True, 1, 0.0, stats)
    region = RegionStatus(1, 1, name, 1, 1)
    return Snapshot(1, 7, 1, name, 1, {}, (node,), (region,), held_s, {"holds": 2})


def test_names_are_neither_markup_nor_escape_sequences() -> None:
    """A node called "[red]" is called that, and one called "\\x1b[2J" clears no screen."""
    shown = show(make("[red]a[/red]\x1b[2J"))
    assert "[red]a[/red]" in shown
    assert "\x1b" not in shown
    assert r"\x1b[2J" in shown
    assert "[/b]" in show(make("[/b]"))


def test_hybrid_groups_are_listed() -> None:
    """With their addresses, and whether senders use them."""
    plain = make("a")
    assert "hybrid group" not in show(plain)
    one = HybridStatus("[b]prices", "239.1.2.3", 40, 4, True)
    other = HybridStatus("news", "239.1.2.4", 30, 3, False)
    listed = msgspec.structs.replace(plain, hybrid=(other, one))
    lines = [line.split() for line in show(listed).splitlines()]
    assert ["[b]prices", "239.1.2.3", "40", "4", "use", "it"] in lines
    assert ["news", "239.1.2.4", "30", "3", "do", "not", "use", "it", "now"] in lines
    assert [one["group"] for one in as_dict(listed, RateMeter())["hybrid"]] == ["news", "[b]prices"]


def test_a_gms_that_suspects_itself_is_shown() -> None:
    """Whoever looks sees why nobody is excluded."""
    assert "most nodes are silent" not in show(make("a"))
    assert "most nodes are silent: for 12 s" in show(make("a", 12.0))
    plain = as_dict(make("a", 12.0), RateMeter())
    assert (plain["held_s"], plain["gms"]) == (12.0, {"holds": 2})


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132])
def test_the_state_is_never_cut(width: int) -> None:
    """It is what one looks for; a narrow terminal goes without some of the other columns."""
    stats = {"regions": 12, "token_ms": 12.5, "pending_bytes": 123_456_789, "waits_for": 2}
    nodes = (
        NodeStatus(101, "a-machine-with-a-long-name-28443", "10.0.0.1", 1, True, 9999, 12.5, stats),
        NodeStatus(102, "b", "10.0.0.2", 1, False, 1, 0.0, {}),
        NodeStatus(2, "c", "10.0.0.3", 1, True, 1, 0.0, {}),
    )
    lines = show(msgspec.structs.replace(make("a"), nodes=nodes), width).splitlines()
    assert all(len(line) <= width for line in lines)
    table = [line for line in lines if line.lstrip().startswith(("id", "101", "102", "2 c"))]
    ends = [
        line.rstrip().endswith(state)
        for line, state in zip(
            table, ("state", "silent for 12.5 s", "disconnected", "slow, 101 wait"), strict=True
        )
    ]
    assert ends == [True] * 4, table
    assert ("recv/s" in table[0]) is (width >= 60)
    assert ("gave/s" in table[0]) is (width >= 100)
