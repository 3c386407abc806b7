"""ZeroMQ through pyzmq: PUB/SUB over TCP, one connection a receiver.

A PUB socket drops what a slow subscriber's queue cannot hold. XPUB_NODROP makes
``send`` wait instead, which is the lossless comparison; loss is still counted.
Processes: this module with ``send`` or ``receive`` as its argument.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec

from bench.peers.greeting import HELLO, greet_until_told, parse_end, send_for
from bench.peers.result import ROOT, PeerMissingError, PeerResult, parse_report, summarize
from quicksilver.lab.processes import Children

NAME = "pyzmq"
INSTALL = "pip install pyzmq"

_QUEUED_MESSAGES_MAX = 10_000
_SILENCE_MS_MAX = 10_000


def run(receivers: int, size: int, seconds: float) -> PeerResult:
    if find_spec("zmq") is None:
        raise PeerMissingError("pyzmq is not installed")
    import zmq

    with Children() as children:
        sender = children.start_python(
            "zeromq sender", __name__, "send", str(size), str(seconds), folder=ROOT
        )
        endpoint = sender.expect_line("endpoint", 10).split()[1]
        subs = [
            children.start_python(
                "zeromq receiver", __name__, "receive", endpoint, str(size), folder=ROOT
            )
            for _ in range(receivers)
        ]
        for sub in subs:
            sub.expect_line("ready", 10)
        sender.tell_line("go")
        reports = [parse_report(sub.expect_line("report", seconds + 30)) for sub in subs]
    rate, lost = summarize(reports)
    return PeerResult(
        name=NAME,
        version=f"{zmq.__version__} (libzmq {zmq.zmq_version()})",
        messages_per_second=rate,
        lost=lost,
        note="C++ below Python; TCP, XPUB_NODROP, one send a message",
    )


def _send(size: int, seconds: float) -> None:
    import zmq

    socket = zmq.Context().socket(zmq.PUB)
    socket.setsockopt(zmq.SNDHWM, _QUEUED_MESSAGES_MAX)
    socket.setsockopt(zmq.XPUB_NODROP, 1)
    socket.setsockopt(zmq.SNDTIMEO, _SILENCE_MS_MAX)
    socket.setsockopt(zmq.LINGER, _SILENCE_MS_MAX)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    print(f"endpoint tcp://127.0.0.1:{port}", flush=True)
    greet_until_told(socket.send)
    send_for(seconds, size, socket.send)


def _receive(endpoint: str, size: int) -> None:
    import zmq

    socket = zmq.Context().socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, _QUEUED_MESSAGES_MAX)
    socket.setsockopt(zmq.RCVTIMEO, _SILENCE_MS_MAX)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(endpoint)
    receive = socket.recv
    while receive() != HELLO:
        pass
    print("ready", flush=True)
    while len(receive()) != size:
        pass
    start = time.monotonic()
    received = 1
    while len(data := receive()) == size:
        received += 1
    elapsed_s = time.monotonic() - start
    print("report", received, parse_end(data), elapsed_s, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        _send(int(sys.argv[2]), float(sys.argv[3]))
    else:
        _receive(sys.argv[2], int(sys.argv[3]))
