"""The members and clients of a scope, and connections that have not said what they are for.

A member whose connection has ended, or that was silent, may come back for a while: its scope
goes on meanwhile, and so does what was arranged for it. A connection that registers under the
name of a member takes its place only if that one is away, or was silent for a while: so nobody
is pushed out who is there, and who starts again behind a connection that nobody has closed
waits little.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.messages import PROTOCOL_VERSION, Orders
from quicksilver.scopes.management.saving import SavedMember
from quicksilver.scopes.names import find_scope_name_problem

MEMBERS_MAX = 10_000
STRANGERS_MAX = 1_000
"""Past it the oldest is put out."""


@dataclass(slots=True)
class Member:
    name: str
    conn: int | None
    """None: its connection has ended, and it may come back."""
    address: str
    is_member: bool
    grace_s: float
    heard_at: float
    why_away: str = ""
    confirmed: set[str] = field(default_factory=set)
    """Topics that it takes part in, and has said so since it registered."""
    told: dict[str, Orders] = field(default_factory=dict)
    """The orders that it has, by topic."""
    has_posts: bool = False
    """True once it was told, on this connection, of all agents that it hosts or hands on."""


class Members:
    """The members of one scope, by name."""

    def __init__(self, scope: str, *, silent_s: float, yield_s: float, grace_s_max: float) -> None:
        self._scope = scope
        self.by_name: dict[str, Member] = {}
        self._by_conn: dict[int, Member] = {}
        self._silent_s = silent_s
        self._yield_s = yield_s
        self._grace_s_max = grace_s_max

    def at(self, conn: int) -> Member | None:
        return self._by_conn.get(conn)

    def find_problem(
        self, register: say.Register, above: tuple[str, ...], now: float
    ) -> str | None:
        """Return why somebody cannot be a member now, or None; ``above`` own this scope."""
        name, scope = register.name, self._scope
        if register.version != PROTOCOL_VERSION:
            ours, theirs = PROTOCOL_VERSION, register.version
            return f"this manager speaks version {ours} of the protocol, not {theirs}"
        problem = find_scope_name_problem(name)
        if problem is not None:
            return problem
        if name == scope:
            return f"{name!r} cannot be a member of itself"
        if name in above:
            return f"{name!r} owns {scope!r} already: a scope cannot own its owner"
        known = self.by_name.get(name)
        if known is None:
            if len(self.by_name) >= MEMBERS_MAX:
                return f"{scope!r} has {MEMBERS_MAX:,} members, which is the most"
        elif known.conn is not None and now - known.heard_at < self._yield_s:
            return f"{scope!r} has a member {name!r} already"
        return None

    def admit(self, conn: int, register: say.Register, now: float) -> Member | None:
        """Take a member in; return the one that was there under its name."""
        grace_s = register.grace_s
        # Not a number compares as false, and is none.
        grace_s = min(grace_s, self._grace_s_max) if grace_s > 0.0 else 0.0
        name = register.name
        known = self.by_name.get(name)
        if known is not None and known.conn is not None:
            del self._by_conn[known.conn]
        member = Member(name, conn, register.address, register.is_member, grace_s, now)
        self.by_name[name] = self._by_conn[conn] = member
        return known

    def restore(self, name: str, saved: SavedMember, now: float) -> None:
        """A member was there before this manager started again; it may come back."""
        why = "it did not come back after the manager had started again"
        member = Member(name, None, saved.address, saved.is_member, saved.grace_s, now, why)
        self.by_name[name] = member

    def is_complete(self) -> bool:
        """Whether all members are connected, and have said what they want of some topic."""
        return all(each.conn is not None and each.confirmed for each in self.by_name.values())

    def handle_away(self, member: Member, reason: str) -> None:
        """A member's connection is of no use any more."""
        assert member.conn is not None
        del self._by_conn[member.conn]
        member.conn, member.why_away = None, reason

    def forget(self, name: str) -> Member:
        member = self.by_name.pop(name)
        assert member.conn is None
        return member

    def silent(self, now: float) -> list[Member]:
        """Return those who are connected and have said nothing for long."""
        late = now - self._silent_s
        return [member for member in self._by_conn.values() if member.heard_at < late]

    def connected(self) -> list[int]:
        return list(self._by_conn)

    def addresses(self) -> dict[str, str]:
        return {name: member.address for name, member in self.by_name.items()}


class Strangers:
    """Connections that have not said what they are for; each has to, within a time."""

    def __init__(self, time_s: float) -> None:
        self._time_s = time_s
        self._since: dict[int, float] = {}
        """When they came, the oldest first."""

    def __contains__(self, conn: int) -> bool:
        return conn in self._since

    def add(self, conn: int, now: float) -> int | None:
        """Take one in; return the one that has to go for it."""
        oldest = None
        if len(self._since) >= STRANGERS_MAX:
            oldest = next(iter(self._since))
            del self._since[oldest]
        self._since[conn] = now
        return oldest

    def discard(self, conn: int) -> bool:
        """Forget one; return whether it was here."""
        return self._since.pop(conn, None) is not None

    def pop_late(self, now: float) -> list[int]:
        """Forget and return those whose time is over."""
        late = [conn for conn, since in self._since.items() if now - since >= self._time_s]
        for conn in late:
            del self._since[conn]
        return late
