"""Measuring what work costs here, and making a simulated machine of it.

Whole processes: runs with different shapes of packets (59 messages in 60 KB, one
message in 60 KB, one message in 1 KB) give, by solving three equations, the
processor time for a packet, a byte and a message at sender and receiver, with all
that surrounds them: threads, system calls, the interpreter. At light load every
message wakes its receiver; what that takes beyond the work on a packet is the cost
of sleeping and waking. Parts alone: the engine in this process, without sockets, for
a data packet and for a token; and what sharing a machine costs (``costs``). What a
hop of a token takes at light load, beyond all this, is latency. Those two, waking and
latency, are what is left over, so they are set by simulating that same run of two
receivers until it uses as much processor time and its token takes as long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from quicksilver.core.ports import Transmit
from quicksilver.experiments.base import Context, Metrics
from quicksilver.experiments.costs import fit_cold, measure_cold, measure_copies
from quicksilver.experiments.machines import MACHINES, Machine
from quicksilver.experiments.real import RealRun, run_real
from quicksilver.experiments.scenario import Scenario, run_scenario
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.session import Session
from quicksilver.sim.model import IDEAL, CpuModel, HostModel, LinkModel
from quicksilver.trials.cluster import Cluster
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import KIND_TOKEN

HEADER_BYTES = 60
LIGHT_RATE = 1000.0
FITS = 4
SHAPES = ((1000, 0), (58_000, 0), (1000, 1_100))
"""Size of messages and of packets; 0: what loopback carries."""


def calibrate(*, seconds: float, rounds: int, context: Context) -> Metrics:
    """Measure; returns costs with units in their names."""
    quiet = Context(seed=context.seed)
    plans = [_plan(size, packet_bytes, seconds) for size, packet_bytes in SHAPES]
    plans.append(RealRun(nodes=2, rate=LIGHT_RATE, seconds=seconds))
    # All kinds of runs in turn: a machine that is slow for a while is so for all of them.
    *runs, light = zip(*([run_real(p, quiet) for p in plans] for _ in range(rounds)), strict=True)
    waking_us = median(run["receiver_cpu_us_per_message"] for run in light)
    small_us = median(run["receiver_cpu_us_per_message"] for run in runs[2])
    wake_us = max(0.0, waking_us - small_us)
    shapes = [_shape(*given, some, wake_us) for given, some in zip(SHAPES, runs, strict=True)]
    send = _solve([(m, b, s) for m, b, s, _ in shapes])
    receive = _solve([(m, b, r) for m, b, _, r in shapes])
    rings = measure_cold()
    cold_us, cold_us_max = fit_cold(rings)
    engine = _measure_engine()
    hop_us = 1e3 * median(run["token_rtt_ms"] for run in light) / 2
    metrics = {
        "send_message_us": send[2],
        "send_packet_us": send[0],
        "send_byte_ns": 1e3 * send[1],
        "send_copy_us": measure_copies(),
        "deliver_message_us": receive[2],
        "receive_packet_us": receive[0],
        "receive_byte_ns": 1e3 * receive[1],
        "token_us": engine["engine_token_us"],
        "wake_us": 0.0,
        "latency_us": hop_us / 2,
        "cold_us": cold_us,
        "cold_us_max": cold_us_max,
        "cold_us_by_others": rings,
        "light_token_hop_us": hop_us,
        "light_receiver_us": waking_us,
        "light_message_us": 1e3 * median(run["latency_ms_p50"] for run in light),
        "sender_packet_59_us": shapes[0][2],
        "receiver_packet_59_us": shapes[0][3],
        "sender_packet_1_us": shapes[2][2],
        "receiver_packet_1_us": shapes[2][3],
        **engine,
    }
    return _fit_light(metrics, context)


def _plan(size: int, packet_bytes: int, seconds: float) -> RealRun:
    settings = {"packet_bytes": packet_bytes} if packet_bytes else {}
    return RealRun(nodes=1, size=size, seconds=seconds, sender=settings, receiver=settings)


def _shape(
    size: int, packet_bytes: int, runs: Sequence[Metrics], wake_us: float
) -> tuple[int, int, float, float]:
    """Return a packet's messages, its bytes, and what it costs a sender and a receiver.

    A receiver that is faster than the sender sleeps now and then; what waking costs is
    modelled by itself and does not belong to the packets.
    """
    messages = (packet_bytes or 60_000) // size if size < 58_000 else 1
    sent_us = median(run["sender_cpu_us_per_message"] for run in runs)
    got_us = median(
        max(
            run["receiver_cpu_us_per_message"] / 2,
            run["receiver_cpu_us_per_message"] - run["receiver_switches_per_message"] * wake_us,
        )
        for run in runs
    )
    return messages, messages * size + HEADER_BYTES, sent_us * messages, got_us * messages


def _fit_light(metrics: Metrics, context: Context) -> Metrics:
    """Set waking and latency so that two simulated receivers behave as the real ones."""
    for _ in range(FITS):
        scenario = Scenario(
            machine=local_machine(machine_from(metrics), 2),
            nodes=2,
            rate=LIGHT_RATE,
            seconds=2.0,
            cores=os.cpu_count() or 1,
        )
        found = run_scenario(scenario, Context(seed=context.seed))
        used_us = 1e4 * found["receiver_cpu_percent"] / LIGHT_RATE
        hop_us = 1e3 * found["token_rtt_ms"] / 2
        wake_us = max(0.0, metrics["wake_us"] + metrics["light_receiver_us"] - used_us)
        # A longer way to wake up is part of the hop.
        excess_us = hop_us - metrics["light_token_hop_us"] + wake_us - metrics["wake_us"]
        latency_us = max(1.0, metrics["latency_us"] - excess_us)
        metrics = metrics | {"wake_us": wake_us, "latency_us": latency_us}
    return metrics


def _solve(shapes: list[tuple[int, int, float]]) -> tuple[float, float, float]:
    """Return the cost of a packet, a byte and a message; none below zero.

    Three shapes: many messages in a large packet, one in a large packet, one in a
    small packet. The second and third differ in bytes alone, the first and second
    in messages alone.
    """
    (many, _, a), (_, large, b), (_, small, c) = shapes
    byte = max(0.0, (b - c) / (large - small))
    message = max(0.0, (a - b) / (many - 1))
    packet = max(0.0, c - small * byte - message)
    return packet, byte, message


def _measure_engine() -> Metrics:
    """Time the engine's own work in this process, in a simulated ring of five."""
    spent = {"data": [0, 0.0], "token": [0, 0.0]}
    clock = time.perf_counter
    cluster = Cluster(seed=1, config=EngineConfig(packet_bytes=60_000), model=IDEAL)
    sender, *members = cluster.start(6)
    for node in members:
        node.join("g")
        _time_session(node.session, spent, clock)
    sender.open("g")
    cluster.settle()
    payload = bytes(1000)
    for _ in range(400):
        sender.send("g", *([payload] * 59))
        cluster.run(0.005)
    return {
        "engine_receive_packet_us": 1e6 * spent["data"][1] / max(1, spent["data"][0]),
        "engine_token_us": 1e6 * spent["token"][1] / max(1, spent["token"][0]),
    }


def _time_session(
    session: Session, spent: dict[str, list[float]], clock: Callable[[], float]
) -> None:
    """Let a session count what its datagrams and its tokens take."""
    handle = session.handle_datagram
    poll = session.poll_transmit

    def timed_handle(data: bytes, source: Address, now: float) -> None:
        started = clock()
        handle(data, source, now)
        found = spent["token" if data[1] == KIND_TOKEN else "data"]
        found[0] += 1
        found[1] += clock() - started

    def timed_poll(now: float) -> Transmit | None:
        started = clock()
        transmit = poll(now)
        if transmit is not None and transmit.packets[0][1] == KIND_TOKEN:
            spent["token"][1] += clock() - started
        return transmit

    session.handle_datagram = timed_handle
    session.poll_transmit = timed_poll


def machine_from(metrics: Metrics) -> Machine:
    """Return the machine that a calibration describes."""
    cpu = CpuModel(
        turn_s=3e-6,
        receive_packet_s=metrics["receive_packet_us"] / 1e6,
        receive_byte_s=metrics["receive_byte_ns"] / 1e9,
        deliver_message_s=metrics["deliver_message_us"] / 1e6,
        send_packet_s=metrics["send_packet_us"] / 1e6,
        send_byte_s=metrics["send_byte_ns"] / 1e9,
        send_message_s=metrics["send_message_us"] / 1e6,
        # Charged where a token arrives and where it leaves.
        token_s=metrics["token_us"] / 2e6,
        wake_s=metrics["wake_us"] / 1e6,
        cold_s=metrics["cold_us"] / 1e6,
        cold_s_max=metrics["cold_us_max"] / 1e6,
    )
    return Machine(
        host=HostModel(cpu=cpu),
        link=LinkModel(latency_s=metrics["latency_us"] / 1e6),
        local_copy_s=metrics["send_copy_us"] / 1e6,
    )


LOCAL_LATENCY_S = 120e-6
"""From a send to the reader's running, on loopback, when processors are idle."""


def local_machine(measured: Machine | None, receivers: int) -> Machine:
    """Return a process of this machine: no card in between, every receiver costs the sender."""
    base = measured or replace(MACHINES["here"], link=LinkModel(latency_s=LOCAL_LATENCY_S))
    cpu = replace(
        base.host.cpu,
        send_packet_s=base.host.cpu.send_packet_s + (receivers - 1) * base.local_copy_s,
    )
    host = replace(base.host, cpu=cpu, nic_bytes_per_s=0.0)
    return replace(base, host=host)
