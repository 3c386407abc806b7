"""What ``quicksilver bench`` measures: throughput next to the ceiling, latency, idleness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from quicksilver.cli.bench.ceiling import CeilingReceiver, CeilingResult, CeilingSender
from quicksilver.lab.load import Go, LoadReady, Receiver, ReceiverResult, Sender, SenderResult
from quicksilver.lab.load_run import LoadRun, run_load
from quicksilver.lab.namespaces import Namespaces
from quicksilver.lab.processes import Child, Children
from quicksilver.net.interfaces import choose_interface, datagram_bytes_max

CEILING_S_MAX = 3.0
LOW_RATE = 1000.0
READY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Parameters of one measurement."""

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
    regions: int = 1
    """Regions that the receivers are divided into; the groups span all of them."""
    gms: tuple[str, ...] = ()
    """Further arguments of the GMS."""
    trace: str | None = None
    """Folder of the run to which trace records belong."""

    def datagram_bytes(self) -> int:
        if self.packet_bytes:
            return self.packet_bytes
        return datagram_bytes_max(choose_interface(self.interface, None))


def measure(plan: Plan, spaces: Namespaces | None = None) -> dict[str, Any]:
    """Run quicksilver, then the ceiling, and return the numbers."""
    ours = measure_ours(plan, spaces)
    rate, cpu_us = measure_ceiling(plan, spaces)
    ours["ceiling_messages_per_second"] = round(rate)
    ours["ceiling_cpu_us_per_delivery"] = round(cpu_us, 3)
    ours["ratio"] = round(ours["messages_per_second"] / rate, 3)
    return ours


def measure_ours(plan: Plan, spaces: Namespaces | None = None) -> dict[str, Any]:
    """Run a GMS, one sender and the receivers, all real processes."""
    common: dict[str, Any] = {
        "interface": plan.interface if spaces is None else None,
        "packet_bytes": plan.datagram_bytes(),
        "groups": plan.groups,
        "trace": plan.trace,
    }
    faults = f"loss={plan.loss * 100}%,burst={plan.burst},kinds=data" if plan.loss else ""
    found = run_load(
        LoadRun(
            sender=Sender(**common, size=plan.size, seconds=plan.seconds),
            receiver=Receiver(**common, is_verified=True),
            receivers=plan.receivers,
            regions=plan.regions,
            gms=("--planner", "exact", *plan.gms) if plan.regions > 1 else plan.gms,
            first_receiver={"faults": faults},
            namespaces=spaces,
        )
    )
    return summarise(plan, found.sent[0], found.got)


def compare(plan: Plan, ways: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Measure the same with different arguments of the GMS, one after the other.

    ``ratio_*`` is a way's rate next to that of the first one.
    """
    found = {name: measure_ours(replace(plan, gms=gms)) for name, gms in ways.items()}
    first = next(iter(found.values()))["messages_per_second"]
    result: dict[str, Any] = {
        "receivers": plan.receivers,
        "regions": plan.regions,
        "size": plan.size,
        "packet_bytes": plan.datagram_bytes(),
    }
    for name, one in found.items():
        result |= {
            f"messages_per_second_{name}": one["messages_per_second"],
            f"ratio_{name}": round(one["messages_per_second"] / first, 3),
            f"sender_packets_{name}": one["sender_stats"]["sent_packets"],
            f"sender_cpu_us_{name}": one["sender_cpu_us_per_message"],
            f"receiver_cpu_us_{name}": one["receiver_cpu_us_per_message"],
        }
    result["lost"] = sum(one["lost"] for one in found.values())
    return result


def summarise(plan: Plan, sent: SenderResult, got: Sequence[ReceiverResult]) -> dict[str, Any]:
    """Turn what the processes said into one result."""
    total = sum(sent.sent)
    rates = [one.count / max(1e-9, one.last_at - one.first_at) for one in got]
    cpu_s = sent.usage.cpu_s + sum(one.usage.cpu_s for one in got)
    deliveries = sum(one.count for one in got)
    received_s = max(one.usage.cpu_s for one in got)
    return {
        **asdict(plan),
        "packet_bytes": plan.datagram_bytes(),
        "messages_sent": total,
        "messages_per_second": round(min(rates)),
        "bytes_per_second": round(min(rates) * plan.size),
        "lost": sum(one.lost for one in got),
        "disorders": sum(one.disorders for one in got),
        "cpu_us_per_delivery": round(cpu_s / max(1, deliveries) * 1e6, 3),
        "sender_cpu_us_per_message": round(sent.usage.cpu_s / max(1, total) * 1e6, 3),
        "receiver_cpu_us_per_message": round(received_s / max(1, total) * 1e6, 3),
        "sender_rss_bytes": sent.usage.rss_bytes,
        "receiver_rss_bytes": max(one.usage.rss_bytes for one in got),
        "sender_stats": sent.counters,
        "receiver_stats": [one.counters for one in got],
    }


def measure_ceiling(plan: Plan, spaces: Namespaces | None = None) -> tuple[float, float]:
    """Run the protocol-free loop; return the slowest receiver's rate, and the cost.

    The cost is processor time in microseconds for each delivery, of all
    processes together, start-up included.
    """
    packet_bytes = plan.datagram_bytes()
    with Children() as children:

        def start(name: str, place: int, spec: CeilingSender | CeilingReceiver) -> Child:
            text = msgspec.json.encode(spec).decode()
            prefix = () if spaces is None else spaces.place(place)[1]
            child = children.start_python(
                name, "quicksilver.cli.bench.ceiling", text, prefix=prefix
            )
            child.expect(LoadReady, READY_S)
            return child

        receiver = CeilingReceiver(
            address="127.0.0.1" if spaces is None else "0.0.0.0",
            groups=plan.groups,
            packet_bytes=packet_bytes,
        )
        receivers = [
            start(f"ceiling receiver {place}", place + 1, receiver)
            for place in range(plan.receivers)
        ]
        sender = start(
            "ceiling sender",
            0,
            CeilingSender(
                address="127.0.0.1" if spaces is None else spaces.place(0)[0],
                groups=plan.groups,
                packet_bytes=packet_bytes,
                size=plan.size,
                seconds=min(plan.seconds, CEILING_S_MAX),
            ),
        )
        sender.tell(Go())
        sent = sender.expect(CeilingResult, READY_S)
        got = [one.expect(CeilingResult, READY_S) for one in receivers]
    cpu_s = sent.cpu_s + sum(one.cpu_s for one in got)
    rates = [one.count / max(1e-9, one.last_at - one.first_at) for one in got]
    return min(rates), cpu_s / max(1, sum(one.count for one in got)) * 1e6


def measure_latency(
    *, receivers: int, size: int, seconds: float, interface: str, rates: tuple[float, ...] = ()
) -> list[dict[str, Any]]:
    """Return one-way percentiles at low load and at half of what can be reached."""
    if not rates:
        plan = Plan(receivers=receivers, size=size, seconds=2, interface=interface)
        rates = (LOW_RATE, measure_ours(plan)["messages_per_second"] / 2)
    results = []
    for rate in rates:
        found = run_load(
            LoadRun(
                sender=Sender(
                    interface=interface, size=size, seconds=seconds, rate=rate, is_spinning=True
                ),
                receiver=Receiver(interface=interface, is_stamped=True),
                receivers=receivers,
            )
        )
        sent = found.sent[0]
        ages = [one.latency for one in found.got if one.latency is not None]
        result: dict[str, Any] = {
            "rate": round(rate),
            "reached": round(sum(sent.sent) / sent.seconds),
            "receivers": receivers,
            "size": size,
            "lost": sum(one.lost for one in found.got),
        }
        if ages:
            result |= {
                "p50_us": round(1e6 * max(one.p50_s for one in ages), 1),
                "p90_us": round(1e6 * max(one.p90_s for one in ages), 1),
                "p99_us": round(1e6 * max(one.p99_s for one in ages), 1),
                "p999_us": round(1e6 * max(one.p999_s for one in ages), 1),
                "max_us": round(1e6 * max(one.max_s for one in ages), 1),
            }
        results.append(result)
    return results


def measure_idle(*, nodes: int, seconds: float, interface: str) -> dict[str, Any]:
    """Return the part of a core that a node of a silent cluster uses."""
    found = run_load(
        LoadRun(
            sender=Sender(seconds=seconds),
            receiver=Receiver(interface=interface),
            receivers=nodes,
            senders=0,
        )
    )
    used = [one.usage for one in found.got]
    return {
        "nodes": nodes,
        "seconds": seconds,
        "cpu_percent_per_node": round(max(one.cpu_s for one in used) / seconds * 100, 3),
        "rss_bytes": max(one.rss_bytes for one in used),
    }
