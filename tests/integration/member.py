"""A process of the integration tests: one node, told what to do by JSON lines.

Every message carries its number, so that a receiver knows by itself whether it
got each one exactly once and in order.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from quicksilver import QuicksilverError, sync
from quicksilver.net.faults import parse_faults
from quicksilver.node.messages import Batch


class Log:
    """What one node received: for each sender and group, where it is."""

    def __init__(self) -> None:
        self.streams: dict[str, dict[str, int]] = {}
        self.newest = 0.0

    def handle(self, batch: Batch) -> None:
        name = f"{batch.sender}/{batch.group}"
        state = self.streams.get(name)
        if state is None:
            state = self.streams[name] = {
                "first": int(batch.payloads[0][:12]), "next": int(batch.payloads[0][:12]),
                "count": 0, "faults": 0, "sequence": batch.first,
            }  # fmt: skip
        sequence = state["sequence"]
        if batch.first != sequence:
            state["faults"] += 1
        state["sequence"] = batch.first + len(batch)
        number = state["next"]
        for payload in batch.payloads:
            if int(payload[:12]) != number:
                state["faults"] += 1
                number = int(payload[:12])
            number += 1
        state["next"] = number
        state["count"] += len(batch)
        self.newest = time.monotonic()


class Pump(threading.Thread):
    """Sends numbered messages until told to stop."""

    def __init__(self, group: Any, size: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.group = group
        self.size = size
        self.rate = rate
        self.sent = 0
        self.stalls: list[float] = []
        self.stopping = False
        self.error = ""

    def run(self) -> None:
        tail = b"." * max(0, self.size - 12)
        began = time.monotonic()
        try:
            while not self.stopping:
                before = time.monotonic()
                self.group.send(b"%012d" % self.sent + tail)
                self.sent += 1
                waited = time.monotonic() - before
                if waited > 0.25:
                    self.stalls.append(round(waited, 2))
                if self.rate:
                    ahead = self.sent / self.rate - (time.monotonic() - began)
                    if ahead > 0.001:
                        time.sleep(ahead)
        except QuicksilverError as error:
            self.error = repr(error)


def main() -> None:
    settings = json.loads(sys.argv[1])
    options: dict[str, Any] = {
        "name": settings.get("name", ""),
        "interface": settings.get("interface", "lo"),
        # What may be lost is a matter of the reports, and no reason to stop sending.
        "on_unconfirmed": lambda _: None,
    }
    if settings.get("faults"):
        options["faults"] = parse_faults(settings["faults"])
    log = Log()
    pumps: list[Pump] = []
    groups: dict[str, Any] = {}
    with sync.connect(settings["gms"], **options) as node:
        say(ready=True, node=node.id)
        for line in sys.stdin:
            order = json.loads(line)
            match order["do"]:
                case "join":
                    joined = node.join_all(order["groups"])
                    for group in joined:
                        group.on_batch(log.handle)
                        groups[group.name] = group
                    say(joined=order["groups"])
                case "leave":
                    node.leave(*[groups.pop(name) for name in order["groups"]])
                    say(left=order["groups"])
                case "send":
                    group = node.open(order["group"])
                    pump = Pump(group, order.get("size", 1000), order.get("rate", 0))
                    pumps.append(pump)
                    pump.start()
                    say(sending=order["group"])
                case "stop":
                    for pump in pumps:
                        pump.stopping = True
                    for pump in pumps:
                        pump.join(timeout=30)
                    node.flush(timeout=order.get("timeout_s", 30))
                    say(
                        sent={pump.group.name: pump.sent for pump in pumps},
                        stalls=[s for pump in pumps for s in pump.stalls],
                        errors=[pump.error for pump in pumps if pump.error],
                        node=node.id,
                    )
                case "report":
                    say(
                        streams=log.streams,
                        node=node.id,
                        exclusions=node.exclusions,
                        members={
                            name: len(group.view.members) if group.view else 0
                            for name, group in groups.items()
                        },
                        stats=node.stats().counters,
                    )
                case "exit":
                    break
    say(closed=True)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
