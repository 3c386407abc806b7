"""``quicksilver bench throughput``: reliable delivery against the ceiling, in one run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from quicksilver.experiments.processes import Family
from quicksilver.net.interfaces import choose_interface, datagram_bytes_max

PROCESS = ("-m", "quicksilver.cli.bench.process")
CEILING_ADDRESS = ("239.192.255.1", 7399)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure."""

    receivers: int = 4
    groups: int = 1
    size: int = 1000
    seconds: float = 3.0
    loss: float = 0.0
    """Fraction of data packets that the first receiver loses, in bursts."""
    burst: float = 10.0
    interface: str = "lo"
    packet_bytes: int = 0
    """0: what the interface carries."""
    with_ceiling: bool = True
    trace: str | None = None
    """Folder of the run to which trace records belong."""
    namespaces: tuple[str, ...] = ()
    """Network namespaces: the first for GMS and sender, the others for receivers."""

    def datagram_bytes(self) -> int:
        if self.packet_bytes:
            return self.packet_bytes
        return datagram_bytes_max(choose_interface(self.interface, None))

    def prefix(self, place: int) -> tuple[str, ...]:
        """Return how to start a process: 0 the sender, 1… the receivers."""
        if not self.namespaces:
            return ()
        others = self.namespaces[1:] or self.namespaces
        name = self.namespaces[0] if place == 0 else others[(place - 1) % len(others)]
        return ("ip", "netns", "exec", name)


def measure(plan: Plan, gms_host: str = "127.0.0.1") -> dict[str, Any]:
    """Run quicksilver, then the ceiling, and return the numbers."""
    ours = measure_ours(plan, gms_host)
    if plan.with_ceiling:
        rate, cpu_us = measure_ceiling(plan, gms_host)
        ours["ceiling_messages_per_second"] = round(rate)
        ours["ceiling_cpu_us_per_delivery"] = round(cpu_us, 3)
        ours["ratio"] = round(ours["messages_per_second"] / rate, 3)
    return ours


def measure_ours(plan: Plan, gms_host: str = "127.0.0.1") -> dict[str, Any]:
    """Run a GMS, one sender and the receivers, all real processes."""
    with Family() as family:
        address = start_gms(family, gms_host, plan.prefix(0))
        settings = {
            "gms": address,
            "interface": plan.interface if not plan.namespaces else None,
            "packet_bytes": plan.datagram_bytes(),
            "groups": plan.groups,
            "size": plan.size,
            "seconds": plan.seconds,
            "trace": plan.trace,
        }
        receivers = []
        for place in range(plan.receivers):
            mine = dict(settings)
            if plan.loss and place == 0:
                mine["faults"] = f"loss={plan.loss * 100}%,burst={plan.burst},kinds=data"
            receivers.append(
                family.start(
                    f"receiver {place}",
                    (*PROCESS, "receiver", json.dumps(mine)),
                    plan.prefix(place + 1),
                )
            )
        for receiver in receivers:
            receiver.read()
        sender = family.start("sender", (*PROCESS, "sender", json.dumps(settings)), plan.prefix(0))
        sender.read()
        sender.write(go=True)
        sent = sender.read()
        for receiver in receivers:
            receiver.write(sent=sent["sent"])
        got = [receiver.read() for receiver in receivers]
        sender.write(done=True)
    return summarise(plan, sent, got)


def start_gms(family: Family, host: str = "127.0.0.1", prefix: tuple[str, ...] = ()) -> str:
    """Start a GMS for the run; return its address."""
    argv = ("-m", "quicksilver.cli.main", "gms", "--host", host, "--port", "0", "--json")
    address: str = family.start("GMS", argv, prefix).read()["address"]
    return address


def summarise(plan: Plan, sent: dict[str, Any], got: list[dict[str, Any]]) -> dict[str, Any]:
    """Turn what the processes said into the report."""
    total = sum(sent["sent"])
    rates = [g["count"] / max(1e-9, g["last"] - g["first"]) for g in got]
    cpu = sent["cpu_s"] + sum(g["cpu_s"] for g in got)
    deliveries = sum(g["count"] for g in got)
    return {
        **{k: v for k, v in asdict(plan).items() if k not in ("with_ceiling", "namespaces")},
        "packet_bytes": plan.datagram_bytes(),
        "messages_sent": total,
        "messages_per_second": round(min(rates)),
        "bytes_per_second": round(min(rates) * plan.size),
        "lost": sum(g["lost"] for g in got),
        "disorders": sum(g["disorders"] for g in got),
        "cpu_us_per_delivery": round(cpu / max(1, deliveries) * 1e6, 3),
        "sender_cpu_us_per_message": round(sent["cpu_s"] / max(1, total) * 1e6, 3),
        "receiver_cpu_us_per_message": round(max(g["cpu_s"] for g in got) / max(1, total) * 1e6, 3),
        "sender_rss_bytes": sent["rss_bytes"],
        "receiver_rss_bytes": max(g["rss_bytes"] for g in got),
        "sender_stats": sent["stats"],
        "receiver_stats": [g["stats"] for g in got],
    }


def measure_ceiling(plan: Plan, gms_host: str = "127.0.0.1") -> tuple[float, float]:
    """Run the protocol-free loop; return the slowest receiver's rate, and the cost.

    The cost is processor time in microseconds for each delivery, of all
    processes together, start-up included.
    """
    settings = {
        "address": gms_host,
        "multicast": CEILING_ADDRESS,
        "groups": plan.groups,
        "size": plan.size,
        "seconds": min(plan.seconds, 3.0),
        "packet_bytes": plan.datagram_bytes(),
    }
    with Family() as family:
        receivers = []
        for place in range(plan.receivers):
            mine = dict(settings)
            if plan.namespaces:
                mine["address"] = "0.0.0.0"
            receivers.append(
                family.start(
                    f"ceiling receiver {place}",
                    (*PROCESS, "ceiling-receiver", json.dumps(mine)),
                    plan.prefix(place + 1),
                )
            )
        for receiver in receivers:
            receiver.read()
        sender = family.start(
            "ceiling sender", (*PROCESS, "ceiling-sender", json.dumps(settings)), plan.prefix(0)
        )
        sender.read()
        sender.write(go=True)
        sent = sender.read()
        got = [receiver.read() for receiver in receivers]
    cpu_s = sent["cpu_s"] + sum(g["cpu_s"] for g in got)
    cpu_us = cpu_s / max(1, sum(g["count"] for g in got)) * 1e6
    rates: list[float] = [g["count"] / max(1e-9, g["last"] - g["first"]) for g in got]
    return min(rates), cpu_us
