"""Taking a TCP port to listen on, and why that did not work, in one line."""

from __future__ import annotations

import errno
import socket

from quicksilver.stdx.errors import QuicksilverError

_BACKLOG = 1024


class ListenError(QuicksilverError):
    """The server cannot listen where it was told to."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(host, port, problem)
        self.host = host
        self.port = port
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot listen on {self.host}:{self.port}: {self.problem}"


def open_listener(host: str, port: int) -> socket.socket:
    """Take a TCP port, for handlers that must know it at the beginning; 0 takes a free one.

    Raises:
        ListenError: the address is not this machine's, or the port is taken.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ListenError(host, port, _explain(error)) from None
    return listening


def _explain(error: OSError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return "ports go from 0 to 65535"
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use: stop what uses it or choose another port"
        case errno.EADDRNOTAVAIL:
            return "this machine does not have that address: choose one that it has, or 0.0.0.0"
        case errno.EACCES:
            return "not permitted: choose a port above 1023"
        case _ if isinstance(error, socket.gaierror):
            return "the name cannot be resolved: give an address of this machine"
        case None:
            # From Python 3.13 on asyncio passes over addresses that the machine does not
            # have, and then says without a number that none was left.
            return _explain(OSError(errno.EADDRNOTAVAIL, ""))
        case _:
            return error.strerror or str(error)
