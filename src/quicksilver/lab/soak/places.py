"""Places of a soak, each held by one worker process after another, and mishaps to them."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import assert_never

from quicksilver.lab.local_gms import Relay
from quicksilver.lab.nodes import DEAF, WHOLE
from quicksilver.lab.processes import Child, Children, Inbox
from quicksilver.lab.soak.acts import ActName
from quicksilver.lab.soak.records import Change, Conclude, Round, Worker, group_name
from quicksilver.lab.worker import start_worker
from quicksilver.stdx.rand import Rng

READY_S = 90.0
"""A machine with fewer cores than processes starts them slowly."""
LEFT_PART = 20
"""One of so many groups is left when a worker leaves groups."""


@dataclass(eq=False)
class Place:
    """A worker's place: who has it now, and what happens to it."""

    number: int
    groups: frozenset[str]
    relay: Relay
    life: int = -1
    child: Child | None = None
    node: int = 0
    """The worker's incarnation, as it last said; 0: none."""
    is_ready: bool = False
    is_harmed: bool = False
    """True while something happens to it, and until it is in its groups again."""
    harmed_at: float = float("-inf")
    """When something last happened to it, or ended."""
    exclusions: int = 0
    messages: int = 0
    last: Round | None = None
    """Its last words, when all is over."""
    before: str = ""
    """What was wrong with the last words before these; empty: there were none."""
    away: list[str] = field(default_factory=list)
    """Groups that it has left for a while."""

    @property
    def name(self) -> str:
        return f"worker {self.number}.{self.life}"

    def start(self, children: Children, inbox: Inbox, seed: int) -> Child:
        """Start another process."""
        self.life += 1
        self.is_ready = False
        self.node = self.exclusions = self.messages = 0
        self.away = []
        spec = Worker(
            gms=self.relay.address,
            name=f"worker-{self.number}.{self.life}",
            interface="lo",
            connect_timeout_s=READY_S,
            place=self.number,
            life=self.life,
            groups=sorted(self.groups),
            seed=seed,
        )
        self.child = start_worker(children, spec, inbox=inbox)
        return self.child

    # Mishaps

    def begin(self, name: ActName, rng: Rng) -> None:
        """Let a mishap begin."""
        child = self.child
        assert child is not None
        self.is_harmed = True
        match name:
            case "kill":
                child.kill()
            case "restart":
                child.close_input()
            case "freeze":
                child.send_signal(signal.SIGSTOP)
            case "cut":
                self.relay.cut()
                child.tell(DEAF)
            case "mute":
                child.tell(DEAF)
            case "leave":
                names = sorted(self.groups)
                self.away = rng.sample(names, max(1, len(names) // LEFT_PART))
                child.tell(Change(leave=self.away))
            case "gms":
                raise AssertionError("the GMS has no place")
            case _:
                assert_never(name)

    def end(self, name: ActName, now: float) -> None:
        """Let a mishap that its process survived end."""
        self.relay.mend()
        if self.child is not None:
            if name == "freeze":
                self.child.send_signal(signal.SIGCONT)
            elif name == "leave":
                self.child.tell(Change(join=self.away))
            else:
                self.child.tell(WHOLE)
        self.away = []
        self.calm(now)

    def calm(self, now: float) -> None:
        """Note that the mishap is over."""
        self.is_harmed = False
        self.harmed_at = now

    # The end

    def conclude(self, problem: str = "") -> None:
        """Have the worker speak to all its groups once more; ``problem``: why yet again."""
        self.last = None
        self.before = problem
        if self.child is not None:
            self.child.tell(Conclude())

    def problem(self, others: list[Place]) -> str:
        """Return what is wrong with its last words: a flush that failed, members it lacks."""
        if self.last is None:
            before = f", and the one before: {self.before}" if self.before else ""
            return f"it has not said how its last flush ended{before}"
        if self.last.problem:
            return f"the last flush failed: {self.last.problem}"
        for other in others:
            common = self.groups & other.groups if other is not self else ()
            lacking = [g for g in common if other.node not in self.last.members.get(g, ())]
            if lacking:
                some = min(lacking)
                return f"{other.name} (node {other.node}) is not in its view of {some}"
        return ""


def make_groups(numbers: list[int]) -> frozenset[str]:
    """Return the names of groups."""
    return frozenset(map(group_name, numbers))
