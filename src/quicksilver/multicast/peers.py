"""Who receives at the address that it sends from.

The address that a datagram claims to come from can be forged, and what is asked in a few
bytes may be answered with megabytes. So every node has a *nonce* for every other one, tells
it in each control packet to that node, and believes no control packet that does not give it
back: only who receives what is sent to an address knows it. What comes without that proof is
answered with a Challenge, which is shorter and carries the nonce; whoever did ask then asks
again at once. Two nodes need that once, when they first speak to each other.

Nonces are derived from the seed of the engine with a keyed hash: who knows its own learns
nothing about the others'.
"""

from __future__ import annotations

from hashlib import blake2b

from quicksilver.wire.control import receiver_of, stamp_control

PEERS_MAX = 10_000
"""Nodes whose nonces are remembered; who is forgotten is challenged again."""

UNHEARD_S = 0.2
"""A packet without proof is sent again if the nonce comes within this time …"""

UNHEARD_BYTES_MAX = 1 << 20
"""… and as long as all such packets take no more than this."""

PER_PEER_BYTES = 400
"""What a nonce takes in either table."""

PER_PACKET_BYTES = 160


class Peers:
    """What this node wants to hear from others, and what others want to hear from it."""

    __slots__ = ("_key", "_mine", "_node", "_theirs", "_unheard", "unheard_bytes")

    def __init__(self, seed: int) -> None:
        self._key = blake2b((seed & ((1 << 64) - 1)).to_bytes(8, "little"), digest_size=32).digest()
        self._node = 0
        self._mine: dict[int, int] = {}
        """What this node wants to hear, by peer: worked out once."""
        self._theirs: dict[int, int] = {}
        """What peers want to hear."""
        self._unheard: dict[int, list[tuple[float, bytes]]] = {}
        """Packets that left without proof, and when; few, and not for long."""
        self.unheard_bytes = 0

    def become(self, node: int) -> None:
        """This node is another one from now on, or nobody: whatever was said is void."""
        if node != self._node:
            self._node = node
            self._mine.clear()
            self._theirs.clear()
            self._unheard.clear()
            self.unheard_bytes = 0

    # What is sent

    def stamp(self, packet: bytes, now: float) -> bytes:
        """Return a control packet as it leaves: with the nonce to hear back, and the proof."""
        peer = receiver_of(packet)
        if not peer:
            return packet
        proof = self._theirs.get(peer, 0)
        if not proof:
            self._keep(peer, packet, now)
        return stamp_control(packet, self.nonce_for(peer), proof)

    def _keep(self, peer: int, packet: bytes, now: float) -> None:
        self._drop_old(now)
        size = len(packet) + PER_PACKET_BYTES
        if self.unheard_bytes + size <= UNHEARD_BYTES_MAX:
            self.unheard_bytes += size
            self._unheard.setdefault(peer, []).append((now, packet))

    def take_unheard(self, peer: int, now: float) -> list[bytes]:
        """Return what a peer was sent without proof and did not listen to."""
        self._drop_old(now)
        taken = self._unheard.pop(peer, [])
        self.unheard_bytes -= sum(len(packet) + PER_PACKET_BYTES for _, packet in taken)
        return [packet for _, packet in taken]

    def _drop_old(self, now: float) -> None:
        while self._unheard:
            peer, packets = next(iter(self._unheard.items()))
            if packets[0][0] + UNHEARD_S >= now:
                return
            del self._unheard[peer]
            self.unheard_bytes -= sum(len(packet) + PER_PACKET_BYTES for _, packet in packets)

    # What arrives

    def nonce_for(self, peer: int) -> int:
        """Return what this node wants to hear from a peer; never 0."""
        nonce = self._mine.get(peer)
        if nonce is None:
            name = self._node.to_bytes(8, "little") + peer.to_bytes(8, "little")
            digest = blake2b(name, key=self._key, digest_size=8).digest()
            nonce = self._mine[peer] = int.from_bytes(digest, "little") or 1
            if len(self._mine) > PEERS_MAX:
                del self._mine[next(iter(self._mine))]
        return nonce

    def handle_stamp(self, peer: int, nonce: int, proof: int) -> bool:
        """Take the stamp of a packet; True if it proves that the peer sent it.

        What a peer wants to hear is learnt without proof only from the first packet: a
        forged one must not replace what is known. Should that one have been forged, the
        peer's Challenge puts it right.
        """
        is_proven = proof == self.nonce_for(peer)
        if nonce and (is_proven or peer not in self._theirs):
            self._theirs[peer] = nonce
            if len(self._theirs) > PEERS_MAX:
                del self._theirs[next(iter(self._theirs))]
        return is_proven

    def handle_failed(self, peer: int) -> None:
        """A node is gone, and its number is never used again."""
        self._mine.pop(peer, None)
        self._theirs.pop(peer, None)

    def used_bytes(self) -> int:
        """Return about how much all of this takes."""
        return PER_PEER_BYTES * (len(self._mine) + len(self._theirs)) + self.unheard_bytes


BYTES_MAX = 2 * PER_PEER_BYTES * (PEERS_MAX + 1) + UNHEARD_BYTES_MAX
"""What ``used_bytes`` never exceeds."""
