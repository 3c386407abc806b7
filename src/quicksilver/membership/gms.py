"""The GMS as a server: a store, a planner, the service, and a TCP port."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.files import LoadedPlanner, load_plan
from quicksilver.membership.planning.model import PlanLimits, Planner
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import MemoryStore, SqliteStore, Store
from quicksilver.membership.tables import Tables
from quicksilver.net.discovery_answers import answer_questions
from quicksilver.net.serving import run_until_signal, wait_first
from quicksilver.net.streams import serve_frames
from quicksilver.wire.gms import SECRET_BYTES, ClusterSettings
from quicksilver.wire.ids import Address, GroupId, NodeId

DEFAULT_PORT = 7401

LOGGER = "quicksilver.gms"
"""Who comes, goes, is excluded or suspected: docs/operations.md lists what is logged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GmsOptions:
    """How to run a GMS."""

    host: str = "0.0.0.0"
    """Address to listen on."""

    port: int = DEFAULT_PORT
    """TCP port; 0 takes a free one."""

    state: Path | None = None
    """File that keeps the state. None: a restarted GMS begins a new cluster, and
    every node rejoins as a new one."""

    planner: str = "auto"
    """Name of the region planner."""

    plan: Path | None = None
    """A plan computed elsewhere, by names; takes the place of ``planner``."""

    limits: PlanLimits = field(default_factory=PlanLimits)

    addresses: str = "239.192.0.0/16"
    """Multicast network from which regions get their addresses."""

    settings: ClusterSettings = field(default_factory=ClusterSettings)
    """What every node of the cluster must agree on."""

    config: ServiceConfig = field(default_factory=ServiceConfig)

    discovery_port: int | None = None
    """UDP port at which nodes that were given no address find this GMS; None: they do not."""

    on_note: Callable[[str], None] | None = None
    """Told in one line what whoever runs the GMS should know."""


class TableNames:
    """Tells a planner that speaks of names what the service's numbers are called."""

    def __init__(self) -> None:
        self._tables: Tables | None = None

    def bind(self, tables: Tables) -> None:
        self._tables = tables

    def of_node(self, node: NodeId) -> str:
        row = self._tables.nodes.get(node) if self._tables is not None else None
        return "" if row is None else row.name

    def of_group(self, group: GroupId) -> str:
        row = self._tables.groups.get(group) if self._tables is not None else None
        return "" if row is None else row.name


OnListening = Callable[[Address], None]


def run_gms(options: GmsOptions, on_listening: OnListening | None = None) -> int:
    """Serve until SIGTERM or SIGINT, and return which; ``on_listening`` is told the address.

    Call it from the main thread. Nodes go on without the GMS and resume when it
    is back.

    Raises:
        ListenError, StoreError, BadAddressPoolError, ValueError (unknown
        planner): the user's to fix, each with one line that says how.
    """
    return run_until_signal(lambda stop: serve_gms(options, stop, on_listening))


async def serve_gms(
    options: GmsOptions, stop: asyncio.Event, on_listening: OnListening | None = None
) -> None:
    """Serve until ``stop`` is set: for programs that have an event loop."""
    pool = AddressPool(options.addresses)
    names = TableNames()
    planner: Planner
    if options.plan is not None:
        planner = LoadedPlanner(
            load_plan(options.plan),
            options.limits,
            node_name=names.of_node,
            group_name=names.of_group,
        )
    else:
        planner = make_planner(options.planner, options.limits)
    store: Store = MemoryStore() if options.state is None else SqliteStore(options.state)
    try:
        service = MembershipService(
            store=store,
            planner=planner,
            settings=options.settings,
            pool=pool,
            config=options.config,
            seed=secrets.randbits(64),
            make_secret=lambda: secrets.token_bytes(SECRET_BYTES),
            on_tables=names.bind,
        )
        server = await serve_frames(
            service,
            options.host,
            options.port,
            input_bytes_max=options.config.input_bytes_max,
            on_note=options.on_note,
            logger=LOGGER,
        )
        try:
            discovery = await _be_found(options, server.address)
            log = logging.getLogger(LOGGER)
            log.info("serving at %s:%d", *server.address)
            if on_listening is not None:
                on_listening(server.address)
            try:
                await wait_first(stop, server.wait_failed)
            finally:
                if discovery is not None:
                    discovery.close()
            service.close()
        finally:
            await server.close()
    finally:
        store.close()


async def _be_found(options: GmsOptions, address: Address) -> asyncio.DatagramTransport | None:
    """Answer nodes that look for a GMS; one that cannot is still of use to all others."""
    port = options.discovery_port
    if port is None:
        return None
    try:
        return await answer_questions(address, port)
    except OSError as error:
        if options.on_note is not None:
            options.on_note(
                f"nodes cannot find this GMS by themselves: UDP port {port} ({error.strerror}); "
                "give them its address"
            )
        return None
