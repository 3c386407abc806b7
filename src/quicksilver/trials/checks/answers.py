"""Every question has its answers."""

from __future__ import annotations

from quicksilver.trials.asking import ANSWERED
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher


class Answers(Watcher):
    """A server handles a question once, its answer is to that question, and whoever asks hears in
    the end of everybody who may answer: an answer, or that it is gone.

    Of requesters that were excluded after they asked nothing is said: their question, or the
    answer, may be lost. A server that more ask at once than it can keep reply groups open for drops
    answers, and counts them: no others are missing.
    """

    name = "answers"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._served: set[tuple[int, bytes]] = set()
        self._answered: set[tuple[SimNode, int, int]] = set()

    def on_served(self, node: SimNode, body: bytes) -> None:
        if (node.id, body) in self._served:
            self.fail(f"{node} was asked {body!r} twice")
        self._served.add((node.id, body))

    def on_answered(self, node: SimNode, number: int, sender: int, body: bytes) -> None:
        if body != node.asking.question(number) + ANSWERED:
            self.fail(f"{node}: {body!r} is no answer to question {number}")
        if (node, number, sender) in self._answered:
            self.fail(f"{node}: {sender} answered question {number} twice")
        self._answered.add((node, number, sender))

    def on_settled(self) -> None:
        dropped = {node.id: node.asking.answers.crowded_out for node in self.cluster.alive()}
        for node in self.cluster.alive():
            for pending, exclusions in node.asking.asked:
                if pending.is_ended or exclusions != node.exclusions:
                    continue
                for server in pending.servers:
                    dropped[server] = dropped.get(server, 0) - 1
                if any(dropped[server] < 0 for server in pending.servers):
                    self.fail(f"{node} waits for answers to question {pending.number}")
