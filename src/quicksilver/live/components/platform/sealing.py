"""Messages sealed so that only holders of a key can read or make them.

Every sender draws a session number and derives a key of its own for it from the
group's key (HKDF-SHA256), so the counter of its messages can be the nonce
(ChaCha20-Poly1305): no two senders can use one key with one nonce.

    message := version (1) session (16) counter (8) sealed

What comes before ``sealed`` is authenticated with it. A receiver keeps, for each
session, which of the latest counters it has seen: what comes again, or is older
than that, is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

VERSION: Final = 1
SESSION_BYTES: Final = 16
OVERHEAD_BYTES: Final = 1 + SESSION_BYTES + 8 + 16
SESSIONS_MAX: Final = 1024
"""Senders that are remembered. A message of a sender forgotten since could come a second time."""
WINDOW: Final = 1024
"""How far behind a sender's newest message another may come."""

_INFO: Final = b"quicksilver live channel 1 "
_HEADER_BYTES = 1 + SESSION_BYTES + 8

Refusal: TypeAlias = Literal["malformed", "unauthentic", "replayed"]


class MissingPackageError(Exception):
    """The package that encrypts is not installed."""

    def __str__(self) -> str:
        return "encryption needs the package cryptography: pip install 'quicksilver[live]'"


class _Session:
    """One sender's key, and which of its messages have come."""

    __slots__ = ("cipher", "newest", "seen")

    def __init__(self, cipher: ChaCha20Poly1305) -> None:
        self.cipher = cipher
        self.newest = -1
        self.seen = 0
        """Bit n: the message n before the newest has come."""

    def is_new(self, counter: int) -> bool:
        if counter > self.newest:
            return True
        behind = self.newest - counter
        return behind < WINDOW and not self.seen >> behind & 1

    def note(self, counter: int) -> None:
        if counter > self.newest:
            shift = min(counter - self.newest, WINDOW)
            self.seen = (self.seen << shift | 1) & (1 << WINDOW) - 1
            self.newest = counter
        else:
            self.seen |= 1 << self.newest - counter


class Sealer:
    """Seals what one sender says and opens what others say, under one key."""

    def __init__(self, key: bytes, name: str, session: bytes) -> None:
        assert len(session) == SESSION_BYTES
        self._key = key
        self._info = _INFO + name.encode()
        self._prefix = bytes([VERSION]) + session
        self._counter = 0
        self._cipher = self._derive(session)
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def seal(self, message: bytes) -> bytes:
        """Return a message that only holders of the key can read."""
        header = self._prefix + self._counter.to_bytes(8, "big")
        self._counter += 1
        return header + self._cipher.encrypt(header[-8:].rjust(12, b"\0"), message, header)

    def open(self, data: bytes) -> bytes | Refusal:
        """Return the message, or why it is none."""
        from cryptography.exceptions import InvalidTag

        if len(data) < OVERHEAD_BYTES or data[0] != VERSION:
            return "malformed"
        header = data[:_HEADER_BYTES]
        number = header[1 : 1 + SESSION_BYTES]
        counter = int.from_bytes(header[-8:], "big")
        session = self._sessions.get(number)
        cipher = session.cipher if session is not None else self._derive(number)
        try:
            message = cipher.decrypt(header[-8:].rjust(12, b"\0"), data[_HEADER_BYTES:], header)
        except InvalidTag:
            return "unauthentic"
        # Only who has the key can make us remember a session.
        if session is None:
            session = self._sessions[number] = _Session(cipher)
            if len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(number)
        if not session.is_new(counter):
            return "replayed"
        session.note(counter)
        return message

    def _derive(self, session: bytes) -> ChaCha20Poly1305:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError:
            raise MissingPackageError from None
        derived = HKDF(SHA256(), 32, salt=session, info=self._info).derive(self._key)
        return ChaCha20Poly1305(derived)
