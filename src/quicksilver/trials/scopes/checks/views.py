"""A view of a domain is the same to all who hear of it, and a newer one has a higher number."""

from __future__ import annotations

from quicksilver.scopes.management.events import AgentPosted
from quicksilver.scopes.node_parts import NodeEvent
from quicksilver.scopes.posts import DomainId, Post
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher


class Views(ScopeWatcher):
    name = "views"

    def __init__(self, cluster: ScopeCluster) -> None:
        super().__init__(cluster)
        self._seats: dict[tuple[DomainId, int], tuple[object, ...]] = {}
        self._newest: dict[tuple[NodeLife, DomainId, str], int] = {}

    def on_event(self, node: NodeLife, event: NodeEvent) -> None:
        if not isinstance(event, AgentPosted):
            return
        post = event.post
        seats = tuple((seat.member, seat.domain) for seat in post.seats)
        known = self._seats.setdefault((post.domain, post.view), seats)
        if known != seats:
            self.fail(f"view {post.view} of {_text(post)}: {node} was told of other members")
        key = node, post.domain, post.path[0]
        if post.view < self._newest.get(key, post.view):
            self.fail(f"{node}: view {post.view} of {_text(post)} after {self._newest[key]}")
        self._newest[key] = post.view


def _text(post: Post) -> str:
    return f"domain {post.domain.number} of {post.domain.scope}"
