"""A cluster in one thread: a service, clients, a store, virtual time, no sockets.

Checks, at every view that any client installs, what must always hold; and on
request that all directories show the truth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quicksilver.core.ports import Noted, Reported
from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.client import MembershipClient
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.directory import GroupView, RegionView
from quicksilver.membership.events import (
    ClientEvent,
    Departed,
    Member,
    SubscriptionCompleted,
    ViewsChanged,
)
from quicksilver.membership.names import is_attendance, is_private
from quicksilver.membership.patterns import matches
from quicksilver.membership.planning.model import Planner
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import MemoryStore, Store, StoreError
from quicksilver.wire import gms
from tests.membership.exact_planner import ExactPlanner

SETTINGS = gms.ClusterSettings()


class Peer:
    """A node: its client, and what the application above it would have seen."""

    def __init__(self, name: str) -> None:
        self.client = MembershipClient(
            name=name, ip="10.0.0.1", port=9000, receive_buffer_bytes=1 << 20
        )
        self.conn: int | None = None
        self.inbox: deque[bytes] = deque()
        self.events: list[ClientEvent] = []
        self.joined: set[str] = set()
        self.opened: set[str] = set()
        self.patterns: set[str] = set()
        self.completed: dict[int, dict[str, int]] = {}
        self.requests: list[int] = []
        self.is_frozen = False

    def subscribe(self, *, join=(), leave=(), open=(), close=(), match=(), unmatch=()) -> int:  # noqa: A002  # as the client has it
        self.joined = (self.joined - set(leave)) | set(join)
        self.opened = (self.opened - set(close)) | set(open)
        self.patterns = (self.patterns - set(unmatch)) | set(match)
        request = self.client.subscribe(join, leave, open, close, match, unmatch)
        self.requests.append(request)
        return request


class ViewHistory:
    """All views ever installed anywhere: a number stands for one view only."""

    def __init__(self) -> None:
        self.regions: dict[tuple[int, int, int], tuple[object, ...]] = {}
        self.groups: dict[tuple[int, int, int], tuple[object, ...]] = {}

    def check(self, cluster: int, regions, groups, directory) -> None:
        for region in regions:
            assert list(region.members) == sorted(set(region.members))
            same = (region.address, region.members)
            assert self.regions.setdefault((cluster, region.id, region.view), same) == same
        for group in groups:
            same = (group.name, group.members, group.regions, group.hybrid, group.is_hybrid)
            assert self.groups.setdefault((cluster, group.id, group.view), same) == same
            self.check_covered(group, directory)

    @staticmethod
    def check_covered(group: GroupView, directory) -> None:
        """ "A list L of disjoint region views such that together they contain
        the full list of members of the group view" (dissertation 4.2.1 A)."""
        seen: list[int] = []
        if is_attendance(group.name):
            assert group.regions == ()
            return
        for region, view in group.regions:
            assert directory.regions[region].view == view
            seen += directory.regions[region].members
        if is_private(group.name):
            assert seen == list(group.members)
        assert len(seen) == len(set(seen))
        assert set(seen) >= set(group.members)


class Cluster:
    """Drives a service and its clients; time moves only in ``run``."""

    def __init__(
        self,
        *,
        store: Store | None = None,
        make_planner: Callable[[], Planner] = ExactPlanner,
        settings: gms.ClusterSettings = SETTINGS,
        config: ServiceConfig | None = None,
        pool: str = "239.192.0.0/16",
    ) -> None:
        self.store = store if store is not None else MemoryStore()
        self.make_planner = make_planner
        self.settings = settings
        self.config = config or ServiceConfig()
        self.pool = pool
        self.now = 100.0
        self.peers: list[Peer] = []
        self.notes: list[str] = []
        self.by_conn: dict[int, Peer] = {}
        self.next_conn = 1
        self.history = ViewHistory()
        self.seed = 7
        self.secrets = 0
        self.service: MembershipService | None = None
        self.last_views: dict[tuple[str, int, int], int] = {}
        self.start()

    # -- faults

    def start(self) -> None:
        self.service = MembershipService(
            store=self.store,
            planner=self.make_planner(),
            settings=self.settings,
            pool=AddressPool(self.pool),
            config=self.config,
            seed=self.seed,
            make_secret=self.make_secret,
        )
        self.seed += 1

    def make_secret(self) -> bytes:
        self.secrets += 1
        return self.secrets.to_bytes(gms.SECRET_BYTES, "little")

    def stop(self) -> None:
        """Kill the service: what it had not sent is lost."""
        self.service = None
        for peer in self.peers:
            self._drop(peer, "the GMS died")
        self.by_conn.clear()

    def add(self, name: str = "") -> Peer:
        peer = Peer(name or f"n{len(self.peers)}")
        self.peers.append(peer)
        return peer

    def crash(self, peer: Peer) -> None:
        """The process of a node ends without a word."""
        self.peers.remove(peer)
        self.disconnect(peer)

    def disconnect(self, peer: Peer) -> None:
        conn = peer.conn
        self._drop(peer, "reset by peer")
        if conn is not None:
            self.by_conn.pop(conn, None)
            if self.service is not None:
                self.service.handle_disconnected(conn, self.now)

    def leave(self, peer: Peer) -> None:
        peer.client.goodbye()
        self.pump()
        self.peers.remove(peer)

    # -- time

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(3_000):
            self.pump()
            wakes = [p.client.next_timeout() for p in self.peers if not p.is_frozen]
            if self.service is not None:
                wakes.append(self.service.next_timeout())
            due = min((w for w in wakes if w is not None), default=end + 1)
            if due > end:
                break
            self.now = max(self.now, due)
            for peer in self.peers:
                wake = peer.client.next_timeout()
                if wake is not None and wake <= self.now and not peer.is_frozen:
                    peer.client.handle_timeout(self.now)
            self.pump()
            if self.service is not None:
                wake = self.service.next_timeout()
                if wake is not None and wake <= self.now:
                    self._tick()
        else:
            raise AssertionError(f"time stands still at {self.now}: {wakes}")
        self.now = end
        self.pump()

    def _tick(self) -> None:
        assert self.service is not None
        try:
            self.service.handle_timeout(self.now)
        except StoreError:
            # What a process does: nothing more is said, and the next one starts.
            self.stop()
            self.start()

    def pump(self) -> None:
        """Move frames until nothing moves."""
        for _ in range(1_000):
            moved = False
            for peer in list(self.peers):
                moved |= self._pump_peer(peer)
            moved |= self._pump_service()
            if not moved:
                return
        raise AssertionError(f"frames move for ever: {[p.client.state for p in self.peers]}")

    def _pump_peer(self, peer: Peer) -> bool:
        if peer.is_frozen or self.service is None:
            return False
        moved = False
        if peer.conn is None:
            if isinstance(peer.client.state, Departed):
                return False
            peer.conn = self.next_conn
            self.next_conn += 1
            self.by_conn[peer.conn] = peer
            self.service.handle_connected(peer.conn, frozenset({peer.client.ip}), self.now)
            peer.client.handle_opened(self.now)
            moved = True
        while peer.inbox:
            moved = True
            peer.client.handle_frame(peer.inbox.popleft(), self.now)
            self._note(peer)
        while (frame := peer.client.poll_transmit(self.now)) is not None:
            moved = True
            self.service.handle_frame(peer.conn, frame, self.now)
        return moved

    def _pump_service(self) -> bool:
        moved = False
        while self.service is not None and (sent := self.service.poll_transmit()) is not None:
            moved = True
            if sent.connection in self.by_conn:
                self.by_conn[sent.connection].inbox.append(sent.frame)
        while self.service is not None and (finished := self.service.poll_event()) is not None:
            moved = True
            if isinstance(finished, Noted):
                self.notes.append(finished.text)
                continue
            if isinstance(finished, Reported):
                continue
            conn = finished.connection
            peer = self.by_conn.pop(conn, None)
            if peer is not None and peer.conn == conn:
                while peer.inbox:
                    peer.client.handle_frame(peer.inbox.popleft(), self.now)
                    self._note(peer)
                self._drop(peer, "closed by the GMS")
        return moved

    def _drop(self, peer: Peer, reason: str) -> None:
        if peer.conn is not None:
            peer.conn = None
            peer.inbox.clear()
            peer.client.handle_closed(reason, self.now)
            self._note(peer)

    def _note(self, peer: Peer) -> None:
        while (event := peer.client.poll_event()) is not None:
            peer.events.append(event)
            match event:
                case SubscriptionCompleted(request, groups):
                    assert request == 0 or request not in peer.completed
                    peer.completed[request] = groups
                case ViewsChanged():
                    self._check_views(peer, event)
                case _:
                    pass

    def _check_views(self, peer: Peer, event: ViewsChanged) -> None:
        client = peer.client
        assert client.cluster is not None
        self.history.check(client.cluster, event.regions, event.groups, client.directory)
        views: list[RegionView | GroupView] = [*event.regions, *event.groups]
        for view in views:
            key = (f"{type(view).__name__} at {client.node}", client.cluster, view.id)
            assert view.view >= self.last_views.get(key, 0), "a view number went back"
            self.last_views[key] = view.view
        for node in event.nodes_failed:
            assert node not in client.directory.nodes

    # -- the truth

    def settle(self) -> None:
        """Let everything happen that must, and check that all agree."""
        # A GMS that hears hardly anybody suspects itself for a while, and one that dies
        # meanwhile begins anew.
        patience_s = 2 * (self.config.resume_grace_s + self.config.silence_s_max)
        self.run(self.settings.failure_timeout_s * 2 + patience_s + 1)
        self.check()

    def check(self) -> None:
        """Every directory shows exactly what its node needs."""
        by_node = {}
        for peer in self.peers:
            assert isinstance(peer.client.state, Member), (peer.client.name, peer.client.state)
            by_node[peer.client.node] = peer
        names = set().union(*(p.joined | p.opened for p in self.peers), set())
        # A group lives as long as somebody names it; patterns stand for those that live.
        inside_of = {
            i: p.joined | {n for n in names if any(matches(each, n) for each in p.patterns)}
            for i, p in by_node.items()
        }
        members = {n: tuple(sorted(i for i in by_node if n in inside_of[i])) for n in names}
        users = {n: {i for i, p in by_node.items() if n in inside_of[i] | p.opened} for n in names}
        regions: dict[int, RegionView] = {}
        senders: dict[int, set[int]] = {}
        ids: dict[str, int] = {}
        for peer in self.peers:
            for group in peer.client.directory.groups.values():
                assert ids.setdefault(group.name, group.id) == group.id
                assert group.members == members[group.name]
                for region, view in group.regions:
                    assert peer.client.directory.regions[region].view == view
                    senders.setdefault(region, set()).update(users[group.name])
        for node, peer in by_node.items():
            directory = peer.client.directory
            assert {g.name for g in directory.groups.values()} == inside_of[node] | peer.opened
            needed = {r for g in directory.groups.values() for r, _ in g.regions}
            inside = {r for r, v in directory.regions.items() if node in v.members}
            assert set(directory.regions) == needed | inside
            for region in directory.regions.values():
                expected = senders.get(region.id, set()) if region.id in inside else set()
                assert region.senders == expected
                same = regions.setdefault(region.id, region)
                assert (same.view, same.members, same.address) == (
                    region.view,
                    region.members,
                    region.address,
                )
                assert set(region.members) | region.senders <= set(directory.nodes)
            assert set(directory.nodes) <= set(by_node)
            assert sorted(peer.requests) == sorted(r for r in peer.completed if r)
