"""Whoever may send to a group knows of a member before the member is told that it is in."""

from __future__ import annotations

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.gms import Client
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId, NodeId


class Joins(Watcher):
    """When the GMS answers a join, all who may send to the group have the new view.

    "When ``join`` returns, whatever any connected node sends afterwards is delivered to the
    new member" (docs/guarantees.md): what a node sends goes to the view that it has, or a
    later one, and ``Complete`` sees to it that members of that view get it. Judged in the
    moment in which the answer leaves the GMS. An answer to a node that only opened the group
    promises nothing, even if the node has asked to join meanwhile. Nobody waits for nodes
    that are disconnected, suspected, or have not confirmed a view for ``join_wait_s``.
    """

    name = "joins"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.judged = 0
        """Pairs of a new member and a sender that were looked at."""
        self._numbers: dict[Client, NodeId] = {}
        """As the GMS numbers nodes: one that it welcomes may not have heard of it yet."""
        self._asked: dict[Client, dict[int, set[str]]] = {}
        """Names of the groups that a node asks to join, by the number of its request."""
        cluster.gms.request_taps.append(self._note)
        cluster.gms.taps.append(self._look_at)

    def _note(self, client: Client, frame: bytes) -> None:
        request = gms.parse_request(frame)
        asked = self._asked.setdefault(client, {})
        if isinstance(request, gms.Hello) and request.resume is None:
            # A new incarnation asks for everything again, and under the same numbers.
            asked.clear()
        elif isinstance(request, gms.Subscribe):
            # A long request comes in several frames.
            asked.setdefault(request.request, set()).update(request.join)

    def _look_at(self, client: Client, frame: bytes) -> None:
        reply = gms.parse_reply(frame)
        if isinstance(reply, gms.Welcome):
            self._numbers[client] = NodeId(reply.node)
        if not isinstance(reply, gms.Subscribed) or not isinstance(client, SimNode):
            return
        names = self._asked.get(client, {}).get(reply.request, set())
        for group in reply.groups:
            self._check(client, GroupId(group), names)

    def _check(self, joiner: SimNode, group: GroupId, asked: set[str]) -> None:
        service = self.cluster.gms.service
        for node in self.cluster.alive():
            sender = next((s for s in node.senders.values() if s.id == group), None)
            if node is joiner or sender is None or sender.name not in node.ready:
                continue
            name = sender.name
            if name not in asked or name not in joiner.joined or joiner.is_leaving(name):
                return
            if not service.answers.waits_for(NodeId(node.id)):
                continue
            self.judged += 1
            view = node.session.directory.groups.get(group)
            if view is None or self._numbers[joiner] not in view.members:
                self.fail(
                    f"{joiner} is told that it is in {name}, and {node}, which may send to it, "
                    "has not heard of that"
                )
