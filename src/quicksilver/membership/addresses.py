"""Multicast addresses for regions and hybrid groups.

"For each region, the GMS assigns a per-region IP multicast address, reserved
only for this particular region" (dissertation 4.2.1 B). Addresses are taken in
a circle, so a released one is used again as late as possible: packets of its
last owner have died out by then. When all are taken, owners share them: that
costs receivers some filtering, and nothing else, since packets carry region
identifiers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable

from quicksilver.stdx.errors import QuicksilverError


class BadAddressPoolError(QuicksilverError, ValueError):
    """The range cannot serve as a pool of multicast addresses."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text, problem)
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"address pool {self.text!r} {self.problem}"


class AddressPool:
    """Hands out the addresses of an IPv4 multicast network, such as ``239.192.0.0/16``."""

    def __init__(self, network: str) -> None:
        try:
            parsed = ipaddress.IPv4Network(network)
        except ValueError:
            raise BadAddressPoolError(
                network, "is not an IPv4 network: write it like 239.192.0.0/16"
            ) from None
        if not parsed.is_multicast:
            raise BadAddressPoolError(network, "is not multicast: take one inside 239.0.0.0/8")
        self.network = network
        self._first = int(parsed.network_address)
        self._size = parsed.num_addresses
        if _is_flooded(self._first):
            # Switches flood 224.0.0.x, and whatever shares its Ethernet address.
            skipped = min(self._size, 256 - (self._first & 255))
            self._first += skipped
            self._size -= skipped
        if self._size == 0:
            raise BadAddressPoolError(
                network, "has only addresses that switches flood: take another one"
            )
        self._at: dict[Hashable, int] = {}
        """Owner to position in the circle."""
        self._foreign: set[Hashable] = set()
        """Owners whose address is not in the circle."""
        self._load: dict[int, int] = {}
        """Owners of each position that has any."""
        self._shared = 0
        self._at_level: dict[int, int] = {}
        """How many positions have how many owners; level 0 is not kept."""
        self.cursor = 0
        """Position that is tried next; store it to keep the circle turning."""

    def __len__(self) -> int:
        return len(self._at) + len(self._foreign)

    @property
    def size(self) -> int:
        """How many addresses there are."""
        return self._size

    @property
    def shared(self) -> int:
        """How many owners had to take an address that somebody else has."""
        return self._shared

    def acquire(self, owner: Hashable) -> str:
        """Give ``owner``, which must have none, an address."""
        assert owner not in self._at
        level = 0
        if len(self._load) == self._size:
            level = min(n for n, count in self._at_level.items() if count)
        position = self.cursor
        while self._load.get(position, 0) != level:
            position = (position + 1) % self._size
        self._take(owner, position)
        self.cursor = (position + 1) % self._size
        return self._address(position)

    def release(self, owner: Hashable) -> None:
        """Take back the address of ``owner``."""
        if owner in self._foreign:
            self._foreign.remove(owner)
            return
        position = self._at.pop(owner)
        load = self._load.pop(position)
        self._at_level[load] -= 1
        if load > 1:
            self._shared -= 1
            self._load[position] = load - 1
            self._at_level[load - 1] = self._at_level.get(load - 1, 0) + 1

    def restore(self, owner: Hashable, address: str) -> None:
        """Note that ``owner`` has ``address``.

        It may be outside of the pool, if that was another one when the state
        was stored: nobody moves to a new address without a new view.
        """
        assert owner not in self._at
        position = int(ipaddress.IPv4Address(address)) - self._first
        if 0 <= position < self._size:
            self._take(owner, position)
        else:
            self._foreign.add(owner)

    def _take(self, owner: Hashable, position: int) -> None:
        self._at[owner] = position
        load = self._load.get(position, 0)
        if load:
            self._shared += 1
            self._at_level[load] -= 1
        self._load[position] = load + 1
        self._at_level[load + 1] = self._at_level.get(load + 1, 0) + 1

    def _address(self, position: int) -> str:
        return str(ipaddress.IPv4Address(self._first + position))


def _is_flooded(address: int) -> bool:
    # Ethernet keeps the low 23 bits: 239.0.0.x and 239.128.0.x look like 224.0.0.x.
    return address & 0x7FFF00 == 0
