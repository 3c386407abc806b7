"""Messages per second through one channel, on one core and without sockets.

From ``publish`` over encoded and parsed frames to what an application is given, first between
two forwarders, then between two whole nodes: ``python bench/scopes_packets.py [--profile]``.
Seconds are those of the processor, whatever else the machine does.
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
from quicksilver.scopes.node import ScopeNode
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
    start = time.process_time()
    published = delivered = 0
    while True:
        elapsed = time.process_time() - start
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
                delivered += len(delivery.split())
    assert published - delivered <= 50, "the first packet waits for the channel to open"
    return delivered / elapsed


def measure_nodes(size: int, per_call: int, seconds: float) -> float:
    """Return messages per second between two nodes; their managers know the channel."""
    one, two = (
        ScopeNode(name=name, address=name, owners=("lan",), life=1, now=0.0, scope="lan")
        for name in ("a", "b")
    )
    two.want("lan/topic", publishes=False, subscribes=True, now=0.0)
    one.manager._events.append(SourceOpened(CHANNEL, (ALL,), WHERE))
    two.manager._events.append(TargetOpened(CHANNEL))
    for node in (one, two):
        node.handle_timeout(0.0)
    one.poll_transmit()
    one.handle_dialled(WHERE.address, 1, 0.0)
    two.handle_accepted(1, 0.0)
    messages = [b"x" * size] * per_call
    start = time.process_time()
    delivered = 0
    while (elapsed := time.process_time() - start) < seconds:
        for _ in range(20):
            for _ in range(50 // per_call):
                one.publish("lan/topic", messages, None, elapsed)
            while (out := one.poll_transmit()) is not None:
                one.handle_sent(1, len(out[1]), elapsed)
                two.handle_frame(1, out[1], elapsed)
                while (answer := two.poll_transmit()) is not None:
                    two.handle_sent(1, len(answer[1]), elapsed)
                    one.handle_frame(1, answer[1], elapsed)
                while (delivery := two.poll_delivery()) is not None:
                    assert isinstance(delivery, Packet)
                    delivered += len(delivery.split())
    return delivered / elapsed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(measure_nodes, 100, 50, options.seconds)
        profile.print_stats("tottime")
        return
    for size in (100, 1000):
        for per_call in (50, 1):
            rate = measure(size, per_call, options.seconds)
            whole = measure_nodes(size, per_call, options.seconds)
            print(
                f"{size:5} bytes, {per_call:2} a call: forwarders {rate:10,.0f} messages/s, "
                f"nodes {whole:10,.0f} messages/s"
            )


if __name__ == "__main__":
    main()
