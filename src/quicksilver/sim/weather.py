"""What a host's link does to datagrams that arrive there, drawn from a seed."""

from __future__ import annotations

from quicksilver.stdx.rand import Rng
from quicksilver.wire.packets import KIND_DATA, KIND_HYBRID

_NOISE_BYTES_MAX = 256
_DATA_KINDS = frozenset({KIND_DATA, KIND_HYBRID})


class Weather:
    """Loss, duplication, delay and damage on the way to one host.

    Loss in bursts follows Gilbert: the link is good or bad, loses everything
    while bad, and changes state with fixed chances per datagram.
    """

    __slots__ = (
        "_is_bad",
        "_rng",
        "burst_length",
        "burst_rate",
        "corrupt_rate",
        "deaf_until",
        "delay_s",
        "drop_rate",
        "duplicate_rate",
        "jitter_s",
        "reorder_rate",
        "reorder_s",
        "spares_control",
    )

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._is_bad = False
        self.deaf_until = 0.0
        """Everything that arrives before is lost."""
        self.clear()

    def clear(self) -> None:
        """Fine weather from now on."""
        self.drop_rate = 0.0
        """Part of the datagrams lost, each by itself."""
        self.burst_rate = 0.0
        """Part of the datagrams lost in bursts, over the long run."""
        self.burst_length = 10.0
        self.duplicate_rate = 0.0
        self.reorder_rate = 0.0
        self.reorder_s = 0.002
        """How long a datagram is held back so that others overtake it, at most."""
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self.corrupt_rate = 0.0
        """Part of the datagrams that arrive damaged."""
        self.spares_control = False
        """True: only data suffers; tokens, control and repairs pass."""
        self.deaf_until = 0.0
        self._is_bad = False

    @property
    def is_fine(self) -> bool:
        """True when every datagram passes as it is."""
        return not (
            self.drop_rate
            or self.burst_rate
            or self.duplicate_rate
            or self.reorder_rate
            or self.delay_s
            or self.jitter_s
            or self.corrupt_rate
            or self.deaf_until
        )

    def pass_on(self, packet: bytes, now: float) -> list[tuple[float, bytes]]:
        """Return what arrives of one datagram: (delay, bytes), perhaps nothing."""
        if self.spares_control and packet[1] not in _DATA_KINDS:
            return [(0.0, packet)]
        if now < self.deaf_until:
            return []
        rng = self._rng
        if self.burst_rate and self._is_in_burst():
            return []
        if self.drop_rate and rng.chance(self.drop_rate):
            return []
        delay = self.delay_s
        if self.jitter_s:
            delay += self.jitter_s * rng.uniform()
        if self.reorder_rate and rng.chance(self.reorder_rate):
            delay += self.reorder_s * rng.uniform()
        arrivals = [(delay, packet)]
        if self.corrupt_rate and rng.chance(self.corrupt_rate):
            arrivals = [(delay, self._damage(packet))]
        if self.duplicate_rate and rng.chance(self.duplicate_rate):
            arrivals.append((delay + self.reorder_s * rng.uniform(), packet))
        return arrivals

    def _is_in_burst(self) -> bool:
        rng = self._rng
        if self._is_bad:
            self._is_bad = not rng.chance(1.0 / self.burst_length)
        else:
            # In the long run, the part of time spent bad is the burst rate.
            self._is_bad = rng.chance(
                self.burst_rate / (self.burst_length * (1.0 - self.burst_rate))
            )
        return self._is_bad

    def _damage(self, packet: bytes) -> bytes:
        """Return what a receiver might be given instead: noise, or a stump.

        Damage inside a datagram is caught by UDP's checksum, which here means
        that the datagram is lost; so what does come through is never almost
        right, but nothing that anybody sent.
        """
        rng = self._rng
        if rng.chance(0.5):
            return packet[: rng.below(min(len(packet), 28) + 1)]
        noise = b"".join(rng.bits64().to_bytes(8, "little") for _ in range(rng.below(32)))
        head = packet[:2] if rng.chance(0.5) else b""
        return (head + noise)[:_NOISE_BYTES_MAX]
