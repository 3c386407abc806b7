"""A file for packets that are kept for absent members and no longer fit into memory.

The file has no name, so it is gone with the process. A thread of its own writes; the core
learns of it among its disk completions, after all network I/O. Reading is rare, and mostly
from the kernel's cache: the core does it itself.
"""

from __future__ import annotations

import logging
import os
import queue
import tempfile
import threading
from collections.abc import Callable

Done = Callable[[int | None], None]

LOGGER = logging.getLogger(__name__)


class SpillFile:
    """Slots of one packet each; ``core.ports.DiskPort``."""

    def __init__(
        self,
        *,
        folder: str | None,
        bytes_max: int,
        packet_bytes: int,
        submit_disk: Callable[[Callable[[], None]], None],
    ) -> None:
        """``folder``: where to make the file, None for the system's temporary one.

        ``submit_disk`` brings completions to the core thread.
        """
        self._folder = folder
        self._slot_bytes = packet_bytes
        self._slots_max = bytes_max // packet_bytes
        self._submit_disk = submit_disk
        self._file = -1
        self._sizes: dict[int, int] = {}
        """How long the packet in a slot is, for slots in use."""
        self._free: list[int] = []
        self._work: queue.SimpleQueue[tuple[int, bytes, Done] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_failed = False

    def write(self, packet: bytes, done: Done) -> None:
        slot = self._take_slot(len(packet))
        if slot is None:
            self._submit_disk(lambda: done(None))
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write_all, name="quicksilver-spill", daemon=True
            )
            self._thread.start()
        self._work.put((slot, packet, done))

    def _take_slot(self, size: int) -> int | None:
        if self._has_failed or size > self._slot_bytes:
            return None
        if self._free:
            slot = self._free.pop()
        elif len(self._sizes) < self._slots_max:
            slot = len(self._sizes)
        else:
            return None
        self._sizes[slot] = size
        return slot

    def read(self, place: int) -> bytes | None:
        size = self._sizes[place]
        try:
            packet = os.pread(self._file, size, place * self._slot_bytes)
        except OSError as error:
            self._fail(error)
            return None
        return packet if len(packet) == size else None

    def free(self, place: int) -> None:
        del self._sizes[place]
        self._free.append(place)
        if not self._sizes:
            self._free.clear()

    def close(self) -> None:
        """End the thread and give the disk back; nothing may be asked for afterwards."""
        # What is still to be written nobody will read, and on a slow disk it takes long.
        self._has_failed = True
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(timeout=5)
            if self._thread.is_alive():
                # Stuck in the kernel: the file is closed with the process, for its number
                # must not become another file's while somebody writes to it.
                return
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # The writing thread

    def _write_all(self) -> None:
        while (job := self._work.get()) is not None:
            slot, packet, done = job
            is_written = self._write_one(slot, packet)
            self._submit_disk(lambda s=slot, ok=is_written, d=done: self._complete(s, ok, d))  # type: ignore[misc]  # mypy infers no defaults

    def _write_one(self, slot: int, packet: bytes) -> bool:
        if self._has_failed:
            return False
        try:
            if self._file < 0:
                with tempfile.TemporaryFile(dir=self._folder, prefix="quicksilver-") as file:
                    self._file = os.dup(file.fileno())
            return os.pwrite(self._file, packet, slot * self._slot_bytes) == len(packet)
        except OSError as error:
            self._fail(error)
            return False

    def _complete(self, slot: int, is_written: bool, done: Done) -> None:
        """On the core thread."""
        if is_written:
            done(slot)
        else:
            self.free(slot)
            done(None)

    def _fail(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            LOGGER.warning("no more packets are kept on disk for absent members: %s", error)
