"""The synchronous form, for scripts and threads.

::

    with quicksilver.sync.connect("127.0.0.1:7401") as node:
        group = node.join("prices")
        group.send(b"...")
        for message in group.messages(timeout=1):
            ...

A node that is not used with ``with`` lives until ``close``, or the end of the program.
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
from quicksilver.node.core import NodeCore
from quicksilver.node.errors import (
    QuicksilverError,
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
from quicksilver.node.sync_group import Group, Stream, TypedGroup

__all__ = ["Group", "Node", "Stream", "connect"]

T = TypeVar("T")


class Node(NodeBase):
    """A node in the synchronous form: ``with connect(...) as node``.

    Or ``node = connect(...)``, and ``node.close()`` in the end.
    """

    _plain = Group
    _typed = TypedGroup
    _way_in = "`with quicksilver.sync.connect(...) as node:`"

    def __enter__(self) -> Self:
        if self._core is not None:
            self._core.check_alive()
            return self
        core = self._make_core()
        core.start()
        try:
            core.wait_welcome()
        except BaseException:
            self._core = None
            core.close()
            raise
        # Else the end of the program would look like a crash to the other nodes, and
        # messages that wait for repair would be lost.
        atexit.register(self._close_at_exit)
        return self

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
        """Join one group; whatever is sent to it when this has returned is delivered here.

        With ``type_`` (a msgspec struct or any type msgspec knows) the group
        carries values of it, checked when they are sent and when they arrive. With ``echo`` the
        node also hears its own messages. ``queue_bytes`` bounds what waits to be read, and
        ``overflow`` says what happens then. With ``history`` (a recorder's, for example) what
        was sent before comes first: each sender's messages in order, nothing
        twice; what the history lacks is counted in ``Group.missing``. ``behind``, ``empty``
        and ``retain`` are for what this node sends: see ``open``.

        A name with wildcards is a pattern and stands for many groups, those to come
        included: ``prices.*`` for ``prices.eu``, ``prices.>`` for ``prices.eu.spot`` as well.
        ``Message.group`` says which group a message came from. With ``queue`` each message
        goes to one of the members that joined with the same queue, instead of all of them.
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
        """Open a group for sending without being a member.

        ``behind`` says what to do about members that do not keep up: ``Wait()`` for them,
        ``Keep()`` what silent ones will need and go on, or ``Drop()`` slow ones too. ``empty``
        says what becomes of messages while nobody is in the group: they ``"wait"`` for a member,
        are dropped (``"drop"``), or ``send`` raises ``EmptyGroupError`` (``"error"``).

        With ``retain`` the last so many messages that this node sent, of each key, are kept in
        its memory; whoever joins later gets them first, marked as retained. Messages to an empty
        group are dropped then, unless ``empty`` says otherwise: the last ones are kept anyway.
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
        """Open many groups for sending in one request."""
        groups, future = self._begin_open(names, type_, behind=behind, empty=empty, retain=retain)
        self._subscribe(groups, future)
        return groups

    def leave(self, *groups: Group[Any]) -> None:
        """Leave groups; what they queued can still be read. A queue is left in two steps, so
        that what was on its way to this member still comes.

        They are left from the call on, even if it is interrupted.
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
        """Wait until everything sent is on every surviving member.

        Returns the messages that members who left or failed had not acknowledged: to those
        nothing is owed.

        Raises:
            UnconfirmedError: messages sent since the last flush that said so may be lost to
                members that live. All others have arrived.
            TimedOutError: not everything was acknowledged within ``timeout`` seconds; it may
                still be.
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
        """Return what this node counted so far."""
        return self.core.stats()

    def close(self, timeout: float = 5.0) -> None:
        """Flush, leave the cluster and stop the core thread.

        Raises:
            UnconfirmedError: the node is closed, and messages may be lost, because ``flush``
                said so or was not done within ``timeout`` seconds. With 0 there is no flush
                and nobody is told.
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

    def _flush_last(self, core: NodeCore, timeout: float) -> UnconfirmedError | None:
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
    """Return a node that is connected to the GMS at ``host:port``.

    Close it, or use it with ``with``, which does. Keyword arguments are the fields
    of ``NodeOptions``.

    Without an address the GMS is looked for: in the variable ``QUICKSILVER_GMS``, in
    ``quicksilver.toml``, on this machine, by the host name ``quicksilver-gms`` and on the
    local network.
    """
    return Node(gms, make_options(options)).__enter__()
