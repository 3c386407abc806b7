"""Large messages, put together from the packets that carry their pieces."""

from __future__ import annotations

from quicksilver.wire.packets import Fragment

ASSEMBLIES_MAX = 16
"""Large messages in progress in one stream; a sender never has more than one a lane."""


class Assemblies:
    """The large messages of one stream that are not whole yet."""

    __slots__ = ("_pieces", "malformed")

    def __init__(self) -> None:
        self.malformed = 0
        """Pieces that no honest sender sends, and messages given up for new ones."""
        self._pieces: dict[tuple[int, int], tuple[int, list[bytes]]] = {}
        """By group and message: how many bytes are there, and what they are joined from."""

    def __len__(self) -> int:
        return len(self._pieces)

    def add(self, piece: Fragment) -> bytes | None:
        """Take the next piece of a message; return the message once it is whole."""
        name = (piece.group, piece.sequence)
        if piece.offset == 0:
            if len(self._pieces) >= ASSEMBLIES_MAX:
                self._pieces.pop(next(iter(self._pieces)))
                self.malformed += 1
            self._pieces[name] = (0, [])
        size, chunks = self._pieces.pop(name, (-1, []))
        if size != piece.offset:
            self.malformed += 1
            return None
        chunks.append(piece.chunk)
        size += len(piece.chunk)
        if size < piece.total:
            self._pieces[name] = (size, chunks)
            return None
        return b"".join(chunks)
