"""A library program on simulated nodes, spoken to by the names of its events."""

from __future__ import annotations

from typing import Any

from quicksilver.properties import library
from quicksilver.properties.compile.program import compile_text
from quicksilver.properties.run.claims import Claims, Observed
from tests.properties.world import World


class Group(World):
    """Nodes that run one program; its invariants are checked after every step."""

    def __init__(self, name: str, slots: int, arguments: dict[str, Any] | None = None, **how: Any):
        self.plan = compile_text(library.text_of(name), arguments, name=name)
        super().__init__(self.plan, slots, **how)
        self.eventual = Claims(self.plan.eventualities)

    def say(self, slot: int, event: str, *arguments: Any) -> None:
        """Let the application of a node say something."""
        names = [one.name for one in self.plan.callbacks]
        self.event(slot, names.index(event), *arguments)

    def told(self, slot: int, *requests: str) -> list[tuple[Any, ...]]:
        """Return what the application of a node was asked, in order."""
        names = [one.name for one in self.plan.requests]
        found = [(names[event], *arguments) for event, arguments in self.running[slot].events]
        return [one for one in found if not requests or one[0] in requests]

    def has(self, slot: int, name: str) -> Any:
        """Return the value of a property of a node."""
        return self.value(slot, [one.name for one in self.plan.properties].index(name))

    def settle(self, seconds: float = 4.0) -> None:
        """Let time pass; then what is to hold at last holds."""
        self.run(seconds)
        observed = {
            f"n{slot:02}": Observed(
                [each.value for each in running.node.participant.instances[0].node.slots],
                self.is_regular(slot),
            )
            for slot, running in self.running.items()
        }
        broken = self.eventual.check(observed, [slot.value for slot in self.top()])
        assert broken is None, f"{self.now:.3f} s: {broken}"
