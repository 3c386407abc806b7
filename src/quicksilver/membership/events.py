"""The events of a membership client, and its states."""

from __future__ import annotations

import msgspec

from quicksilver.membership.directory import GroupView, RegionView
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import GroupId, NodeId, RegionId


class Welcomed(msgspec.Struct, frozen=True):
    """The GMS counts this node in, under the identifier ``node``."""

    node: NodeId
    cluster: int
    settings: ClusterSettings
    resumed: bool
    """True: the node keeps its identifier and all its memberships."""


class WasRefused(msgspec.Struct, frozen=True):
    """The GMS does not serve this node; trying the same again would not help."""

    reason: str
    requests: tuple[int, ...]
    """Subscriptions that are given up: they will not be sent again."""
    scope: str = ""
    """The scope that is managed there, if that is no GMS but the manager of a scope."""


class WasExcluded(msgspec.Struct, frozen=True):
    """The incarnation is over: identifier, views and addresses are void.

    The next connection asks to be let in as a new node, in the same groups.
    """

    reason: str


class SubscriptionCompleted(msgspec.Struct, frozen=True):
    """A request took effect, and the views that it led to are installed."""

    request: int
    """As ``subscribe`` returned it; 0 for what the client itself subscribed
    again after an exclusion."""
    groups: dict[str, GroupId]
    """The groups joined or opened."""


class ViewsChanged(msgspec.Struct, frozen=True):
    """One batch was installed; the directory already shows it."""

    regions: tuple[RegionView, ...]
    """New and changed views, also those in which only the senders changed."""
    groups: tuple[GroupView, ...]
    regions_gone: tuple[RegionId, ...]
    """Regions that this node no longer needs."""
    groups_gone: tuple[GroupId, ...]
    nodes_failed: tuple[NodeId, ...]
    """Nodes whose incarnation is over, whatever the reason."""
    is_complete: bool = False
    """True: batches before this one may have brought views that nobody told of."""


ClientEvent = Welcomed | WasRefused | WasExcluded | SubscriptionCompleted | ViewsChanged


class Connecting(msgspec.Struct, frozen=True):
    """No Welcome has come on this connection, or there is no connection."""

    reason: str = ""
    """Why the last connection ended."""


class Member(msgspec.Struct, frozen=True):
    """The GMS counts the node in and the directory follows its updates."""


class Resyncing(msgspec.Struct, frozen=True):
    """Counted in, but the directory is old until a complete update arrives."""

    reason: str


class Excluded(msgspec.Struct, frozen=True):
    """The incarnation is over; the next connection begins a new one."""

    reason: str


class Refused(msgspec.Struct, frozen=True):
    """The GMS does not serve this node, and said why."""

    reason: str


class Departed(msgspec.Struct, frozen=True):
    """The node said goodbye; the client is of no further use."""


ClientState = Connecting | Member | Resyncing | Excluded | Refused | Departed
