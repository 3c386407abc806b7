"""Keys and headers arrive with the messages that were sent with them, and with no others."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import envelope_for, has_envelope, parse_payload
from quicksilver.trials.watch import Watcher
from quicksilver.wire.envelope import Envelope


class Envelopes(Watcher):
    """A message has the envelope that it was sent with, or none if it was sent without.

    Which messages have one, and what is in it, follows from their payloads.
    """

    name = "envelopes"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._opened: dict[SimNode, list[bytes]] = {}
        """Payloads that came with envelopes and were not delivered yet."""

    def on_envelopes(
        self, node: SimNode, envelopes: Sequence[Envelope], payloads: Sequence[bytes]
    ) -> None:
        for envelope, payload in zip(envelopes, payloads, strict=True):
            if envelope != envelope_for(payload):
                self.fail(f"{node}: {payload[:40]!r} came with {envelope}")
        self._opened[node] = list(payloads)

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        mark = parse_payload(payload)
        opened = self._opened.get(node)
        is_opened = bool(opened) and opened is not None and opened[0] == payload
        if is_opened and opened is not None:
            opened.pop(0)
        every = self.cluster.features.enveloped_every
        if mark is not None and has_envelope(mark.number, every) != is_opened:
            self.fail(f"{node}: {payload[:40]!r} came {'with' if is_opened else 'without'} headers")
