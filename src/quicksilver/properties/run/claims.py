"""What a program claims of all its nodes (``invariant``, ``eventually``), seen from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from quicksilver.properties.plan import Claim
from quicksilver.properties.run.expressions import Context, Function, evaluator
from quicksilver.properties.values.kinds import Value


class Observed(NamedTuple):
    """A living node as somebody sees it who sees all."""

    values: Sequence[Value | None]
    is_regular: bool
    """At every level, up to the top."""


class Broken(NamedTuple):
    """A claim that does not hold."""

    label: str
    nodes: tuple[tuple[str, str], ...]
    """Which nodes the variables stand for."""

    def __str__(self) -> str:
        who = ", ".join(f"{variable} = {node}" for variable, node in self.nodes)
        return f"{self.label} does not hold" + (f" for {who}" if who else "")


class Claims:
    """Claims made ready to be checked."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self._claims: list[tuple[Claim, Function]] = [
            (claim, evaluator(claim.body)) for claim in claims
        ]

    def check(self, nodes: Mapping[str, Observed], top: Sequence[Value | None]) -> Broken | None:
        """Return a claim that these nodes break; ``top``: values of the whole system."""
        regular = [name for name in sorted(nodes) if nodes[name].is_regular]
        for claim, holds in self._claims:
            choices = [sorted(nodes) if each.is_any else regular for each in claim.quantified]
            variables = [each.variable for each in claim.quantified]
            context = Context()
            context.nodes = {"": top}
            for chosen in product(*choices):
                for variable, name in zip(variables, chosen, strict=True):
                    context.nodes[variable] = nodes[name].values
                    context.variables[variable] = name
                if holds(context) is False:
                    return Broken(claim.label, tuple(zip(variables, chosen, strict=True)))
        return None
