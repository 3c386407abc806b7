"""What one node needs its links for: channels that begin or end here, and agents to talk to.

A manager's events say it. A link that is lost takes its uses with it, and whoever looks after
links ends those without one. Channels that this node gives messages to are the forwarder's.
"""

from __future__ import annotations

from quicksilver.scopes.dissemination.carrying import Key, key_of
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.management.events import (
    Event,
    PeerFound,
    PeerLost,
    SourceAwaited,
    SourceClosed,
    TargetClosed,
    TargetOpened,
)
from quicksilver.scopes.posts import DomainId
from quicksilver.scopes.routing import Channel


class LinkUses:
    """The uses of one node's links."""

    def __init__(self) -> None:
        self._awaited: dict[Key, SourceAwaited] = {}
        """Channels that begin here and whose targets come by themselves."""
        self._attached: dict[Link, dict[Key, Channel]] = {}
        """Channels that end here and whose links this node makes."""
        self._peers: dict[Link, dict[tuple[DomainId, str], None]] = {}
        """Agents that are hosted at the other end of links."""

    def __contains__(self, where: Link) -> bool:
        return where in self._attached or where in self._peers

    def handle_event(self, event: Event) -> None:
        match event:
            case SourceAwaited(channel):
                self._awaited[key_of(channel)] = event
            case SourceClosed(channel):
                self._awaited.pop(key_of(channel), None)
            case TargetOpened(channel, Link() as where):
                self._attached.setdefault(where, {})[key_of(channel)] = channel
            case TargetClosed(channel):
                self.detach(channel)
            case PeerFound(domain, member, where):
                self._peers.setdefault(where, {})[domain, member] = None
            case PeerLost(domain, member):
                self._forget_peer(domain, member)
            case _:
                pass

    def is_awaited(self, channel: Channel) -> bool:
        """Whether the target of a channel that begins here comes by itself."""
        return key_of(channel) in self._awaited

    def find_awaited(self, channel: Channel) -> SourceAwaited | None:
        """Return what is known of a channel whose target has come; None: it is not the one."""
        awaited = self._awaited.get(key_of(channel))
        if awaited is None:
            return None
        known = awaited.channel
        is_it = channel.source == known.source
        return awaited if is_it and channel.target[: len(known.target)] == known.target else None

    def is_attached(self, where: Link, channel: Channel) -> bool:
        """Whether a channel ends here that comes over a link of this node."""
        return key_of(channel) in self._attached.get(where, {})

    def detach(self, channel: Channel) -> None:
        """A channel does not end here any more."""
        for where, channels in list(self._attached.items()):
            channels.pop(key_of(channel), None)
            if not channels:
                del self._attached[where]

    def take_lost(self, where: Link) -> tuple[list[Channel], list[tuple[DomainId, str]]]:
        """A link is lost; return the channels and the agents that were reached over it."""
        return list(self._attached.pop(where, {}).values()), list(self._peers.pop(where, {}))

    def _forget_peer(self, domain: DomainId, member: str) -> None:
        for where, agents in list(self._peers.items()):
            agents.pop((domain, member), None)
            if not agents:
                del self._peers[where]
