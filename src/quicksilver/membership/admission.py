"""What a GMS lets in: checks of requests, each answered with a reason or None."""

from __future__ import annotations

import ipaddress
from collections import Counter

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.names import find_name_problem
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.wire import gms
from quicksilver.wire.ids import NodeId

NODE_NAME_BYTES_MAX = 255
STATS_MAX = 64
STAT_CHARS_MAX = 256
BUFFER_BYTES_MAX = 1 << 48


def find_hello_problem(hello: gms.Hello) -> str | None:
    """Say why a new node cannot be let in."""
    if not hello.name.isprintable() or len(hello.name.encode()) > NODE_NAME_BYTES_MAX:
        return f"a node name is printable, with at most {NODE_NAME_BYTES_MAX} bytes"
    try:
        address = ipaddress.IPv4Address(hello.ip)
    except ValueError:
        return f"{hello.ip[:40]!r} is not an IPv4 address: give the node's own"
    if address.is_multicast or address.is_unspecified:
        return f"nodes cannot be reached at {hello.ip}: give the node's own address"
    if not 0 < hello.port < 65536:
        return f"{hello.port} is not a UDP port"
    if not 0 <= hello.receive_buffer_bytes < BUFFER_BYTES_MAX:
        return f"{hello.receive_buffer_bytes} is not a buffer size"
    return None


def find_address_problem(ip: str, peer: frozenset[str]) -> str | None:
    """Say why a node at other addresses cannot announce ``ip``, which is an address."""
    if ip in peer:
        return None
    # All of 127.0.0.0/8 is one machine, as far as that machine is concerned.
    if ipaddress.IPv4Address(ip).is_loopback and any(
        ipaddress.IPv4Address(known).is_loopback for known in peer
    ):
        return None
    return (
        f"the node announces {ip} and connects from {min(peer, default='nowhere')}: let it use "
        "that interface, or run the GMS with --any-address"
    )


def find_stats_problem(stats: dict[str, int | float | str]) -> str | None:
    """Say why a heartbeat is not accepted."""
    if len(stats) <= STATS_MAX and all(
        len(key) <= STAT_CHARS_MAX and not (isinstance(value, str) and len(value) > STAT_CHARS_MAX)
        for key, value in stats.items()
    ):
        return None
    return f"a heartbeat carries at most {STATS_MAX} numbers and short texts"


class SubscriptionLimits:
    """Keeps nodes within their limits, counting what waits for the next batch."""

    def __init__(self, tables: Tables, config: ServiceConfig) -> None:
        self._tables = tables
        self._config = config
        self._added: Counter[NodeId] = Counter()
        """How many groups the waiting requests of a node add, at most."""
        self._created: set[str] = set()
        """Names that the waiting requests bring into use."""

    def handle_batch(self) -> None:
        """The waiting requests have become part of the tables."""
        self._added.clear()
        self._created.clear()

    def find_problem(self, row: NodeRow, request: gms.Subscribe) -> str | None:
        """Say why a request is not accepted; count it if it is."""
        config, ids = self._config, self._tables.group_ids
        wanted = (*request.join, *request.open)
        count = len(wanted) + len(request.leave) + len(request.close)
        if count > config.groups_per_request_max:
            return (
                f"the request names {count} groups, this GMS takes "
                f"{config.groups_per_request_max} at once: split it"
            )
        fresh: list[str] = []
        added = 0
        for name in wanted:
            group = ids.get(name)
            if group is None:
                problem = find_name_problem(name)
                if problem is not None:
                    return f"group name {name[:40]!a} {problem}"
                fresh.append(name)
                added += 1
            elif group not in row.joined and group not in row.opened:
                added += 1
        if added:
            used = len(row.joined | row.opened) + self._added[row.id]
            if used + added > config.groups_per_node_max:
                return (
                    f"the node would use more than {config.groups_per_node_max} groups: "
                    "leave some or raise groups_per_node_max"
                )
        if fresh and len(ids) + len(self._created.union(fresh)) > config.groups_max:
            return f"the cluster would have more than {config.groups_max} groups: raise groups_max"
        self._added[row.id] += added
        self._created.update(fresh)
        return None
