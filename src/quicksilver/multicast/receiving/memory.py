"""How much a node keeps: copies for others, and packets that wait.

A budget is shared by all streams of a node. ``Room``, for packets that wait for an
earlier one, keeps a half for packets next in line: only these let a stream deliver
what waits, and so make room again.
"""

from __future__ import annotations


class Budget:
    """Bytes in use against a limit."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0


class Room(Budget):
    """The bytes of packets that wait for an earlier one of their stream, or of an older.

    Half is for whatever comes. The other half is for packets near the next one of
    streams that nothing older holds back: were it given away as well, many streams
    with holes would fill it with late packets, and then close their holes one
    packet a round.
    """

    __slots__ = ("users",)

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.users = 0
        """Streams with packets that wait for an earlier one."""

    def near_bytes(self) -> int:
        """How far past its next packet a stream may use the half that is kept free."""
        return self.limit // 2 // max(1, self.users)

    def takes(self, size: int, distance_bytes: int, *, is_held: bool) -> bool:
        """Whether a packet so far past the next one finds room."""
        used = self.used + size
        if used <= self.limit // 2:
            return True
        return used <= self.limit and not is_held and distance_bytes <= self.near_bytes()

    def takeable(self, usual_bytes: int, *, is_held: bool) -> tuple[int, int]:
        """Return how many packets find room wherever they are, and how many near the next."""
        anywhere = max(0, self.limit // 2 - self.used) // usual_bytes
        left = max(0, self.limit - self.used) // usual_bytes
        near = 0 if is_held else min(left, self.near_bytes() // usual_bytes)
        return anywhere, near
