"""What carries datagrams and keeps files in simulations: bad weather, and a loss of power."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence

from quicksilver.live.runtime.executors import Executor
from quicksilver.live.services.datagrams import Address, DatagramPort, Datagrams, OnDatagram
from quicksilver.live.services.storage import Storage
from quicksilver.stdx.rand import Rng


class DatagramMedium:
    """What carries datagrams in virtual time, and what it does to them."""

    def __init__(
        self,
        rng: Rng,
        after: Callable[[float, Callable[[], None]], object],
        *,
        loss: float = 0.0,
        duplicates: float = 0.0,
        delay_s: float = 0.001,
        jitter_s: float = 0.0,
    ) -> None:
        """``after`` lets something happen later; jitter makes datagrams overtake each other."""
        self._rng = rng
        self._after = after
        self.loss = loss
        self.duplicates = duplicates
        self.delay_s = delay_s
        self.jitter_s = jitter_s
        self._ports: dict[Address, list[_MediumPort]] = {}
        self.carried = 0

    def attach(self, port: _MediumPort) -> None:
        """Let a port hear what is sent to its address."""
        self._ports.setdefault(port.local, []).append(port)

    def detach(self, port: _MediumPort) -> None:
        """Let it hear nothing more."""
        self._ports[port.local].remove(port)

    def send(self, sender: _MediumPort, address: Address, data: bytes) -> None:
        """Carry a datagram to all at an address, each with its own luck."""
        rng = self._rng
        for port in self._ports.get(address, ()):
            copies = 0 if rng.chance(self.loss) and port is not sender else 1
            copies += rng.chance(self.duplicates)
            for _ in range(copies):
                self.carried += 1
                delay = self.delay_s + self.jitter_s * rng.uniform()
                self._after(delay, lambda port=port: port.deliver(data))  # type: ignore[misc]


class _MediumPort(DatagramPort):
    def __init__(
        self,
        medium: DatagramMedium,
        executor: Executor,
        local: Address,
        peers: Sequence[Address],
        take: OnDatagram,
    ) -> None:
        self._medium = medium
        self._executor = executor
        self.local = local
        self._to = [local]
        if not ipaddress.IPv4Address(local[0]).is_multicast:
            self._to += peers
        self._take = take
        self._is_closed = False
        medium.attach(self)

    def send(self, data: bytes) -> None:
        for address in self._to:
            self._medium.send(self, address, data)

    def deliver(self, data: bytes) -> None:
        self._executor.post(lambda: None if self._is_closed else self._take(data))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._medium.detach(self)


class MediumDatagrams(Datagrams):
    """Datagrams of one executor over a medium."""

    def __init__(self, medium: DatagramMedium, executor: Executor) -> None:
        self._medium = medium
        self._executor = executor

    def open(self, local: Address, peers: Sequence[Address], take: OnDatagram) -> DatagramPort:
        """Open a way."""
        return _MediumPort(self._medium, self._executor, local, peers, take)


class MemoryStorage(Storage):
    """A disk in memory, for simulations: it outlives the runtimes that use it.

    ``lose_power`` does what a machine's end does: appended and not synced data may
    be lost, also in the middle of a record.
    """

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._synced: dict[str, int] = {}

    def read(self, name: str) -> bytes | None:
        """Return what a file has; None if there is none."""
        found = self._files.get(name)
        return None if found is None else bytes(found)

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file."""
        self._files.setdefault(name, bytearray()).extend(data)

    def sync(self, name: str) -> None:
        """All that was appended is safe."""
        self._synced[name] = len(self._files.get(name, b""))

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in the place of another."""
        self._files[name] = bytearray(data)
        self._synced[name] = len(data)

    def lose_power(self, keep: int = 0) -> None:
        """Lose what was not synced, but for its first ``keep`` bytes in each file."""
        for name, data in self._files.items():
            del data[self._synced.get(name, 0) + keep :]
