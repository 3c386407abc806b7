"""One manager whose peers a test plays itself."""

from __future__ import annotations

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.policies.choice import parse_policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import Dial, Event, Purpose
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.management.messages import PROTOCOL_VERSION
from quicksilver.scopes.routing import Channel


class Alone:
    """A manager, and what came out of it."""

    def __init__(
        self,
        name: str,
        *owners: str,
        is_node: bool = False,
        policy: str = "star",
        recovery: str = "none",
        config: Config | None = None,
        saved: dict[str, bytes] | None = None,
    ) -> None:
        self.now = 0.0
        self.saved = {} if saved is None else saved
        self.manager = ScopeManager(
            name=name,
            address=name,
            owners=owners,
            policy_of=lambda _: parse_policy(policy),
            recovery_of=lambda _: recovery,
            place=Link("tcp", name, name) if is_node else None,
            config=config,
            saved=dict(self.saved),
            now=0.0,
        )
        self.said: list[tuple[int, say.Message]] = []
        self.events: list[Event] = []
        self.dials: list[Dial] = []
        self.closed: list[int] = []
        self.drain()

    def drain(self) -> None:
        manager = self.manager
        while (record := manager.poll_saved()) is not None:
            if record.value is None:
                del self.saved[record.name]
            else:
                self.saved[record.name] = record.value
        while (out := manager.poll_transmit()) is not None:
            if not isinstance(out[1], say.Alive):
                self.said.append(out)
        while (conn := manager.poll_close()) is not None:
            self.closed.append(conn)
        while (dial := manager.poll_dial()) is not None:
            self.dials.append(dial)
        while (event := manager.poll_event()) is not None:
            self.events.append(event)

    def clear(self) -> None:
        for each in (self.said, self.events, self.dials, self.closed):
            each.clear()

    def tell(self, conn: int, message: say.Message) -> None:
        """Somebody says something; orders are worked out a moment later."""
        parsed = say.parse(say.encode(message))
        assert parsed == message
        self.manager.handle_message(conn, message, self.now)
        self.run(0.02)

    def run(self, seconds: float, *alive: int) -> None:
        """Let time pass; some give signs of life meanwhile."""
        end = self.now + seconds
        beat = self.now
        while True:
            due = self.manager.next_timeout()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            if self.now - beat >= 0.4:
                beat = self.now
                for conn in alive:
                    self.manager.handle_message(conn, say.Alive(), self.now)
            self.manager.handle_timeout(self.now)
            self.drain()
        self.now = end
        self.drain()

    def dialled(self, address: str, purpose: Purpose, conn: int | None) -> None:
        self.manager.handle_dialled(Dial(address, purpose), conn, self.now)
        self.run(0.02)

    def own(self, address: str, conn: int, *above: str) -> None:
        """An owner answers; its name is its address."""
        self.dialled(address, Purpose.OWNER, conn)
        self.tell(conn, say.Registered(address, above))

    def join(
        self,
        conn: int,
        name: str,
        *,
        is_member: bool = True,
        grace_s: float = 0.5,
        address: str | None = None,
    ) -> None:
        """A member connects and registers."""
        address = name if address is None else address
        self.manager.handle_accepted(conn, self.now)
        self.tell(conn, say.Register(PROTOCOL_VERSION, name, address, is_member, grace_s))

    def heard(self, conn: int) -> list[say.Message]:
        """Return what was said on a connection."""
        return [message for each, message in self.said if each == conn]


def source(channel: Channel, address: str = "n2") -> say.Source:
    return say.Source(channel, (ALL,), address)
