"""The queues that one node shares groups in, and what is known of who attends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quicksilver.membership.events import ViewsChanged
from quicksilver.multicast.queues import Queue
from quicksilver.multicast.routes import Receivers
from quicksilver.wire.ids import NodeId


class QueueTable:
    """Queues by the group that they share; ``queues.Queue`` says how each of them works."""

    def __init__(
        self,
        *,
        held_bytes_max: int,
        known_batch: Callable[[], int],
        on_news_wanted: Callable[[], None],
    ) -> None:
        """``known_batch`` says up to which batch all views are known here."""
        self._queues: dict[str, Queue] = {}
        self._held_bytes_max = held_bytes_max
        self._known_batch = known_batch
        self._on_news_wanted = on_news_wanted
        self._known_before = 0
        """Up to which batch all news had come when the last of them came."""

    def add(self, group: str, attendance: str, receivers: Receivers) -> Receivers:
        """Share a group in a queue; return the receivers that all its messages go to."""
        queue = self._queues[group] = Queue(
            attendance,
            receivers,
            held_bytes_max=self._held_bytes_max,
            known_batch=self._known_batch,
            on_news_wanted=self._on_news_wanted,
        )
        return (queue.receive, queue.receive_enveloped)

    def remove(self, group: str) -> None:
        self._queues.pop(group, None)

    def attendances(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return the attendance groups of those among some groups that are shared."""
        return tuple(self._queues[group].name for group in groups if group in self._queues)

    def unsure(self) -> int:
        """Return how many messages nobody here could tell whose they are."""
        return sum(queue.unsure for queue in self._queues.values())

    def handle_views(self, event: ViewsChanged, me: NodeId | None, batch: int) -> None:
        """Tell queues who is in them; ``batch`` is the newest one that was heard of."""
        unknown_after = self._known_before if event.is_complete else None
        self._known_before = self._known_batch()
        if not self._queues:
            return
        by_name = {queue.name: queue for queue in self._queues.values()}
        for view in event.groups:
            queue = by_name.get(view.name)
            if queue is not None and me is not None:
                queue.group = view.id
                queue.handle_view(view.view, view.members, me, unknown_after)
        for queue in self._queues.values():
            if queue.group in event.groups_gone:
                queue.handle_left(batch)
            queue.handle_news()

    def handle_answer(self) -> None:
        """The GMS has said up to which batch there is no other news."""
        self._known_before = self._known_batch()
        for queue in self._queues.values():
            queue.handle_news()

    def clear(self) -> None:
        """The incarnation is over: the next one is another member."""
        self._known_before = 0
        for queue in self._queues.values():
            queue.clear()
