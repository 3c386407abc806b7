"""A gateway as a process: a node of a network with a GMS, and a node of the network's scope.

The event loop runs the scope's node and the gateway (``scopes.gateway``); the network's node
has a core thread of its own (``gateway_lan``). A gateway whose node was counted out of the
network begins again as a new one, so that others take over from it and it misses nothing
unnoticed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from quicksilver.net.interfaces import choose_interface
from quicksilver.net.serving import run_until_signal, wait_first
from quicksilver.net.streams import FrameServer, open_listener, serve_frames
from quicksilver.node.errors import QuicksilverError, ScopeUnreachableError
from quicksilver.node.gateway_lan import Asked, Ended, Heard, Lan, TopicEnded, ViewSeen
from quicksilver.node.options import NodeOptions, parse_gms_address
from quicksilver.node.requests import Request
from quicksilver.node.scoped_frames import NodeFrames
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.holdings import Name
from quicksilver.scopes.dissemination.packets import Gap, Sender
from quicksilver.scopes.gateway.gateway import Gateway
from quicksilver.scopes.gateway.inflow import Ticket
from quicksilver.scopes.gateway.messages import FOR_ALL, FOR_ITSELF, GROUP, name_node
from quicksilver.scopes.gateway.network_state import NetworkState
from quicksilver.scopes.gateway.questions import Questions
from quicksilver.scopes.management import events as told
from quicksilver.scopes.names import find_scope_name_problem
from quicksilver.scopes.node import ScopeNode
from quicksilver.scopes.reliability.agents import Agents
from quicksilver.stdx.text import printable

LOGGER = "quicksilver.gateway"

INPUT_BYTES_MAX = 256 << 20
"""Frames that have not arrived completely, over all connections."""

OUTPUT_BYTES_MAX = 64 << 20
"""What waits for one connection; the scope's node itself stops long before."""

COPIES_BYTES = 32 << 20
"""Copies of messages: more than what may wait to be brought in and to be confirmed."""

FLUSH_S = 0.02
"""How long what was brought in is collected before it is confirmed."""

TOGETHER_S = 0.005
"""Questions are looked at so long after something that may answer them: more may come."""

ANSWER_S = 0.5
"""How often questions are looked at that nothing that came has answered."""

AGAIN_S = 1.0
"""How long a gateway that was counted out waits before it begins again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """How to run a gateway."""

    gms: str
    """The GMS of the network, as ``host:port``."""

    manager: str
    """The manager of the network's scope, as ``host:port``."""

    name: str = ""
    """The gateway as a member of the scope; by default one that nobody else has."""

    host: str | None = None
    """The interface or address at which other networks reach the gateway; by default the one
    that leads to the manager."""

    node: NodeOptions = field(default_factory=lambda: NodeOptions(switch_interval_s=0.001))
    """Of its node in the network. The name is chosen by the gateway."""

    connect_timeout_s: float = 10.0
    """How long the manager and the GMS may take to answer at the beginning."""


class OtherScopeError(QuicksilverError):
    """The network belongs to another scope."""

    def __init__(self, gms: str, own: str, other: str, node: int) -> None:
        super().__init__(gms, own, other, node)
        self.gms = gms
        self.own = own
        self.other = other
        self.node = node

    def __str__(self) -> str:
        return (
            f"the network of the GMS at {self.gms} belongs to the scope {printable(self.other)!r}: "
            f"its node {self.node} is a gateway of that scope, so {self.own!r} cannot have it; "
            "stop the gateways of one of the two"
        )


OnReady = Callable[[str], None]
"""Told the name of the gateway once it works."""


def run_gateway(options: GatewayOptions, on_ready: OnReady | None = None) -> int:
    """Be a gateway until SIGTERM or SIGINT, and return which; raises what ``serve_gateway`` does.

    Call it from the main thread of a process that does nothing else: it changes how often garbage
    is collected there.
    """
    tuned = replace(options, node=replace(options.node, tune_gc=True))
    return run_until_signal(lambda stop: serve_gateway(tuned, stop, on_ready))


async def serve_gateway(
    options: GatewayOptions, stop: asyncio.Event, on_ready: OnReady | None = None
) -> None:
    """Be a gateway until ``stop`` is set.

    Raises:
        ScopeUnreachableError, GmsUnreachableError, ListenError, OtherScopeError: the user's to
        fix, each with one line that says how.
    """
    log = logging.getLogger(LOGGER)
    while True:
        process = _Process(options)
        await process.serve(stop, on_ready)
        if stop.is_set():
            return
        log.warning("the GMS has counted this gateway out; it begins again in %g s", AGAIN_S)
        await asyncio.sleep(AGAIN_S)
        on_ready = None


def name_gateway() -> str:
    """Return a name for a gateway that nobody else has."""
    return f"gateway.{os.getpid()}.{time.time_ns():x}"


class _Process:
    """One life of a gateway."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        self._log = logging.getLogger(LOGGER)
        self._name = options.name or name_gateway()
        problem = find_scope_name_problem(self._name)
        if problem is not None:
            raise ValueError(problem)
        self._loop = asyncio.get_running_loop()
        self._machine: ScopeNode | None = None
        self._server: FrameServer | None = None
        self._frames: NodeFrames | None = None
        self._gateway: Gateway | None = None
        self._lan: Lan | None = None
        self._scopes: tuple[str, ...] = ()
        self._joined: asyncio.Future[str] = self._loop.create_future()
        """The scope that the gateway is a member of."""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._pending: dict[str, list[bytes]] = {}
        """Messages that groups have no room for yet, by topic."""
        self._held: Heard | None = None
        """Messages of the network that channels have no room for yet."""
        self._is_flushing = False
        self._questions: Questions[tuple[Request, bool]] | None = None
        """Of nodes that flush, with whether this gateway speaks for all."""
        self._looking: asyncio.TimerHandle | None = None
        """When questions are looked at."""
        self._last_problem = "no answer"
        self.missing = 0
        """Messages that nobody could give any more."""

    async def serve(self, stop: asyncio.Event, on_ready: OnReady | None) -> None:
        options = self._options
        interface = choose_interface(options.host, parse_gms_address(options.manager)[0])
        listener = open_listener(interface.address, 0)
        host, port = listener.getsockname()[:2]
        self._machine = machine = ScopeNode(
            name=self._name,
            address=f"{host}:{port}",
            owners=(options.manager,),
            life=time.time_ns(),
            copies_bytes_max=COPIES_BYTES,
            seed=time.time_ns(),
            make_agents=self._make_agents,
            now=self._loop.time(),
        )
        self._frames = frames = NodeFrames(
            machine, on_events=self._take_events, output_bytes_max=OUTPUT_BYTES_MAX
        )
        self._server = frames.server = server = await serve_frames(
            frames, listener, input_bytes_max=INPUT_BYTES_MAX, logger=LOGGER
        )
        try:
            scope = await self._wait_joined(stop)
            if scope is not None:
                await self._serve_lan(scope, stop, on_ready)
        finally:
            self._ended.cancel()  # nothing more is to be done or told
            frames.close()
            if self._lan is not None:
                await self._lan.close()
            await server.close()

    def _make_agents(
        self, forwarder: Forwarder, subscribes: Callable[[str], bool], seed: int
    ) -> Agents:
        def confirmed(topic: str, sender: Sender) -> int | None:
            return None if self._gateway is None else self._gateway.confirmed(topic, sender)

        def is_counted(name: Name) -> bool:
            return agents.state.is_counted(name)

        lower = NetworkState(forwarder.holdings, confirmed, is_counted)
        agents = Agents(lower=lower, subscribes=subscribes, seed=seed)
        return agents

    async def _wait_joined(self, stop: asyncio.Event) -> str | None:
        """Return the scope once the manager has answered; None: ``stop`` was set before."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait(
                (stopped, self._joined),
                timeout=self._options.connect_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopped.cancel()
        if stop.is_set():
            return None
        if not self._joined.done():
            raise ScopeUnreachableError(self._options.manager, self._last_problem, "")
        return self._joined.result()

    async def _serve_lan(self, scope: str, stop: asyncio.Event, on_ready: OnReady | None) -> None:
        assert self._machine is not None
        assert self._server is not None
        node = replace(self._options.node, name=name_node(scope, self._name))
        self._lan = Lan(self._options.gms, node, self._take_lan)
        forwarder = self._machine.forwarder
        self._gateway = Gateway(scope=scope, name=self._name, forwarder=forwarder)
        self._questions = Questions(self._machine.promised.is_everywhere)
        await self._lan.start()
        self._note_scopes()
        self._server.call(self._turn)
        self._log.info("gateway %s of %s", self._name, scope)
        if on_ready is not None:
            on_ready(self._name)
        failed = asyncio.ensure_future(self._server.wait_failed())
        try:
            await wait_first(stop, lambda: _first(self._ended, failed))
        finally:
            failed.cancel()

    # Inputs

    def _take_lan(self) -> None:
        """Something happened in the network, or a group has room again."""
        if self._server is not None:
            self._server.call(self._turn)

    def _take_events(self) -> None:
        """Something came from the scope, or has left."""
        machine = self._machine
        assert machine is not None
        while (event := machine.poll_event()) is not None:
            self._handle_event(event)
            self._note_scopes()
        gateway = self._gateway
        if gateway is None:
            return
        has_deliveries = False
        while (delivery := machine.poll_delivery()) is not None:
            has_deliveries = True
            gateway.handle_delivery(delivery)
            if isinstance(delivery, Gap):
                self._handle_gap(delivery)
        if has_deliveries or self._held is not None:
            self._turn()
        self._look_soon()

    def _handle_event(self, event: object) -> None:
        match event:
            case told.OwnerJoined(scope):
                if not self._joined.done():
                    self._joined.set_result(scope)
            case told.OwnerLost(_, reason):
                self._last_problem = reason
                self._log.warning("the manager is away: %s", printable(reason))
            case told.TopicFailed(topic, reason):
                self._log.warning("no topic %s: %s", printable(topic), printable(reason))
            case told.TopicLeft(topic):
                if self._gateway is not None:
                    self._gateway.handle_left(topic)
            case _:
                pass

    def _handle_gap(self, gap: Gap) -> None:
        count = gap.last + 1 - gap.first
        self.missing += count
        self._log.warning(
            "%d messages of %s to %s are missing: nobody has them any more",
            count,
            printable(gap.sender.node),
            printable(gap.topic),
        )

    # The gateway's turn

    def _turn(self) -> None:
        lan, gateway = self._lan, self._gateway
        if lan is None or gateway is None or self._ended.done():
            return
        self._hear(lan, gateway)
        self._note_wanted(lan, gateway)
        self._bring(lan, gateway)
        while (said := gateway.poll_said()) is not None:
            lan.say(said)
        if gateway.conflict is not None and not self._ended.done():
            other = gateway.conflict
            self._ended.set_exception(
                OtherScopeError(self._options.gms, self._joined.result(), other.scope, other.node)
            )

    def _note_scopes(self) -> None:
        """Be in all topics of the scope and of those above it."""
        if self._machine is None or self._lan is None:
            return
        scopes = self._machine.manager.above()
        if scopes != self._scopes:
            self._scopes = scopes
            self._lan.set_scopes(scopes)

    def _hear(self, lan: Lan, gateway: Gateway) -> None:
        """Take what happened in the network, as far as channels have room for messages."""
        assert self._machine is not None
        forwarder = self._machine.forwarder
        now = self._loop.time()
        while True:
            event = self._held or lan.poll_event()
            self._held = None
            match event:
                case None:
                    return
                case Heard(group, node, name, numbers, payloads, envelopes, _):
                    if group == GROUP:
                        for payload in payloads:
                            gateway.handle_said(node, payload)
                    elif not forwarder.may_take(group):
                        self._held = event
                        return
                    else:
                        gateway.handle_local(group, node, name, numbers, payloads, envelopes, now)
                case ViewSeen(group, members):
                    if group == GROUP:
                        own = lan.core.session.node
                        gateway.handle_gateways(own, members)
                        lan.gateways = gateway.gateways()
                    else:
                        gateway.handle_view(group, list(members))
                case TopicEnded(topic):
                    gateway.handle_gone(topic)
                case Asked():
                    self._take_question(gateway, event)
                case Ended(error):
                    if not self._ended.done():
                        if error is None:
                            self._ended.set_result(None)
                        else:
                            self._ended.set_exception(error)
                    return

    def _note_wanted(self, lan: Lan, gateway: Gateway) -> None:
        assert self._machine is not None
        while (wanted := gateway.poll_wanted()) is not None:
            if wanted.subscribes:
                lan.open(wanted.topic)
            else:
                lan.close_topic(wanted.topic)
                self._pending.pop(wanted.topic, None)
            self._machine.want(
                wanted.topic,
                publishes=wanted.publishes,
                subscribes=wanted.subscribes,
                now=self._loop.time(),
            )

    def _bring(self, lan: Lan, gateway: Gateway) -> None:
        """Send to groups what came from other networks, as far as they have room."""
        for topic, payloads in list(self._pending.items()):
            if lan.send(topic, payloads):
                del self._pending[topic]
        while (bringing := gateway.poll_bringing(self._pending)) is not None:
            if not lan.send(bringing.topic, bringing.payloads):
                self._pending[bringing.topic] = bringing.payloads
        lan.nudge()
        if self._frames is not None:
            self._frames.pause(paused=gateway.is_full)
        if not self._is_flushing and not self._pending:
            ticket = gateway.begin_flush()
            if ticket is not None:
                self._is_flushing = True
                self._loop.call_later(FLUSH_S, self._flush)

    # What nodes that flush ask

    def _take_question(self, gateway: Gateway, asked: Asked) -> None:
        assert self._questions is not None
        assert self._machine is not None
        marks = dict(asked.question.marks)
        speaks_for_all = all(map(self._machine.forwarder.has_agents, marks))
        sender = gateway.sender_of(asked.node, asked.name)
        ticket = asked.request, speaks_for_all
        self._questions.handle_asked(ticket, sender, marks, self._loop.time())
        self._look_soon()

    def _answer(self) -> None:
        """Answer what can be answered now."""
        questions, lan = self._questions, self._lan
        if questions is None or lan is None:
            return
        while (answer := questions.poll_answer(self._loop.time())) is not None:
            request, speaks_for_all = answer.ticket
            if answer.problem:
                lan.answer(request, request.failure(answer.problem))
            else:
                lan.answer(request, request.answer(FOR_ALL if speaks_for_all else FOR_ITSELF))

    def _look_soon(self) -> None:
        """Something has changed: see what can be answered now, after whatever comes with it."""
        due = self._loop.time() + TOGETHER_S
        if self._questions is None or not self._questions.is_asked:
            return
        if self._looking is None or self._looking.when() > due:
            self._look_at(due)

    def _look_at(self, when: float) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._looking = None
        if self._server is None or self._questions is None or self._ended.done():
            return
        self._server.call(self._answer)
        if self._questions.is_asked:
            self._look_at(self._loop.time() + ANSWER_S)

    # Confirming what was brought in

    def _flush(self) -> None:
        lan, gateway = self._lan, self._gateway
        assert lan is not None
        assert gateway is not None
        ticket = None if self._pending else gateway.begin_flush()
        if ticket is None or self._ended.done():
            self._is_flushing = False
            return

        def handle_flushed(has_failed: bool) -> None:
            self._handle_flushed(ticket, has_failed=has_failed)

        lan.flush(handle_flushed)

    def _handle_flushed(self, ticket: Ticket, *, has_failed: bool) -> None:
        self._is_flushing = False
        if self._gateway is not None and self._server is not None:
            self._gateway.handle_flushed(ticket, has_failed=has_failed)
            self._server.call(self._turn)


async def _first(ended: asyncio.Future[None], failed: asyncio.Future[None]) -> None:
    """Wait for one of two futures, and raise what it has."""
    await asyncio.wait((ended, failed), return_when=asyncio.FIRST_COMPLETED)
    for each in (ended, failed):
        if each.done():
            each.result()
