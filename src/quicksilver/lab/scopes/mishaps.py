"""What can happen to a campus while messages travel through it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from quicksilver.lab.processes import Child
from quicksilver.lab.scopes.networks import Campus, Member
from quicksilver.stdx.units import parse_seconds

AWAY_S = 5.0
"""How long a process stands still, a network is cut off or a manager is away."""

_GARBAGE = """
import os, socket, sys
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    for size in (1, 7, 64, 1500, 60000):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(os.urandom(size), (host, int(port)))
        try:
            with socket.create_connection((host, int(port)), 2) as s:
                s.sendall(os.urandom(size))
                s.sendall((4).to_bytes(4, "little") + os.urandom(4))
        except OSError:
            pass
"""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Mishap:
    """Something that goes wrong, and for how long if it does not stay so."""

    name: str
    away_s: float = AWAY_S


@dataclass(slots=True)
class Victims:
    """Members that may be harmed: none of them publishes."""

    node: Member
    """An ordinary node of the network that has a GMS."""
    host: Member
    """It hosts its network's agent among the networks."""
    entry: Member
    """Messages of other networks come in at it."""


def choose_victims(campus: Campus) -> Victims:
    """Return whom mishaps may befall, as the managers see their networks now."""
    of = [[m for m in campus.members if m.network == n] for n in range(len(campus.networks))]
    host = campus.find_host(2) or of[2][-1]
    entries = campus.find_entries(1)
    entry = next(iter(entries.values()), of[1][-1])
    return Victims(of[0][-1], host, entry)


@dataclass(slots=True)
class Mishaps:
    """Does harm, says so, and remembers what was done."""

    campus: Campus
    victims: Victims
    tell: Tell
    done: list[str] = field(default_factory=list)
    away_s: float = AWAY_S

    def perform(self, mishap: Mishap) -> None:
        """Do harm; return when what goes away is back."""
        self.away_s = mishap.away_s
        MISHAPS[mishap.name](self)

    def _say(self, text: str) -> None:
        self.done.append(text)
        self.tell(text)

    def kill_node(self) -> None:
        self._kill(self.victims.node, "an ordinary node of lan1")

    def kill_host(self) -> None:
        self._kill(self.victims.host, "which hosts the agent of its network")

    def kill_entry(self) -> None:
        self._kill(self.victims.entry, "at which messages of other networks come in")

    def _kill(self, member: Member, what: str) -> None:
        if member.is_alive:
            member.kill()
            self._say(f"{member.name}, {what}, is killed")

    def _gateway(self) -> Child:
        """Return the gateway that hosts the agents of its network."""
        leader = self.campus.find_leader(0)
        living = [child for child in self.campus.gateways.values() if child.exit_code is None]
        return next((child for child in living if child.name == leader), living[0])

    def kill_gateway(self) -> None:
        gateway = self._gateway()
        gateway.kill()
        self._say(f"{gateway.name}, the gateway that hosts the agents of lan1, is killed")

    def kill_manager_1(self) -> None:
        self._restart(0)

    def kill_manager_2(self) -> None:
        self._restart(1)

    def kill_manager_3(self) -> None:
        self._restart(2)

    def kill_root(self) -> None:
        self._restart(None)

    def _restart(self, number: int | None) -> None:
        campus = self.campus
        name = "campus" if number is None else campus.networks[number].name
        campus.managers[name].kill()
        self._say(f"the manager of {name} is killed")
        time.sleep(self.away_s)
        if number is None:
            campus.start_root()
        else:
            campus.start_manager(number)
        self._say(f"the manager of {name} is started again, from its file")

    def freeze_gateway(self) -> None:
        self._freeze(self._gateway())

    def freeze_entry(self) -> None:
        if self.victims.entry.is_alive:
            self._freeze(self.victims.entry.child)

    def freeze_manager(self) -> None:
        self._freeze(self.campus.managers[self.campus.networks[1].name])

    def _freeze(self, child: Child) -> None:
        child.send_signal(signal.SIGSTOP)
        self._say(f"{child.name} stands still for {self.away_s:g} s")
        time.sleep(self.away_s)
        child.send_signal(signal.SIGCONT)

    def cut_uplink(self) -> None:
        self.campus.lans.set_uplink(2, up=False)
        self._say(f"lan3 is cut off from the others for {self.away_s:g} s")
        time.sleep(self.away_s)
        self.campus.lans.set_uplink(2, up=True)

    def throw_garbage(self) -> None:
        """Send bytes that mean nothing to managers and nodes."""
        campus, count = self.campus, 0
        for number in range(len(campus.networks)):
            places = campus.ports(number)
            count += len(places)
            command = [*campus.manager_place(number).prefix(), sys.executable, "-c", _GARBAGE]
            subprocess.run([*command, *places], check=True, timeout=60)
        self._say(f"garbage is sent to {count} ports of managers and nodes")


MISHAPS: dict[str, Callable[[Mishaps], None]] = {
    "node": Mishaps.kill_node,
    "gateway": Mishaps.kill_gateway,
    "host": Mishaps.kill_host,
    "manager": Mishaps.kill_manager_2,
    "manager1": Mishaps.kill_manager_1,
    "manager3": Mishaps.kill_manager_3,
    "entry": Mishaps.kill_entry,
    "root": Mishaps.kill_root,
    "freeze-gateway": Mishaps.freeze_gateway,
    "freeze-entry": Mishaps.freeze_entry,
    "freeze-manager": Mishaps.freeze_manager,
    "cut": Mishaps.cut_uplink,
    "garbage": Mishaps.throw_garbage,
}
"""Mishaps by the names that users write."""


def parse_mishaps(text: str) -> tuple[Mishap, ...]:
    """Return mishaps as in ``node,freeze-entry:20s``; raises ValueError with what is wrong."""
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, colon, seconds = part.partition(":")
        if name not in MISHAPS:
            raise ValueError(f"there is no mishap {name!r}; there are {', '.join(MISHAPS)}")
        found.append(Mishap(name, parse_seconds(seconds) if colon else AWAY_S))
    return tuple(found)
