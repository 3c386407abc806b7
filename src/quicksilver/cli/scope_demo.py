"""``quicksilver scope demo``: one topic across three networks that lose packets and processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from quicksilver.lab.scopes.trial import Outcome


def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", min=1.0, max=3600.0, help="How long to publish.")
    ] = 20.0,
    rate: Annotated[
        float,
        typer.Option(
            "--rate",
            min=1.0,
            max=1e6,
            help="Messages per second that each of three publishers sends.",
        ),
    ] = 300.0,
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            metavar="FRACTION",
            help="Fraction of datagrams that each node and gateway loses, such as 1%.",
        ),
    ] = "1%",
    nodes: Annotated[
        int, typer.Option("--nodes", min=2, max=50, help="Number of nodes in each network.")
    ] = 5,
    mishaps: Annotated[
        str,
        typer.Option(
            "--mishaps",
            metavar="LIST",
            help="What goes wrong, in this order: node, gateway, host (of an agent), entry (of a "
            "network), manager, manager1, manager3 or root, which are killed, and managers come "
            "back; freeze-gateway, freeze-entry or freeze-manager; cut (a network off); garbage. "
            "cut:20s lasts 20 seconds instead of 5. Empty: nothing.",
        ),
    ] = "node,gateway,host,manager",
    as_json: options.Json = False,
) -> int:
    """Show one topic across three networks, each with its own mechanisms, while things go wrong.

    Makes the networks in namespaces of this machine, which needs root and the command ip; NAT
    also needs nft. Removes everything at the end. The command fails if a subscriber that
    survives lacks a message, or gets one twice or out of order.
    """
    from quicksilver.lab.namespaces import NamespacesUnavailableError
    from quicksilver.lab.scopes.mishaps import parse_mishaps
    from quicksilver.lab.scopes.networks import check_loss
    from quicksilver.lab.scopes.trial import Scenario, play

    try:
        chosen = parse_mishaps(mishaps)
    except ValueError as error:
        raise MisuseError(f"--mishaps: {error}") from None
    scenario = Scenario(
        nodes=nodes, seconds=seconds, rate=rate, loss=check_loss(loss), mishaps=chosen
    )
    began = time.monotonic()

    def tell(text: str) -> None:
        if not as_json:
            from quicksilver.cli.output import say

            say(f"{time.monotonic() - began:5.1f} s  {text}")

    try:
        outcome = play(scenario, tell)
    except NamespacesUnavailableError as error:
        raise CommandError(
            f"the demo makes networks of its own, which is not possible here: {error.problem}"
        ) from None
    if as_json:
        from quicksilver.cli.output import emit

        emit("summary", outcome.as_dict())
    else:
        _show(outcome)
    return 0 if outcome.is_complete else 1


def _show(outcome: Outcome) -> None:
    from quicksilver.cli.output import plural, say
    from quicksilver.cli.screen import SafeTable, make_console, styled
    from quicksilver.lab.scopes.trial import dropped_by

    console = make_console()
    table = SafeTable(box=None, padding=(0, 1), pad_edge=False, header_style="reverse")
    table.add_column("subscriber")
    table.add_column("its network")
    headings = ("messages", "missing", "twice", "out of\norder", "datagrams\nthrown away")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for tag, name in outcome.names.items():
        how = outcome.networks[tag]
        if tag not in outcome.judged:
            table.add_row(name, how, *[""] * len(headings), "killed", style="dim")
            continue
        counts = [
            f"{outcome.total(what, tag):,}"
            for what in ("messages", "missing", "duplicates", "disordered")
        ]
        counts.append(f"{dropped_by(outcome.judged[tag]):,}")
        wrong = outcome.find_faults(tag)
        verdict = styled(", ".join(wrong), "red") if wrong else styled("complete", "green")
        table.add_row(name, how, *counts, verdict)
    console.print(table)
    hops = SafeTable(box=None, padding=(0, 1), pad_edge=False, header_style="reverse")
    hops.add_column("median latency")
    for heading in ("in its own network", "to the entry", "to others there"):
        hops.add_column(heading, justify="right")
    for hop in outcome.hops:
        times = (hop.inside_s, hop.entry_s, hop.others_s)
        shown = ["" if each is None else f"{each * 1e3:.1f} ms" for each in times]
        hops.add_row(f"{hop.source} to {hop.target}", *shown)
    console.print(hops)
    count = plural(len(outcome.judged), "surviving subscriber")
    say(
        f"{outcome.messages:,} messages published, {outcome.total('messages'):,} delivered to "
        f"{count}, {outcome.rate():,.0f} messages a second; {outcome.seconds:.1f} s in all"
    )
    if outcome.is_complete:
        words = f": all {count} got every message, once and in order."
        console.print(styled("Nothing is missing", "green") + styled(words))
    else:
        console.print(styled("Something is wrong", "red") + styled(": see the table."))
