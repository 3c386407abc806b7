"""Views, incarnations and the GMS as engines live through them (4.2.1 A, 4.3.7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver.membership.store import MemoryStore, SqliteStore
from quicksilver.multicast.config import EngineConfig
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.gms import GMS_INDEX
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.packets import KIND_DATA, KIND_REPAIR, parse_key
from tests.kit.checks import check_all
from tests.kit.cluster import (
    clear_up,
    have_all,
    inbox,
    inject,
    make_cluster,
    numbers,
    one_region,
    rain,
)


def view_number(node: SimNode, group: str) -> int:
    """The number of a group's view at a node."""
    number = node.cluster.group_id(group)
    return node.session.directory.groups[number].view  # type: ignore[index]


class TestRegions:
    """Members of merged regions; nodes that move between regions."""

    def test_members_of_a_merged_region_drop_what_they_did_not_join(self) -> None:
        """4.1.2: a region may hold nodes with *approximately* the same groups."""
        cluster = make_cluster(4, seed=1, planner="auto")
        wanted = [{"g", "i"}, {"g", "h", "i"}, {"g", "h"}]
        for node, groups in zip(cluster.nodes, wanted, strict=False):
            node.join(*sorted(groups))
        sender = cluster.nodes[3]
        sender.open("g", "h", "i")
        assert cluster.settle()
        assert len({r for n in cluster.nodes[:3] for r in n.engine._regions}) == 1
        rain(cluster, 0.05, spares_control=True)
        for _ in range(20):
            for group in ("g", "h", "i"):
                send_numbered(sender, group, 5)
            cluster.run(0.01)
        cluster.run(5)
        for node, groups in zip(cluster.nodes, wanted, strict=False):
            assert {cluster.group_name(message.group) for message in inbox(node)} == groups
            assert len(inbox(node)) == 100 * len(groups)
            assert node.unwanted == 100 * (3 - len(groups))
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def test_packets_of_a_view_that_is_not_known_yet_are_kept(self) -> None:
        """4.3.7: QSM "briefly buffers 'unexpected' messages, in case a join is underway"."""
        cluster = one_region(2, seed=2)
        sender = cluster.nodes[2]
        (late,) = cluster.start()
        late.join("g")
        blind = cluster.nodes[1]
        cluster.network.cut(GMS_INDEX, blind.index)
        assert cluster.settle()
        cluster.run(0.05)
        send_numbered(sender, "g", 20)
        cluster.run(0.3)
        assert len(inbox(late)) == 20
        assert inbox(blind) == []
        assert blind.engine.counters.unknown_kept > 0
        cluster.network.mend(GMS_INDEX, blind.index)
        assert cluster.run(0.3, lambda: len(inbox(blind)) == 20)
        assert blind.engine.counters.repairs_received == 0
        cluster.run(10)
        check_all(cluster)

    def test_what_never_becomes_known_is_forgotten(self) -> None:
        """4.3.7: briefly; strangers' packets cost neither memory nor attention for long."""
        cluster = one_region(2, seed=3)
        node = cluster.nodes[0]
        packet = bytes((0x51, KIND_DATA, 1, 0)) + b"".join(
            n.to_bytes(4, "little") for n in (node.engine.cluster, 3, 77, 1)
        )
        inject(node, packet + bytes(40), ("10.9.9.9", 7000))
        cluster.run(0.1)
        assert node.engine.intake.early.bytes > 0
        cluster.run(3)
        assert node.engine.intake.early.bytes == 0


class TestIncarnations:
    """A node that restarts, or was excluded, is a new node."""

    def test_a_frozen_node_is_excluded_and_rejoins_as_new(self) -> None:
        """4.2.1 A: the GMS knows "which nodes are running"; the others go on without it."""
        cluster = one_region(4, seed=4)
        sender, frozen = cluster.nodes[4], cluster.nodes[1]
        before = frozen.engine.node
        for step in range(40):
            if step == 5:
                frozen.freeze(35 * 0.2 + 0.1)
            send_numbered(sender, "g", 10)
            cluster.run(0.2)
        others = [cluster.nodes[0], cluster.nodes[2], cluster.nodes[3]]
        assert have_all(others)
        assert not frozen.exclusions
        cluster.run(2)
        assert frozen.exclusions
        assert frozen.engine.node > before
        send_numbered(sender, "g", 10)
        cluster.run(2)
        assert numbers(frozen, sender)[-10:] == list(range(400, 410))
        cluster.run(10)
        check_all(cluster)

    def test_a_node_frozen_for_a_moment_catches_up(self) -> None:
        """4.3.7: the "sleep" scenario; it is repaired, not excluded."""
        cluster = one_region(4, seed=5)
        sender, frozen = cluster.nodes[4], cluster.nodes[1]
        for step in range(20):
            if step == 5:
                frozen.freeze(10 * 0.15)
            send_numbered(sender, "g", 10)
            cluster.run(0.15)
        assert cluster.run(5, lambda: have_all(cluster.nodes[:4]))
        assert not frozen.exclusions
        cluster.run(10)
        check_all(cluster)

    def test_a_sender_excluded_in_the_middle_of_a_large_message_can_send_again(self) -> None:
        """DESIGN, incarnations: nothing of the old one may be sent, nothing may hold the new."""
        cluster = one_region(3, seed=6)
        sender = cluster.nodes[3]
        send_numbered(sender, "g", 1, size=3_000_000)
        cluster.run(0.005)
        sender.freeze(6)
        cluster.run(9)
        assert sender.exclusions
        send_numbered(sender, "g", 2)
        cluster.run(5)
        for node in cluster.nodes[:3]:
            assert numbers(node, sender)[-2:] == [1, 2]
        check_all(cluster)

    def test_packets_of_a_dead_incarnation_are_rejected(self) -> None:
        """DESIGN, incarnations: "packets of the dead one are recognised and dropped"."""
        cluster = one_region(3, senders=2, seed=7)
        dead = cluster.nodes[4]
        kept: list[tuple[tuple[str, int], bytes]] = []
        cluster.network.taps.append(
            lambda at, source, to, packet: (
                kept.append((to, packet)) if source == dead.address else None
            )
        )
        send_numbered(dead, "g", 5)
        cluster.run(1)
        dead.crash()
        cluster.run(2)
        counts = [len(inbox(node)) for node in cluster.nodes[:3]]
        (joined,) = cluster.start()
        joined.join("g")
        assert cluster.settle()
        rejected = [node.engine.counters.rejected for node in cluster.nodes[:3]]
        for _, packet in kept:
            for node in (*cluster.nodes[:3], joined):
                fresh = bytearray(packet)
                if packet[1] in {KIND_DATA, KIND_REPAIR}:
                    (member,) = joined.engine._regions.values()
                    fresh[16:20] = member.number.to_bytes(4, "little")
                inject(node, bytes(fresh), dead.address)
        cluster.run(1)
        assert [len(inbox(node)) for node in cluster.nodes[:3]] == counts
        assert inbox(joined) == []
        for node, before in zip(cluster.nodes[:3], rejected, strict=True):
            assert node.engine.counters.rejected > before

    def test_an_incarnation_is_never_used_again(self) -> None:
        """4.2.1 A with DESIGN: identifiers grow over exclusions and restarts of the GMS."""
        cluster = one_region(2, senders=0, seed=8)
        seen = {node.engine.node for node in cluster.nodes}
        for _ in range(2):
            cluster.nodes[1].freeze(5)
            cluster.run(7)
            assert cluster.nodes[1].engine.node not in seen
            seen.add(cluster.nodes[1].engine.node)
            cluster.gms.restart(0.5)
            cluster.run(2)


class TestGmsRestart:
    """While the GMS is down, traffic goes on and membership stands still."""

    def run_through(self, cluster: Cluster) -> None:
        """Send through two restarts, with a join that must wait, and check everything."""
        sender = cluster.nodes[3]
        before = view_number(sender, "g")
        rain(cluster, 0.05, spares_control=True)
        for step in range(40):
            send_numbered(sender, "g", 10)
            if step in {10, 25}:
                cluster.gms.restart(0.3)
                self.reopen(cluster)
            if step == 12:
                (late,) = cluster.start()
                late.join("g")
                rain(cluster, 0.05, spares_control=True)
            cluster.run(0.1)
        receivers = cluster.nodes[:3]
        assert cluster.run(5, lambda: have_all(receivers))
        late = cluster.nodes[4]
        assert "g" in late.ready
        assert numbers(late, sender)[-1] == 399
        for node in receivers:
            assert not node.exclusions
            assert view_number(node, "g") > before
        clear_up(cluster)
        cluster.run(10)
        check_all(cluster)

    def reopen(self, cluster: Cluster) -> None:
        if self.path is not None:
            cluster.gms.store.close()
            cluster.gms.store = SqliteStore(self.path)

    path: Path | None = None

    def test_nothing_is_lost_and_view_numbers_go_on(self) -> None:
        """ARCHITECTURE: "a view number is never reused and never goes back"."""
        self.run_through(one_region(3, seed=9, store=MemoryStore()))

    def test_nothing_is_lost_on_a_database_either(self, tmp_path: Path) -> None:
        """The same, over SQLite, opened again by every new GMS."""
        self.path = tmp_path / "gms.sqlite"
        store = SqliteStore(self.path)
        cluster = one_region(3, seed=10, store=store)
        self.run_through(cluster)
        cluster.gms.store.close()

    def test_a_crash_while_the_gms_is_down_is_noticed_afterwards(self) -> None:
        """4.2.1 A: views follow; what was sent meanwhile reaches the survivors."""
        cluster = one_region(4, seed=11)
        sender = cluster.nodes[4]
        cluster.gms.restart(1.0)
        cluster.run(0.1)
        cluster.nodes[1].crash()
        send_numbered(sender, "g", 100)
        cluster.run(0.5)
        send_numbered(sender, "g", 100)
        alive = [cluster.nodes[0], cluster.nodes[2], cluster.nodes[3]]
        assert cluster.run(15, lambda: have_all(alive))
        cluster.run(10)
        (view,) = cluster.nodes[0].session.directory.groups.values()
        assert len(view.members) == 3
        check_all(cluster)


@pytest.mark.slow
def test_a_slow_receiver_slows_the_sender_instead_of_being_flooded() -> None:
    """4.3.7: "responding with reduced throughput"; unacknowledged bytes stay within the window."""
    config = EngineConfig(packet_bytes=1400, receive_buffer_bytes=100_000)
    cluster = one_region(3, seed=12, config=config)
    sender, slow = cluster.nodes[3], cluster.nodes[1]
    send_numbered(sender, "g", 200, size=1000)
    cluster.run(1)
    slow.freeze(1.1)
    send_numbered(sender, "g", 5000, size=1000)
    cluster.run(1)
    assert sender.engine.stats()["pending_bytes"] <= 110_000
    assert cluster.run(20, lambda: have_all(cluster.nodes[:3]))
    cluster.run(10)
    check_all(cluster)


def test_the_stream_key_names_the_incarnation() -> None:
    """Every packet says which incarnation of which cluster sent it into which view."""
    cluster = one_region(2, seed=13)
    sender = cluster.nodes[2]
    keys = set()
    cluster.network.taps.append(
        lambda at, source, to, p: keys.add(parse_key(p[4:20])) if p[1] == KIND_DATA else None
    )
    send_numbered(sender, "g", 5)
    cluster.run(1)
    ((cluster_id, node, region, view),) = keys
    (member,) = cluster.nodes[0].engine._regions.values()
    assert (cluster_id, node) == (sender.engine.cluster, sender.id)
    assert (region, view) == (member.id, member.number)
