"""One member without UDP, whose stream to the GMS works: it harms only itself."""

from __future__ import annotations

import pytest

from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.faults import Mute
from quicksilver.trials.payloads import make_payload

MUTE = 2


def send(cluster: Cluster, senders: tuple[int, ...]) -> None:
    for index in senders:
        node = cluster.nodes[index]
        if "g" in node.ready:
            node.send("g", make_payload("g", index, node.life, node.sent["g"], 200))


def run(cluster: Cluster, seconds: float) -> None:
    for _ in range(round(seconds * 10)):
        cluster.run(0.1)
        cluster.watching.on_look()


@pytest.mark.slow
@pytest.mark.parametrize("others_send", [True, False])
@pytest.mark.parametrize("change_at", [1.0, 4.5])
@pytest.mark.parametrize("for_s", [2.0, 7.0, 10.0, 13.0, 25.0])
@pytest.mark.parametrize("ways", [{}, {"hears": True}, {"is_heard": True}])
def test_only_the_mute_member_begins_anew(
    ways: dict[str, bool], for_s: float, change_at: float, others_send: bool
) -> None:
    """It sends all the time, to views that are replaced before anybody has heard of it."""
    cluster = Cluster(seed=11)
    cluster.watch(*ALL)
    nodes = cluster.start(6)
    for node in nodes[:5]:
        node.join("g")
    assert cluster.settle()
    fault = Mute(at=0.0, for_s=for_s, node=MUTE, **ways)
    fault.begin(cluster)
    cluster.every(
        0.05,
        lambda: send(cluster, (0, 1, MUTE) if others_send else (MUTE,)),
        until=cluster.now + for_s + 5.0,
    )
    cluster.events.after(change_at, lambda: nodes[5].join("g"))
    run(cluster, for_s)
    fault.end(cluster)
    run(cluster, 30.0)
    cluster.watching.on_settled()
    others = {n.index: n.excluded_for for n in nodes if n.index != MUTE and n.excluded_for}
    print(nodes[MUTE].excluded_for)
    assert others == {}
    assert [str(v) for v in cluster.violations()] == []
