"""What a node may promise of a topic: that messages are everywhere, that it is connected.

Both follow from what the node's manager was told, from the channels that begin and end here, and
from what agents have agreed on.
"""

from __future__ import annotations

from collections.abc import Mapping

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.holdings import Name
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.reliability.agents import Agents


class Promised:
    """How it stands with the topics of one node."""

    def __init__(
        self,
        manager: ScopeManager,
        forwarder: Forwarder,
        agents: Agents,
        wants: Mapping[str, tuple[bool, bool]],
        *,
        is_lossy: bool,
    ) -> None:
        """``wants``: of each topic, whether applications publish to it and subscribe to it.

        ``is_lossy``: others send this node messages along channels that lose some.
        """
        self._manager = manager
        self._forwarder = forwarder
        self._agents = agents
        self._wants = wants
        self._is_lossy = is_lossy

    def is_stable(self, topic: str, number: int) -> bool:
        """Whether all messages of this node below a number are everywhere.

        Nothing is while the node is yet to be told what it has to do for the topic, or while
        channels that it has to work are not open.
        """
        forwarder = self._forwarder
        is_sent = number <= forwarder.flush_mark(topic)
        return is_sent and forwarder.is_stable(topic, number) and self._is_carried(topic)

    def is_everywhere(self, topic: str, sender: Sender, number: int) -> bool | None:
        """At a gateway: whether all messages of a node of its network below a number are
        everywhere, as ``is_stable`` says it; None: they have not all come here."""
        if self._manager.find_topic(topic) is None:
            return True  # No other network has the topic.
        if self._agents.state.stable(Name(topic, sender)) >= number:
            return True  # Another gateway may have heard them.
        stream = self._forwarder.holdings.find(topic, sender)
        if stream is None or stream.high < number:
            return None
        return self._forwarder.is_stable(topic, number, sender) and self._is_carried(topic)

    def is_rooted(self, topic: str) -> bool:
        """Whether a topic's root knows that this node takes part: it has given it a session."""
        known = self._manager.find_topic(topic)
        return known is not None and bool(known.sessions.followed)

    def is_connected(self, topic: str) -> bool:
        """Whether all that follows from what is wanted of a topic is done here.

        Its owners know, channels that begin and end at this node are open, and agents are here.
        Then what is published anywhere comes here, and what is published here has its way to all
        who are connected already.
        """
        known = self._manager.find_topic(topic)
        if known is None or not self.is_rooted(topic):
            return False
        wanted = self._wants.get(topic, (False, False))
        is_known = all(k or not w for k, w in zip(known.known_above, wanted, strict=True))
        if not is_known or not self._has_agents(topic):
            return False
        # Along channels that lose messages nothing is opened.
        targets = [] if self._is_lossy else [target.channel for target in known.targets]
        return self._forwarder.is_open([each.channel for each in known.sources], targets)

    def _is_carried(self, topic: str) -> bool:
        """Whether this node does for a topic all that it has to."""
        known = self._manager.find_topic(topic)
        if known is None:
            return True
        if not known.is_ordered or not self._has_agents(topic):
            return False
        channels = [source.channel for source in known.sources if source.waits]
        return self._forwarder.is_carried(topic, channels)

    def _has_agents(self, topic: str) -> bool:
        """Whether agents serve a topic here, if its owner recovers it."""
        known = self._manager.find_topic(topic)
        return known is None or not known.is_recovered_above or self._forwarder.has_agents(topic)
