"""What both forms of a node share: making groups, and what needs no waiting.

The forms differ in how they wait: ``aio`` awaits, ``sync`` blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import EMPTY_CHOICES, Empty
from quicksilver.node.checks import (
    check_behind,
    check_bytes,
    check_callback,
    check_choice,
    check_flag,
    check_names,
    check_type,
)
from quicksilver.node.core import NodeCore
from quicksilver.node.discovery import find_gms
from quicksilver.node.errors import NotConnectedError, OptionError
from quicksilver.node.group_base import GroupBase, public_names
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Burst
from quicksilver.node.options import (
    OVERFLOW_CHOICES,
    NodeOptions,
    Overflow,
    parse_controller_path,
    parse_gms_address,
)
from quicksilver.node.patterns import check_join
from quicksilver.node.ports import Core
from quicksilver.node.retained import Retained, check_retain, kept_or

INNER = frozenset({"core"})
"""Names without an underscore that are for the layers around a node, not for users."""


class NodeBase:
    """One node in this process; the base of both forms."""

    _plain: type[Any]
    """Groups of bytes."""

    _typed: type[Any]
    """Groups of values."""

    _way_in: str
    """The statement that connects such a node, shown in the error of an unconnected one."""

    def __init__(self, gms: str | None, options: NodeOptions) -> None:
        """``gms``: where the GMS is, or ``unix:`` and the path of a controller's socket; None: to
        be found when the node is connected."""
        if gms is not None and parse_controller_path(gms) is None:
            parse_gms_address(gms)  # a mistake is told at once
        self._gms = gms
        self._options = options
        self._core: Core | None = None
        """None until the node is connected: before that it holds no socket and no thread."""

    def __repr__(self) -> str:
        core = self._core
        if core is None:
            return f"<Node for {self._gms or 'a GMS to be found'}, not connected>"
        if core.failure is not None:
            state = "failed"
        elif core.is_closed:
            state = "closed"
        else:
            state = f"in {core.group_count()} groups"
        number = core.session.node
        who = f"{number} {core.session.name!r}" if number else repr(core.session.name)
        return f"<Node {who} of {self._gms}, {state}>"

    def __dir__(self) -> list[str]:
        """Return what users may use: completion shows nothing else."""
        return public_names(self, INNER)

    @property
    def core(self) -> Core:
        """The assembled node behind this form, for layers that build on it."""
        if self._core is None:
            raise NotConnectedError(self._way_in)
        return self._core

    def _make_core(self) -> Core:
        """Assemble the node; without an address this looks for the GMS and may block a second."""
        if self._gms is None:
            self._gms = find_gms()
        path = parse_controller_path(self._gms)
        if path is None:
            self._core = NodeCore(self._gms, self._options)
        else:
            from quicksilver.node.controlled import ControlledCore  # few programs use one

            self._core = ControlledCore(path, self._options)
        return self._core

    def _make_scoped_core(self, scope: str) -> Core:
        """Assemble a node of a scope: what answered at the address is the scope's manager."""
        from quicksilver.node.scoped import ScopedCore  # nobody else pays for it at the start

        assert self._gms is not None
        self._core = ScopedCore(self._gms, scope, self._options)
        return self._core

    @property
    def id(self) -> int:
        """The number that the GMS gave this node; 0 while it has none. After an exclusion the node
        has a new number."""
        return self.core.session.node

    @property
    def name(self) -> str:
        """The name that other nodes see: the option ``name``, or else host name and process
        number."""
        return self.core.session.name

    @property
    def cluster(self) -> int:
        """The number of the cluster that node numbers belong to; 0 before the node has
        connected."""
        return self.core.session.cluster

    @property
    def exclusions(self) -> int:
        """How often this node had to come back under a new number: the GMS excluded it, or it
        lacked messages that are no longer kept."""
        return self.core.exclusions

    def on_burst(self, callback: Callable[[Burst], None]) -> None:
        """Call ``callback`` with each packet's messages, on the core thread: the fastest way to
        receive.

        A burst has messages of one sender to groups that this node joined; ``Group.id`` tells the
        groups apart. It has no keys and no headers. Once the callback is set, queues and the
        groups' callbacks get nothing. The callback must be short and must not block. An exception
        that it raises ends the node.
        """
        check_callback("callback", callback)
        self.core.check_supports("on_burst")

        def install() -> None:
            self.core.session.on_packet = callback

        self.core.call(install)

    def _begin_join(
        self,
        names: Sequence[str],
        type_: Any,
        *,
        echo: bool,
        queue_bytes: int | None,
        overflow: Overflow | None,
        behind: Behind | str | None,
        empty: Empty | None,
        retain: int,
        queue: str | None = None,
        has_history: bool = False,
    ) -> tuple[list[Any], Future[Any]]:
        """Check what is asked for, and ask for it; return the groups and what to wait for."""
        options, core = self._options, self.core
        found = check_names(names, allow_patterns=True)
        for name in found:
            check_join(name, queue=queue, echo=echo, has_history=has_history)
        choice = _check_choices(type_, behind, empty, retain)
        check_flag("echo", echo)
        if queue_bytes is not None:
            check_bytes("queue_bytes", queue_bytes)
        if overflow is not None:
            check_choice("overflow", overflow, OVERFLOW_CHOICES)
        kind = self._plain if type_ is None else self._typed
        limits = (queue_bytes or options.queue_bytes, overflow or options.overflow)
        groups = [kind(core, name, type_, inbox=Inbox(*limits), echo=echo) for name in found]
        for group in groups:
            group.queue = queue
        _retain(groups, retain)
        without = kept_or(empty, retain)
        return groups, core.subscribe(join=groups, behind=choice, empty=without, queue=queue)

    def _begin_open(
        self,
        names: Sequence[str],
        type_: Any,
        *,
        behind: Behind | str | None,
        empty: Empty | None,
        retain: int,
    ) -> tuple[list[Any], Future[Any]]:
        """The same for groups that are opened for sending."""
        core = self.core
        found = check_names(names)
        choice = _check_choices(type_, behind, empty, retain)
        kind = self._plain if type_ is None else self._typed
        groups = [kind(core, name, type_, inbox=None) for name in found]
        _retain(groups, retain)
        without = kept_or(empty, retain)
        return groups, core.subscribe(open_=groups, behind=choice, empty=without)

    def _leave(self, groups: Sequence[GroupBase[Any]]) -> Any:
        """Begin to leave groups that ``queues_of`` has checked; return the future to wait for."""
        servers = [group.server for group in groups if group.server is not None]
        return self.core.subscribe(
            leave=[
                *(group.name for group in groups if group.is_member),
                *(server.attendance for server in servers),
            ],
            close=[group.name for group in groups if not group.is_member],
        )


def queues_of(groups: Sequence[Any]) -> list[str]:
    """Return the names of groups that are shared in queues; raises OptionError for what is none."""
    for group in groups:
        if not isinstance(group, GroupBase):
            raise OptionError("groups", f"must be what join and open return, not {group!r}")
    return [group.name for group in groups if group.queue is not None]


def _retain(groups: Sequence[Any], count: int) -> None:
    if count:
        for group in groups:
            group.retained = Retained(count)


def _check_choices(
    type_: Any, behind: Behind | str | None, empty: Empty | None, retain: int
) -> Behind | None:
    """Refuse what no group can have; return what to do about members that do not keep up."""
    check_type(type_)
    check_retain(retain)
    if empty is not None:
        check_choice("empty", empty, EMPTY_CHOICES)
    return check_behind(behind)
