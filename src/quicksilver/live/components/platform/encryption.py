"""Encryption around a plain channel, as a live object of its own (2.1.4 F, Example d).

Keys of groups of nodes are kept by each node, known by name, and never in a reference.
A key is a file of 64 hexadecimal digits that only its owner can read. Nodes that have the
same key under the same name can read each other.

Every sender draws a session number and derives a key of its own for it from the
group's key (HKDF-SHA256), so the counter of its messages can be the nonce
(ChaCha20-Poly1305): no two senders can use one key with one nonce.

    message := version (1) session (16) counter (8) sealed

What comes before ``sealed`` is authenticated with it. A receiver keeps, for each
session, which of the latest counters it has seen: what comes again, or is older
than that, is refused.
"""

from __future__ import annotations

import re
import secrets
import stat
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from quicksilver.live.components.interfaces import (
    RELIABLE,
    ChannelDeliveries,
    ChannelRequests,
    channel_below,
)
from quicksilver.live.components.packages import need
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.catalogue import Catalogue, Wrapper
from quicksilver.live.runtime.components import component, known_of
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.build import object_type
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.stdx.errors import QuicksilverError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305


KEY_BYTES: Final = 32
SUFFIX: Final = ".key"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DIGITS = re.compile(r"[0-9a-fA-F]{64}\s*")


class NoKeyError(QuicksilverError):
    """A key that this node does not have, or may not use."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"the key {self.name!r} {self.problem}"


class KeyRing:
    """The keys of one node, by name, and what makes sessions different from each other."""

    MISSING_HINT: ClassVar = "say where keys are: object run --keys DIR, live.platform(keys=DIR)"

    def __init__(
        self,
        keys: Mapping[str, bytes],
        *,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        for name, key in keys.items():
            if len(key) != KEY_BYTES:
                raise NoKeyError(name, f"has {len(key)} bytes, not {KEY_BYTES}")
        self._keys = dict(keys)
        self._entropy = entropy

    @classmethod
    def load(cls, directory: Path) -> KeyRing:
        """Read all ``NAME.key`` files of a directory; raises OSError or NoKeyError."""
        paths = sorted(path for path in directory.iterdir() if path.suffix == SUFFIX)
        return cls({path.stem: read_key(path) for path in paths})

    def find(self, name: str) -> bytes:
        """Return a key; raises NoKeyError."""
        key = self._keys.get(name)
        if key is None:
            known = ", ".join(sorted(self._keys)) or "none"
            raise NoKeyError(name, f"is not on this node's key ring; it has: {known}")
        return key

    def draw(self, count: int) -> bytes:
        """Return bytes that nobody has drawn before."""
        return self._entropy(count)


def read_key(path: Path) -> bytes:
    """Read a key file; raises NoKeyError if others can read it or it holds no key."""
    with path.open("rb") as file:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise NoKeyError(path.stem, f"can be read by others: chmod 600 {path}")
        data = file.read(200)
    text = data.decode("ascii", "replace")
    if not _DIGITS.fullmatch(text):
        raise NoKeyError(path.stem, f"is not 64 hexadecimal digits: {path}")
    return bytes.fromhex(text.strip())


def create_key(directory: Path, name: str) -> Path:
    """Write a new key file; raises FileExistsError rather than replace one, and NoKeyError."""
    if not _NAME.fullmatch(name):
        raise NoKeyError(name, "needs a name of letters, digits, - and _")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{name}{SUFFIX}"
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(secrets.token_hex(KEY_BYTES) + "\n", encoding="ascii")
    return path


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
        need("cryptography", "encryption")
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        derived = HKDF(SHA256(), 32, salt=session, info=self._info).derive(self._key)
        return ChaCha20Poly1305(derived)


INSIDE: Final = "Inside"
SECURITY: Final = ("security", "authenticated and confidential")


@component("quicksilver.encryption")
@live_object(title="Encryption")
class Encryption:
    """encrypts what passes through a reliable channel, with a key that this node keeps

    What does not authenticate, or comes a second time, is counted and dropped. The
    key is known by name: no reference holds one.
    """

    context: Context
    channel = endpoint(
        ChannelRequests,
        ChannelDeliveries,
        provides=[("delivery", "exactly once and fifo"), SECURITY],
        name=RELIABLE,
    )
    inside = channel_below(RELIABLE, name=INSIDE)

    def __init__(self, Key: Given[str] = "default") -> None:  # noqa: N803  # as references say it
        ring = self.context.service(KeyRing)
        self._sealer = Sealer(ring.find(Key), Key, ring.draw(SESSION_BYTES))
        self.dropped: dict[Refusal, int] = {"malformed": 0, "unauthentic": 0, "replayed": 0}
        """Messages that were not passed on, by what was wrong with them."""

    def channel_send(self, message: bytes) -> None:
        self.inside.send(self._sealer.seal(message))

    def inside_receive(self, message: bytes) -> None:
        opened = self._sealer.open(message)
        if isinstance(opened, str):
            self.dropped[opened] += 1
        else:
            self.channel.receive(opened)


def add_to(catalogue: Catalogue) -> None:
    """Make the wrappers known, and the types that they make of others."""
    encryption = known_of(Encryption, "quicksilver.encryption").type
    shown = {RELIABLE: encryption.by_name[RELIABLE]}
    catalogue.add_type("EncryptedChannel", object_type(shown, title="EncryptedChannel"))
    catalogue.add_wrapper(
        Wrapper(
            title="encryption",
            reference=primitive("quicksilver.encryption"),
            type=encryption,
            inside=INSIDE,
            wraps=RELIABLE,
            shows={RELIABLE: RELIABLE},
        )
    )
