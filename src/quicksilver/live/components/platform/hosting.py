"""The platform object: objects started, moved and stopped on other nodes (2.1.6, Figure 2.5).

Its proxies run on the nodes that host, and agree through a checkpointed channel on
which object runs where. Each opens what is to run on its node, as a guest within
the limits that the node sets. A guest that has an endpoint for it is given the
hosting endpoint too, and may so have others started, or move itself.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar, Final, Protocol

import msgspec

from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.platform.guests import Guest
from quicksilver.live.components.platform.hosting_state import (
    ADDRESS_CHARACTERS_MAX,
    COMMANDS,
    GENERATIONS_MAX,
    STATES,
    Answered,
    Asked,
    Command,
    Joined,
    Left,
    Move,
    Outcome,
    Reported,
    Start,
    State,
    Stop,
    apply,
)
from quicksilver.live.components.shared_object import SharedObject
from quicksilver.live.references.standard import ANY_OBJECT
from quicksilver.live.references.xml import write
from quicksilver.live.runtime.allowance import Limits
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.remote.publishing import Publisher
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

HOSTING: Final = "Hosting"
TICKETS_MAX: Final = 1000
"""Questions for addresses that may be unanswered."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What one node offers to a platform; each node provides its own."""

    MISSING_HINT: ClassVar[str] = (
        "say that guests may run here: object run --host NAME, live.platform(host=Host(name=...))"
    )

    name: str
    """What the others call this node; no two have the same."""

    limits: Limits = Limits()
    """What each guest may start here."""

    guests_max: int = 100
    """Objects that run here at one time."""

    generations_max: int = 3
    """Guests of guests: how many objects may have had each other started."""

    publish_at: str = "live+tcp://127.0.0.1:0"
    """Where endpoints of guests can be connected to from other processes."""


class HostingRequests(Protocol):
    """Events that users send to a platform."""

    def start(self, name: str, reference: Ref[ANY_OBJECT], hosts: list[str]) -> None:  # type: ignore[valid-type]
        """Run an object on some hosts, under a name that no other has."""

    def move(self, name: str, hosts: list[str]) -> None:
        """Run it on these hosts, and on no others."""

    def stop(self, name: str) -> None:
        """Run it nowhere."""

    def reach(self, name: str, host: str, endpoint: str) -> None:
        """Ask where an endpoint of an object on a host can be connected to."""

    def forget(self, host: str) -> None:
        """Count on a host no longer that has crashed."""


class HostingNews(Protocol):
    """Events that a platform sends to its users."""

    def hosts(self, names: list[str]) -> None:
        """There are these hosts."""

    def placed(self, name: str, hosts: list[str]) -> None:
        """An object is to run on these hosts; on none: it was stopped."""

    def reported(self, name: str, host: str, what: str, detail: str) -> None:
        """An object was ``started``, ``stopped`` or ``failed`` on a host."""

    def reached(self, name: str, host: str, endpoint: str, address: str) -> None:
        """An endpoint can be connected to at an address, which is passed on like a key."""

    def refused(self, name: str, reason: str) -> None:
        """A request was not carried out."""


@component("quicksilver.platform", type_name="Platform")
@live_object(title="Platform")
class Platform(SharedObject[Command, State]):
    """hosts objects: starts, moves and stops them on the nodes that it runs on

    Nodes say by the service ``Host`` what guests may do there.
    """

    updates: ClassVar = COMMANDS
    states: ClassVar = STATES

    hosting = endpoint(HostingRequests, HostingNews, name=HOSTING)

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        self.host = self.context.service(Host)
        self.state = State([], {})
        self._guests: dict[str, Guest] = {}
        self._tickets: dict[int, tuple[str, str, str, Any]] = {}
        self._numbers = itertools.count()
        self._publisher: Publisher | None = None

    def close(self) -> None:
        """Stop all guests; the others notice by the host's absence or by ``forget``."""
        for guest in list(self._guests.values()):
            guest.close()
        if self._publisher is not None:
            self._publisher.close()

    # Requests, of whoever is connected and of guests

    def hosting_start(self, name: str, reference: Any, hosts: list[str]) -> None:
        self.request_start(name, reference, hosts, self.hosting, "")

    def hosting_move(self, name: str, hosts: list[str]) -> None:
        self.request(Move(name, tuple(hosts)), name, self.hosting)

    def hosting_stop(self, name: str) -> None:
        self.request(Stop(name), name, self.hosting)

    def hosting_forget(self, host: str) -> None:
        self.request(Left(host), host, self.hosting)

    def hosting_reach(self, name: str, host: str, endpoint: str) -> None:
        self.request_reach(name, host, endpoint, self.hosting)

    def hosting_connected(self) -> None:
        self.tell_all(self.hosting)

    def tell_all(self, port: Any) -> None:
        """Tell somebody new what there is."""
        port.hosts(list(self.state.hosts))
        for name, hosted in sorted(self.state.objects.items()):
            port.placed(name, list(hosted.hosts))

    def request_start(
        self, name: str, reference: Any, hosts: list[str], port: Any, parent: str
    ) -> None:
        """Ask all for an object to be started; ``port`` is who hears that it cannot be."""
        try:
            text = write(reference)
        except Exception as error:  # noqa: BLE001  # whatever was given is no reference
            port.refused(name, f"that is no reference: {error}")
            return
        self.request(Start(name, text, tuple(hosts), parent), name, port)

    def request(self, command: Command, name: str, port: Any) -> None:
        """Give a command to all, once it is known that it would be carried out here and now."""
        trial = State(list(self.state.hosts), dict(self.state.objects))
        problem = apply(trial, command)
        if problem:
            port.refused(name, problem)
        else:
            self.submit(command)

    def request_reach(self, name: str, host: str, endpoint: str, port: Any) -> None:
        """Ask a host where an endpoint can be connected to."""
        hosted = self.state.objects.get(name)
        if hosted is None or host not in hosted.hosts:
            port.refused(name, f"it does not run on {host!r}")
            return
        if len(self._tickets) >= TICKETS_MAX:
            port.refused(name, "too many questions are unanswered")
            return
        ticket = next(self._numbers)
        self._tickets[ticket] = (name, host, endpoint, port)
        self.submit(Asked(self.host.name, ticket, name, host, endpoint))

    def report(self, name: str, what: Outcome, detail: str = "") -> None:
        """Tell all what became of a guest here."""
        self.submit(Reported(name, self.host.name, what, " ".join(detail.split())[:500]))

    def refuse(self, reason: str) -> None:
        """Tell whoever is connected that a command cannot be sent."""
        self.hosting.refused("", reason)

    # The state

    def load(self, state: State | None) -> None:
        """Begin with what is agreed on."""
        self.state = State([], {}) if state is None else state

    def save(self) -> State:
        """Return what is agreed on."""
        return self.state

    def announce(self) -> None:
        """Tell whoever is connected what there is."""
        self.tell_all(self.hosting)

    def handle_initialized(self, is_new: bool) -> None:
        """Host from now on, and run here what is to run here."""
        self.submit(Joined(self.host.name))
        self._reconcile()

    def apply(self, update: Command) -> None:
        """Carry out a command; of two that ask for what only one can have the first has it."""
        if not apply(self.state, update):
            self._tell(update)
            self._reconcile()

    def _tell(self, command: Command) -> None:
        ports = [self.hosting, *(guest.port for guest in self._guests.values() if guest.port)]
        match command:
            case Joined() | Left():
                for port in ports:
                    port.hosts(list(self.state.hosts))
            case Start(name=name, hosts=hosts) | Move(name=name, hosts=hosts):
                for port in ports:
                    port.placed(name, list(hosts))
            case Stop(name=name):
                for port in ports:
                    port.placed(name, [])
            case Reported(name, host, what, detail):
                for port in ports:
                    port.reported(name, host, what, detail)
            case Asked(host=host) if host == self.host.name:
                self._answer(command)
            case Answered(asker, ticket, address, problem) if asker == self.host.name:
                self._take_answer(ticket, address, problem)
            case _:
                pass

    # Guests here

    def _reconcile(self) -> None:
        """Start and stop until what runs here is what is agreed on."""
        me = self.host.name
        is_host = me in self.state.hosts
        wanted = {
            name: hosted
            for name, hosted in self.state.objects.items()
            if is_host and me in hosted.hosts
        }
        for name in sorted(self._guests.keys() - wanted.keys()):
            self._guests.pop(name).close()
            self.report(name, "stopped")
        for name in sorted(wanted.keys() - self._guests.keys()):
            hosted = wanted[name]
            guest = self._guests[name] = Guest(self, name)
            if len(self._guests) > self.host.guests_max:
                guest.refuse(f"this host takes {self.host.guests_max} guests")
            elif hosted.generation > min(self.host.generations_max, GENERATIONS_MAX):
                limit = self.host.generations_max
                guest.refuse(f"this host takes guests of guests {limit} times over")
            else:
                guest.open(hosted.reference)

    def _answer(self, asked: Asked) -> None:
        guest = self._guests.get(asked.name)
        address, problem = "", "it does not run here"
        if guest is not None:
            try:
                if self._publisher is None:
                    self._publisher = Publisher(self.context.runtime, self.host.publish_at)
                address, problem = guest.publish(asked.endpoint, self._publisher), ""
            except Exception as error:  # noqa: BLE001  # told to who asked
                problem = " ".join(str(error).split())[:500]
        self.submit(Answered(asked.asker, asked.ticket, address[:ADDRESS_CHARACTERS_MAX], problem))

    def _take_answer(self, ticket: int, address: str, problem: str) -> None:
        asked = self._tickets.pop(ticket, None)
        if asked is None:
            return
        name, host, endpoint, port = asked
        if problem:
            port.refused(name, f"{endpoint} on {host}: {problem}")
        else:
            port.reached(name, host, endpoint, address)
