"""Frames and descriptors through a Unix socket, without waiting."""

from __future__ import annotations

import array
import os
import socket
import stat
import struct
from collections import deque
from collections.abc import Sequence

from quicksilver.net.frames import FrameDecoder, FrameError, encode_frame
from quicksilver.stdx.errors import QuicksilverError

DESCRIPTORS_MAX = 64
"""Descriptors that travel with one piece of data."""
RECEIVE_BYTES = 1 << 16


class SocketPathError(QuicksilverError):
    """A path at which nobody can listen."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot listen at {self.path}: {self.problem}"


class LocalStream:
    """One end of a connection; nothing here blocks."""

    def __init__(self, sock: socket.socket, frame_bytes_max: int, waiting_bytes_max: int) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._decoder = FrameDecoder(frame_bytes_max)
        self._waiting: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._waiting_bytes = 0
        self._waiting_bytes_max = waiting_bytes_max
        self.descriptors: deque[int] = deque()
        """Descriptors that came, in order; whoever takes one closes it."""

    def fileno(self) -> int:
        return self._sock.fileno()

    def peer_user(self) -> int:
        """Return the number of the user whose process is at the other end."""
        size = struct.calcsize("3i")
        found = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        _, user, _ = struct.unpack("3i", found)
        return int(user)

    def send(self, frame: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a frame as soon as it goes; descriptors must stay open until it is sent.

        Raises:
            ConnectionError: nobody reads at the other end, or not fast enough.
        """
        data = encode_frame(frame)
        # All descriptors of a frame are there before its last byte is.
        while descriptors:
            some, descriptors = descriptors[:DESCRIPTORS_MAX], descriptors[DESCRIPTORS_MAX:]
            self._queue(data[:1], some)
            data = data[1:]
        self._queue(data, ())
        self.flush()

    def _queue(self, data: bytes, descriptors: Sequence[int]) -> None:
        self._waiting.append((data, tuple(descriptors)))
        self._waiting_bytes += len(data)
        if self._waiting_bytes > self._waiting_bytes_max:
            raise ConnectionAbortedError("it does not read what it is told")

    def flush(self) -> bool:
        """Send what waits; False if something still waits. Raises ConnectionError."""
        waiting = self._waiting
        while waiting:
            data, descriptors = waiting[0]
            rights = array.array("i", descriptors)
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if descriptors else []
            try:
                sent = self._sock.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except OSError as error:
                raise ConnectionAbortedError(error.strerror or str(error)) from None
            self._waiting_bytes -= sent
            if sent == len(data):
                waiting.popleft()
            else:
                waiting[0] = (data[sent:], ())
        return True

    def receive(self) -> list[bytes]:
        """Return the frames that have come so far.

        Raises:
            ConnectionError: the other end has closed, or sends what makes no sense; whatever
                came before was returned.
        """
        frames: list[bytes] = []
        room = socket.CMSG_SPACE(DESCRIPTORS_MAX * array.array("i").itemsize)
        while True:
            try:
                data, ancillary, flags, _ = self._sock.recvmsg(
                    RECEIVE_BYTES, room, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return frames
            except OSError as error:
                raise ConnectionAbortedError(error.strerror or str(error)) from None
            for level, kind, rights in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    found = array.array("i")
                    found.frombytes(rights[: len(rights) - len(rights) % found.itemsize])
                    self.descriptors.extend(found)
            if flags & socket.MSG_CTRUNC:
                raise ConnectionAbortedError("too many files are open; raise `ulimit -n`")
            if not data:
                if frames:
                    return frames
                raise ConnectionResetError("it has closed the connection")
            try:
                frames += self._decoder.feed(data)
            except FrameError as error:
                raise ConnectionAbortedError(str(error)) from None

    def take_descriptors(self, count: int) -> list[int]:
        """Return the next descriptors; raises ConnectionError where there are fewer."""
        if len(self.descriptors) < count:
            raise ConnectionAbortedError("descriptors are missing")
        return [self.descriptors.popleft() for _ in range(count)]

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.popleft())
        self._sock.close()


def connect_local(path: str, timeout_s: float) -> socket.socket:
    """Return a socket that is connected to a path; raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def listen_local(path: str) -> socket.socket:
    """Return a socket that listens at a path, for processes of this user alone.

    A socket that nobody listens at any more is replaced. Raises SocketPathError.
    """
    folder = os.path.dirname(path) or "."
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022 & ~_sticky(status):
            raise SocketPathError(path, "others can write in its folder")
        _remove_stale(path)
        before = os.umask(0o177)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise SocketPathError(path, error.strerror or str(error)) from None
    except SocketPathError:
        sock.close()
        raise
    return sock


def _sticky(status: os.stat_result) -> int:
    """In a sticky folder nobody replaces what belongs to others."""
    return 0o022 if status.st_mode & stat.S_ISVTX else 0


def _remove_stale(path: str) -> None:
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise SocketPathError(path, "there is something else")
    try:
        connect_local(path, 1.0).close()
    except (ConnectionRefusedError, FileNotFoundError):
        os.unlink(path)
        return
    raise SocketPathError(path, "another controller listens there")
