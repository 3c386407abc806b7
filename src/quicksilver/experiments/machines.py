"""Named machines to simulate, and machines from a calibration's file.

``here`` is a cluster of machines like the one that ``quicksilver experiment
calibrate`` measured: its processor costs with a card of 10 Gbit/s. ``gigabit`` is
the same with the card that limits instead of the processor. ``papers`` is fitted
to the cluster of the dissertation: 1.3 GHz Pentium III, 100 Mbit/s, 110 µs a
message at the sender when saturated, and 0.3 % more for each megabyte held
(equations 4.6 to 4.10).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from quicksilver.experiments.base import ExperimentError
from quicksilver.multicast.config import EngineConfig
from quicksilver.sim.model import CpuModel, HostModel, LinkModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A kind of machine, its link, and the packets that its interface carries."""

    host: HostModel = field(default_factory=HostModel)
    link: LinkModel = field(default_factory=LinkModel)
    packet_bytes: int = 60_000
    receive_buffer_bytes: int = 16 << 20
    """What the kernel grants a node for multicast; senders keep less in flight."""

    local_copy_s: float = 4e-6
    """What each further receiver on the sender's own machine costs the sender's kernel."""

    def config(self) -> EngineConfig:
        return EngineConfig(
            packet_bytes=self.packet_bytes, receive_buffer_bytes=self.receive_buffer_bytes
        )

    def model(self) -> HostModel:
        return replace(
            self.host,
            multicast_buffer_bytes=self.receive_buffer_bytes,
            unicast_buffer_bytes=self.receive_buffer_bytes,
        )


PAPERS_CPU = CpuModel(
    turn_s=5e-6,
    receive_packet_s=40e-6,
    receive_byte_s=5e-9,
    deliver_message_s=10e-6,
    send_packet_s=75e-6,
    send_byte_s=5e-9,
    send_message_s=25e-6,
    token_s=300e-6,
    gc_per_mb=0.003,
)
"""A message alone in its packet: about 110 µs at the sender, as equation 4.10 has
it, and half of that at a receiver, as Figure 4.19 shows (50 % busy)."""

MACHINES: dict[str, Machine] = {
    "here": Machine(),
    "gigabit": Machine(host=HostModel(nic_bytes_per_s=125e6)),
    "papers": Machine(
        host=HostModel(
            cpu=PAPERS_CPU,
            nic_bytes_per_s=12.5e6,
            send_queue_bytes=64 << 10,
            port_buffer_bytes=256 << 10,
        ),
        link=LinkModel(latency_s=100e-6),
        packet_bytes=1_100,
        receive_buffer_bytes=4 << 20,
    ),
}


def find_machine(name: str, model: Path | None = None) -> Machine:
    """Return a machine by name, with the costs of a calibration if there is one."""
    machine = MACHINES.get(name)
    if machine is None:
        known = ", ".join(MACHINES)
        raise ExperimentError(f"machine {name[:40]!r} is unknown; known are {known}")
    if model is None:
        return machine
    measured = load_machine(model)
    host = replace(machine.host, cpu=measured.host.cpu)
    return replace(machine, host=host, link=measured.link)


def load_machine(path: Path) -> Machine:
    """Read what ``calibrate`` wrote."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Machine)
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise ExperimentError(
            f"{path}: {error}; write one with: quicksilver experiment calibrate"
        ) from None


def save_machine(path: Path, machine: Machine) -> None:
    """Write a machine so that ``load_machine`` reads it."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(machine), indent=2) + b"\n")
