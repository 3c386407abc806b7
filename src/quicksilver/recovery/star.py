"""An agent whose leader asks every member by itself.

In each round the leader sends a token to every member, which answers with a report. It costs
the leader as many messages as there are members, and a round takes as long as one question:
the right kind for small domains, and for those whose members hardly reach each other::

    leader ──token──> A ──report──> leader
           ──token──> B ──report──> leader
"""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.recovery.gathering import Gathering, GatheringAgent
from quicksilver.recovery.rounds import Content, Report, Said, Token


class StarAgent(GatheringAgent[Content]):
    """The agent of one node in one domain."""

    def _begin(self, state: Gathering[Content], now: float) -> None:
        self._ask(state, self._in_order(state.awaited), now)

    def _ask(self, state: Gathering[Content], peers: Sequence[int], now: float) -> None:
        skipped = self._told_skipped(state)
        name = self.domain.name
        for peer in peers:
            token = Token(name, state.round, self.node, self.node, skipped, state.blank)
            self._say(peer, Token, token)

    def handle_token(self, token: Token[Content], now: float) -> None:
        if token.content is None or token.origin != token.leader:
            return
        if self._follow(token.leader, now):
            content = self.rounds.visit(token.content, token.leader, now)
            name = self.domain.name
            report = Report(name, token.round, token.leader, self.node, (), content)
            self._say(token.leader, Report, report)

    def handle_message(self, message: Said[Content], now: float) -> None:
        if isinstance(message, Report) and message.leader == self.node:
            self._fold(message.round, {message.origin}, (), message.content)
            self._end_if_complete(now)
