"""The synchronous form, for scripts and threads.

::

    with quicksilver.sync.connect("127.0.0.1:7401") as node:
        group = node.join("prices")
        group.send(b"...")
        for message in group.messages(timeout=1):
            ...

Without ``with``, a node runs until you call ``close`` or the program ends.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.checks import check_seconds
from quicksilver.node.errors import (
    QuicksilverError,
    RefusedError,
    TimedOutError,
    UnconfirmedError,
)
from quicksilver.node.history import History
from quicksilver.node.messages import NodeStats
from quicksilver.node.node_base import NodeBase, queues_of
from quicksilver.node.options import (
    JoinChoices,
    OpenChoices,
    OptionArguments,
    Overflow,
    make_options,
)
from quicksilver.node.patterns import QUEUE_DRAIN_S
from quicksilver.node.ports import Core
from quicksilver.node.sync_group import Group, Stream, TypedGroup

__all__ = ["Group", "Node", "Stream", "connect"]

T = TypeVar("T")


class Node(NodeBase):
    """A node in the synchronous form: ``with connect(...) as node``.

    Or ``node = connect(...)``, and ``node.close()`` at the end.

    The end of the ``with`` block closes the node. If an exception ends the block, the node does not
    flush first.

    A node that you do not close is closed when the program ends.
    """

    _plain = Group
    _typed = TypedGroup
    _way_in = "`with quicksilver.sync.connect(...) as node:`"

    def __enter__(self) -> Self:
        if self._core is not None:
            self._core.check_alive()
            return self
        try:
            self._enter(self._make_core())
        except RefusedError as refusal:
            if not refusal.scope:
                raise
            self._enter(self._make_scoped_core(refusal.scope))
        # Else the end of the program would look like a crash to the other nodes, and
        # messages that wait for repair would be lost.
        atexit.register(self._close_at_exit)
        return self

    def _enter(self, core: Core) -> None:
        core.start()
        try:
            core.wait_welcome()
        except BaseException:
            self._core = None
            core.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(timeout=0 if kind is not None else 5.0)

    @overload
    def join(
        self,
        name: str,
        type_: None = None,
        *,
        history: History | None = None,
        queue: str | None = None,
        **choices: Unpack[JoinChoices],
    ) -> Group[bytes]: ...

    @overload
    def join(
        self,
        name: str,
        type_: type[T],
        *,
        history: History | None = None,
        queue: str | None = None,
        **choices: Unpack[JoinChoices],
    ) -> Group[T]: ...

    def join(
        self,
        name: str,
        type_: Any = None,
        *,
        echo: bool = False,
        queue_bytes: int | None = None,
        overflow: Overflow | None = None,
        history: History | None = None,
        behind: Behind | str | None = None,
        empty: Empty | None = None,
        queue: str | None = None,
        retain: int = 0,
    ) -> Group[Any]:
        """Join a group. Whatever a connected node sends to it after this returns is delivered here.

        A name with wildcards is a pattern. It stands for every group that matches, also for groups
        that are made later: ``prices.*`` matches ``prices.eu``, and ``prices.>`` also matches
        ``prices.eu.spot``. ``Message.group`` says which group a message came from. You cannot send
        to a pattern.

        Args:
            name: The group's name, or a pattern.
            type_: Messages are values of this type, checked when sent and received. It is a msgspec
                struct or any other type that msgspec supports. Without it, messages are bytes.
            echo: Also receive this node's own messages.
            queue_bytes: How much may wait to be read; by default, the node's ``queue_bytes``.
            overflow: What happens when this limit is reached. ``"block"``: the node receives
                nothing, in any group, until messages are read, so senders have to wait.
                ``"drop_oldest"`` or ``"drop_newest"``: messages are dropped and counted in
                ``Group.dropped``.
            history: First deliver what was sent before, for example from a recorder: each sender's
                messages in order, none twice. Messages that the history lacks are counted in
                ``Group.missing``.
            behind: For messages that this node sends; see ``open``.
            empty: For messages that this node sends; see ``open``.
            queue: Share the messages with the members that joined with the same queue name: each
                message goes to only one of them.
            retain: For messages that this node sends; see ``open``.

        Raises:
            AlreadyJoinedError: the node is already in this group.
            BadGroupNameError: the name is not valid.
            PatternError: ``echo``, ``history`` or ``queue`` was given for a pattern.
        """
        groups, future = self._begin_join(
            [name],
            type_,
            echo=echo,
            queue_bytes=queue_bytes,
            overflow=overflow,
            behind=behind,
            empty=empty,
            retain=retain,
            queue=queue,
            has_history=history is not None,
        )
        self._subscribe(groups, future)
        group: Group[Any] = groups[0]
        if history is not None:
            try:
                group.begin_history(history)
            except BaseException:
                self.core.withdraw([group])
                raise
        return group

    @overload
    def join_all(
        self,
        names: Sequence[str],
        type_: None = None,
        **choices: Unpack[JoinChoices],
    ) -> list[Group[bytes]]: ...

    @overload
    def join_all(
        self,
        names: Sequence[str],
        type_: type[T],
        **choices: Unpack[JoinChoices],
    ) -> list[Group[T]]: ...

    def join_all(
        self,
        names: Sequence[str],
        type_: Any = None,
        *,
        echo: bool = False,
        queue_bytes: int | None = None,
        overflow: Overflow | None = None,
        behind: Behind | str | None = None,
        empty: Empty | None = None,
        retain: int = 0,
    ) -> list[Group[Any]]:
        """Join many groups in one request; otherwise like ``join``."""
        groups, future = self._begin_join(
            names,
            type_,
            echo=echo,
            queue_bytes=queue_bytes,
            overflow=overflow,
            behind=behind,
            empty=empty,
            retain=retain,
        )
        self._subscribe(groups, future)
        return groups

    @overload
    def open(
        self,
        name: str,
        type_: None = None,
        **choices: Unpack[OpenChoices],
    ) -> Group[bytes]: ...

    @overload
    def open(
        self,
        name: str,
        type_: type[T],
        **choices: Unpack[OpenChoices],
    ) -> Group[T]: ...

    def open(
        self,
        name: str,
        type_: Any = None,
        *,
        behind: Behind | str | None = None,
        empty: Empty | None = None,
        retain: int = 0,
    ) -> Group[Any]:
        """Open a group for sending, without joining it.

        Args:
            name: The group's name.
            type_: Messages are values of this type, as for ``join``.
            behind: What to do about members that do not keep up: silent ones do not answer, slow
                ones answer but hold senders up. ``Wait()``: wait for all members. ``Keep()``: keep
                messages for silent ones and go on. ``Drop()``: go on without silent and slow ones,
                and keep nothing. By default, the node's ``engine.behind``, which is ``Keep()``
                unless you change it.
            empty: What happens to messages while the group has no members. ``"wait"``: they wait
                for a member. ``"drop"``: they are dropped. ``"error"``: ``send`` raises
                ``EmptyGroupError``. By default, the node's ``empty``.
            retain: ``retain=n`` keeps the last n messages of each key in memory. New members get
                them first, marked as retained. Messages to an empty group are then dropped unless
                ``empty`` is given; the last n are still kept.
        """
        group: Group[Any]
        (group,) = self.open_all([name], type_, behind=behind, empty=empty, retain=retain)
        return group

    @overload
    def open_all(
        self,
        names: Sequence[str],
        type_: None = None,
        **choices: Unpack[OpenChoices],
    ) -> list[Group[bytes]]: ...

    @overload
    def open_all(
        self,
        names: Sequence[str],
        type_: type[T],
        **choices: Unpack[OpenChoices],
    ) -> list[Group[T]]: ...

    def open_all(
        self,
        names: Sequence[str],
        type_: Any = None,
        *,
        behind: Behind | str | None = None,
        empty: Empty | None = None,
        retain: int = 0,
    ) -> list[Group[Any]]:
        """Open many groups for sending in one request; otherwise like ``open``."""
        groups, future = self._begin_open(names, type_, behind=behind, empty=empty, retain=retain)
        self._subscribe(groups, future)
        return groups

    def leave(self, *groups: Group[Any]) -> None:
        """Leave groups that were joined, and close groups that were opened.

        Messages already queued can still be read. A queue is left in two steps, so messages on
        their way to this member still arrive.

        The groups are left even if the call is interrupted.
        """
        shared = queues_of(groups)
        try:
            if shared:
                self._wait(self.core.leave_queues(shared))
                time.sleep(QUEUE_DRAIN_S)
        finally:
            left = self._leave(groups)
        self._wait(left)

    def _subscribe(self, groups: list[Any], future: Any) -> None:
        try:
            self._wait(future)
        except BaseException:
            self.core.withdraw(groups)
            raise

    def _wait(self, future: Any) -> Any:
        try:
            return future.result(timeout=self._options.connect_timeout_s)
        except FutureTimeout as error:
            if isinstance(error, QuicksilverError):
                raise
            future.cancel()
            raise self.core.unreachable() from None

    def flush(self, timeout: float | None = None) -> tuple[Unconfirmed, ...]:
        """Wait until every surviving member has everything that this node has sent, also those in
        other networks that gateways reach.

        Returns the messages that members who left or failed had not acknowledged.

        Raises:
            UnconfirmedError: messages may be lost, even to members that are alive, and no earlier
                flush reported them; all other messages have arrived.
            TimedOutError: not everything was acknowledged within ``timeout`` seconds; it may still
                arrive.
        """
        check_seconds("timeout", timeout, allow_none=True)
        future = self.core.flush()
        try:
            return future.result(timeout=timeout)
        except FutureTimeout as error:
            self.core.untell(future)
            if isinstance(error, QuicksilverError) or timeout is None:
                raise
            raise TimedOutError("everything sent to be acknowledged", timeout) from None
        except KeyboardInterrupt:
            self.core.untell(future)
            raise

    def stats(self) -> NodeStats:
        """Return this node's counters at this moment."""
        return self.core.stats()

    def close(self, timeout: float = 5.0) -> None:
        """Flush, leave the cluster and stop the core thread.

        With ``timeout=0`` it does not flush and reports nothing.

        Raises:
            UnconfirmedError: the node is closed, and messages may be lost: the flush reported them,
                or did not finish within ``timeout`` seconds.
        """
        check_seconds("timeout", timeout)
        core = self._core
        if core is None:
            return
        atexit.unregister(self._close_at_exit)
        lost: UnconfirmedError | None = None
        try:
            if timeout and not core.is_closed and core.failure is None:
                lost = self._flush_last(core, timeout)
        finally:
            core.close()
        if lost is not None:
            raise lost

    def _flush_last(self, core: Core, timeout: float) -> UnconfirmedError | None:
        try:
            self.flush(timeout)
        except TimedOutError:
            return core.take_unfinished()
        except UnconfirmedError as error:
            return error
        except QuicksilverError:
            pass  # the core has failed, or another thread closes it
        return None

    def _close_at_exit(self) -> None:
        try:
            self.close()
        except UnconfirmedError as error:
            sys.stderr.write(f"quicksilver: {error}\n")


def connect(gms: str | None = None, **options: Unpack[OptionArguments]) -> Node:
    """Return a node that is connected to the GMS (the group membership service) at ``host:port``.

    Use it in a ``with`` statement, which closes it at the end, or close it yourself.

    Keyword arguments are the fields of ``NodeOptions``.

    ``unix:PATH`` instead of ``host:port`` connects to the controller of this machine, which listens
    at that path; ``unix:`` alone is its usual path. The program is then one of those that share the
    controller's node.

    Without an address, the node looks for the GMS in this order: the variable ``QUICKSILVER_GMS``,
    the file ``quicksilver.toml`` (in the working folder, a folder above it, or the user's
    configuration), this machine, the host name ``quicksilver-gms``, the local network.

    Connecting raises ``GmsNotFoundError`` if no GMS is found, ``SeveralGmsError`` if the local
    network has several, ``GmsUnreachableError`` if the GMS does not answer within
    ``connect_timeout_s``, and ``RefusedError`` if it refuses the node.

    Raises:
        AddressError: ``gms`` is neither ``host:port`` nor ``unix:PATH``.
        OptionError: there is no such option, or its value is not valid.
    """
    return Node(gms, make_options(options)).__enter__()
