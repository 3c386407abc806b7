"""What simulated experiments have in common: settings, and a scenario made from a point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quicksilver.experiments.base import Context, Point, Value
from quicksilver.experiments.machines import find_machine
from quicksilver.experiments.scenario import Scenario

SETTINGS: Mapping[str, Value] = {
    "machine": "here",
    "senders": 1,
    "groups": 1,
    "size": 1000,
    "rate": 0.0,
    "warmup": 0.5,
    "seconds": 2.0,
    "packet_bytes": 0,
    "token_bytes": 0,
    "token_interval": 0.0,
    "partition_size": 0,
    "replication": 0,
    "failure_timeout": 0.0,
    "receive_buffer_bytes": 0,
    "window_bytes": 0,
    "regions": 1,
    "hybrid": False,
    "transport": "multicast",
    "fan_out": 3,
    "latency_us": 0.0,
    "jitter_us": 0.0,
}
"""What every simulated experiment can be told; 0: what the machine or the engine has.
``hybrid``: groups have an address of their own."""


def make_scenario(point: Point, context: Context, **changes: Any) -> Scenario:
    """Return the scenario that a point's parameters describe."""
    given = point.parameters
    machine = find_machine(str(given["machine"]), context.model)
    if given["packet_bytes"]:
        machine = replace(machine, packet_bytes=int(given["packet_bytes"]))
    if given["receive_buffer_bytes"]:
        machine = replace(machine, receive_buffer_bytes=int(given["receive_buffer_bytes"]))
    if given["latency_us"] or given["jitter_us"]:
        link = replace(
            machine.link,
            latency_s=float(given["latency_us"]) / 1e6 or machine.link.latency_s,
            jitter_s=float(given["jitter_us"]) / 1e6,
        )
        machine = replace(machine, link=link)
    config = _given(
        given,
        {
            "token_bytes": "token_bytes",
            "token_interval": "token_interval_s",
            "window_bytes": "window_bytes_max",
        },
    )
    settings = _given(
        given,
        {
            "partition_size": "partition_size",
            "replication": "replication",
            "failure_timeout": "failure_timeout_s",
            "transport": "transport",
        },
    )
    settings["fan_out"] = int(given["fan_out"])
    groups = int(given["groups"])
    names = frozenset(f"g{place}" for place in range(groups))
    scenario = Scenario(
        machine=machine,
        nodes=int(given["nodes"]),
        senders=int(given["senders"]),
        groups=groups,
        regions=int(given["regions"]),
        size=int(given["size"]),
        rate=float(given["rate"]),
        warmup_s=float(given["warmup"]),
        seconds=float(given["seconds"]),
        config=config,
        settings=settings,
        gms={"hybrid": names if given["hybrid"] else "off"},
    )
    return replace(scenario, **changes)


def _given(parameters: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Any]:
    """Return those parameters that are not left to the defaults, under other names."""
    return {name: parameters[ours] for ours, name in names.items() if parameters[ours]}
