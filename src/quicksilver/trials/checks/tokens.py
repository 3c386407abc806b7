"""Bounded tokens."""

from __future__ import annotations

from quicksilver.multicast.repair.loss_rounds import RECORDS_SENT_MAX
from quicksilver.multicast.repair.recovery import TOKEN_BYTES_MAX
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.watch import Watcher
from quicksilver.wire.control import RANGES_MAX, Record, Token, parse_control
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import KIND_CONTROL, KIND_TOKEN


class Tokens(Watcher):
    """Control packets stay small, whatever is missing and however many send.

    Tokens carry "one record per active sender, whatever the number of groups"
    (DESIGN.md, recovery; dissertation 4.2.1 C), and what does not fit is told in
    a later round. Every datagram fits the packet size that nodes were given, or,
    if it is a token, the token's own bound; sets of packets are at most so many
    ranges, senders are listed once, and only those there are.
    """

    name = "tokens"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._data_bytes_max = 0
        cluster.network.taps.append(self._handle_datagram)

    def _handle_datagram(
        self, at: float, source: Address, destination: Address, packet: bytes
    ) -> None:
        kind = packet[1]
        if kind != KIND_TOKEN and kind != KIND_CONTROL:
            if len(packet) > self._data_bytes_max:
                self._check_data(source, packet)
            return
        if len(packet) > TOKEN_BYTES_MAX:
            self.fail(f"{source} sent {len(packet)} bytes of control")
        control = parse_control(packet)
        if control is None:
            self.fail(f"{source} sent control that nobody can read: {packet[:40]!r}")
        elif isinstance(control, Token):
            self._check_token(source, control)

    def _check_data(self, source: Address, packet: bytes) -> None:
        limit = max(life.config.packet_bytes for life in self.cluster.lives)
        self._data_bytes_max = max(self._data_bytes_max, limit)
        if len(packet) > limit:
            self.fail(f"{source} sent a packet of {len(packet)} bytes, {limit} are allowed")

    def _check_token(self, source: Address, token: Token) -> None:
        senders = [record.sender for record in token.records]
        if len(senders) > RECORDS_SENT_MAX:
            self.fail(f"{source} sent a token with {len(senders)} records")
        if len(set(senders)) != len(senders):
            self.fail(f"{source} sent a token with two records of one sender: {senders}")
        for record in token.records:
            self._check_record(source, record)

    def _check_record(self, source: Address, record: Record) -> None:
        sets = (
            record.missing,
            record.previous,
            record.unasked,
            record.unkept,
            record.region_unkept,
        )
        longest = max(map(len, sets))
        most = self.cluster.config.ranges_told_max
        if longest > 2 * most or len(record.wanted) > 2 * RANGES_MAX:
            self.fail(f"{source} sent a record with {longest // 2} ranges in one set")
