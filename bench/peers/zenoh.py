"""Zenoh through its Python binding: peers over TCP, the sender listening.

Reliable, ``CongestionControl.BLOCK`` so that nothing is dropped, not express, so
that Zenoh batches. Discovery by multicast is off: receivers connect to the
sender. Processes: this module with ``send`` or ``receive`` as its argument.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from bench.peers.greeting import HELLO, greet_until_told, parse_end, send_for
from bench.peers.result import ROOT, PeerMissingError, PeerResult, parse_report, summarize
from quicksilver.lab.processes import Children

NAME = "zenoh-python"
INSTALL = "pip install eclipse-zenoh"

_KEY = "bench/peers"
_WAIT_S_MAX = 30.0


def run(receivers: int, size: int, seconds: float) -> PeerResult:
    if find_spec("zenoh") is None:
        raise PeerMissingError("eclipse-zenoh is not installed")
    with Children() as children:
        sender = children.start_python(
            "zenoh sender", __name__, "send", str(size), str(seconds), folder=ROOT
        )
        endpoint = sender.expect_line("endpoint", 10).split()[1]
        subs = [
            children.start_python(
                "zenoh receiver",
                __name__,
                "receive",
                endpoint,
                str(size),
                str(seconds),
                folder=ROOT,
            )
            for _ in range(receivers)
        ]
        for sub in subs:
            sub.expect_line("ready", 15)
        sender.tell_line("go")
        reports = [parse_report(sub.expect_line("report", seconds + _WAIT_S_MAX)) for sub in subs]
    rate, lost = summarize(reports)
    return PeerResult(
        name=NAME,
        version=version("eclipse-zenoh"),
        messages_per_second=rate,
        lost=lost,
        note="Rust below Python; TCP, reliable, BLOCK, batched",
    )


def _open(role: str, endpoint: str) -> Any:
    import zenoh

    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("scouting/gossip/enabled", "false")
    config.insert_json5("listen/endpoints", json.dumps([endpoint] if role == "send" else []))
    config.insert_json5("connect/endpoints", json.dumps([endpoint] if role == "receive" else []))
    return zenoh.open(config)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _send(size: int, seconds: float) -> None:
    import zenoh

    endpoint = f"tcp/127.0.0.1:{_free_port()}"
    session = _open("send", endpoint)
    publisher = session.declare_publisher(
        _KEY,
        congestion_control=zenoh.CongestionControl.BLOCK,
        reliability=zenoh.Reliability.RELIABLE,
        express=False,
    )
    print(f"endpoint {endpoint}", flush=True)
    greet_until_told(publisher.put)
    send_for(seconds, size, publisher.put)


class _Counter:
    """Receives on Zenoh's thread, one callback a message, the payload as bytes."""

    def __init__(self, size: int) -> None:
        self.is_greeted = threading.Event()
        self.is_done = threading.Event()
        self.received = 0
        self.sent = 0
        self.start_s = 0.0
        self.stop_s = 0.0
        self._size = size

    def on_sample(self, sample: Any) -> None:
        data = bytes(sample.payload)
        if len(data) == self._size:
            if self.received == 0:
                self.start_s = time.monotonic()
            self.received += 1
        elif data == HELLO:
            self.is_greeted.set()
        else:
            self.stop_s = time.monotonic()
            self.sent = parse_end(data)
            self.is_done.set()


def _receive(endpoint: str, size: int, seconds: float) -> None:
    counter = _Counter(size)
    session = _open("receive", endpoint)
    subscriber = session.declare_subscriber(_KEY, counter.on_sample)
    if not counter.is_greeted.wait(_WAIT_S_MAX):
        sys.exit("heard nothing from the sender")
    print("ready", flush=True)
    if not counter.is_done.wait(seconds + _WAIT_S_MAX):
        sys.exit("the end never came")
    print("report", counter.received, counter.sent, counter.stop_s - counter.start_s, flush=True)
    subscriber.undeclare()
    session.close()


if __name__ == "__main__":
    if sys.argv[1] == "send":
        _send(int(sys.argv[2]), float(sys.argv[3]))
    else:
        _receive(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
