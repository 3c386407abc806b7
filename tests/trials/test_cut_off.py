"""A node that nobody but the GMS hears for longer than old views are kept."""

from __future__ import annotations

import pytest

from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster


@pytest.mark.slow
@pytest.mark.parametrize("sends_meanwhile", [True, False])
@pytest.mark.parametrize("knows_what_it_lacks", [True, False])
@pytest.mark.parametrize("hears", [True, False])
def test_it_comes_back_as_a_new_node_rather_than_skip_messages(
    sends_meanwhile: bool, knows_what_it_lacks: bool, hears: bool
) -> None:
    """What was committed to a view that is forgotten is lost to it: a gap that only a
    new incarnation may have, whether it knew of the packets or hears of them later."""
    cluster = Cluster(seed=3)
    cluster.watch(*ALL)
    nodes = cluster.start(4)
    sender, other, cut_off, newcomer = nodes
    for node in (sender, other, cut_off):
        node.join("g")
    assert cluster.settle()
    sender.send("g", b"before")
    cluster.run(1.0)
    ways = [(n.index, cut_off.index) for n in (sender, other, newcomer)]
    if not hears:
        ways += [(target, source) for source, target in ways]
    for source, target in ways:
        cluster.network.cut(source, target)
    sender.send("g", *[b"lost"] * 5)
    cluster.run(0.2)
    if knows_what_it_lacks:
        cluster.network.mend(sender.index, cut_off.index)
        cluster.run(0.005)
        sender.send("g", b"heard")
        # Long enough for a packet, and too short to be asked for what is missing before it.
        cluster.run(0.001)
        cluster.network.cut(sender.index, cut_off.index)
    newcomer.join("g")
    cluster.run(1.0)
    if sends_meanwhile:
        sender.send("g", *[b"meanwhile"] * 3)
    cluster.run(30.0)
    for source, target in ways:
        cluster.network.mend(source, target)
    sender.send("g", *[b"after"] * 3)
    cluster.run(30.0)
    assert [str(v) for v in cluster.violations() if v.check in ("gaps", "fifo")] == []
    assert cut_off.exclusions >= 1, "peers report it, as often as it comes back and is mute"
    assert other.exclusions == newcomer.exclusions == sender.exclusions == 0
    assert cluster.is_settled()
    sender.send("g", b"last")
    cluster.run(2.0)
    assert cut_off.delivered[cluster.group_id("g")] >= 2
