"""A service, and raw connections to it: for tests that go frame by frame."""

from __future__ import annotations

from collections import Counter

from quicksilver.core.ports import Noted, Reported
from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import MemoryStore
from quicksilver.wire import gms
from tests.membership.exact_planner import ExactPlanner

SETTINGS = gms.ClusterSettings()
SECRET = b"0123456789abcdef"


def make_secret() -> bytes:
    """Return the secret of every node: tests that are about secrets know others."""
    return SECRET


class Bench:
    """A service, and raw connections to it."""

    def __init__(self, config: ServiceConfig | None = None, store: MemoryStore | None = None):
        self.store = store or MemoryStore()
        self.planner = ExactPlanner()
        self.service = MembershipService(
            store=self.store,
            planner=self.planner,
            settings=SETTINGS,
            pool=AddressPool("239.192.0.0/16"),
            config=config or ServiceConfig(),
            seed=1,
            make_secret=make_secret,
        )
        self.now = 10.0
        self.conns = 0
        self.closed: list[int] = []
        self.notes: list[str] = []
        self.reports: list[Reported] = []
        self.answers: Counter[int] = Counter()
        """Heartbeats that were answered."""
        self.mute: set[int] = set()
        """Connections whose nodes do not confirm what they are asked to."""

    def connect(self, addresses: frozenset[str] = frozenset({"10.0.0.1"})) -> int:
        self.conns += 1
        self.service.handle_connected(self.conns, addresses, self.now)
        return self.conns

    def say(self, conn: int, *requests: gms.Request) -> None:
        for request in requests:
            self.service.handle_frame(conn, gms.encode(request), self.now)

    def hear(self) -> dict[int, list[gms.Reply]]:
        heard: dict[int, list[gms.Reply]] = {}
        while (transmit := self.service.poll_transmit()) is not None:
            reply = gms.parse_reply(transmit.frame)
            assert reply is not None
            if isinstance(reply, gms.Heard):
                self.answers[transmit.connection] += 1
                continue
            heard.setdefault(transmit.connection, []).append(reply)
            is_asked = isinstance(reply, gms.Update) and reply.is_awaited
            if is_asked and transmit.connection not in self.mute:
                self.say(transmit.connection, gms.Applied(reply.batch))
        while (event := self.service.poll_event()) is not None:
            if isinstance(event, Noted):
                self.notes.append(event.text)
            elif isinstance(event, Reported):
                self.reports.append(event)
            else:
                self.closed.append(event.connection)
        return heard

    def run(self, seconds: float) -> dict[int, list[gms.Reply]]:
        """Let time pass, timer by timer; return what was said."""
        end = self.now + seconds
        heard = self.hear()
        while (wake := self.service.next_timeout()) is not None and wake <= end:
            self.now = max(self.now, wake)
            self.service.handle_timeout(self.now)
            for conn, replies in self.hear().items():
                heard.setdefault(conn, []).extend(replies)
        self.now = end
        return heard

    def live(self, seconds: float, *conns: int) -> dict[int, list[gms.Reply]]:
        """Let time pass while some nodes give signs of life every half second."""
        heard: dict[int, list[gms.Reply]] = {}
        end = self.now + seconds
        while end - self.now > 1e-6:
            for conn in conns:
                self.say(conn, gms.Heartbeat())
            for conn, replies in self.run(min(0.5, end - self.now)).items():
                heard.setdefault(conn, []).extend(replies)
        return heard

    def welcome(self, *subscriptions: gms.Subscribe) -> int:
        conn = self.connect()
        self.say(conn, hello(), *subscriptions)
        self.run(0.02)
        return conn


def hello(resume: gms.Resume | None = None, **changes: object) -> gms.Hello:
    values = {
        "version": gms.PROTOCOL_VERSION,
        "name": "n",
        "ip": "10.0.0.1",
        "port": 9000,
        "receive_buffer_bytes": 1,
        "resume": resume,
    }
    return gms.Hello(**values | changes)


def kinds(replies: list[gms.Reply]) -> list[str]:
    return [type(reply).__name__ for reply in replies]
