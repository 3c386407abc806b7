"""Applications of one machine, each with a node of its own, next to all behind one controller.

The same program receives in both: it joins a group, counts, and checks the order of messages.
One sender, with a node of its own, sends as fast as it goes. Each application is this module with
an ``AppSpec`` as its argument.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from array import array
from typing import Any

import msgspec

from quicksilver.lab.child import next_order, run_child, tell, wait_for_end
from quicksilver.lab.instruments import Latency, summarise_ages
from quicksilver.lab.load import COMPLETE_S, Go, LoadReady, Sender, SenderResult, Sent
from quicksilver.lab.processes import Child, Children
from quicksilver.lab.worker import start_worker
from quicksilver.node import sync
from quicksilver.node.messages import Batch
from quicksilver.node.tuning import SWITCH_INTERVAL_S

GROUP = "load-0"
READY_S = 90.0
REPORT_S = 90.0
WAYS = ("own", "shared")


class AppSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What an application is told."""

    address: str
    """Of the GMS, or of the controller."""
    interface: str = ""
    is_stamped: bool = False
    """Messages begin with when they were sent: note how old they are."""


class AppResult(msgspec.Struct, frozen=True, kw_only=True, tag="received", tag_field="event"):
    """What an application measured."""

    count: int
    disorders: int
    dropped: int
    first_at: float
    last_at: float
    cpu_s: float
    latency: Latency | None


class ControllerReady(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """What ``quicksilver controller --json`` says when it listens."""

    path: str


def run_app() -> None:
    """Count what arrives, and report."""
    spec = msgspec.json.decode(sys.argv[1], type=AppSpec)
    options: dict[str, Any] = {"interface": spec.interface} if spec.interface else {}
    node = sync.connect(
        spec.address,
        connect_timeout_s=60.0,
        tune_gc=True,
        switch_interval_s=SWITCH_INTERVAL_S,
        **options,
    )
    with node:
        arrivals = _Arrivals(is_stamped=spec.is_stamped)
        group = node.join(GROUP)
        group.on_batch(arrivals.take)
        tell(LoadReady())
        next_order(Go)
        used = time.process_time()
        (sent,) = next_order(Sent).messages
        until = time.monotonic() + COMPLETE_S
        while arrivals.count < sent and time.monotonic() < until:
            time.sleep(0.02)
        tell(
            AppResult(
                count=arrivals.count,
                disorders=arrivals.disorders,
                dropped=group.dropped,
                first_at=arrivals.first_at,
                last_at=arrivals.last_at,
                cpu_s=time.process_time() - used,
                latency=summarise_ages(arrivals.ages),
            )
        )
        wait_for_end()


class _Arrivals:
    """An application's work; called on the thread that receives."""

    def __init__(self, *, is_stamped: bool) -> None:
        self.ages: array[float] = array("d")
        self._is_stamped = is_stamped
        self.count = 0
        self.disorders = 0
        self.first_at = self.last_at = 0.0

    def take(self, batch: Batch) -> None:
        self.last_at = time.monotonic()
        if not self.count:
            self.first_at = self.last_at
        if batch.first != self.count:
            self.disorders += 1
        self.count += len(batch.payloads)
        if self._is_stamped:
            for payload in batch.payloads:
                self.ages.append(self.last_at - int.from_bytes(payload[:8], "little") / 1e9)


def measure_sharing(
    *, applications: int, size: int, seconds: float, interface: str, rate: float = 0.0
) -> dict[str, Any]:
    """Measure both ways, one after the other; with a rate, how old messages are as well."""
    result: dict[str, Any] = {"applications": applications, "size": size}
    lost = disorders = 0
    for way in WAYS:
        found = _measure(way, applications, size, seconds, interface, rate)
        lost += found.pop("lost")
        disorders += found.pop("disorders")
        result |= {f"{name}_{way}": value for name, value in found.items()}
    own, shared = (result[f"messages_per_second_{way}"] for way in WAYS)
    result["ratio"] = round(shared / own, 3)
    cost = [result[f"receiving_cpu_us_per_delivery_{way}"] for way in WAYS]
    result["cpu_ratio"] = round(cost[1] / max(1e-9, cost[0]), 3)
    return result | {"lost": lost, "disorders": disorders}


def _measure(
    way: str, applications: int, size: int, seconds: float, interface: str, rate: float
) -> dict[str, Any]:
    with Children() as children, tempfile.TemporaryDirectory() as folder:
        gms = children.start_gms()
        controller: Child | None = None
        spec = AppSpec(address=gms, interface=interface, is_stamped=rate > 0)
        if way == "shared":
            path = os.path.join(folder, "controller")
            arguments = ("--path", path, "--gms", gms, "--interface", interface, "--json")
            controller = children.start_python(
                "controller", "quicksilver.cli.main", "controller", *arguments
            )
            controller.expect(ControllerReady, READY_S)
            spec = AppSpec(address=f"unix:{path}", is_stamped=rate > 0)
        text = msgspec.json.encode(spec).decode()
        apps = [
            children.start_python(f"application {place}", __name__, text)
            for place in range(applications)
        ]
        for app in apps:
            app.expect(LoadReady, READY_S)
        load = Sender(
            gms=gms, name="sender", interface=interface, size=size, seconds=seconds, rate=rate
        )
        sender = start_worker(children, load)
        sender.expect(LoadReady, READY_S)
        used = 0.0 if controller is None else cpu_s_of(controller.pid)
        for child in (*apps, sender):
            child.tell(Go())
        sent = sender.expect(SenderResult, seconds + REPORT_S)
        for app in apps:
            app.tell(Sent(sent.sent))
        got = [app.expect(AppResult, COMPLETE_S + REPORT_S) for app in apps]
        controller_s = 0.0 if controller is None else cpu_s_of(controller.pid) - used
    total = sum(sent.sent)
    deliveries = max(1, sum(one.count for one in got))
    apps_s = sum(one.cpu_s for one in got)
    rates = [one.count / max(1e-9, one.last_at - one.first_at) for one in got]
    ages = [one.latency for one in got if one.latency is not None]
    return {
        **({"p50_us": round(1e6 * max(age.p50_s for age in ages))} if ages else {}),
        **({"p99_us": round(1e6 * max(age.p99_s for age in ages))} if ages else {}),
        "messages_per_second": round(min(rates)),
        "receiving_cpu_us_per_delivery": round((apps_s + controller_s) / deliveries * 1e6, 3),
        "application_cpu_us_per_delivery": round(apps_s / deliveries * 1e6, 3),
        "controller_cpu_us_per_message": round(controller_s / max(1, total) * 1e6, 3),
        "cpu_us_per_delivery": round(
            (apps_s + controller_s + sent.usage.cpu_s) / deliveries * 1e6, 3
        ),
        "lost": sum(total - one.count for one in got),
        "disorders": sum(one.disorders for one in got),
    }


def cpu_s_of(pid: int) -> float:
    """Return the processor time that another process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    run_child(run_app)
