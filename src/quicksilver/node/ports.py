"""What the forms of the API need from whatever is behind them.

There are two cores: ``core.NodeCore`` is a node in this process, ``controlled.ControlledCore`` a
thin element that the controller of this machine serves. Groups and both forms of a node know
these ports alone, so that a program is the same with either.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.send_queue import SendQueue
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.errors import QuicksilverError, UnconfirmedError
from quicksilver.node.messages import NodeStats
from quicksilver.node.options import NodeOptions

if TYPE_CHECKING:
    from quicksilver.node.core import GroupSink
    from quicksilver.node.requests import Requests


class Target(Protocol):
    """How a group is sent to."""

    @property
    def id(self) -> int: ...

    @property
    def lane(self) -> SendQueue: ...

    @property
    def is_empty(self) -> bool: ...

    @property
    def empty(self) -> Empty: ...


class Known(Protocol):
    """What is known of the membership."""

    @property
    def batch(self) -> int: ...


class GroupSession(Protocol):
    """The part of a session that groups use. Targets are those that it gave out itself."""

    @property
    def name(self) -> str: ...

    @property
    def node(self) -> int: ...

    @property
    def cluster(self) -> int: ...

    @property
    def idle_lane(self) -> SendQueue: ...

    @property
    def directory(self) -> Known: ...

    def send(self, sender: Any, payload: bytes) -> SendQueue: ...

    def put_enveloped(self, sender: Any, payload: bytes) -> SendQueue: ...

    def may_wait(self, sender: Any, size: int) -> bool: ...

    def waiting_bytes(self) -> int: ...

    def send_from(self, sender: Any, source: Any) -> None: ...

    def groups_for(self, pattern: str) -> tuple[str, ...]: ...

    def pause(self, name: str) -> None: ...

    def resume(self, name: str) -> None: ...


class Thread(Protocol):
    """The thread that receives and sends."""

    is_sleeping: bool

    def wake(self) -> None: ...

    def lend(self) -> None: ...

    def is_core(self) -> bool: ...


class Core(Protocol):
    """Everything behind a node of either form."""

    options: NodeOptions
    room: threading.Event
    failure: Exception | None
    is_closed: bool
    exclusions: int

    @property
    def session(self) -> GroupSession: ...

    @property
    def thread(self) -> Thread: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def welcome(self) -> Future[int]: ...

    def start(self) -> None: ...

    def wait_welcome(self) -> int: ...

    def unreachable(self) -> QuicksilverError: ...

    def check_alive(self) -> None: ...

    def close(self) -> None: ...

    def call(self, work: Callable[[], None]) -> None: ...

    def subscribe(
        self,
        *,
        join: Iterable[GroupSink] = (),
        open_: Iterable[GroupSink] = (),
        leave: Iterable[str] = (),
        close: Iterable[str] = (),
        behind: Behind | None = None,
        empty: Empty | None = None,
        queue: str | None = None,
    ) -> Future[dict[str, int]]: ...

    def withdraw(self, sinks: Iterable[GroupSink]) -> None: ...

    def leave_queues(self, names: Iterable[str]) -> Future[Any]: ...

    def group_count(self) -> int: ...

    def flush(self) -> Future[tuple[Unconfirmed, ...]]: ...

    def untell(self, future: Future[tuple[Unconfirmed, ...]]) -> None: ...

    def take_unfinished(self) -> UnconfirmedError | None: ...

    def stats(self) -> NodeStats: ...

    def check_overrun(self, lane: Any) -> None: ...

    def on_burst(self, callback: Any) -> None:
        """Give whole packets to a callback instead of the groups."""
        ...
