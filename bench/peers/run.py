"""Measure quicksilver and its peers side by side: ``python -m bench.peers.run``.

Every round runs each system once, one after the other, so that all of them see
the same noise; the table gives medians, and ratios taken within rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from bench.peers import cyclone, jgroups, jgroups_shipped, ours, zenoh, zeromq
from bench.peers.result import Peer, PeerFailedError, PeerMissingError
from bench.peers.table import Outcome, Row, format_table, make_row
from quicksilver.lab.processes import ChildError, ProgramMissingError

PEERS: dict[str, Peer] = {
    "cyclone": cyclone,
    "zeromq": zeromq,
    "zenoh": zenoh,
    "jgroups": jgroups,
    "jgroups-shipped": jgroups_shipped,
}


def measure_once(peer: Peer, receivers: int, size: int, seconds: float) -> Outcome:
    try:
        return Outcome(result=peer.run(receivers, size, seconds))
    except (PeerMissingError, ProgramMissingError) as error:
        return Outcome(problem=f"missing: {error}; install it with: {peer.INSTALL}")
    except (PeerFailedError, ChildError) as error:
        return Outcome(problem=f"failed: {error}")


def measure(
    peers: Sequence[Peer], *, receivers: int, size: int, seconds: float, rounds: int
) -> list[Row]:
    """Return one row per system; the first of ``peers`` is what the ratios refer to."""
    outcomes: list[list[Outcome]] = [[] for _ in peers]
    for number in range(rounds):
        for peer, mine in zip(peers, outcomes, strict=True):
            # What is missing now will be missing in the next round.
            if mine and mine[-1].problem.startswith("missing"):
                outcome = mine[-1]
            else:
                outcome = measure_once(peer, receivers, size, seconds)
            mine.append(outcome)
            said = (
                outcome.problem
                if outcome.result is None
                else f"{outcome.result.messages_per_second:,.0f} messages/s"
            )
            print(f"round {number + 1}/{rounds}  {peer.NAME}: {said}", file=sys.stderr)
    return [
        make_row(peer.NAME, mine, outcomes[0]) for peer, mine in zip(peers, outcomes, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.run", description=__doc__)
    parser.add_argument("--receivers", type=int, default=4)
    parser.add_argument("--size", type=int, default=1000, help="bytes a message")
    parser.add_argument("--seconds", type=float, default=5.0, help="per system and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=sorted(PEERS), help="leave out other peers")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args(arguments)
    if options.receivers < 1 or options.rounds < 1 or options.seconds <= 0:
        parser.error("--receivers, --rounds and --seconds must be positive")
    if options.size < 16:
        parser.error("--size must be at least 16: peers keep a few bytes for themselves")

    chosen = [peer for key, peer in PEERS.items() if not options.only or key in options.only]
    rows = measure(
        [ours, *chosen],
        receivers=options.receivers,
        size=options.size,
        seconds=options.seconds,
        rounds=options.rounds,
    )
    if options.json:
        settings = {
            key: getattr(options, key) for key in ("receivers", "size", "seconds", "rounds")
        }
        print(json.dumps({**settings, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        print(
            f"\n1 sender, receivers: {options.receivers}, bytes: {options.size}, loopback;"
            f" slowest receiver, median; rounds: {options.rounds} of {options.seconds:g} s\n"
        )
        print(format_table(rows))
    return 0 if any(row.messages_per_second is not None for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
