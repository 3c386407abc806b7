"""What the two forms of the API need of the core behind them.

There are three cores: ``NodeCore``, a node of a GMS, ``ScopedCore``, a node of a scope, and
``ControlledCore``, which the controller of the machine serves. Groups and nodes know them by these
ports only. Queueing a message is written out in the groups, for
speed, so a lane is part of the port: an outbox, and the room that is left in it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.outbox import Outbox
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.errors import QuicksilverError, UnconfirmedError
from quicksilver.node.messages import NodeStats
from quicksilver.node.options import NodeOptions

if TYPE_CHECKING:
    from quicksilver.node.inbox import KeptViews
    from quicksilver.node.requests import Requests


class Lane(Protocol):
    """Where messages wait to be sent; ``multicast.sending.lane`` says how threads share it."""

    outbox: Outbox[Any]
    room: int
    """Bytes that may still be queued; senders wait while it is negative."""
    on_room: deque[Callable[[], None]]
    """Called, each once, when the queue has room again."""

    @property
    def is_blocked(self) -> bool:
        """True while to wake the core would not help."""
        ...


class GroupSender(Protocol):
    """A group as it is sent to."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def lane(self) -> Lane: ...

    @property
    def empty(self) -> Empty: ...

    @property
    def is_empty(self) -> bool: ...


class HasBatch(Protocol):
    @property
    def batch(self) -> int: ...


class Session(Protocol):
    """The protocol below; core thread, but for ``send`` and what only reads."""

    on_packet: Any

    @property
    def node(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def cluster(self) -> int: ...

    @property
    def directory(self) -> HasBatch: ...

    @property
    def idle_lane(self) -> Lane:
        """A lane that takes nothing: where groups point that may not send, or not yet."""
        ...

    def send(self, sender: Any, payload: bytes) -> Lane: ...

    def put_enveloped(self, sender: Any, payload: bytes) -> Lane: ...

    def may_wait(self, sender: Any, size: int) -> bool: ...

    def waiting_bytes(self) -> int: ...

    def send_from(self, sender: Any, source: Callable[[], Any]) -> None: ...

    def groups_for(self, pattern: str) -> Iterable[str]: ...

    def pause(self, name: str) -> None: ...

    def resume(self, name: str) -> None: ...


class Thread(Protocol):
    """The thread that the core runs on."""

    @property
    def is_sleeping(self) -> bool:
        """True while the core waits; whoever adds work then calls ``wake``."""
        ...

    def wake(self) -> None: ...

    def lend(self) -> None:
        """Do the core's work on the calling thread, if that is of use."""
        ...

    def is_core(self) -> bool: ...


class Core(Protocol):
    """A node assembled."""

    exclusions: int
    is_closed: bool
    failure: Exception | None
    room: threading.Event
    options: NodeOptions

    @property
    def session(self) -> Session: ...

    @property
    def thread(self) -> Thread: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def views(self) -> KeptViews:
        """The views that applications have not taken."""
        ...

    @property
    def welcome(self) -> Future[int]: ...

    def start(self) -> None: ...

    def close(self) -> None: ...

    def check_alive(self) -> None: ...

    def check_supports(self, what: str) -> None:
        """Raise ScopeLimitError or NeedsNodeError for what such a node cannot do."""
        ...

    def unreachable(self) -> QuicksilverError: ...

    def wait_welcome(self) -> int: ...

    def subscribe(
        self,
        *,
        join: Iterable[Any] = (),
        open_: Iterable[Any] = (),
        leave: Iterable[str] = (),
        close: Iterable[str] = (),
        behind: Behind | None = None,
        empty: Empty | None = None,
        queue: str | None = None,
    ) -> Future[dict[str, int]]: ...

    def leave_queues(self, names: Iterable[str]) -> Future[Any]: ...

    def withdraw(self, sinks: Iterable[Any]) -> None: ...

    def group_count(self) -> int: ...

    def call(self, work: Callable[[], None]) -> None: ...

    def flush(self) -> Future[tuple[Unconfirmed, ...]]: ...

    def untell(self, future: Future[tuple[Unconfirmed, ...]]) -> None: ...

    def take_unfinished(self) -> UnconfirmedError | None: ...

    def stats(self) -> NodeStats: ...

    def check_overrun(self, lane: Any) -> None: ...
