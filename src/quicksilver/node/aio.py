"""The asyncio form.

::

    async with quicksilver.connect("127.0.0.1:7401") as node:
        group = await node.join("prices")
        await group.send(b"...")
        async for message in group:
            ...

Whoever waits may be cancelled at any time: a message that was not returned is still there, a
``send`` that was cancelled has sent nothing, and a ``join`` has joined nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.aio_group import Group, Stream, TypedGroup, limited
from quicksilver.node.checks import check_seconds
from quicksilver.node.core import NodeCore
from quicksilver.node.discovery import find_gms
from quicksilver.node.errors import QuicksilverError, TimedOutError, UnconfirmedError
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

__all__ = ["Group", "Node", "Stream", "connect"]

T = TypeVar("T")


class Node(NodeBase):
    """A node in the asyncio form: ``async with connect(...) as node``.

    Or ``node = await connect(...)``, and ``await node.close()`` in the end.
    """

    _plain = Group
    _typed = TypedGroup
    _way_in = "`async with quicksilver.connect(...) as node:` or `await quicksilver.connect(...)`"

    def __await__(self) -> Generator[Any, None, Self]:
        return self._connect().__await__()

    async def __aenter__(self) -> Self:
        return await self._connect()

    async def _connect(self) -> Self:
        if self._core is not None:
            self._core.check_alive()
            return self
        if self._gms is None:
            self._gms = await asyncio.to_thread(find_gms)
        core = self._make_core()
        core.start()
        try:
            await self._wait(core.welcome)
        except BaseException:
            self._core = None
            await asyncio.to_thread(core.close)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(timeout=0 if kind is not None else 5.0)

    @overload
    async def join(
        self,
        name: str,
        type_: None = None,
        *,
        history: History | None = None,
        queue: str | None = None,
        **choices: Unpack[JoinChoices],
    ) -> Group[bytes]: ...

    @overload
    async def join(
        self,
        name: str,
        type_: type[T],
        *,
        history: History | None = None,
        queue: str | None = None,
        **choices: Unpack[JoinChoices],
    ) -> Group[T]: ...

    async def join(
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
        and ``retain`` are for what this node sends: see ``open``. Cancelled, it has joined nothing.

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
        await self._subscribe(groups, future)
        group: Group[Any] = groups[0]
        if history is not None:
            try:
                await group.begin_history(history)
            except BaseException:
                self.core.withdraw([group])
                raise
        return group

    @overload
    async def join_all(
        self,
        names: Sequence[str],
        type_: None = None,
        **choices: Unpack[JoinChoices],
    ) -> list[Group[bytes]]: ...

    @overload
    async def join_all(
        self,
        names: Sequence[str],
        type_: type[T],
        **choices: Unpack[JoinChoices],
    ) -> list[Group[T]]: ...

    async def join_all(
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
        await self._subscribe(groups, future)
        return groups

    @overload
    async def open(
        self,
        name: str,
        type_: None = None,
        **choices: Unpack[OpenChoices],
    ) -> Group[bytes]: ...

    @overload
    async def open(
        self,
        name: str,
        type_: type[T],
        **choices: Unpack[OpenChoices],
    ) -> Group[T]: ...

    async def open(
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
        (group,) = await self.open_all([name], type_, behind=behind, empty=empty, retain=retain)
        return group

    @overload
    async def open_all(
        self,
        names: Sequence[str],
        type_: None = None,
        **choices: Unpack[OpenChoices],
    ) -> list[Group[bytes]]: ...

    @overload
    async def open_all(
        self,
        names: Sequence[str],
        type_: type[T],
        **choices: Unpack[OpenChoices],
    ) -> list[Group[T]]: ...

    async def open_all(
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
        await self._subscribe(groups, future)
        return groups

    async def leave(self, *groups: Group[Any]) -> None:
        """Leave groups; what they queued can still be read. A queue is left in two steps, so
        that what was on its way to this member still comes.

        They are left from the call on, even if it is cancelled.
        """
        shared = queues_of(groups)
        try:
            if shared:
                await self._wait(self.core.leave_queues(shared))
                await asyncio.sleep(QUEUE_DRAIN_S)
        finally:
            left = self._leave(groups)
        await self._wait(left)

    async def _subscribe(self, groups: list[Any], future: Any) -> None:
        try:
            await self._wait(future)
        except BaseException:
            self.core.withdraw(groups)
            raise

    async def _wait(self, future: Any) -> Any:
        try:
            return await asyncio.wait_for(
                asyncio.wrap_future(future), self._options.connect_timeout_s
            )
        except TimeoutError as error:
            if isinstance(error, QuicksilverError):
                raise
            raise self.core.unreachable() from None

    async def flush(self, timeout: float | None = None) -> tuple[Unconfirmed, ...]:
        """Wait until everything sent is on every surviving member.

        Returns the messages that members who left or failed had not acknowledged: to those
        nothing is owed.

        Raises:
            UnconfirmedError: messages sent since the last flush that said so may be lost to
                members that live. All others have arrived.
            TimedOutError: not everything was acknowledged within ``timeout`` seconds; it may
                still be.
        """
        future = self.core.flush()
        try:
            async with limited(timeout, "everything sent to be acknowledged"):
                return await asyncio.wrap_future(future)
        except (asyncio.CancelledError, TimedOutError):
            self.core.untell(future)
            raise

    async def stats(self) -> NodeStats:
        """Return what this node counted so far."""
        return await asyncio.to_thread(self.core.stats)

    async def close(self, timeout: float = 5.0) -> None:
        """Flush, leave the cluster and stop the core thread.

        Cancelled, it closes the node without waiting for the flush.

        Raises:
            UnconfirmedError: the node is closed, and messages may be lost, because ``flush``
                said so or was not done within ``timeout`` seconds. With 0 there is no flush
                and nobody is told.
        """
        check_seconds("timeout", timeout)
        core = self._core
        if core is None:
            return
        lost: UnconfirmedError | None = None
        try:
            if timeout and not core.is_closed and core.failure is None:
                lost = await self._flush_last(core, timeout)
        finally:
            # In a thread of its own: whoever is cancelled here leaves it at work.
            await asyncio.shield(asyncio.to_thread(core.close))
        if lost is not None:
            raise lost

    async def _flush_last(self, core: NodeCore, timeout: float) -> UnconfirmedError | None:
        try:
            await self.flush(timeout)
        except TimedOutError:
            return await asyncio.to_thread(core.take_unfinished)
        except UnconfirmedError as error:
            return error
        except QuicksilverError:
            pass  # the core has failed, or another task closes it
        return None


def connect(gms: str | None = None, **options: Unpack[OptionArguments]) -> Node:
    """Return a node for the GMS at ``host:port``; enter or await it to connect.

    Keyword arguments are the fields of ``NodeOptions``.

    Without an address the GMS is looked for: in the variable ``QUICKSILVER_GMS``, in
    ``quicksilver.toml``, on this machine, by the host name ``quicksilver-gms`` and on the
    local network.
    """
    return Node(gms, make_options(options))
