"""A campus of three networks on one machine: their managers, gateways and members as processes.

The first network has a GMS, ordinary nodes and two gateways. The second has nodes of a scope that
use IP multicast. The third, behind NAT if the machine can do that, has nodes of a scope that hand
messages on along a tree of connections. Each has a recovery protocol of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from quicksilver.lab.lans import Lans, Place
from quicksilver.lab.processes import Child, ChildError, Children
from quicksilver.lab.scopes.members import Heard, Joined, Probe, TopicMember
from quicksilver.lab.worker import start_worker
from quicksilver.net.faults import parse_faults

TOPIC = "campus/news"
MULTICAST = "239.192.7.0/24:7400"

START_S = 90.0
"""How long a process may take to start: there are many, and they share few processors."""

AGAIN_S = 0.3
"""Between two questions to a manager that has nothing to tell yet."""

PROBE_S = 0.2


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """What a manager or a gateway says when it works."""

    address: str = ""


class Fact(msgspec.Struct, frozen=True):
    """A line of what ``scope explain --json`` says."""

    event: str
    scope: str = ""
    name: str = ""
    facts: dict[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """How one network works."""

    name: str
    policy: str
    recovery: str
    has_gms: bool = False
    gateways: int = 0
    is_behind_nat: bool = False

    @property
    def words(self) -> str:
        inside = "QSM" if self.has_gms else self.policy
        return f"{inside}, recovery {self.recovery}{', behind NAT' * self.is_behind_nat}"


def campus_networks(*, has_nat: bool) -> tuple[Network, ...]:
    """Return the three networks of the campus."""
    return (
        Network(name="campus/lan1", policy="star", recovery="ring", has_gms=True, gateways=2),
        Network(name="campus/lan2", policy="multicast", recovery="requests"),
        Network(name="campus/lan3", policy="tree:2", recovery="gossip:2", is_behind_nat=has_nat),
    )


@dataclass(slots=True)
class Member:
    """One subscriber, and where it is."""

    name: str
    network: int
    tag: int
    child: Child
    place: Place
    is_alive: bool = True

    def kill(self) -> None:
        self.is_alive = False
        self.child.kill()


@dataclass(slots=True)
class Campus:
    """All that runs; places: ``nodes`` of each network, then its manager, then its gateways."""

    children: Children
    lans: Lans
    networks: tuple[Network, ...]
    nodes: int
    """Members of each network."""
    folder: Path
    loss: str
    """The fraction of datagrams that each process loses; empty: none."""
    managers: dict[str, Child] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """Of managers."""
    gms: dict[int, str] = field(default_factory=dict)
    """Addresses of the networks' GMSs."""
    gateways: dict[str, Child] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)

    def start(self) -> None:
        """Start everything, and wait until every member has joined."""
        self.start_root()
        for number, network in enumerate(self.networks):
            self.start_manager(number)
            if network.has_gms:
                self._start_gms(number)
        self._start_members()

    def alive(self) -> list[Member]:
        return [member for member in self.members if member.is_alive]

    # Managers, the GMS and gateways

    def start_root(self) -> None:
        """Start the manager of the campus, or start it again where it was."""
        top = self.lans.lans[-1][0]
        self._start_manager("campus", top, ("--policy", "star", "--recovery", "star"))

    def _manager_of(self, number: int) -> str:
        return self.addresses[self.networks[number].name]

    def start_manager(self, number: int) -> None:
        """Start the manager of a network, or start it again where it was."""
        network = self.networks[number]
        options = ["--owner", self.addresses["campus"]]
        options += ["--policy", network.policy, "--recovery", network.recovery]
        if network.policy == "multicast":
            options += ["--multicast", MULTICAST]
        if network.is_behind_nat:
            options.append("--behind-nat")
        self._start_manager(network.name, self.manager_place(number), tuple(options))

    def manager_place(self, number: int) -> Place:
        return self.lans.lans[number][self.nodes]

    def _start_manager(self, name: str, place: Place, options: tuple[str, ...]) -> None:
        listen = self.addresses.get(name, f"{place.address}:7501")
        state = self.folder / f"{name.replace('/', '.')}.db"
        arguments = ("scope", "run", "--name", name, "--listen", listen, "--state", str(state))
        child = self._start_command(f"manager of {name}", place, (*arguments, *options))
        self.addresses[name] = child.expect(Ready, START_S).address
        self.managers[name] = child

    def _start_gms(self, number: int) -> None:
        place = self.manager_place(number)
        gms = self.children.start_gms(host=place.address, prefix=place.prefix())
        self.gms[number] = gms
        manager = self._manager_of(number)
        started = []
        for each, at in enumerate(self.lans.lans[number][self.nodes + 1 :], 1):
            arguments = (
                "scope",
                "gateway",
                "--gms",
                gms,
                "--manager",
                manager,
                "--name",
                f"g{each}",
            )
            child = self._start_command(f"g{each}", at, (*arguments, *self._faults(100 + each)))
            self.gateways[child.name] = child
            started.append(child)
        for child in started:
            child.expect(Ready, START_S)

    def _faults(self, seed: int) -> tuple[str, ...]:
        return ("--faults", f"loss={self.loss},seed={seed}") if self.loss else ()

    def _start_command(self, name: str, place: Place, arguments: tuple[str, ...]) -> Child:
        module = "quicksilver.cli.main"
        return self.children.start_python(name, module, *arguments, "--json", prefix=place.prefix())

    # Members

    def _start_members(self) -> None:
        for number, network in enumerate(self.networks):
            for each in range(self.nodes):
                place = self.lans.lans[number][each]
                tag = len(self.members)
                name = f"lan{number + 1}.{each + 1}"
                faults = f"loss={self.loss},seed={tag + 1}" if self.loss else ""
                spec = TopicMember(
                    gms=self.gms.get(number, self.addresses[network.name]),
                    name=name,
                    faults=faults,
                    connect_timeout_s=START_S,
                    topic=TOPIC,
                    tag=tag,
                )
                child = start_worker(self.children, spec, prefix=place.prefix())
                self.members.append(Member(name, number, tag, child, place))
        for member in self.members:
            member.child.expect(Joined, START_S)

    def connect(self, publishers: list[Member]) -> None:
        """Have publishers send until everybody hears every one of them."""
        deadline = time.monotonic() + START_S
        tags = {publisher.tag for publisher in publishers}
        while True:
            lacking = {}
            for member in self.alive():
                member.child.tell(Probe(member.tag in tags))
            for member in self.alive():
                heard = member.child.expect(Heard, START_S).tags
                lack = tags - {member.tag} - set(heard)
                if lack:
                    lacking[member.name] = sorted(lack)
            if not lacking:
                return
            if time.monotonic() > deadline:
                names = ", ".join(lacking)
                raise ChildError(names, f"hears nothing of somebody within {START_S:g} s")
            time.sleep(PROBE_S)

    # Who does what

    def explain(self, number: int) -> list[Fact]:
        """Return what the manager of a network says about the topic.

        One that has just started again has to hear of it from its members first.
        """
        command = [
            *self.manager_place(number).prefix(),
            *(sys.executable, "-m", "quicksilver.cli.main", "scope", "explain", TOPIC),
            *("--manager", self._manager_of(number), "--json"),
        ]
        deadline = time.monotonic() + START_S
        while True:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=START_S
            )
            if not done.returncode:
                break
            if time.monotonic() > deadline:
                raise ChildError("scope explain", done.stderr.strip())
            time.sleep(AGAIN_S)
        lines = done.stdout.splitlines()
        return [msgspec.json.decode(line, type=Fact) for line in lines]

    def find_leader(self, number: int) -> str:
        """Return the node that hosts a network's agent among the networks; empty: unknown."""
        for fact in self.explain(number):
            path = fact.facts.get("path", "").split(":")
            if fact.event == "agent" and len(path) > 1:
                return path[-1].rpartition("/")[2]
        return ""

    def find_host(self, number: int) -> Member | None:
        """Return the member that ``find_leader`` names."""
        return self._named(self.find_leader(number))

    def find_entries(self, number: int) -> dict[str, Member]:
        """Return the members at which messages come in, by the network that they come from."""
        found = {}
        for fact in self.explain(number):
            if fact.event == "way_in":
                # As in "campus/lan1-campus/lan2:campus/lan2/lan2.1, campus/news:campus/lan1".
                source, _, target = fact.name.partition(",")[0].partition("-")
                member = self._named(target.rpartition("/")[2])
                if member is not None:
                    found[source.partition(":")[0]] = member
        return found

    def ports(self, number: int) -> list[str]:
        """Return the addresses at which a network's manager and nodes listen."""
        found = {self._manager_of(number): None}
        for fact in self.explain(number):
            if fact.facts.get("address", "").startswith(f"10.78.{number + 1}."):
                found[fact.facts["address"]] = None
        return list(found)

    def _named(self, name: str) -> Member | None:
        return next((member for member in self.alive() if member.name == name), None)


def check_loss(text: str) -> str:
    """Return a fraction of datagrams to lose; raises FaultError."""
    if text in ("", "0", "0%"):
        return ""
    parse_faults(f"loss={text}")
    return text
