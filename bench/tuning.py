"""What ``quicksilver.tune()`` is worth: the rate of one sender to one receiver, in turns.

    quicksilver gms --host 127.0.0.1 --port 7499 &
    python -m bench.tuning 127.0.0.1:7499

The sender holds 200,000 dictionaries, as applications hold data, and sends 100 bytes at a time
with the synchronous form; the receiver takes batches. Each turn runs both ways, each process anew.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import quicksilver
from quicksilver import sync

SECONDS = 4.0
TURNS = 4
GROUP = "bench.tuning"


def receive(gms: str) -> None:
    """Print messages per second, from the first to the last."""
    with sync.connect(gms) as node:
        group = node.join(GROUP)
        print("ready", flush=True)
        count = len(group.receive_batch(timeout=60))
        started = ended = time.monotonic()
        for batch in group.batches(timeout=3):
            count += len(batch)
            ended = time.monotonic()
        print(count / (ended - started), flush=True)


def send(gms: str) -> None:
    """Send as fast as it goes, with a heap of objects in the process."""
    with sync.connect(gms) as node:
        group = node.open(GROUP)
        held = [{"number": number, "values": [number]} for number in range(200_000)]
        payload = bytes(100)
        end = time.monotonic() + SECONDS
        while held and time.monotonic() < end:
            for _ in range(200):
                group.send(payload)


def measure(gms: str, *, is_tuned: bool) -> float:
    """Return messages per second of one run."""
    tuned = "tuned" if is_tuned else "default"
    program = [sys.executable, "-m", "bench.tuning", gms]
    with subprocess.Popen([*program, "receive", tuned], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        subprocess.run([*program, "send", tuned], check=True)
        return float(child.stdout.readline())


def main() -> None:
    """Be a child, or run all turns."""
    gms, *role = sys.argv[1:]
    if role:
        if role[1] == "tuned":
            quicksilver.tune()
        (receive if role[0] == "receive" else send)(gms)
        return
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TURNS):
        for is_tuned, found in rates.items():
            found.append(measure(gms, is_tuned=is_tuned))
    for is_tuned, found in rates.items():
        shown = ", ".join(f"{rate / 1e6:.2f}" for rate in found)
        name = "tuned  " if is_tuned else "default"
        print(f"{name} {shown}; median {statistics.median(found) / 1e6:.2f} million a second")


if __name__ == "__main__":
    main()
