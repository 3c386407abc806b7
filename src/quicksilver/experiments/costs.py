"""Costs of this machine that show only when processes share it, each measured alone.

*Copies*: what a multicast datagram costs the sender's kernel for each further local
receiver. *Cold caches*: processes in a ring on one core do the engine's work in turn,
ten times each; the first times take longer than the last ones, by more the more
others ran in between.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median

from quicksilver.multicast.config import EngineConfig
from quicksilver.sim.model import IDEAL
from quicksilver.trials.cluster import Cluster

RECEIVERS = (1, 4, 8, 12)
RINGS = (1, 2, 4, 8, 12)
FEW = 3
"""So many others have not yet emptied the caches."""
WORKS = 10
"""Times that a process of a ring does its work before it is the next one's turn."""
FIRST_ROUNDS = 10
"""Not counted: the interpreter is still warming up."""

_GROUP, _PORT = "239.255.77.77", 45_077


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return how much y grows with x, by least squares; never less than nothing."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    below = sum((x - mean_x) ** 2 for x, _ in points)
    return max(0.0, above / below) if below else 0.0


def measure_copies(*, size: int = 60_000, rounds: int = 30) -> float:
    """Return microseconds that one more local receiver costs whoever sends."""
    return slope([(k, _time_sending(k, size, rounds)) for k in RECEIVERS])


def _time_sending(receivers: int, size: int, rounds: int) -> float:
    listeners = [_listen() for _ in range(receivers)]
    # What is dropped for want of room would cost less.
    datagrams = max(1, listeners[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // (2 * size))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    payload, room = bytes(size), bytearray(size)
    found = []
    try:
        for _ in range(rounds):
            started = time.perf_counter()
            for _ in range(datagrams):
                sender.sendto(payload, (_GROUP, _PORT))
            found.append(1e6 * (time.perf_counter() - started) / datagrams)
            for listener in listeners:
                _drain(listener, room)
    finally:
        for each in (sender, *listeners):
            each.close()
    return median(found)


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
    listener.bind((_GROUP, _PORT))
    member = socket.inet_aton(_GROUP) + socket.inet_aton("127.0.0.1")
    listener.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    listener.setblocking(False)
    return listener


def _drain(listener: socket.socket, room: bytearray) -> None:
    while True:
        try:
            listener.recv_into(room)
        except BlockingIOError:
            return


def measure_cold(*, rounds: int = 60) -> list[tuple[int, float]]:
    """Return how many microseconds cold caches cost after so many others, by their number."""
    return [(size - 1, _time_ring(size, rounds)) for size in RINGS]


def fit_cold(found: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return what each of a few others costs, and what many cost together."""
    alone = min(found)[1]
    few = slope([(others, cost) for others, cost in found if others <= FEW])
    many = [cost - alone for others, cost in found if others > FEW]
    return few, max(0.0, median(many)) if many else 0.0


def _time_ring(size: int, rounds: int) -> float:
    """Return what coming back to a core costs, with so many processes in turn on it."""
    context = get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(size)]
    answers = [context.Pipe(duplex=False) for _ in range(size)]
    core = min(os.sched_getaffinity(0))
    processes = [
        context.Process(
            target=_take_turns,
            args=(pipes[at][0], pipes[(at + 1) % size][1], answers[at][1], core, rounds),
            daemon=True,
        )
        for at in range(size)
    ]
    for process in processes:
        process.start()
    pipes[0][1].send_bytes(b"go")
    works: list[list[float]] = [answer.recv() for answer, _ in answers]
    for process in processes:
        process.join()
    return median(
        sum(each - warm for each in some[: WORKS // 2])
        for some, warm in ((some, median(some[WORKS // 2 :])) for some in works)
    )


def _take_turns(
    before: Connection, after: Connection, answer: Connection, core: int, rounds: int
) -> None:
    """One process of a ring: wait, work, hand on."""
    os.sched_setaffinity(0, {core})
    cluster = Cluster(seed=1, config=EngineConfig(packet_bytes=60_000), model=IDEAL)
    sender, *members = cluster.start(3)
    for node in members:
        node.join("g")
    sender.open("g")
    cluster.settle()
    payload, clock = bytes(1000), time.perf_counter
    found: list[list[float]] = [[] for _ in range(WORKS)]
    for place in range(rounds + FIRST_ROUNDS):
        before.recv_bytes()
        for work in found:
            started = clock()
            sender.send("g", *([payload] * 59))
            cluster.run(0.001)
            if place >= FIRST_ROUNDS:
                work.append(1e6 * (clock() - started))
        after.send_bytes(b"go")
    answer.send([median(work) for work in found])
