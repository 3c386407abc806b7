"""Waiting: what the core thread sleeps on, and how other threads wake it.

``Poller.wait`` gives up the interpreter lock even with a timeout of zero, and
a busy application thread then keeps it for a switch interval (5 ms). A core
thread with work left should read its sockets directly instead (a dry read costs
2 µs) and wait only when it has nothing to do. Timeouts are rounded up to whole
milliseconds.
"""

from __future__ import annotations

import os
import selectors
import threading


class Waker:
    """A file descriptor that another thread, or a signal handler, makes ready."""

    def __init__(self) -> None:
        # An eventfd is one descriptor and never fills up; a pipe works anywhere.
        if hasattr(os, "eventfd"):
            self._read_fd = self._write_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._read_fd, self._write_fd = os.pipe()
            os.set_blocking(self._read_fd, False)
            os.set_blocking(self._write_fd, False)
        self._is_closed = False
        # A number that was closed may belong to another file a moment later: no
        # write may be under way then. Reentrant, for signal handlers.
        self._lock = threading.RLock()

    def fileno(self) -> int:
        """Return the descriptor to poll for reading."""
        return self._read_fd

    def wake(self) -> None:
        """Make the descriptor ready. Any thread; waking twice is waking once."""
        with self._lock:
            if not self._is_closed:
                try:
                    os.write(self._write_fd, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                except BlockingIOError:
                    pass  # so many wakes are pending that one more changes nothing

    def clear(self) -> None:
        """Forget the wakes so far; look at what they announced after this call."""
        try:
            while os.read(self._read_fd, 4096) and self._read_fd != self._write_fd:
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Release the descriptors; later wakes do nothing."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._read_fd)
                if self._write_fd != self._read_fd:
                    os.close(self._write_fd)


class Poller:
    """Waits for any of a few descriptors to become readable or writable."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, *, readable: bool = True, writable: bool = False) -> None:
        """Wait for ``fd`` from now on, or change what is waited for; neither: stop."""
        events = (selectors.EVENT_READ if readable else 0) | (
            selectors.EVENT_WRITE if writable else 0
        )
        # Not modify(): the number may belong to another file by now, which the
        # kernel does not watch though our table says so.
        self.unregister(fd)
        if events:
            self._selector.register(fd, events)

    def unregister(self, fd: int) -> None:
        """Stop waiting for ``fd``; call it before the descriptor is closed."""
        try:
            self._selector.unregister(fd)
        except KeyError:
            pass

    def wait(self, timeout_s: float | None) -> set[int]:
        """Return the descriptors that are ready; empty after ``timeout_s`` seconds.

        ``None`` waits without end. An error on a descriptor counts as ready.
        """
        return {key.fd for key, _ in self._selector.select(timeout_s)}

    def close(self) -> None:
        """Release the poller; registered descriptors stay open."""
        self._selector.close()
