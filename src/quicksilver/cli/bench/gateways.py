"""One network alone, next to two networks that gateways join: rates, and who works how long.

The same sender and the same receivers in both: alone they are in one network, otherwise the
receivers are in the second. Each message has its number, so order and completeness are checked
end to end. Processor time is told for each process: on one machine all of them share its cores,
and with machines of their own the busiest process would limit the rate. Each member is this
module with a ``MemberSpec`` as its argument.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec

from quicksilver.cli.bench.sharing import cpu_s_of
from quicksilver.lab.child import next_order, run_child, tell, wait_for_end
from quicksilver.lab.load import COMPLETE_S, Go, LoadReady
from quicksilver.lab.processes import Child, Children
from quicksilver.node import sync
from quicksilver.node.messages import Batch
from quicksilver.node.tuning import SWITCH_INTERVAL_S

SCOPE = "campus"
TOPIC = "campus/news"
READY_S = 90.0
GREET_S = 0.05
WAYS = ("one", "two")
NUMBER_BYTES = 8


class MemberSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a sender or a receiver is told."""

    gms: str
    name: str
    interface: str
    size: int
    seconds: float = 0.0
    """How long to send; 0: receive."""


class Reached(msgspec.Struct, frozen=True, kw_only=True, tag="reached", tag_field="event"):
    """A receiver has got its first message: the way is open."""


class SentAll(msgspec.Struct, frozen=True, kw_only=True, tag="sent", tag_field="event"):
    """What a sender did: it greeted until the way was open, and then sent at full speed."""

    first: int
    """The number of the first message that was sent at full speed …"""
    count: int
    """… and how many numbers there are in all."""
    started_at: float


class Got(msgspec.Struct, frozen=True, kw_only=True, tag="got", tag_field="event"):
    """What a receiver got."""

    missing: int
    disorders: int
    last_at: float


class ScopeReady(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """What ``quicksilver scope --json`` says when a manager listens."""

    address: str


class GatewayReady(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """What ``quicksilver scope gateway --json`` says when a gateway works."""

    gateway: str


def run_member() -> None:
    """Send or receive, and report."""
    spec = msgspec.json.decode(sys.argv[1], type=MemberSpec)
    node = sync.connect(
        spec.gms,
        name=spec.name,
        interface=spec.interface,
        connect_timeout_s=60.0,
        tune_gc=True,
        switch_interval_s=SWITCH_INTERVAL_S,
    )
    with node:
        if spec.seconds:
            _send(node, spec)
        else:
            _receive(node)
        wait_for_end()


def _send(node: sync.Node, spec: MemberSpec) -> None:
    group = node.open(TOPIC)
    padding = bytes(max(0, spec.size - NUMBER_BYTES))
    number = 0
    is_open = True

    def make() -> bytes | None:
        nonlocal number
        if not is_open:
            return None
        number += 1
        return (number - 1).to_bytes(NUMBER_BYTES, "little") + padding

    tell(LoadReady())
    next_order(Go)
    greeted_until = time.monotonic() + 1.0
    while time.monotonic() < greeted_until:
        greeting = make()
        assert greeting is not None
        group.send(greeting)
        time.sleep(GREET_S)
    node.flush(timeout=COMPLETE_S)
    tell(Reached())
    next_order(Go)
    first, started_at = number, time.monotonic()
    group.send_from(make)
    time.sleep(spec.seconds)
    is_open = False
    node.flush(timeout=COMPLETE_S)
    tell(SentAll(first=first, count=number, started_at=started_at))


def _receive(node: sync.Node) -> None:
    group = node.join(TOPIC)
    arrivals = _Arrivals()
    group.on_batch(arrivals.take)
    tell(LoadReady())
    until = time.monotonic() + READY_S
    while arrivals.next is None and time.monotonic() < until:
        time.sleep(0.01)
    tell(Reached())
    sent = next_order(SentAll)
    until = time.monotonic() + COMPLETE_S
    while (arrivals.next or 0) < sent.count and time.monotonic() < until:
        time.sleep(0.02)
    tell(
        Got(
            missing=sent.count - (arrivals.next or 0),
            disorders=arrivals.disorders,
            last_at=arrivals.last_at,
        )
    )


class _Arrivals:
    """A receiver's work; called on the thread that receives."""

    def __init__(self) -> None:
        self.next: int | None = None
        """The number that comes next; None before the first message."""
        self.disorders = 0
        self.last_at = 0.0

    def take(self, batch: Batch) -> None:
        self.last_at = time.monotonic()
        first, last = (
            int.from_bytes(batch.payloads[place][:NUMBER_BYTES], "little") for place in (0, -1)
        )
        if self.next not in {None, first} or last - first + 1 != len(batch.payloads):
            self.disorders += 1
        self.next = last + 1


def measure_gateways(
    *, receivers: int, size: int, seconds: float, interface: str
) -> dict[str, Any]:
    """Measure both, one after the other."""
    result: dict[str, Any] = {"receivers": receivers, "size": size}
    lost = disorders = 0
    for way in WAYS:
        found = _measure(way, receivers, size, seconds, interface)
        lost += found.pop("lost")
        disorders += found.pop("disorders")
        result |= {f"{name}_{way}": value for name, value in found.items()}

    def ratio(name: str, *, inverse: bool = False) -> float:
        one, two = (max(1e-9, float(result[f"{name}_{way}"])) for way in WAYS)
        return round(one / two if inverse else two / one, 3)

    return result | {
        "ratio": ratio("messages_per_second"),
        "ratio_by_busiest_process": ratio("busiest_cpu_us_per_message", inverse=True),
        "ratio_by_cpu": ratio("cpu_us_per_message", inverse=True),
        "lost": lost,
        "disorders": disorders,
    }


def _measure(way: str, receivers: int, size: int, seconds: float, interface: str) -> dict[str, Any]:
    with Children() as children:
        networks = [_start_network(children, place) for place in range(WAYS.index(way) + 1)]
        gateways = _join(children, networks) if way == "two" else {}

        def start(spec: MemberSpec) -> Child:
            text = msgspec.json.encode(spec).decode()
            child = children.start_python(spec.name, __name__, text)
            child.expect(LoadReady, READY_S)
            return child

        common: dict[str, Any] = {"interface": interface, "size": size}
        got = [
            start(MemberSpec(gms=networks[-1], name=f"receiver {place}", **common))
            for place in range(receivers)
        ]
        sender = start(MemberSpec(gms=networks[0], name="sender", seconds=seconds, **common))
        sender.tell(Go())
        for child in (sender, *got):
            child.expect(Reached, READY_S)
        workers = {"sender": [sender], "receiver": got, **gateways}
        before = {child: cpu_s_of(child.pid) for some in workers.values() for child in some}
        sender.tell(Go())
        sent = sender.expect(SentAll, seconds + READY_S)
        for child in got:
            child.tell(sent)
        results = [child.expect(Got, COMPLETE_S + READY_S) for child in got]
        used = {child: cpu_s_of(child.pid) - begin for child, begin in before.items()}
    count = max(1, sent.count - sent.first)

    def in_us(cpu_s: float) -> float:
        return round(cpu_s / count * 1e6, 3)

    last_at = max(one.last_at for one in results)
    return {
        "messages_per_second": round(count / max(1e-9, last_at - sent.started_at)),
        **{
            f"{name}_cpu_us_per_message": in_us(max(used[child] for child in some))
            for name, some in workers.items()
        },
        "busiest_cpu_us_per_message": in_us(max(used.values())),
        "cpu_us_per_message": in_us(sum(used.values())),
        "lost": sum(max(0, one.missing) for one in results),
        "disorders": sum(one.disorders for one in results),
    }


def _start_network(children: Children, place: int) -> str:
    # Multicast addresses of its own: otherwise each would hear, and drop, the other's packets.
    return children.start_gms("--pool", f"239.192.{place + 1}.0/24")


def _join(children: Children, networks: list[str]) -> dict[str, list[Child]]:
    """Put networks under one scope; return their gateways."""

    def manage(name: str, *owners: str) -> str:
        options = [word for owner in owners for word in ("--owner", owner)]
        listen = ("--name", name, "--listen", "127.0.0.1:0", "--json")
        child = children.start_python(name, "quicksilver.cli.main", "scope", *listen, *options)
        return child.expect(ScopeReady, READY_S).address

    root = manage(SCOPE)
    found: dict[str, list[Child]] = {}
    for name, gms in zip(("outgoing", "incoming"), networks, strict=True):
        manager = manage(f"{SCOPE}/{name}", root)
        options = ("--gms", gms, "--manager", manager, "--name", name, "--json")
        child = children.start_python(name, "quicksilver.cli.main", "scope", "gateway", *options)
        child.expect(GatewayReady, READY_S)
        found[name] = [child]
    return found


if __name__ == "__main__":
    run_child(run_member)
