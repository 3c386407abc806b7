"""A scope manager as a process: a store, the manager, a TCP port, connections to its owners."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from quicksilver.net.interfaces import choose_interface
from quicksilver.net.peers import PeerFrames
from quicksilver.net.serving import wait_first
from quicksilver.net.streams import open_listener, serve_frames
from quicksilver.scopes.dissemination.policies.choice import parse_policy
from quicksilver.scopes.management import events as told
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.management.saving import BadRecordError, Saved
from quicksilver.scopes.store import ScopeStore
from quicksilver.stdx.text import printable
from quicksilver.wire import gms
from quicksilver.wire.ids import Address

DEFAULT_PORT = 7501

LOGGER = "quicksilver.scope"
"""Who comes and goes, which owners there are, what was refused."""

INPUT_BYTES_MAX = 64 << 20
"""Frames that have not arrived completely, over all connections."""

LINGER_S = 1.0
"""How long connections have at the end to take what was said on them."""

GRACE_S = 30.0
"""How long owners keep a scope whose manager is away: its nodes go on without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeOptions:
    """How to run the manager of a scope."""

    name: str
    """The scope: ``campus/lan1``."""

    host: str = "127.0.0.1"
    """Address to listen on."""

    port: int = DEFAULT_PORT
    """TCP port; 0 takes a free one."""

    owners: tuple[str, ...] = ()
    """Managers of the scopes that this one is a member of, as ``host:port``."""

    policy: str = "star"
    """How messages travel between members."""

    recovery: str = "none"
    """How members recover what was lost on the way to them: a peer protocol, or ``none``."""

    multicast: str = ""
    """Addresses for the policy ``multicast``, as in ``239.192.7.0/24:7400``."""

    state: Path | None = None
    """File that keeps what must survive. None: a manager that starts again is a new one, and its
    numbers begin anew."""

    is_behind_nat: bool = False
    """True: owners and their other members cannot connect to this manager."""

    config: Config = field(default_factory=lambda: Config(grace_s=GRACE_S))


OnListening = Callable[[Address], None]


async def serve_scope(
    options: ScopeOptions, stop: asyncio.Event, on_listening: OnListening | None = None
) -> None:
    """Manage a scope until ``stop`` is set; ``on_listening`` is told the address.

    Raises:
        ListenError, StoreError, BadPolicyError, BadRangeError: the user's to fix, each with one
        line that says how.
    """
    parse_policy(options.policy)
    store = None if options.state is None else ScopeStore(options.state, options.name)
    try:
        listener = open_listener(options.host, options.port)
        address = listener.getsockname()[:2]
        try:
            manager = _make_manager(options, address, {} if store is None else store.load())
        except BadRecordError as error:
            assert store is not None
            raise store.damaged(str(error)) from None
        frames = PeerFrames(ManagerFrames(manager), on_events=lambda: _take_events(manager, store))
        server = await serve_frames(
            frames, listener, input_bytes_max=INPUT_BYTES_MAX, logger=LOGGER
        )
        logging.getLogger(LOGGER).info("managing %s at %s:%d", options.name, *address)
        if on_listening is not None:
            on_listening(address)
        try:
            await wait_first(stop, server.wait_failed)
        finally:
            server.call(lambda: manager.finish(asyncio.get_running_loop().time()))
            server.call(frames.finish)
            await server.close(LINGER_S)
    finally:
        if store is not None:
            store.close()


def _make_manager(
    options: ScopeOptions, address: Address, saved: Mapping[str, bytes]
) -> ScopeManager:
    return ScopeManager(
        name=options.name,
        address=_find_way_here(address, options.owners),
        is_dialable=not options.is_behind_nat,
        owners=options.owners,
        policy_of=lambda _: parse_policy(options.policy),
        place=None,
        recovery_of=lambda _: options.recovery,
        config=replace(options.config, multicast=options.multicast),
        saved=saved,
        now=asyncio.get_running_loop().time(),
    )


def _find_way_here(address: Address, owners: tuple[str, ...]) -> str:
    """Return where others reach this manager."""
    host, port = address
    if host == "0.0.0.0":  # not to listen: it stands for all addresses
        # Owners tell it to members of theirs: the one that leads to them is the likeliest.
        host = choose_interface(towards=owners[0].rpartition(":")[0] if owners else None).address
    return f"{host}:{port}"


class ManagerFrames:
    """A manager that says and is told frames; whoever takes it for a GMS is told that it is none.

    Nodes find out in this way what answers at an address (``wire.gms.Refused``).
    """

    def __init__(self, manager: ScopeManager) -> None:
        self._manager = manager
        self._refusals: deque[int] = deque()
        self._closes: deque[int] = deque()
        self.handle_accepted = manager.handle_accepted
        self.handle_dialled = manager.handle_dialled
        self.handle_closed = manager.handle_closed
        self.handle_timeout = manager.handle_timeout
        self.next_timeout = manager.next_timeout
        self.poll_dial = manager.poll_dial
        text = f"this is the manager of the scope {manager.name!r}, not a GMS"
        self._refusal = gms.encode(gms.Refused(text, manager.name))

    def handle_frame(self, conn: int, data: bytes, now: float) -> None:
        message = say.parse(data)
        if message is not None:
            self._manager.handle_message(conn, message, now)
        elif gms.parse_request(data) is None:
            self._manager.handle_bad_frame(conn, now)
        else:
            self._manager.handle_closed(conn, now)
            self._refusals.append(conn)

    def handle_sent(self, conn: int, size: int, now: float) -> None:
        """Managers say little: what waits is bounded by ``PeerFrames``."""

    def frame_bytes_max(self, conn: int) -> int:
        return say.FRAME_BYTES_MAX

    def poll_transmit(self) -> tuple[int, bytes] | None:
        if self._refusals:
            conn = self._refusals.popleft()
            self._closes.append(conn)
            return conn, self._refusal
        said = self._manager.poll_transmit()
        return None if said is None else (said[0], say.encode(said[1]))

    def poll_close(self) -> int | None:
        return self._closes.popleft() if self._closes else self._manager.poll_close()


def _take_events(manager: ScopeManager, store: ScopeStore | None) -> None:
    """Keep what must survive, before anything is sent that follows from it; tell the rest."""
    saved: list[Saved] = []
    while (record := manager.poll_saved()) is not None:
        saved.append(record)
    if saved and store is not None:
        store.save(saved)
    log = logging.getLogger(LOGGER)
    while (event := manager.poll_event()) is not None:
        _report(log, event)


def _report(log: logging.Logger, event: told.Event) -> None:
    """Write to the log what people should know, in words that peers cannot choose freely."""
    match event:
        case told.OwnerJoined(owner):
            log.info("member of %s", printable(owner))
        case told.OwnerLost(address, reason):
            log.warning("no owner at %s: %s; trying again", printable(address), printable(reason))
        case told.MemberJoined(name, is_member):
            log.info("%s %s came", "member" if is_member else "client", printable(name))
        case told.MemberGone(name, reason):
            log.info("%s is gone: %s", printable(name), printable(reason))
        case told.TopicFailed(topic, reason):
            log.warning("no topic %s: %s", printable(topic), printable(reason))
        case told.ChannelRefused(topic, channel, reason):
            log.warning(
                "no channel %s for %s: %s",
                printable(channel),
                printable(topic),
                printable(reason),
            )
        case told.PostRefused(owner, reason):
            log.warning(
                "%s posted an agent that it may not: %s", printable(owner), printable(reason)
            )
        case told.OrdersTooLarge(topic, member, ends):
            log.warning(
                "%s has too much to do for %s (%d ends of channels): choose a policy that needs "
                "fewer, such as tree:3, or divide the scope",
                printable(member),
                printable(topic),
                ends,
            )
        case told.PolicyRefused(topic, origin, problem):
            log.warning(
                "the policy is not obeyed for %s from %s: %s",
                printable(topic),
                printable(origin),
                printable(problem),
            )
        case _:
            pass
