"""What both forms of a node share: making groups, and what needs no waiting.

The forms differ in how they wait: ``aio`` awaits, ``sync`` blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from quicksilver.node.core import NodeCore
from quicksilver.node.errors import NotConnectedError
from quicksilver.node.group_base import GroupBase
from quicksilver.node.inbox import Inbox
from quicksilver.node.messages import Burst
from quicksilver.node.options import NodeOptions, Overflow, parse_gms_address

G = TypeVar("G", bound=GroupBase)


class NodeBase(Generic[G]):
    """One node in this process, whichever way its callers wait."""

    _plain: type[G]
    """Groups of bytes."""

    _typed: type[G]
    """Groups of values."""

    _way_in: str
    """The statement that connects such a node, shown in the error of an unconnected one."""

    def __init__(self, gms: str, options: NodeOptions) -> None:
        parse_gms_address(gms)  # a mistake is told at once
        self._gms = gms
        self._options = options
        self._core: NodeCore | None = None
        """None until the node is connected: before that it holds no socket and no thread."""

    @property
    def core(self) -> NodeCore:
        """The assembled node behind this form, for layers that build on it."""
        if self._core is None:
            raise NotConnectedError(self._way_in)
        return self._core

    def _make_core(self) -> NodeCore:
        self._core = NodeCore(self._gms, self._options)
        return self._core

    @property
    def id(self) -> int:
        """This incarnation's number; 0 while the node is not counted in."""
        return self.core.session.node

    @property
    def cluster(self) -> int:
        """Which cluster the numbers of nodes belong to; 0 before the first."""
        return self.core.session.cluster

    @property
    def exclusions(self) -> int:
        """How often this node was counted as failed and came back as a new one."""
        return self.core.exclusions

    def on_burst(self, callback: Callable[[Burst], None]) -> None:
        """Have whole packets handled on the core thread: the least work a message.

        A burst holds messages of one sender to any of the joined groups, as
        columns; ``Group.id`` tells the groups apart. Queues and the groups' own
        callbacks are passed over. The callback must be short and must not block.
        """

        def install() -> None:
            self.core.session.on_packet = callback

        self.core.call(install)

    def _groups_to_join(
        self,
        names: list[str],
        type_: Any,
        *,
        echo: bool,
        queue_bytes: int | None,
        overflow: Overflow | None,
    ) -> list[G]:
        kind = self._plain if type_ is None else self._typed
        options = self._options
        limits = (queue_bytes or options.queue_bytes, overflow or options.overflow)
        return [kind(self.core, name, type_, inbox=Inbox(*limits), echo=echo) for name in names]

    def _groups_to_open(self, names: list[str], type_: Any) -> list[G]:
        kind = self._plain if type_ is None else self._typed
        return [kind(self.core, name, type_, inbox=None) for name in names]

    def _leave(self, groups: Sequence[GroupBase]) -> Any:
        """Begin to leave groups; return the future to wait for."""
        return self.core.subscribe(
            leave=[group.name for group in groups if group.is_member],
            close=[group.name for group in groups if not group.is_member],
        )
