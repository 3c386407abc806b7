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

RETRY_S = 0.01
"""… and until then again after this time, then after twice as long: the first words of two
nodes may be lost, and those who sent them have slower ways to notice."""

PER_PEER_BYTES = 400
"""What a nonce takes in either table."""

PER_PACKET_BYTES = 160


class Peers:
    """What this node wants to hear from others, and what others want to hear from it."""

    __slots__ = ("_key", "_mine", "_node", "_retries", "_theirs", "_unheard", "unheard_bytes")

    def __init__(self, seed: int) -> None:
        self._key = blake2b((seed & ((1 << 64) - 1)).to_bytes(8, "little"), digest_size=32).digest()
        self._node = 0
        self._mine: dict[int, int] = {}
        """What this node wants to hear, by peer: worked out once."""
        self._theirs: dict[int, int] = {}
        """What peers want to hear."""
        self._unheard: dict[int, list[tuple[float, bytes]]] = {}
        """Packets that left without proof, and when; few, and not for long."""
        self._retries: dict[int, tuple[float, float]] = {}
        """When to say the newest of them again, by peer, and how long the pause was."""
        self.unheard_bytes = 0

    def become(self, node: int) -> None:
        """This node is another one from now on, or nobody: whatever was said is void."""
        if node != self._node:
            self._node = node
            self._mine.clear()
            self._theirs.clear()
            self._unheard.clear()
            self._retries.clear()
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
        packets = self._unheard.get(peer, [])
        if any(kept is packet for _, kept in packets):
            return  # said again
        size = len(packet) + PER_PACKET_BYTES
        if self.unheard_bytes + size <= UNHEARD_BYTES_MAX:
            self.unheard_bytes += size
            self._unheard.setdefault(peer, packets).append((now, packet))
            self._retries.setdefault(peer, (now + RETRY_S, RETRY_S))

    def take_unheard(self, peer: int, now: float) -> list[bytes]:
        """Return what a peer was sent without proof and did not listen to."""
        self._drop_old(now)
        return [packet for _, packet in self._forget_unheard(peer)]

    def _forget_unheard(self, peer: int) -> list[tuple[float, bytes]]:
        taken = self._unheard.pop(peer, [])
        self._retries.pop(peer, None)
        self.unheard_bytes -= sum(len(packet) + PER_PACKET_BYTES for _, packet in taken)
        return taken

    def next_timeout(self) -> float | None:
        """When to say something again."""
        return min(at for at, _ in self._retries.values()) if self._retries else None

    def take_due(self, now: float) -> list[tuple[int, bytes]]:
        """Return what to say to whom again: the newest, or all once it can be proven."""
        self._drop_old(now)
        due: list[tuple[int, bytes]] = []
        for peer, (at, pause) in list(self._retries.items()):
            if at > now:
                continue
            if peer in self._theirs:
                due += [(peer, packet) for packet in self.take_unheard(peer, now)]
            else:
                due.append((peer, self._unheard[peer][-1][1]))
                self._retries[peer] = (now + 2 * pause, 2 * pause)
        return due

    def _drop_old(self, now: float) -> None:
        while self._unheard:
            peer, packets = next(iter(self._unheard.items()))
            if packets[0][0] + UNHEARD_S >= now:
                return
            self._forget_unheard(peer)

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
