"""One member without UDP, whose stream to the GMS works: only this one begins anew.

It sends all the time, and views are replaced before anybody has heard of its packets there.
"""

from __future__ import annotations

from functools import partial

import pytest

from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.faults import GmsRestart, Mute
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import make_payload

MUTE = 2


class Scene:
    """Six members of two groups, of whom one is mute, and a node that comes and goes."""

    def __init__(self, mute: Mute, senders: tuple[int, ...]) -> None:
        self.cluster = Cluster(seed=11)
        self.cluster.watch(*ALL)
        *self.members, self.visitor = self.cluster.start(7)
        for node in self.members:
            node.join("g", "h")
        assert self.cluster.settle()
        self._senders = [self.cluster.nodes[index] for index in senders]
        self._mute = mute
        mute.begin(self.cluster)
        end = self.cluster.now + mute.for_s
        self.cluster.every(0.05, self._send, until=end + 5.0)
        self.cluster.events.after(mute.for_s, partial(mute.end, self.cluster))

    def _send(self) -> None:
        for node in self._senders:
            for group in sorted(node.ready & {"g", "h"}):
                number = node.sent[group]
                node.send(group, make_payload(group, node.index, node.life, number, 200))

    def finish(self) -> SimNode:
        """Let the fault end and all come to rest; judge, and return the mute node."""
        for _ in range(round(10 * (self._mute.for_s + 30.0))):
            self.cluster.run(0.1)
            self.cluster.watching.on_look()
        self.cluster.watching.on_settled()
        nodes = self.cluster.nodes
        anew = {n.index: n.excluded_for for n in nodes if n.exclusions and n.index != MUTE}
        assert anew == {}, "what one could not say must not cost others anything"
        assert [str(v) for v in self.cluster.violations()] == []
        return nodes[MUTE]


@pytest.mark.slow
@pytest.mark.parametrize("for_s", [13.0, 25.0])
@pytest.mark.parametrize("hears", [True, False])
def test_whom_nobody_answers_begins_anew_before_others_have_to(for_s: float, hears: bool) -> None:
    """Nobody else sends: nobody misses the mute one, so nobody reports it either."""
    scene = Scene(Mute(at=0.0, for_s=for_s, node=MUTE, hears=hears), (MUTE,))
    scene.cluster.events.after(1.0, lambda: scene.visitor.join("g", "h"))
    mute = scene.finish()
    assert "nobody has answered" in " ".join(mute.excluded_for), mute.excluded_for


@pytest.mark.slow
@pytest.mark.parametrize("restart_at", [5.5, 7.0])
def test_a_new_incarnation_that_is_still_mute_costs_nobody_anything(restart_at: float) -> None:
    """It was excluded and is back. The GMS restarts, and forgets what others say of it."""
    scene = Scene(Mute(at=0.0, for_s=10.0, node=MUTE), (0, 1, MUTE))
    restart, visitor = GmsRestart(at=restart_at, for_s=0.7), scene.visitor
    after = scene.cluster.events.after
    after(restart.at, partial(restart.begin, scene.cluster))
    after(restart.at + restart.for_s, partial(restart.end, scene.cluster))
    for turn in range(9):
        after(1.0 + 1.1 * turn, partial(visitor.leave if turn % 2 else visitor.join, "h"))
    assert scene.finish().exclusions


@pytest.mark.slow
@pytest.mark.parametrize("senders", [(0, 1, MUTE), (MUTE,)])
def test_whoever_is_mute_for_a_moment_goes_on_as_it_was(senders: tuple[int, ...]) -> None:
    """Old views are kept for longer than that."""
    scene = Scene(Mute(at=0.0, for_s=1.5, node=MUTE), senders)
    scene.cluster.events.after(0.3, lambda: scene.visitor.join("g", "h"))
    assert scene.finish().exclusions == 0
