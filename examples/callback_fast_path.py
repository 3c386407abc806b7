"""The fastest way to receive: a callback on the core thread, a batch at a time.

No message object is made and no thread is switched. The callback must be short:
the node's own protocol waits for it.
"""

import sys
import threading

from quicksilver import Batch, sync

MESSAGES = 20_000
received: list[int] = []
done = threading.Event()


def count(batch: Batch) -> None:
    """Handle consecutive messages of one sender."""
    received.append(len(batch.payloads))
    if sum(received) == MESSAGES:
        done.set()


with sync.connect(sys.argv[1]) as receiver, sync.connect(sys.argv[1]) as sender:
    receiver.join("ticks").on_batch(count)
    ticks = sender.open("ticks")
    for _ in range(MESSAGES):
        ticks.send(b"tick")
    done.wait(timeout=20)
    print(f"received {sum(received)} of {MESSAGES}")
