"""The node through which a worker process publishes.

Connecting costs a round trip to the GMS and a thread, so a process keeps its
node from task to task and gives it up when nothing was published for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, Literal

from quicksilver.analysis.errors import BadInputError
from quicksilver.node import sync
from quicksilver.node.errors import QuicksilverError
from quicksilver.recorder.client import RecorderClient
from quicksilver.recorder.coverage import Coverage
from quicksilver.spark.errors import PublishError

IDLE_S = 15.0
MEMBERS_WAIT_S = 20.0


class Lease:
    """A connected node, for one task at a time."""

    def __init__(self, gms: str, interface: str | None) -> None:
        self.node = sync.connect(gms, interface=interface)
        self.used_at = time.monotonic()
        self._groups: dict[str, sync.Group[bytes]] = {}

    def group(self, name: str, members_min: int, wait_s: float) -> sync.Group[bytes]:
        """Return a group to send to, once it has enough members; raises PublishError."""
        found = self._groups.get(name)
        if found is None:
            # Whoever asks for no member is content if nobody gets the rows.
            empty: Literal["wait", "drop"] = "wait" if members_min else "drop"
            found = self._groups[name] = self.node.open(name, empty=empty)
        if members_min:
            try:
                found.wait_members(members_min, min(wait_s, MEMBERS_WAIT_S))
            except TimeoutError as error:
                what = "start `quicksilver record` or a subscriber, or set minMembers=0"
                raise PublishError(f"{error}; rows would reach nobody: {what}") from None
        return found


class _Leases:
    """The nodes of this process; those that nobody used for a while are closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[tuple[str, str | None], Lease] = {}
        self._busy: set[int] = set()

    def take(self, gms: str, interface: str | None) -> Lease:
        with self._lock:
            lease = self._leases.get((gms, interface))
            if lease is None or id(lease) in self._busy:
                lease = Lease(gms, interface)
                self._leases.setdefault((gms, interface), lease)
            self._busy.add(id(lease))
        return lease

    def give_back(self, lease: Lease, is_well: bool) -> None:
        with self._lock:
            self._busy.discard(id(lease))
            lease.used_at = time.monotonic()
            if not is_well or lease not in self._leases.values():
                self._leases = {k: one for k, one in self._leases.items() if one is not lease}
                lease.node.close(timeout=0)
                return
        timer = threading.Timer(IDLE_S, self.close, (IDLE_S * 0.9,))
        timer.daemon = True
        timer.start()

    def close(self, idle_s: float = 0.0) -> None:
        """Close the nodes that nobody has used for so long."""
        with self._lock:
            for key, lease in list(self._leases.items()):
                is_idle = time.monotonic() - lease.used_at >= idle_s
                if is_idle and id(lease) not in self._busy:
                    del self._leases[key]
                    lease.node.close(timeout=0)


LEASES = _Leases()


class Destination:
    """Where and how rows are published."""

    def __init__(
        self,
        gms: str,
        *,
        interface: str | None = None,
        members_min: int = 1,
        recorders: tuple[str, ...] = (),
        flush_timeout_s: float = 60.0,
    ) -> None:
        self.gms = gms
        self.interface = interface
        self.members_min = members_min
        self.recorders = recorders
        self.flush_timeout_s = flush_timeout_s

    def publish(self, messages: Iterable[tuple[str, list[bytes]]]) -> int:
        """Send messages to groups, and wait until every member has them; return how many.

        With recorders, also wait until each has them on disk. Raises PublishError.
        """
        lease = LEASES.take(self.gms, self.interface)
        is_well = False
        try:
            count = self._publish(lease, messages)
            is_well = True
        except TimeoutError as error:
            raise PublishError(f"{error}; Spark sends the rows again with the task") from None
        except QuicksilverError as error:
            if isinstance(error, PublishError | BadInputError):
                raise
            raise PublishError(str(error)) from None
        finally:
            LEASES.give_back(lease, is_well)
        return count

    def _publish(self, lease: Lease, messages: Iterable[tuple[str, list[bytes]]]) -> int:
        sent: dict[str, tuple[sync.Group[bytes], int]] = {}
        node_id = lease.node.id
        count = 0
        for topic, some in messages:
            if topic not in sent:
                group = lease.group(topic, self.members_min, self.flush_timeout_s)
                sent[topic] = (group, _sent_so_far(group))
            send = sent[topic][0].send
            for message in some:
                send(message)
            count += len(some)
        lease.node.flush(self.flush_timeout_s)
        if lease.node.id != node_id:
            raise PublishError("this node was counted as failed while it sent")
        for address in self.recorders:
            self._wait_recorded(address, lease, sent)
        return count

    def _wait_recorded(
        self, address: str, lease: Lease, sent: dict[str, tuple[sync.Group[bytes], int]]
    ) -> None:
        """Wait until a recorder has all that was sent on disk."""
        node = lease.node
        deadline = time.monotonic() + self.flush_timeout_s
        with RecorderClient(address) as client:
            for topic, (group, first) in sent.items():
                while True:
                    known = Coverage.parse(client.state(topic, had=True).coverage)
                    past = _sent_so_far(group)
                    ours = None if known is None else known.ranges(node.cluster, node.id)
                    if ours is not None and ours.contains_range(first, past):
                        break
                    if time.monotonic() > deadline:
                        problem = f"does not have all of {topic!r} after {self.flush_timeout_s} s"
                        raise PublishError(f"recorder at {address} {problem}")
                    time.sleep(0.02)


def _sent_so_far(group: sync.Group[bytes]) -> int:
    """Return the sequence number of a flushed group's next message."""
    sender: Any = group.sender  # of a GMS: recorders know no others
    return 0 if sender is None else sender.next_sequence
