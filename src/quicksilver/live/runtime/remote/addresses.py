"""Where published endpoints are: ``live+tcp://host:port#token`` and ``live+unix:/path#token``.

The token is what lets somebody connect, so an address with it is passed on like a
key; messages to people show the part before it.
"""

from __future__ import annotations

import re
import socket
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from quicksilver.live.runtime.errors import LiveRuntimeError


class RemoteError(LiveRuntimeError):
    """An endpoint of another process could not be reached, or said no."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        """Where it is; never with the token."""
        self.problem = problem

    def __str__(self) -> str:
        return f"the endpoint at {self.address}: {self.problem}"


class BadAddressError(LiveRuntimeError):
    """A text that is no address of a published endpoint."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"no address of an endpoint: {self.problem}"


class PublishError(LiveRuntimeError):
    """Endpoints cannot be published here."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot publish at {self.address}: {self.problem}"


TEXT_MAX: Final = 1000
_TCP = re.compile(r"live\+tcp://(?:\[([0-9a-fA-F:.]{2,45})\]|([A-Za-z0-9_.-]{1,253})):(\d{1,5})")
_UNIX = re.compile(r"live\+unix:(/[A-Za-z0-9_.~%/+-]+)")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")


class Place(msgspec.Struct, frozen=True):
    """A place to listen at or to connect to: a path, or a host and a port."""

    path: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path:
            return f"live+unix:{quote(self.path)}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"live+tcp://{host}:{self.port}"

    @property
    def family(self) -> int:
        """The family of sockets for it."""
        if self.path:
            return socket.AF_UNIX
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    @property
    def for_socket(self) -> str | tuple[str, int]:
        """The address as sockets take it."""
        return self.path or (self.host, self.port)


def parse_place(text: str) -> Place:
    """Read a place without a token; raises BadAddressError."""
    if len(text) > TEXT_MAX:
        raise BadAddressError("it is too long")
    found = _TCP.fullmatch(text)
    if found is not None:
        port = int(found[3])
        if port > 65535:
            raise BadAddressError(f"there is no port {port}")
        return Place(host=found[1] or found[2], port=port)
    found = _UNIX.fullmatch(text)
    if found is not None:
        return Place(path=unquote(found[1]))
    raise BadAddressError(f"{text[:80]!a} is neither live+tcp://host:port nor live+unix:/path")


def parse_address(text: str) -> tuple[Place, str]:
    """Read a place and a token; raises BadAddressError, which does not show the token."""
    place, mark, token = text.partition("#")
    at = parse_place(place)
    if not mark or not _TOKEN.fullmatch(token):
        raise BadAddressError(f"{place} is not followed by # and a token")
    return at, token
