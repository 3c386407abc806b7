"""Messages per second through one channel, on one core and without sockets.

From ``publish`` over encoded and parsed frames to what an application is given:
``python bench/scopes_packets.py [--profile]``.
"""

from __future__ import annotations

import argparse
import cProfile
import time

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import ChannelFrame, encode, parse_frame
from quicksilver.scopes.dissemination.packets import Packet
from quicksilver.scopes.management.events import SourceOpened, TargetOpened
from quicksilver.scopes.routing import Channel

CHANNEL = Channel("lan", ("a",), ("b",), "lan/topic", "a")
WHERE = Link("tcp", "127.0.0.1:1", "b")


def measure(size: int, per_call: int, seconds: float) -> float:
    """Return messages per second; ``per_call`` messages are published at a time."""
    one = Forwarder(scope="lan", node="a", life=1, copies_bytes_max=8 << 20)
    two = Forwarder(scope="lan", node="b", life=1, copies_bytes_max=8 << 20)
    one.handle_event(SourceOpened(CHANNEL, (ALL,), WHERE))
    two.handle_event(TargetOpened(CHANNEL))
    messages = [b"x" * size] * per_call
    start = time.perf_counter()
    published = delivered = 0
    while True:
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            break
        for _ in range(20):
            for _ in range(50 // per_call):
                one.publish("lan/topic", messages, None, elapsed)
            published += 50
            while (out := one.poll_transmit()) is not None:
                frame = parse_frame(encode(out[1]))
                assert isinstance(frame, ChannelFrame)
                two.handle_frame(1, frame, elapsed)
            while (answer := two.poll_answer()) is not None:
                one.handle_answer(WHERE, answer[1])
            while (delivery := two.poll_delivery()) is not None:
                assert isinstance(delivery, Packet)
                delivered += len(delivery.messages)
    assert published - delivered <= 50, "the first packet waits for the channel to open"
    return delivered / elapsed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(measure, 100, 50, options.seconds)
        profile.print_stats("tottime")
        return
    for size in (100, 1000):
        for per_call in (50, 1):
            rate = measure(size, per_call, options.seconds)
            print(f"{size:5} bytes, {per_call:2} a call: {rate:10,.0f} messages/s")


if __name__ == "__main__":
    main()
