"""What groups need of a session, for an application behind a controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.send_queue import SendQueue
from quicksilver.multicast.sending.unconfirmed import Notes, Unconfirmed
from quicksilver.node.element import Element
from quicksilver.node.errors import NeedsNodeError
from quicksilver.wire import local

if TYPE_CHECKING:
    from quicksilver.node.ports import HasBatch

EMPTY_BYTES_MAX = 1 << 20
"""What an application may send to a group while nobody is in it, before ``send`` waits."""


class SendTarget:
    """A group as the application sends to it."""

    __slots__ = ("empty", "id", "is_empty", "is_enveloped", "lane", "name", "number", "waited")

    def __init__(self, name: str, lane: SendQueue, number: int, *, is_enveloped: bool) -> None:
        self.name = name
        self.lane = lane
        self.number = number
        """By which the controller knows the group."""
        self.is_enveloped = is_enveloped
        """Whether messages that are queued for it begin with an envelope."""
        self.id = 0
        self.is_empty = False
        self.empty: Empty = "wait"
        self.waited = 0
        """Bytes that were sent while nobody is in the group."""


class ControlledSession:
    """What groups need of a session: queues on the way to the controller."""

    def __init__(self, name: str, element: Element) -> None:
        self.name = name
        self.node = 0
        self.cluster = 0
        self.on_packet: Any = None
        self.idle_lane = SendQueue(0)
        self.idle_lane.room = -1
        self._element = element
        self._put_back = Notes()
        self._twins: dict[SendTarget, SendTarget] = {}
        self._flushes = 0
        self.on_flush: Callable[[int], None] = lambda _: None

    @property
    def directory(self) -> HasBatch:
        raise NeedsNodeError("retain")

    def send(self, sender: SendTarget, payload: bytes) -> SendQueue:
        if sender.is_empty:
            sender.waited += len(payload)
        lane = sender.lane
        size = len(payload)
        lane.outbox.put(sender, payload)
        lane.room -= size  # no call in between: see ``SendQueue``
        return lane

    def put_enveloped(self, sender: SendTarget, payload: bytes) -> SendQueue:
        twin = self._twins.get(sender)
        if twin is None:
            twin = SendTarget(sender.name, sender.lane, sender.number, is_enveloped=True)
            self._twins[sender] = twin
            sender.lane.outbox.attach(twin)
        if sender.is_empty:
            sender.waited += len(payload)
        return self.send(twin, payload)

    def may_wait(self, sender: SendTarget, size: int) -> bool:
        return not sender.waited or sender.waited + size <= EMPTY_BYTES_MAX

    def waiting_bytes(self) -> int:
        return self._element.lane.queued_bytes()

    def send_from(self, sender: Any, source: Any) -> None:
        raise NeedsNodeError("send_from")

    def groups_for(self, pattern: str) -> tuple[str, ...]:
        return ()

    def pause(self, name: str) -> None:
        self._element.paused.add(name)

    def resume(self, name: str) -> None:
        self._element.paused.discard(name)

    # What ``Flushes`` needs

    def flush(self) -> int:
        self._flushes += 1
        self._element.send_behind(local.KIND_FLUSH, local.encode_flush(self._flushes))
        self.on_flush(self._flushes)
        return self._flushes

    def put_back_unconfirmed(self, messages: Iterable[Unconfirmed]) -> None:
        self._put_back.add(messages)

    def take_put_back(self) -> tuple[Unconfirmed, ...]:
        return self._put_back.take()
