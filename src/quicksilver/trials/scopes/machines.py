"""What the hosts of a trial run: a scope's manager, or a node, as bytes go in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.frames import AgentSays, Probe, encode
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.dissemination.policies.choice import parse_policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import Dial, MechanismClosed, MechanismOpened
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.node import ScopeNode
from quicksilver.scopes.reliability.agents import Agents
from quicksilver.scopes.sessions.control import is_control
from quicksilver.scopes.sessions.keys import KeyRing
from quicksilver.trials.scopes.plan import NodePlan, ScopePlan
from quicksilver.wire.ids import Address

_AGENT_SAYS = encode(AgentSays("", b""))[:2]
"""How frames with messages of agents begin."""

_SIGNS_OF_LIFE = frozenset({say.encode(say.Alive()), encode(Probe())})


class ManagerMachine:
    """The manager of a scope that is no node; what it saves outlives it."""

    def __init__(
        self, scope: ScopePlan, config: Config, saved: dict[str, bytes], now: float
    ) -> None:
        self.spoken = 0
        """Frames that were sent, besides signs of life …"""
        self.spoken_bytes = 0
        """… and how long they were."""
        self.manager = ScopeManager(
            name=scope.name,
            address=scope.name,
            is_dialable=not scope.is_behind_nat,
            owners=scope.owners,
            policy_of=lambda _: parse_policy(scope.policy),
            recovery_of=lambda _: scope.recovery,
            place=None,
            config=config,
            saved=dict(saved),
            now=now,
        )
        self._saved = saved

    def handle_accepted(self, conn: int, now: float) -> None:
        self.manager.handle_accepted(conn, now)

    def handle_dialled(self, dial: Dial, conn: int | None, now: float) -> None:
        self.manager.handle_dialled(dial, conn, now)

    def handle_frame(self, conn: int, data: bytes, now: float) -> None:
        message = say.parse(data)
        if message is None:
            self.manager.handle_bad_frame(conn, now)
        else:
            self.manager.handle_message(conn, message, now)

    def handle_closed(self, conn: int, now: float) -> None:
        self.manager.handle_closed(conn, now)

    def handle_sent(self, conn: int, size: int, now: float) -> None:
        pass  # what managers say is short

    def handle_datagram(self, data: bytes, now: float) -> None:
        pass  # managers have no part in carrying messages

    def handle_timeout(self, now: float) -> None:
        self.manager.handle_timeout(now)

    def next_timeout(self) -> float | None:
        return self.manager.next_timeout()

    def poll_transmit(self) -> tuple[int, bytes] | None:
        while (saved := self.manager.poll_saved()) is not None:
            if saved.value is None:
                self._saved.pop(saved.name, None)
            else:
                self._saved[saved.name] = saved.value
        said = self.manager.poll_transmit()
        if said is None:
            return None
        data = say.encode(said[1])
        if data not in _SIGNS_OF_LIFE:
            self.spoken += 1
            self.spoken_bytes += len(data)
        return said[0], data

    def poll_close(self) -> int | None:
        return self.manager.poll_close()

    def poll_dial(self) -> Dial | None:
        while self.manager.poll_event() is not None:
            pass
        return self.manager.poll_dial()

    def poll_datagram(self) -> None:
        return None

    def multicasts(self) -> frozenset[str]:
        return frozenset()


class NodeMachine:
    """A node."""

    def __init__(
        self,
        plan: NodePlan,
        scope: ScopePlan,
        life: int,
        config: Config,
        seed: int,
        copies_bytes: int,
        now: float,
        *,
        keys: KeyRing | None = None,
        make_node: Callable[..., ScopeNode] = ScopeNode,
        make_agents: Callable[..., Agents] = Agents,
    ) -> None:
        self.spoken = 0
        self.agent_bytes_max = 0
        """The longest message of this node's agents."""
        self.node = make_node(
            name=plan.name,
            address=plan.name,
            place=Link(scope.links, plan.name, plan.name),
            owners=(scope.name,),
            life=life,
            scope=scope.name,
            config=config,
            copies_bytes_max=copies_bytes,
            seed=seed,
            keys=keys,
            make_agents=lambda forwarder, subscribes, seed: make_agents(
                lower=forwarder.holdings, subscribes=subscribes, seed=seed
            ),
            now=now,
        )
        self._multicasts: dict[tuple[str, str], str] = {}
        """Addresses of mechanisms, by topic and scope."""
        self._marks: dict[tuple[str, Sender], int] = {}

    def handle_accepted(self, conn: int, now: float) -> None:
        self.node.handle_accepted(conn, now)

    def handle_dialled(self, dial: str, conn: int | None, now: float) -> None:
        self.node.handle_dialled(dial, conn, now)

    def handle_frame(self, conn: int, data: bytes, now: float) -> None:
        self.node.handle_frame(conn, data, now)

    def handle_closed(self, conn: int, now: float) -> None:
        self.node.handle_closed(conn, now)

    def handle_sent(self, conn: int, size: int, now: float) -> None:
        self.node.handle_sent(conn, size, now)

    def handle_datagram(self, data: bytes, now: float) -> None:
        self.node.handle_datagram(data, now)

    def handle_timeout(self, now: float) -> None:
        self.node.handle_timeout(now)

    def next_timeout(self) -> float | None:
        return self.node.next_timeout()

    def poll_transmit(self) -> tuple[int, bytes] | None:
        said = self.node.poll_transmit()
        if said is not None and said[1] not in _SIGNS_OF_LIFE:
            self.spoken += 1
            if said[1].startswith(_AGENT_SAYS):
                self.agent_bytes_max = max(self.agent_bytes_max, len(said[1]))
        return said

    def poll_close(self) -> int | None:
        return self.node.poll_close()

    def poll_dial(self) -> str | None:
        return self.node.poll_dial()

    def poll_datagram(self) -> tuple[Address, bytes] | None:
        said = self.node.poll_datagram()
        if said is None:
            return None
        self.spoken += 1
        where, data = said
        return (where.name if isinstance(where, External) else where.node, 1), data

    def handle_event(self, event: object) -> None:
        """The node has told something: it listens where its mechanisms are."""
        if isinstance(event, MechanismOpened):
            self._multicasts[event.topic, event.scope] = event.where.name
        elif isinstance(event, MechanismClosed):
            self._multicasts.pop((event.topic, event.scope), None)

    def multicasts(self) -> frozenset[str]:
        return frozenset(self._multicasts.values())

    def forget_topic(self, topic: str) -> None:
        """The node has left a topic: it knows nothing of its streams any more."""
        for key in [key for key in self._marks if key[0] == topic]:
            del self._marks[key]

    def take_stable(self) -> Iterator[tuple[str, Sender, int]]:
        """Yield which streams of topics that the node has joined are stable elsewhere now."""
        for name, stream in self.node.forwarder.holdings.streams.items():
            # Asked after every input: of most streams there is nothing new.
            if stream.stable == self._marks.get(name, 0) or is_control(name.sender):
                continue
            if self.node.subscribes(name.topic):
                self._marks[name] = stream.stable
                yield name.topic, name.sender, stream.stable
