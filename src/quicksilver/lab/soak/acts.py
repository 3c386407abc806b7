"""The mishaps of a soak, drawn from a seed.

kill     SIGKILL; another process takes its place
restart  closes its node and ends; another process takes its place
freeze   SIGSTOP, then SIGCONT
cut      no datagrams, and the stream to the GMS stands still
mute     no datagrams, while heartbeats reach the GMS
leave    leaves a part of its groups, and joins them again
gms      SIGKILL of the GMS; a new process goes on from its file
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from quicksilver.stdx.rand import Rng

ActName = Literal["kill", "restart", "freeze", "cut", "mute", "leave", "gms"]
ACTS: tuple[ActName, ...] = get_args(ActName)

ENDS_PROCESS: frozenset[ActName] = frozenset({"kill", "restart"})

SHORTEST_S, LONGEST_S = 1.0, 10.0
AWAY_S = 3.0
"""How long at most nobody has the place of a process that ended."""


@dataclass(frozen=True, slots=True)
class Act:
    """One mishap: what, to whom (None: the GMS), for how long."""

    name: ActName
    place: int | None
    for_s: float


def draw_act(
    rng: Rng,
    enabled: Sequence[ActName],
    whole: Sequence[int],
    steady: frozenset[int],
    *,
    is_gms_whole: bool,
) -> Act | None:
    """Return what happens next; None if all who could suffer do already.

    ``whole``: places to which nothing happens at present. ``steady``: places whose
    process is never ended, so that its memory can be watched from first to last.
    """
    name = rng.choice(enabled)
    part = rng.uniform()
    if name == "gms":
        return Act(name, None, 0.2 + part * (AWAY_S - 0.2)) if is_gms_whole else None
    ending = name in ENDS_PROCESS
    places = [place for place in whole if not (ending and place in steady)]
    if not places:
        return None
    longest_s = AWAY_S if ending else LONGEST_S
    shortest_s = 0.2 if ending else SHORTEST_S
    return Act(name, rng.choice(places), shortest_s + part * (longest_s - shortest_s))


def draw_memberships(rng: Rng, workers: int, groups: int) -> list[list[int]]:
    """Return the groups of each worker.

    Groups come in blocks with the same members, as groups of one application do. The
    first block is everybody's; of the others each worker is in or not, at least two are.
    """
    blocks = 8
    members: list[list[int]] = [list(range(workers))]
    for _ in range(blocks - 1):
        chosen = [place for place in range(workers) if rng.chance(0.6)]
        members.append(chosen if len(chosen) >= 2 else list(range(workers)))
    return [
        [group for group in range(groups) if place in members[group % blocks]]
        for place in range(workers)
    ]
