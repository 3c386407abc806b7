"""What a GMS lets in: checks of requests, each answered with a reason or None."""

from __future__ import annotations

import hmac
import ipaddress
from collections import Counter
from dataclasses import dataclass

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.health import Watch
from quicksilver.membership.names import find_name_problem, find_pattern_name_problem
from quicksilver.membership.tables import NodeRow, Tables, group_bytes
from quicksilver.stdx.units import format_bytes
from quicksilver.wire import gms
from quicksilver.wire.ids import GROUPS_MAX, NodeId

NODE_NAME_BYTES_MAX = 255
STATS_MAX = 128
STATS_CHARS_MAX = 4096
"""Characters of all names and texts together."""
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


@dataclass(frozen=True, slots=True)
class ResumeProblem:
    """Why a node cannot go on as the one that it was."""

    reason: str
    is_impostor: bool = False
    """Whoever asks is not that node, and need not learn anything of it."""
    has_missed: bool = False
    """Views came and went of which the node never heard."""
    ends_incarnation: bool = False
    """The node itself cannot resume any more."""


def find_resume_problem(
    hello: gms.Hello, resume: gms.Resume, watch: Watch | None, cluster: int
) -> ResumeProblem | None:
    """Say why a node cannot resume; ``watch`` is None if there is no such node any more."""
    if resume.cluster != cluster:
        return ResumeProblem("this GMS began a new cluster: its state was lost or replaced")
    if watch is None or watch.departs:
        return ResumeProblem((watch and watch.departs) or "the node was counted as failed")
    if not hmac.compare_digest(resume.secret, watch.row.secret):
        # The same words: a stranger need not learn which nodes there are.
        return ResumeProblem("the node was counted as failed", is_impostor=True)
    if (hello.ip, hello.port) != (watch.row.ip, watch.row.port):
        return ResumeProblem("the node's address changed", ends_incarnation=True)
    if watch.row.reviewed[1] > resume.batch:
        # It was in a view of which it never heard, and lacks what was committed
        # to it: a gap that only a new incarnation may have.
        reason = "views came and went while the node was away"
        return ResumeProblem(reason, has_missed=True, ends_incarnation=True)
    if watch.row.joined_in[1] > resume.batch:
        # It is in groups of which it never heard, and since when can be told of one batch only.
        reason = "the node came into groups twice without hearing of it"
        return ResumeProblem(reason, has_missed=True, ends_incarnation=True)
    return None


def find_stats_problem(stats: dict[str, int | float | str]) -> str | None:
    """Say why a heartbeat is not accepted."""
    chars = sum(map(len, stats)) + sum(len(v) for v in stats.values() if isinstance(v, str))
    if len(stats) <= STATS_MAX and chars <= STATS_CHARS_MAX:
        return None
    return f"a heartbeat carries at most {STATS_MAX} numbers and short texts"


class SubscriptionLimits:
    """Keeps nodes within their limits, counting what waits for the next batch."""

    def __init__(self, tables: Tables, config: ServiceConfig) -> None:
        self._tables = tables
        self._config = config
        self._added: Counter[NodeId] = Counter()
        """How many groups the waiting requests of a node add, at most."""
        self._added_bytes: Counter[NodeId] = Counter()
        """… and what memory these take."""
        self._patterns: Counter[NodeId] = Counter()
        """How many patterns they add."""
        self._created: dict[str, int] = {}
        """Names that the waiting requests bring into use, with the memory that each takes …"""
        self._created_bytes = 0
        """… and all of them."""

    def handle_batch(self) -> None:
        """The waiting requests have become part of the tables."""
        self._added.clear()
        self._added_bytes.clear()
        self._patterns.clear()
        self._created.clear()
        self._created_bytes = 0

    def find_problem(self, row: NodeRow, request: gms.Subscribe) -> str | None:
        """Say why a request is not accepted; count it if it is."""
        config, ids = self._config, self._tables.group_ids
        wanted = (*request.join, *request.open)
        count = len(wanted) + len(request.leave) + len(request.close)
        count += len(request.match) + len(request.unmatch)
        if count > config.groups_per_request_max:
            return (
                f"the request names {count} groups, this GMS takes "
                f"{config.groups_per_request_max} at once: split it"
            )
        problem = self._find_pattern_problem(row, request)
        if problem is not None:
            return problem
        fresh: dict[str, int] = {}
        named = row.named
        added = added_bytes = 0
        for name in wanted:
            group = ids.get(name)
            if group is None:
                problem = find_name_problem(name)
                if problem is not None:
                    return f"group name {name[:40]!a} {problem}"
                added += 1
                added_bytes += group_bytes(name)
                if name not in self._created:
                    fresh[name] = group_bytes(name)
            elif group not in named and group not in row.opened:
                added += 1
                added_bytes += group_bytes(name)
        fresh_bytes = sum(fresh.values())
        problem = None
        if added:
            problem = self._find_excess(row, added, added_bytes, len(fresh), fresh_bytes)
        if problem is None:
            self._added[row.id] += added
            self._added_bytes[row.id] += added_bytes
            self._created.update(fresh)
            self._created_bytes += fresh_bytes
        return problem

    def _find_pattern_problem(self, row: NodeRow, request: gms.Subscribe) -> str | None:
        """Say why patterns are not accepted; count them if they are."""
        if not request.match:
            return None
        for pattern in request.match:
            problem = find_pattern_name_problem(pattern)
            if problem is not None:
                return f"pattern {pattern[:40]!a} {problem}"
        config = self._config
        added = len(set(request.match) - row.patterns)
        if len(row.patterns) + self._patterns[row.id] + added > config.patterns_per_node_max:
            return (
                f"the node would subscribe to more than {config.patterns_per_node_max} patterns: "
                "drop some or raise patterns_per_node_max"
            )
        if len(self._tables.patterns) + self._patterns.total() + added > config.patterns_max:
            return (
                f"the cluster would have more than {config.patterns_max} patterns: "
                "raise patterns_max"
            )
        self._patterns[row.id] += added
        return None

    def _find_excess(
        self, row: NodeRow, added: int, added_bytes: int, fresh: int, fresh_bytes: int
    ) -> str | None:
        config, tables = self._config, self._tables
        # What patterns found gives way to what is named: see ``batch``.
        memberships = tables.memberships - tables.matches
        if memberships + self._added.total() + added > config.memberships_max:
            return (
                f"the cluster would have more than {config.memberships_max} memberships: "
                "raise memberships_max"
            )
        used = row.named | row.opened
        if len(used) + self._added[row.id] + added > config.groups_per_node_max:
            return (
                f"the node would use more than {config.groups_per_node_max} groups: "
                "leave some or raise groups_per_node_max"
            )
        if (
            tables.bytes_of(used) + self._added_bytes[row.id] + added_bytes
            > config.group_bytes_per_node_max
        ):
            limit = format_bytes(config.group_bytes_per_node_max)
            return (
                f"the groups of the node would take more than {limit} at the GMS: leave some, "
                "shorten names or raise group_bytes_per_node_max"
            )
        if tables.next_group + len(self._created) + fresh >= GROUPS_MAX:
            return "this cluster has used up its numbers of groups: start with a new state file"
        if fresh and len(tables.groups) + len(self._created) + fresh > config.groups_max:
            return f"the cluster would have more than {config.groups_max} groups: raise groups_max"
        if tables.group_bytes + self._created_bytes + fresh_bytes > config.group_bytes_max:
            limit = format_bytes(config.group_bytes_max)
            return f"the cluster's groups would take more than {limit}: raise group_bytes_max"
        return None
