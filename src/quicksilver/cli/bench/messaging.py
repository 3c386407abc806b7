"""What headers, patterns, queues, retained values and requests cost, next to plain messages.

Each way of sending is one sender and receivers, all processes of their own with one GMS. Each
process is this module with a ``Feed``, a ``Taker``, a ``Server`` or an ``Asker`` as its
argument.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import threading
import time
from typing import Any

import msgspec

import quicksilver
from quicksilver import sync
from quicksilver.lab.child import next_order, run_child, tell, wait_for_end
from quicksilver.lab.instruments import Latency, summarise_ages
from quicksilver.lab.load import Go, LoadReady
from quicksilver.lab.processes import Child, Children

WAYS = ("plain", "headers", "pattern", "queue", "retained")
"""Ways of sending that are measured; the first is what the others are compared with."""

TAKERS = 2
READY_S = 60.0
COMPLETE_S = 60.0
ASKERS = 64
"""Requests under way at once, where their rate is measured."""


class Feed(msgspec.Struct, frozen=True, kw_only=True, tag="feed"):
    """A process that sends."""

    gms: str
    way: str
    size: int
    seconds: float


class Taker(msgspec.Struct, frozen=True, kw_only=True, tag="taker"):
    """A process that receives."""

    gms: str
    way: str


class Server(msgspec.Struct, frozen=True, kw_only=True, tag="server"):
    """A process that answers requests."""

    gms: str
    size: int


class Asker(msgspec.Struct, frozen=True, kw_only=True, tag="asker"):
    """A process that asks."""

    gms: str
    size: int
    seconds: float


class Sent(msgspec.Struct, frozen=True, kw_only=True, tag="sent", tag_field="event"):
    """What a sender did; takers are told how many messages they should have."""

    count: int
    cpu_s: float = 0.0


class Taken(msgspec.Struct, frozen=True, kw_only=True, tag="taken", tag_field="event"):
    """What a receiver took."""

    count: int
    seconds: float
    cpu_s: float


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="asked", tag_field="event"):
    """What requests took: one after the other, and many at once."""

    latency: Latency
    per_second: float


def main() -> None:
    """Do what the first argument says, and report."""
    spec = msgspec.json.decode(sys.argv[1], type=Feed | Taker | Server | Asker)
    if isinstance(spec, Feed):
        feed(spec)
    elif isinstance(spec, Taker):
        take(spec)
    elif isinstance(spec, Server):
        serve(spec)
    else:
        asyncio.run(ask(spec))


def feed(spec: Feed) -> None:
    """Send as fast as the group takes it."""
    with sync.connect(spec.gms, interface="lo") as node:
        group = node.open("bench.load", retain=1 if spec.way == "retained" else 0)
        group.wait_members(TAKERS)
        payload = bytes(spec.size)
        send = group.send
        tell(LoadReady())
        next_order(Go)
        began, count = _cpu_s(), 0
        end = time.monotonic() + spec.seconds
        while time.monotonic() < end:
            if spec.way == "headers":
                for _ in range(100):
                    send(payload, b"key", {"source": "bench"})
            else:
                for _ in range(100):
                    send(payload)
            count += 100
        node.flush()
        tell(Sent(count=count, cpu_s=_cpu_s() - began))
        wait_for_end()


def take(spec: Taker) -> None:
    """Receive until all is there that was sent."""
    with sync.connect(spec.gms, interface="lo") as node:
        name = "bench.*" if spec.way == "pattern" else "bench.load"
        group = node.join(name, queue="bench" if spec.way == "queue" else None)
        count, first, last = 0, 0.0, 0.0
        arrived = threading.Event()

        def note(batch: quicksilver.Batch) -> None:
            nonlocal count, first, last
            last = time.monotonic()
            first = first or last
            count += len(batch)
            arrived.set()

        group.on_batch(note)
        began = _cpu_s()
        tell(LoadReady())
        expected = next_order(Sent).count
        end = time.monotonic() + COMPLETE_S
        while count < expected and time.monotonic() < end:
            arrived.clear()
            arrived.wait(0.1)
            if spec.way == "queue" and time.monotonic() - last > 1.0:
                break  # nobody knows how many of them are this member's
        tell(Taken(count=count, seconds=max(1e-9, last - first), cpu_s=_cpu_s() - began))
        wait_for_end()


def serve(spec: Server) -> None:
    """Answer requests until the parent has had enough."""

    async def work() -> None:
        async with quicksilver.connect(spec.gms, interface="lo") as node:
            group = await node.join("bench.requests")
            body = bytes(spec.size)
            await group.serve(lambda _: body, concurrency=ASKERS)
            tell(LoadReady())
            await asyncio.to_thread(wait_for_end)

    asyncio.run(work())


async def ask(spec: Asker) -> None:
    """Ask, one request after the other and then many at once."""
    async with quicksilver.connect(spec.gms, interface="lo") as node:
        group = await node.open("bench.requests")
        body = bytes(spec.size)
        await group.request(body)  # makes the reply group
        tell(LoadReady())
        next_order(Go)
        ages: list[float] = []
        end = time.monotonic() + spec.seconds
        while time.monotonic() < end:
            began = time.monotonic()
            await group.request(body)
            ages.append(time.monotonic() - began)
        end = time.monotonic() + spec.seconds

        async def again() -> int:
            count = 0
            while time.monotonic() < end:
                await group.request(body)
                count += 1
            return count

        counts = await asyncio.gather(*(again() for _ in range(ASKERS)))
        latency = summarise_ages(ages)
        assert latency is not None
        tell(Asked(latency=latency, per_second=sum(counts) / spec.seconds))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# The parent


def measure_messaging(*, size: int, seconds: float) -> dict[str, Any]:
    """Measure every way of sending one after the other, and requests; return one result."""
    result: dict[str, Any] = {"size": size, "receivers": TAKERS}
    plain = 0.0
    lost = 0
    for way in WAYS:
        sent, taken = _measure(way, size, seconds)
        # Members of a queue have a part each.
        wanted = sent.count if way == "queue" else sent.count * TAKERS
        lost += wanted - sum(one.count for one in taken)
        rate = min(sent.count / one.seconds for one in taken)
        plain = plain or rate
        result |= {
            f"messages_per_second_{way}": round(rate),
            f"ratio_{way}": round(rate / plain, 3),
            f"sender_cpu_us_{way}": round(1e6 * sent.cpu_s / max(1, sent.count), 3),
            f"receiver_cpu_us_{way}": round(
                1e6 * max(one.cpu_s for one in taken) / max(1, sent.count), 3
            ),
        }
    asked = _measure_requests(size, seconds)
    return result | {
        "request_p50_us": round(1e6 * asked.latency.p50_s, 1),
        "request_p99_us": round(1e6 * asked.latency.p99_s, 1),
        f"requests_per_second_{ASKERS}_at_once": round(asked.per_second),
        "lost": lost,
    }


def _measure(way: str, size: int, seconds: float) -> tuple[Sent, list[Taken]]:
    with Children() as children:
        gms = children.start_gms()
        takers = [
            _start(children, f"taker {place}", Taker(gms=gms, way=way)) for place in range(TAKERS)
        ]
        feeder = _start(children, "feed", Feed(gms=gms, way=way, size=size, seconds=seconds))
        feeder.tell(Go())
        sent = feeder.expect(Sent, seconds + READY_S)
        for taker in takers:
            taker.tell(sent)
        return sent, [taker.expect(Taken, COMPLETE_S + READY_S) for taker in takers]


def _measure_requests(size: int, seconds: float) -> Asked:
    with Children() as children:
        gms = children.start_gms()
        _start(children, "server", Server(gms=gms, size=size))
        asker = _start(children, "asker", Asker(gms=gms, size=size, seconds=seconds))
        asker.tell(Go())
        return asker.expect(Asked, 2 * seconds + READY_S)


def _start(children: Children, name: str, spec: Feed | Taker | Server | Asker) -> Child:
    text = msgspec.json.encode(spec).decode()
    child = children.start_python(name, "quicksilver.cli.bench.messaging", text)
    child.expect(LoadReady, READY_S)
    return child


if __name__ == "__main__":
    run_child(main)
