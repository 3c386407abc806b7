"""How long tokens are, and whether every sender is acknowledged, in regions of any size."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    Finding,
    Metrics,
    Point,
    Row,
    Value,
    choose,
    mean_of,
)
from quicksilver.experiments.scenario import SharedParser, simulating
from quicksilver.multicast.config import EngineConfig
from quicksilver.trials.cluster import Cluster, make_standing, settle
from quicksilver.trials.node import SimNode
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import KIND_TOKEN

STEPS = 4
"""Parts of a run; in each of them every sender is to be acknowledged something."""


class Tokens(Experiment):
    """4.2.1 C: a token's size follows the senders, and not the nodes."""

    name = "tokens"
    figures = "–"
    title = "size of tokens"
    varies = "nodes, senders"
    claims = {
        "–": "A token has a record for each active sender, whatever the number of groups and "
        "nodes: from a few hundred bytes to kilobytes"
    }
    sweep = {"nodes": (20, 200, 2000), "senders": (1, 8, 64)}
    quick = {"nodes": (5, 20), "senders": (1, 4)}
    settings = {"rate": 20.0, "size": 1000, "loss": 0.0, "warmup": 0.3, "seconds": 1.0}
    columns = (
        Column("token_bytes_mean", "token, B"),
        Column("token_bytes_max", "longest, B"),
        Column("acked_share_min", "slowest sender, acked", "{:.2f}"),
        Column("silent_steps", "steps without ack"),
        Column("ack_lag_packets_max", "packets not acked"),
        Column("total_wall_s", "wall, s", "{:.1f}"),
    )

    def skips(self, parameters: Mapping[str, Value]) -> bool:
        """Whether there would be more senders than nodes."""
        return int(parameters["senders"]) > int(parameters["nodes"])

    def run(self, point: Point, context: Context) -> Metrics:
        with simulating():
            return _run(point, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        for senders in sorted({row["senders"] for row in rows}):
            some = choose(rows, senders=senders)
            sizes = sorted({row["nodes"] for row in some})
            small = mean_of(choose(some, nodes=sizes[0]), "token_bytes_mean")
            large = mean_of(choose(some, nodes=sizes[-1]), "token_bytes_mean")
            if small and large and len(sizes) > 1:
                found.append(
                    Finding(
                        f"a token with {senders} sender(s), {sizes[-1]} nodes against {sizes[0]}",
                        f"{large:.0f} B, {small:.0f} B",
                        # Holes differ; what grew with the partitions grew a hundredfold.
                        large <= 3 * small,
                    )
                )
        if rows:
            silent = sum(row["silent_steps"] for row in rows)
            found.append(Finding("no sender is left out for long", f"{silent} steps", silent == 0))
        return found


class _Listener:
    """Measures tokens on their way."""

    def __init__(self) -> None:
        self.is_on = False
        self.count = 0
        self.total = 0
        self.longest = 0

    def __call__(self, at: float, source: Address, destination: Address, packet: bytes) -> None:
        if self.is_on and packet[1] == KIND_TOKEN:
            self.count += 1
            self.total += len(packet)
            self.longest = max(self.longest, len(packet))


def _run(point: Point, context: Context) -> Metrics:
    started = time.perf_counter()
    given = point.parameters
    nodes, senders = int(given["nodes"]), int(given["senders"])
    seconds, warmup = float(given["seconds"]), float(given["warmup"])
    config = EngineConfig(packet_bytes=1400, parse_body=SharedParser())
    cluster = Cluster(seed=context.seed, config=config, stands=True)
    members = make_standing(cluster, "g", nodes)
    settle(cluster, members)
    listener = _Listener()
    cluster.network.taps.append(listener)
    for node in members:
        node.host.weather.drop_rate = float(given["loss"])
    chosen = [members[nodes * place // senders] for place in range(senders)]
    interval_s = 1.0 / float(given["rate"])
    payload = bytes(int(given["size"]))
    for place, node in enumerate(chosen):
        _send_steadily(cluster, node, payload, interval_s, place / len(chosen), warmup + seconds)
    cluster.run(warmup)
    listener.is_on = True
    before = [_acknowledged(node) for node in chosen]
    last, silent = before, 0
    for _ in range(STEPS):
        cluster.run(seconds / STEPS)
        now = [_acknowledged(node) for node in chosen]
        silent += sum(a == b for a, b in zip(last, now, strict=True))
        last = now
    acked = [b - a for a, b in zip(before, last, strict=True)]
    return {
        "token_bytes_mean": listener.total / max(1, listener.count),
        "token_bytes_max": listener.longest,
        "tokens": listener.count,
        "acked_share_min": min(acked) / (float(given["rate"]) * seconds),
        "acked_share_max": max(acked) / (float(given["rate"]) * seconds),
        "silent_steps": silent,
        "ack_lag_packets_max": max(_pending(node) for node in chosen),
        "total_wall_s": time.perf_counter() - started,
    }


def _send_steadily(
    cluster: Cluster, node: SimNode, payload: bytes, every_s: float, phase: float, seconds: float
) -> None:
    until = cluster.now + seconds
    cluster.events.after(
        phase * every_s, lambda: cluster.every(every_s, lambda: node.send("g", payload), until)
    )


def _acknowledged(node: SimNode) -> int:
    """How many packets the whole region has acknowledged to a sender."""
    return sum(stream.low for stream in node.engine.outgoing.streams.live())


def _pending(node: SimNode) -> int:
    """How many packets a sender has sent that are not acknowledged."""
    streams = node.engine.outgoing.streams.live()
    return sum(stream.next_sequence - stream.low for stream in streams)
