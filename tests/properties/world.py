"""Nodes that run protocols on agents of any kind, a network of lists, and time.

Nodes crash, start again with nothing, and are told of it late; messages are lost and take
different times. Checks of what a program claims, and of the hidden certificates of 3.2.15, run
after every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from quicksilver.properties.plan import Plan
from quicksilver.properties.run.claims import Broken, Claims, Observed
from quicksilver.properties.run.node import ProtocolNode
from quicksilver.properties.run.placement import Living, Placement, height_of
from quicksilver.properties.run.program import Program
from quicksilver.properties.run.rounds import Content, PropertyRounds
from quicksilver.properties.run.state import Asked, Certificate, Slot, Standing
from quicksilver.recovery.agent import Agent, Message
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.gossip import GossipAgent
from quicksilver.recovery.pacing import Timing
from quicksilver.recovery.requests import RequestsAgent
from quicksilver.recovery.ring import RingAgent
from quicksilver.recovery.rounds import TO_ALL, Token
from quicksilver.recovery.star import StarAgent
from quicksilver.recovery.tree import TreeAgent
from quicksilver.stdx.rand import Rng

TIMING = Timing(
    interval_s=0.02,
    trouble_interval_s=0.01,
    spacing_s=0.001,
    timeout_s_min=0.1,
    timeout_s_max=0.25,
    wake_s_min=0.06,
    in_flight_max=1,
)
DELAY_S = 0.001
NOTICED_S = 0.3
"""After which the membership knows of a crash."""


class Counts:
    tokens_released = 0
    roll_calls = 0


def agent_of(kind: str, node: int, domain: Domain, rounds: PropertyRounds) -> Agent[Content]:
    makers: dict[str, Any] = {
        "ring": RingAgent,
        "star": StarAgent,
        "tree": partial(TreeAgent, fanout=2),
        "gossip": partial(GossipAgent, fanout=2, seed=5),
        "requests": partial(RequestsAgent, seed=5),
    }
    agent: Agent[Content] = makers[kind](
        node=node, domain=domain, rounds=rounds, timing=TIMING, counters=Counts()
    )
    return agent


@dataclass
class Running:
    """A process."""

    living: Living
    node: ProtocolNode
    events: list[tuple[int, tuple[Any, ...]]]
    """What instance 0 asked of its application."""


class World:
    """Nodes in slots."""

    def __init__(
        self,
        plans: Plan | Sequence[Plan],
        slots: int,
        *,
        size: int = 3,
        kinds: Sequence[str] = ("ring",),
        loss: float = 0.0,
        jitter: float = 0.0,
        seed: int = 1,
        height: int | None = None,
    ) -> None:
        self.plans = [plans] if isinstance(plans, Plan) else list(plans)
        self.programs = [Program(plan) for plan in self.plans]
        self.claims = [Claims(plan.invariants) for plan in self.plans]
        self.kinds = kinds
        self.loss = loss
        self.jitter = jitter
        self.rng = Rng(seed)
        self.now = 0.0
        self.placement = Placement(size, height or height_of(slots, size))
        self.running: dict[int, Running] = {}
        """By slot."""
        self.members: dict[int, Living] = {}
        """What the membership believes, by slot."""
        self.plans_at: list[tuple[float, int, Living | None]] = []
        """What the membership will learn: when, which slot, and who is there then."""
        self.flight: list[tuple[float, int, int, Message[Content]]] = []
        self.number = 0
        self.messages = 0
        self.certificates: dict[tuple[str, int], Certificate] = {}
        self.checked: dict[int, object] = {}
        self.begun: set[tuple[int, int]] = set()
        """The domain at the top, once somebody has been regular there."""
        for slot in range(slots):
            self.start(slot, noticed_s=0.0)

    # What happens

    def start(self, slot: int, *, noticed_s: float = NOTICED_S) -> None:
        """Start a node that knows nothing."""
        self.number += 1
        living = Living(self.number, slot)
        make = lambda node, domain, rounds: agent_of(  # noqa: E731
            self.kinds[domain.name[0] % len(self.kinds)], node, domain, rounds
        )
        node = ProtocolNode(living.node, f"n{slot:02}", living.node, make, certifies=True)
        for number, program in enumerate(self.programs):
            node.add(number, program, self.now)
        self.running[slot] = Running(living, node, [])
        self.plans_at.append((self.now + noticed_s, slot, living))

    def crash(self, slot: int) -> None:
        """Stop a node: all that it knew is gone."""
        if slot in self.running:
            del self.running[slot]
            self.plans_at.append((self.now + NOTICED_S, slot, None))

    def event(self, slot: int, event: int, *arguments: Any, number: int = 0) -> None:
        if slot in self.running:
            self.running[slot].node.handle_event(number, event, arguments, self.now)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            times = [at for at, *_ in self.flight] + [at for at, *_ in self.plans_at]
            times += [
                at for r in self.running.values() if (at := r.node.next_timeout()) is not None
            ]
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times))
            self._learn()
            due = [each for each in self.flight if each[0] <= self.now]
            self.flight = [each for each in self.flight if each[0] > self.now]
            for _, _, to, message in due:
                self._arrive(to, message)
            for running in list(self.running.values()):
                running.node.handle_timeout(self.now)
                while (out := running.node.poll_message(self.now)) is not None:
                    self._send(running, *out)
                while (event := running.node.poll_event()) is not None:
                    number, output = event
                    assert isinstance(output, Asked), output
                    if number == 0:
                        running.events.append((output.event, output.arguments))
            self.check()
        self.now = end

    def _learn(self) -> None:
        due = [each for each in self.plans_at if each[0] <= self.now]
        if not due:
            return
        self.plans_at = [each for each in self.plans_at if each[0] > self.now]
        for _, slot, living in due:
            if living is None:
                self.members.pop(slot, None)
            else:
                self.members[slot] = living
        self.placement.become(self.members.values())
        for slot, running in self.running.items():
            if self.members.get(slot) == running.living:
                running.node.become_placed(self.placement.of(running.living), self.now)

    def _send(self, origin: Running, to: int, message: Message[Content]) -> None:
        peers = [to]
        if to == TO_ALL:
            members = origin.node.members_of(message.domain)
            peers = [peer for peer in members if peer != origin.node.node]
        for peer in peers:
            self.messages += 1
            if self.rng.uniform() >= self.loss:
                late = DELAY_S * (1 + self.jitter * self.rng.uniform())
                kept = replace(message) if isinstance(message, Token) else message
                self.flight.append((self.now + late, origin.node.node, peer, kept))

    def _arrive(self, to: int, message: Message[Content]) -> None:
        for running in self.running.values():
            if running.living.node == to:
                kept = replace(message) if isinstance(message, Token) else message
                running.node.handle_message(kept, self.now)

    # What one sees

    def value(self, slot: int, at: int, number: int = 0) -> Any:
        return self.running[slot].node.participant.instances[number].node.slots[at].value

    def values(self, at: int, number: int = 0) -> list[Any]:
        return [self.value(slot, at, number) for slot in sorted(self.running)]

    def is_regular(self, slot: int, number: int = 0) -> bool:
        """Whether a node is regular at every level, as the agents there have it."""
        running = self.running[slot]
        if self.members.get(slot) != running.living:
            return False
        if running.node.participant.instances[number].node.standing is not Standing.REGULAR:
            return False
        place = slot
        for level in range(self.placement._height):
            place //= self.placement._size
            placed = self.placement.domains[level, place]
            leader = self._node(placed.domain.leader)
            if leader is None:
                return False
            led = leader.participant.instances[number].led.get((level, place))
            if led is None or led.standing is not Standing.REGULAR:
                return False
        return True

    def top(self, number: int = 0) -> list[Slot]:
        """The slots of the whole system."""
        level = self.placement._height - 1
        placed = self.placement.domains.get((level, 0))
        leader = None if placed is None else self._node(placed.domain.leader)
        led = None if leader is None else leader.participant.instances[number].led.get((level, 0))
        return [] if led is None else list(led.slots)

    def _node(self, number: int) -> ProtocolNode | None:
        for running in self.running.values():
            if running.living.node == number:
                return running.node
        return None

    def broken(self, number: int = 0) -> Broken | None:
        observed = {
            f"n{slot:02}": Observed(
                [s.value for s in running.node.participant.instances[number].node.slots],
                self.is_regular(slot, number),
            )
            for slot, running in self.running.items()
        }
        top = [slot.value for slot in self.top(number)]
        return self.claims[number].check(observed, top)

    def check(self) -> None:
        """Claims of all instances, and that mono values at the top are ever fresher."""
        for number, plan in enumerate(self.plans):
            seen = tuple(
                (slot, self.is_regular(slot, number), tuple(each.value for each in node.slots))
                for slot, running in self.running.items()
                for node in [running.node.participant.instances[number].node]
            )
            if self.checked.get(number) != seen:
                self.checked[number] = seen
                broken = self.broken(number)
                assert broken is None, f"{self.now:.3f} s, instance {number}: {broken}"
            for rule in plan.rules:
                if not (rule.is_mono and rule.aggregation):
                    continue
                for running in self.running.values():
                    for name, domain in running.node.participant.instances[number].led.items():
                        assert not (name in self.begun and domain.is_beginning), "begins again"
                        if name[0] == self.placement._height - 1 and domain.is_settled:
                            self.begun |= set() if domain.is_beginning else {name}
                        slot = domain.slots[rule.target]
                        self._check_certificate(f"{number}/{rule.target}", domain.name, slot)

    def _check_certificate(self, of: str, name: str, slot: Slot) -> None:
        new = slot.certificate
        if new is None:
            return
        key = (f"{of}/{name}", slot.version.height)
        old = self.certificates.get(key)
        if old is None or old is new:
            self.certificates[key] = new
            return
        if new.version < old.version:
            return  # an agent that was replaced and does not know it yet
        before = {part.name: part.version for part in old.parts()}
        for part in new.parts():
            assert part.version >= before.get(part.name, part.version), (
                f"{self.now:.3f} s: {name} is computed over {part.name} at {part.version}, "
                f"and was before at {before[part.name]}"
            )
        self.certificates[key] = new
