"""A program over the members of a group: the host of ``run.node`` on real sockets.

The group's views are the membership, and what agents say to each other are messages of the group,
with the number of the member that each is for. So every member gets every control message and
drops what is for others: simple, and right for groups of some dozens. All domains have the number
of the group's view as theirs. A member that runs another version of the program leaves: it is
told so by whoever was there before.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

from quicksilver.node.aio import Node
from quicksilver.properties.compile.digest import digest
from quicksilver.properties.plan import Plan
from quicksilver.properties.run.encoding import encode_message, parse_message
from quicksilver.properties.run.node import ProtocolNode
from quicksilver.properties.run.placement import Living, Placement
from quicksilver.properties.run.program import Program
from quicksilver.properties.run.rounds import Content, PropertyRounds
from quicksilver.properties.run.state import Asked
from quicksilver.properties.values.kinds import Value, has_kind
from quicksilver.recovery.agent import Agent
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.pacing import Timing
from quicksilver.recovery.star import StarAgent
from quicksilver.stdx.errors import QuicksilverError

TIMING = Timing(
    interval_s=0.05,
    trouble_interval_s=0.02,
    spacing_s=0.005,
    timeout_s_min=0.2,
    timeout_s_max=1.0,
    wake_s_min=0.15,
    in_flight_max=1,
    learns_late=True,
)
DOMAIN_SIZE = 16
HEIGHT = 3
NODES_MAX = DOMAIN_SIZE**HEIGHT
"""Numbers that nodes of a cluster may have here."""
INSTANCE = 0


class OtherVersionError(QuicksilverError):
    """The group runs another version of the program."""

    def __init__(self, program: str, member: int) -> None:
        super().__init__(program, member)
        self.program = program
        self.member = member

    def __str__(self) -> str:
        return (
            f"node {self.member} runs another version of {self.program}: "
            "run the same program, or use another group"
        )


class _Counts:
    tokens_released = 0
    roll_calls = 0


class GroupProtocol:
    """One member's part. Use it as an asynchronous context; then give events and take requests."""

    def __init__(self, node: Node, plan: Plan, group: str | None = None) -> None:
        """``group``: its name; left out: ``properties/`` and the name of the program."""
        self.plan = plan
        self.group_name = group or f"properties/{plan.name}"
        self.refused = 0
        """Messages that no honest member wrote."""
        self._node = node
        self._digest = digest(plan).encode()
        self._program = Program(plan)
        self._protocol: ProtocolNode | None = None
        self._outbox: deque[bytes] = deque()
        self._asked: asyncio.Queue[Asked] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        number = self._node.id
        if number >= NODES_MAX:
            raise QuicksilverError(f"node {number}: programs run on nodes below {NODES_MAX}")
        self._group = await self._node.join(self.group_name)
        self._protocol = ProtocolNode(number, f"n{number}", number, self._agent)
        self._protocol.add(INSTANCE, self._program, time.monotonic())
        self._tasks = [
            asyncio.ensure_future(work) for work in (self._watch(), self._listen(), self._speak())
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # The application

    def give(self, name: str, *arguments: Value) -> None:
        """Tell the protocol of an event.

        Raises:
            QuicksilverError: the program has no such event, or it has other parameters.
        """
        for at, event in enumerate(self.plan.callbacks):
            if event.name == name:
                kinds = [kind for _, kind in event.parameters]
                if len(kinds) != len(arguments) or not all(map(has_kind, arguments, kinds)):
                    wanted = ", ".join(f"{kind} {each}" for each, kind in event.parameters)
                    raise QuicksilverError(f"{name} takes ({wanted})")
                assert self._protocol is not None
                self._protocol.handle_event(INSTANCE, at, arguments, time.monotonic())
                self._pump()
                return
        known = ", ".join(event.name for event in self.plan.callbacks) or "none"
        raise QuicksilverError(f"{self.plan.name} has no event {name}; it has {known}")

    async def next_request(self) -> tuple[str, tuple[Value, ...]]:
        """Wait for what the protocol asks of the application.

        Raises:
            OtherVersionError: the group runs another version of the program.
            ClosedError: the node was closed.
        """
        taking = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait([taking, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
            asked = taking.result()
        finally:
            taking.cancel()
        return self.plan.requests[asked.event].name, asked.arguments

    def value(self, name: str) -> Value | None:
        """Return the node's own value of a property; None: it is absent."""
        assert self._protocol is not None
        names = [each.name for each in self.plan.properties]
        node = self._protocol.participant.instances[INSTANCE].node
        return node.slots[names.index(name)].value

    # The group

    def _agent(self, node: int, domain: Domain, rounds: PropertyRounds) -> Agent[Content]:
        return StarAgent(node=node, domain=domain, rounds=rounds, timing=TIMING, counters=_Counts())

    async def _watch(self) -> None:
        """Follow the group's views."""
        async for view in self._group.views():
            if self._node.id not in view.members:
                continue
            placement = Placement(DOMAIN_SIZE, HEIGHT)
            living = [Living(n, n) for n in view.members if n < NODES_MAX]
            placement.become(living, view.number)
            assert self._protocol is not None
            mine = placement.of(Living(self._node.id, self._node.id))
            self._protocol.become_placed(mine, time.monotonic())
            self._pump()

    async def _listen(self) -> None:
        async for message in self._group.messages():
            if message.sender != self._node.id:
                self._take(message.sender, message.payload)
                self._pump()

    def _take(self, sender: int, payload: bytes) -> None:
        size = len(self._digest)
        if payload[:size] != self._digest:
            if sender < self._node.id:
                raise OtherVersionError(self.plan.name, sender)
            return  # it hears of this one, and leaves
        to = int.from_bytes(payload[size : size + 8])
        if to != self._node.id:
            return
        message = parse_message(payload[size + 8 :], {INSTANCE: self.plan})
        if message is None or message.origin != sender:
            self.refused += 1
            return
        assert self._protocol is not None
        self._protocol.handle_message(message, time.monotonic())

    async def _speak(self) -> None:
        """Send what agents say, and call them when it is time."""
        assert self._protocol is not None
        while True:
            now = time.monotonic()
            due = self._protocol.next_timeout()
            if due is not None and now >= due:
                self._protocol.handle_timeout(now)
            self._pump()
            while self._outbox:
                await self._group.send(self._outbox.popleft())
            self._wake.clear()
            due = self._protocol.next_timeout()
            if self._outbox:
                continue
            wait_s = None if due is None else max(0.0, due - time.monotonic())
            # In Python 3.11 `wait_for` may swallow a cancellation, and closing would not end.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    def _pump(self) -> None:
        """Take out what agents say, and what the protocol asks."""
        protocol = self._protocol
        assert protocol is not None
        now = time.monotonic()
        while (out := protocol.poll_message(now)) is not None:
            to, message = out
            head = self._digest + to.to_bytes(8)
            self._outbox.append(head + encode_message(message))
        while (event := protocol.poll_event()) is not None:
            if isinstance(event[1], Asked):
                self._asked.put_nowait(event[1])
        self._wake.set()
