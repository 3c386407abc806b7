"""Options that several commands share, declared once so that they read the same.

Who joins which groups is written ``a:0-3,b:2-5,c``: groups are separated by commas. After
a colon come the nodes that join it, by number from 0: single ones, ranges with a dash,
several joined with a plus sign (``b:0-2+5``). A group without a colon is joined by all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quicksilver.cli.problems import MisuseError
from quicksilver.membership.names import find_name_problem
from quicksilver.stdx.units import parse_bytes

GMS_DEFAULT = ""
"""Not given: to be found as ``quicksilver.connect()`` finds it."""

GMS_NOWHERE = "127.0.0.1:7401"
"""Where to wait for a GMS if none is found."""


def find_gms(context: typer.Context, given: str) -> str:
    """Return the GMS that was given, or else where one was found."""
    if context.params.get("is_local"):
        return ""  # no network, no GMS
    if given or context.resilient_parsing:
        return given
    from quicksilver.node.discovery import find_configured, find_running
    from quicksilver.node.errors import GmsNotFoundError, QuicksilverError

    try:
        return find_configured() or find_running()
    except GmsNotFoundError:
        return GMS_NOWHERE
    except QuicksilverError as error:
        raise MisuseError(str(error)) from None


Gms = Annotated[
    str,
    typer.Option(
        "--gms",
        metavar="HOST:PORT",
        envvar="QUICKSILVER_GMS",
        callback=find_gms,
        show_default="found by itself",
        help="Address of the membership service (GMS), or unix:PATH of a controller.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON: one object per line.")]

InterfaceName = Annotated[
    str | None,
    typer.Option(
        "--interface",
        metavar="NAME|ADDRESS",
        help="Network interface to use. Default: the one that leads to the GMS.",
    ),
]

Name = Annotated[
    str,
    typer.Option(
        "--name",
        metavar="TEXT",
        help="Name of this node in `top` and in logs. Default: its host and process.",
        show_default=False,
    ),
]

Faults = Annotated[
    str | None,
    typer.Option(
        "--faults",
        metavar="TEXT",
        help="Inject faults into this node's network traffic, for tests. "
        "Example: loss=1%,burst=10,delay=5ms.",
    ),
]

MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve Prometheus metrics on this TCP port of 127.0.0.1; 0 takes a free one.",
    ),
]

Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="DIR",
        help="Write trace records as Parquet files into DIR. DIR/run=NAME also names the run.",
        show_default=False,
    ),
]

Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark master to run on. Default: what Spark is set to, or all cores of this machine.",
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Set a Spark option. Can be repeated."),
]

Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Log what happens to standard error: connections, views, exclusions. -vv logs more.",
        show_default=False,
    ),
]
LogJson = Annotated[
    bool, typer.Option("--log-json", help="Log in JSON: one object per line on standard error.")
]

Groups = Annotated[
    list[str],
    typer.Argument(metavar="GROUP...", help="Names of one or more groups.", show_default=False),
]


def parse_size(text: str) -> int:
    """Return the bytes in a size such as ``1000``, ``4k`` or ``1MiB``."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise MisuseError(str(error)) from None


def check_groups(names: list[str], *, allow_patterns: bool = False) -> list[str]:
    """Return the names without repetition; raises MisuseError for an impossible one."""
    from quicksilver.membership.names import find_name_problem, find_pattern_name_problem
    from quicksilver.membership.patterns import is_pattern

    for name in names:
        is_many = allow_patterns and is_pattern(name)
        problem = find_pattern_name_problem(name) if is_many else find_name_problem(name)
        if problem is not None:
            raise MisuseError(f"group name {name[:40]!a} {problem}")
    return list(dict.fromkeys(names))


class GroupSpecError(MisuseError):
    """A specification that cannot be read."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(part, problem)
        self.part = part
        self.problem = problem

    def __str__(self) -> str:
        return f"groups {self.part!r}: {self.problem}; write for example a:0-3,b:2-5+7,c"


def parse_groups(text: str, nodes: int) -> dict[str, tuple[int, ...]]:
    """Return the members of each group, ascending; raises GroupSpecError."""
    found: dict[str, tuple[int, ...]] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, colon, members = part.partition(":")
        problem = find_name_problem(name)
        if problem is not None:
            raise GroupSpecError(part, f"the name {problem}")
        if name in found:
            raise GroupSpecError(part, f"{name} is given twice")
        found[name] = _parse_members(part, members, nodes) if colon else tuple(range(nodes))
    if not found:
        raise GroupSpecError(text, "no group is named")
    return found


def groups_of(groups: dict[str, tuple[int, ...]], node: int) -> list[str]:
    """Return the groups that one node joins."""
    return [name for name, members in groups.items() if node in members]


def _parse_members(part: str, text: str, nodes: int) -> tuple[int, ...]:
    members: set[int] = set()
    for piece in text.split("+"):
        first, dash, last = piece.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise GroupSpecError(part, f"{piece!r} is neither a node nor a range of nodes")
        start, stop = int(first), int(last if dash else first)
        if stop < start:
            raise GroupSpecError(part, f"the range {piece!r} runs backwards")
        if stop >= nodes:
            raise GroupSpecError(part, f"there is no node {stop}: they are 0 to {nodes - 1}")
        members.update(range(start, stop + 1))
    return tuple(sorted(members))
