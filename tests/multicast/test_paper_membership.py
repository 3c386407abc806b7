"""Views, incarnations and the GMS as engines live through them (4.2.1 A, 4.3.7)."""

from __future__ import annotations

from pathlib import Path

from quicksilver.membership.events import ViewsChanged
from quicksilver.membership.store import MemoryStore, SqliteStore
from quicksilver.multicast.config import EngineConfig
from quicksilver.stdx.rand import Rng
from quicksilver.wire.packets import KIND_DATA, KIND_REPAIR, parse_key
from tests.kit.checks import check_all, check_clean, check_fifo, have_all, parse, send_numbered
from tests.kit.cluster import VirtualNode, World, lose_data, one_region


def view_numbers(node: VirtualNode) -> list[tuple[int, int]]:
    """(group, view) in the order in which a node installed them."""
    return [
        (view.id, view.view)
        for event in node.events
        if isinstance(event, ViewsChanged)
        for view in event.groups
    ]


class TestRegions:
    """Members of merged regions; nodes that move between regions."""

    def test_members_of_a_merged_region_drop_what_they_did_not_join(self) -> None:
        """4.1.2: a region may hold nodes with *approximately* the same groups."""
        world = World(4, seed=1, planner="auto")
        wanted = [{"g", "i"}, {"g", "h", "i"}, {"g", "h"}]
        for node, groups in zip(world.nodes, wanted, strict=False):
            node.join(*sorted(groups))
        sender = world.nodes[3]
        sender.open("g", "h", "i")
        world.settle()
        assert len({r for n in world.nodes[:3] for r in n.engine._regions}) == 1
        world.loss = lose_data(Rng(1), 0.05)
        for _ in range(20):
            for group in ("g", "h", "i"):
                send_numbered(sender, group, 5)
            world.run(0.01)
        world.run(5)
        for node, groups in zip(world.nodes, wanted, strict=False):
            assert {parse(message)[0] for *_, message in node.inbox} == groups
            assert len(node.inbox) == 100 * len(groups)
            assert node.unwanted == 100 * (3 - len(groups))
        world.loss = None
        world.run(10)
        check_all(world)

    def test_packets_of_a_view_that_is_not_known_yet_are_kept(self) -> None:
        """4.3.7: QSM "briefly buffers 'unexpected' messages, in case a join is underway"."""
        world = one_region(2, seed=2)
        sender = world.nodes[2]
        late = world.add_node()
        late.join("g")
        blind = world.nodes[1]
        held: list[bytes] = []
        handle = blind.engine.handle_control_frame
        blind.engine.handle_control_frame = (  # type: ignore[method-assign]
            lambda frame, now: held.append(frame)
        )
        world.settle()
        world.run(0.05)
        send_numbered(sender, "g", 20)
        world.run(0.3)
        assert len(late.inbox) == 20
        assert blind.inbox == []
        assert blind.engine.counters.unknown_kept > 0
        blind.engine.handle_control_frame = handle  # type: ignore[method-assign]
        for frame in held:
            blind.receive(lambda frame=frame: handle(frame, world.now))
        assert len(blind.inbox) == 20
        assert blind.engine.counters.repairs_received == 0
        world.run(10)
        check_all(world)

    def test_what_never_becomes_known_is_forgotten(self) -> None:
        """4.3.7: briefly; strangers' packets cost neither memory nor attention for long."""
        world = one_region(2, seed=3)
        node = world.nodes[0]
        packet = bytes((0x51, KIND_DATA, 1, 0)) + b"".join(
            n.to_bytes(4, "little") for n in (node.engine.cluster, 3, 77, 1)
        )
        world.inject(node, packet + bytes(40), ("10.9.9.9", 7000))
        world.run(0.1)
        assert node.engine._unknown.bytes > 0
        world.run(3)
        assert node.engine._unknown.bytes == 0


class TestIncarnations:
    """A node that restarts, or was excluded, is a new node."""

    def test_a_frozen_node_is_excluded_and_rejoins_as_new(self) -> None:
        """4.2.1 A: the GMS knows "which nodes are running"; the others go on without it."""
        world = one_region(4, seed=4)
        sender, frozen = world.nodes[4], world.nodes[1]
        before = frozen.engine.node
        for step in range(40):
            if step == 5:
                frozen.freeze()
            send_numbered(sender, "g", 10)
            world.run(0.2)
        others = [world.nodes[0], world.nodes[2], world.nodes[3]]
        assert have_all(world, others)
        frozen.thaw()
        world.run(2)
        assert frozen.was_excluded()
        assert frozen.engine.node > before
        send_numbered(sender, "g", 10)
        world.run(2)
        assert frozen.inbox[-1][3] == sender.sent["g"][-1]
        world.run(10)
        check_all(world)

    def test_a_node_frozen_for_a_moment_catches_up(self) -> None:
        """4.3.7: the "sleep" scenario; it is repaired, not excluded."""
        world = one_region(4, seed=5)
        sender, frozen = world.nodes[4], world.nodes[1]
        for step in range(20):
            if step == 5:
                frozen.freeze()
            if step == 15:
                frozen.thaw()
            send_numbered(sender, "g", 10)
            world.run(0.15)
        assert world.run(5, lambda: have_all(world, world.nodes[:4]))
        assert not frozen.was_excluded()
        world.run(10)
        check_all(world)

    def test_a_sender_excluded_in_the_middle_of_a_large_message_can_send_again(self) -> None:
        """DESIGN, incarnations: nothing of the old one may be sent, nothing may hold the new."""
        world = one_region(3, seed=6)
        sender = world.nodes[3]
        send_numbered(sender, "g", 1, size=3_000_000)
        world.run(0.005)
        sender.freeze()
        world.run(6)
        sender.thaw()
        world.run(3)
        assert sender.was_excluded()
        send_numbered(sender, "g", 2)
        world.run(5)
        for node in world.nodes[:3]:
            assert [m for *_, m in node.inbox][-2:] == sender.sent["g"][-2:]
        check_clean(world)

    def test_packets_of_a_dead_incarnation_are_rejected(self) -> None:
        """DESIGN, incarnations: "packets of the dead one are recognised and dropped"."""
        world = one_region(3, senders=2, seed=7)
        dead = world.nodes[4]
        kept: list[tuple[tuple[str, int], bytes]] = []
        world.taps.append(
            lambda node, to, packet: kept.append((to, packet)) if node is dead else None
        )
        send_numbered(dead, "g", 5)
        world.run(1)
        dead.kill()
        world.run(2)
        counts = [len(node.inbox) for node in world.nodes[:3]]
        joined = world.add_node()
        joined.join("g")
        world.settle(joined)
        rejected = [node.engine.counters.rejected for node in world.nodes[:3]]
        for _, packet in kept:
            for node in (*world.nodes[:3], joined):
                fresh = bytearray(packet)
                if packet[1] in {KIND_DATA, KIND_REPAIR}:
                    (member,) = joined.engine._regions.values()
                    fresh[16:20] = member.number.to_bytes(4, "little")
                world.inject(node, bytes(fresh), dead.address)
        world.run(1)
        assert [len(node.inbox) for node in world.nodes[:3]] == counts
        assert joined.inbox == []
        for node, before in zip(world.nodes[:3], rejected, strict=True):
            assert node.engine.counters.rejected > before

    def test_an_incarnation_is_never_used_again(self) -> None:
        """4.2.1 A with DESIGN: identifiers grow over exclusions and restarts of the GMS."""
        world = one_region(2, senders=0, seed=8)
        seen = {node.engine.node for node in world.nodes}
        for _ in range(2):
            world.nodes[1].freeze()
            world.run(5)
            world.nodes[1].thaw()
            world.run(2)
            assert world.nodes[1].engine.node not in seen
            seen.add(world.nodes[1].engine.node)
            world.restart_gms()
            world.run(2)


class TestGmsRestart:
    """While the GMS is down, traffic goes on and membership stands still."""

    def run_through(self, world: World) -> None:
        """Send through two restarts, with a join that must wait, and check everything."""
        sender = world.nodes[3]
        world.loss = lose_data(Rng(9), 0.05)
        for step in range(40):
            send_numbered(sender, "g", 10)
            if step in {10, 25}:
                world.restart_gms(store=self.reopen(world), down_s=0.3)
            if step == 12:
                world.add_node().join("g")
            world.run(0.1)
        receivers = world.nodes[:3]
        assert world.run(5, lambda: have_all(world, receivers))
        late = world.nodes[4]
        assert late.is_subscribed()
        assert late.inbox
        assert late.inbox[-1][3] == sender.sent["g"][-1]
        for node in receivers:
            assert not node.was_excluded()
            numbers = view_numbers(node)
            assert numbers == sorted(numbers)
        world.loss = None
        world.run(10)
        check_all(world)

    def reopen(self, world: World) -> SqliteStore | None:
        if self.path is None:
            return None
        world._store.close()
        world._store = SqliteStore(self.path)
        return world._store  # type: ignore[return-value]  # as set above

    path: Path | None = None

    def test_nothing_is_lost_and_view_numbers_go_on(self) -> None:
        """ARCHITECTURE: "a view number is never reused and never goes back"."""
        self.run_through(one_region(3, seed=9, store=MemoryStore()))

    def test_nothing_is_lost_on_a_database_either(self, tmp_path: Path) -> None:
        """The same, over SQLite, opened again by every new GMS."""
        self.path = tmp_path / "gms.sqlite"
        store = SqliteStore(self.path)
        world = one_region(3, seed=10, store=store)
        self.run_through(world)
        world._store.close()

    def test_a_crash_while_the_gms_is_down_is_noticed_afterwards(self) -> None:
        """4.2.1 A: views follow; what was sent meanwhile reaches the survivors."""
        world = one_region(4, seed=11)
        sender = world.nodes[4]
        world.restart_gms(down_s=1.0)
        world.run(0.1)
        world.nodes[1].kill()
        send_numbered(sender, "g", 100)
        world.run(0.5)
        send_numbered(sender, "g", 100)
        alive = [world.nodes[0], world.nodes[2], world.nodes[3]]
        assert world.run(15, lambda: have_all(world, alive))
        world.run(10)
        (view,) = world.nodes[0].engine.client.directory.groups.values()
        assert len(view.members) == 3
        check_all(world)


def test_a_slow_receiver_slows_the_sender_instead_of_being_flooded() -> None:
    """4.3.7: "responding with reduced throughput"; unacknowledged bytes stay within the window."""
    config = EngineConfig(packet_bytes=1400, receive_buffer_bytes=100_000)
    world = one_region(3, seed=12, config=config)
    sender, slow = world.nodes[3], world.nodes[1]
    send_numbered(sender, "g", 200, size=1000)
    world.run(1)
    slow.freeze()
    send_numbered(sender, "g", 5000, size=1000)
    world.run(1)
    assert sender.engine.stats()["pending_bytes"] <= 110_000
    assert sender.engine.stats()["waits_for"] == slow.engine.node
    slow.thaw()
    assert world.run(20, lambda: have_all(world, world.nodes[:3]))
    world.run(10)
    check_fifo(world)
    check_clean(world)


def test_the_stream_key_names_the_incarnation() -> None:
    """Every packet says which incarnation of which cluster sent it into which view."""
    world = one_region(2, seed=13)
    sender = world.nodes[2]
    keys = set()
    world.taps.append(
        lambda node, to, p: keys.add(parse_key(p[4:20])) if p[1] == KIND_DATA else None
    )
    send_numbered(sender, "g", 5)
    world.run(1)
    ((cluster, node, region, view),) = keys
    (member,) = world.nodes[0].engine._regions.values()
    assert (cluster, node) == (sender.engine.cluster, sender.engine.node)
    assert (region, view) == (member.id, member.number)
