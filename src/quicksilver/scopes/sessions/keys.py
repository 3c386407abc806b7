"""Keys of sessions, by name, and messages sealed with them.

A session names a key; nodes have it from a file, and it never travels. Each message is sealed by
itself, because packets are cut on the way: nodes on the way can carry and repair what they cannot
read. Topic, session, sender and number of a message are authenticated with it; attributes are
not, as filters write tags into them, and neither are they secret.

Each stream has a key of its own, derived from the session's, and a message's number is its nonce:
a sender uses no number twice in one life, and no life twice.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.stdx.errors import QuicksilverError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

KEY_BYTES = 32
NONCE_BYTES = 12
STREAMS_MAX = 4096
"""Keys of streams that are kept at hand."""


class BadKeysError(QuicksilverError):
    """A file of keys that cannot be used."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem

    def __str__(self) -> str:
        return f"keys, line {self.line}: {self.problem}"


def parse_keys(text: str) -> dict[str, bytes]:
    """Return keys by name, from lines of a name and 64 hexadecimal digits.

    Raises:
        BadKeysError: a line is something else. The message never shows a key.
    """
    keys: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            name, key = words[0], bytes.fromhex(words[1])
        except (IndexError, ValueError):
            raise BadKeysError(number, "write a name and a key in hexadecimal digits") from None
        if len(words) != 2 or len(key) != KEY_BYTES:
            raise BadKeysError(number, f"a key has {2 * KEY_BYTES} hexadecimal digits")
        if name in keys:
            raise BadKeysError(number, f"the key {name!r} is here twice")
        keys[name] = key
    return keys


class SealingError(QuicksilverError):
    """There are keys, and nothing to seal messages with."""

    def __str__(self) -> str:
        return "keys need the package cryptography: install quicksilver-multicast[sealed]"


class KeyRing:
    """The keys that a node has."""

    def __init__(self, keys: dict[str, bytes] | None = None) -> None:
        """Raises ``SealingError``."""
        if keys and find_spec("cryptography") is None:
            raise SealingError
        self._keys = dict(keys or {})
        self._streams: OrderedDict[tuple[str, str, int, Sender], ChaCha20Poly1305] = OrderedDict()

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def seal(
        self, key: str, topic: str, session: int, sender: Sender, number: int, message: bytes
    ) -> bytes:
        """Return a message as only those who have the key can read it."""
        nonce = number.to_bytes(NONCE_BYTES, "big")
        return self._of_stream(key, topic, session, sender).encrypt(nonce, message, None)

    def open(
        self, key: str, topic: str, session: int, sender: Sender, number: int, sealed: bytes
    ) -> bytes | None:
        """Return what was sealed, or None if it was not sealed so, for this number and stream."""
        from cryptography.exceptions import InvalidTag

        nonce = number.to_bytes(NONCE_BYTES, "big")
        try:
            return self._of_stream(key, topic, session, sender).decrypt(nonce, sealed, None)
        except (InvalidTag, ValueError):
            return None

    def _of_stream(self, key: str, topic: str, session: int, sender: Sender) -> ChaCha20Poly1305:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        name = key, topic, session, sender
        found = self._streams.get(name)
        if found is None:
            context = msgspec.msgpack.encode((topic, session, sender))
            derived = blake2b(
                context, key=self._keys[key], digest_size=KEY_BYTES, person=b"qs-session"
            ).digest()
            found = self._streams[name] = ChaCha20Poly1305(derived)
            if len(self._streams) > STREAMS_MAX:
                self._streams.popitem(last=False)
        return found
