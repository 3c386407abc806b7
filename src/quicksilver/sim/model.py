"""What a simulated machine is made of: processor, card, kernel buffers, link.

The defaults are a machine like the one that ``docs/experiments.md`` describes:
estimates from docs/performance.md, of which ``quicksilver experiment calibrate``
found whole packets (59 messages of 1000 bytes) to cost about the same on real
sockets, 58 against 60 µs to send and 37 against 40 to receive. ``IDEAL`` costs
nothing and loses nothing: for tests of the protocol alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuModel:
    """Processor time, in seconds, that a host's work takes.

    Every cost is multiplied by ``1 + gc_per_mb × megabytes of packets held``:
    the collector and the caches make work dearer the more memory is in use
    (dissertation 4.3.6, equation 4.7).
    """

    turn_s: float = 3e-6
    """One round of the core: polls, queues, the clock."""

    receive_packet_s: float = 8e-6
    """Reading one datagram from the kernel and handling its header."""

    receive_byte_s: float = 1.5e-10
    deliver_message_s: float = 4e-7
    """Cutting one message out and handing it to the application."""

    send_packet_s: float = 10e-6
    """Packing one datagram and the system call."""

    send_byte_s: float = 1.5e-10
    send_message_s: float = 7e-7
    """One ``send`` call and the message's share of packing."""

    token_s: float = 29e-6
    """What a token, an acknowledgement or another control packet costs more."""

    wake_s: float = 0.0
    """Going to sleep and waking up again: system calls, the scheduler, the first steps."""

    cold_s: float = 0.0
    """Filling caches again, for each other process that the machine has run meanwhile …"""

    cold_s_max: float = 0.0
    """… up to this: nothing of the process was left. Work that touches little pays little:
    at most, it takes twice as long."""

    gc_per_mb: float = 0.0
    """Part of the cost that every megabyte of packets held adds."""

    def slowed(self, factor: float) -> CpuModel:
        """Return a processor that takes ``factor`` times as long for everything."""
        return CpuModel(
            turn_s=self.turn_s * factor,
            receive_packet_s=self.receive_packet_s * factor,
            receive_byte_s=self.receive_byte_s * factor,
            deliver_message_s=self.deliver_message_s * factor,
            send_packet_s=self.send_packet_s * factor,
            send_byte_s=self.send_byte_s * factor,
            send_message_s=self.send_message_s * factor,
            token_s=self.token_s * factor,
            wake_s=self.wake_s * factor,
            cold_s=self.cold_s * factor,
            cold_s_max=self.cold_s_max * factor,
            gc_per_mb=self.gc_per_mb,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostModel:
    """One machine."""

    cpu: CpuModel = CpuModel()

    nic_bytes_per_s: float = 1.25e9
    """Rate of its card, each way; 0: no limit."""

    send_queue_bytes: int = 1 << 20
    """What may wait at the card; a full queue makes the socket unwritable."""

    port_buffer_bytes: int = 2 << 20
    """What the switch holds for it; more is lost."""

    unicast_buffer_bytes: int = 1 << 20
    multicast_buffer_bytes: int = 1 << 20
    """What the kernel holds until the process reads; more is lost and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkModel:
    """The wire between any two machines."""

    latency_s: float = 50e-6
    jitter_s: float = 0.0
    """Up to this much more, evenly spread, datagram by datagram: they overtake."""


IDEAL = HostModel(
    cpu=CpuModel(
        turn_s=0.0,
        receive_packet_s=0.0,
        receive_byte_s=0.0,
        deliver_message_s=0.0,
        send_packet_s=0.0,
        send_byte_s=0.0,
        send_message_s=0.0,
        token_s=0.0,
    ),
    nic_bytes_per_s=0.0,
    send_queue_bytes=1 << 40,
    port_buffer_bytes=1 << 40,
    unicast_buffer_bytes=1 << 40,
    multicast_buffer_bytes=1 << 40,
)
"""A machine without limits."""
