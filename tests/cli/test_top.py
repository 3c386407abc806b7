"""``top`` shows what others called themselves, and does not obey it."""

from __future__ import annotations

import io

import msgspec
from rich.console import Console

from quicksilver.cli.inspection import RateMeter
from quicksilver.cli.top import as_dict, render
from quicksilver.wire.gms import HybridStatus, NodeStatus, RegionStatus, Snapshot


def show(snapshot: Snapshot) -> str:
    out = io.StringIO()
    Console(file=out, width=160, force_terminal=False).print(render(snapshot, RateMeter(), 5))
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
