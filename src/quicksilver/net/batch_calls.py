"""Many datagrams per system call: ``recvmmsg``, ``sendmmsg``, UDP GSO and GRO.

The bindings go through ``ctypes.PyDLL``, which keeps the interpreter lock
during the call. That matters as much as the calls saved: ``socket.recv`` gives
the lock away, a busy application thread takes it, and the core has it back
after a switch interval (5 ms). Measured on 2 cores with a loop that sends,
reads and handles 60 KB datagrams on loopback (10 µs of Python each), in
datagrams per second:

=============================  ============  ===========  ======================
other threads                  none          one busy     one busy, machine full
=============================  ============  ===========  ======================
lock kept (``recvmmsg``)       31,000        16,000       5,600 - 7,600
lock given (``socket.recv``)   34 - 36,000   10,000       2,400 - 3,400
=============================  ============  ===========  ======================

Given away, large reads are cheaper because they need no copy from an arena into
``bytes`` (5 instead of 9 µs): ``receive_plain``, for while the host finds
that no other thread of the process computes. (Receiving into fresh ``bytes``
with the lock kept, cut by ``_PyBytes_Resize``, was no faster than the copy.)
Sends cost the same either way and keep the lock. All calls are bounded: well under a millisecond.

Each facility is probed once, by trying it. ``QUICKSILVER_PLAIN=1`` forces the
portable paths, for tests and for comparison.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

from quicksilver.wire.ids import Address

UDP_SEGMENT = 103
UDP_GRO = 104
SOL_UDP = 17

PLAIN_VARIABLE = "QUICKSILVER_PLAIN"
"""Environment variable that, set to anything but 0, forces the plain paths."""

DATAGRAM_BYTES_MAX = 65_507
"""Largest UDP payload over IPv4, and so the largest GSO batch."""

GSO_SEGMENT_BYTES_MAX = 16_384
"""Longer packets go alone: two of 32,000 bytes in one send were 10 % slower than apart.

Of 16,000 bytes they still were a third faster, of 1,400 five times.
"""

GSO_SEGMENTS_MAX = 64
"""Kernels before 6.9 refuse more segments in one send."""

Received = tuple[bytes, int, Address]
"""Data, length of the segments it was coalesced from (0: one datagram), source."""

_SLOT_BYTES = 65_536
_LARGE_BYTES = 16_384

_RECEIVE_BATCH = 32
_RECEIVE_BATCH_LARGE = 8
"""60 KB datagrams: 8 slots stay in the second-level cache between read and copy."""

_SEND_BATCH = 16
"""Messages per call; bounds the time that the interpreter lock is held."""

_SOURCES_MAX = 4096
"""Cached source addresses; forgotten together, so strangers cannot grow the table."""

_MSG_DONTWAIT = 0x40
_CONTROL_BYTES = 32
_SOCKADDR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Abilities:
    """What this kernel and C library can do for datagrams."""

    recvmmsg: bool
    """Several datagrams received per call."""

    sendmmsg: bool
    """Several datagrams sent per call."""

    gso: bool
    """``UDP_SEGMENT``: one send is cut into equal datagrams by kernel or card."""

    gro: bool
    """``UDP_GRO``: equal datagrams of one source arrive as one buffer."""


_NO_ABILITIES = Abilities(recvmmsg=False, sendmmsg=False, gso=False, gro=False)


class _Iovec(ctypes.Structure):
    # A c_char_p field takes bytes directly and keeps them alive while they are set.
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Msghdr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("iov", ctypes.c_void_p),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Mmsghdr(ctypes.Structure):
    _fields_ = (("header", _Msghdr), ("length", ctypes.c_uint))


def is_plain_forced() -> bool:
    """True when the environment asks for the plain paths."""
    return os.environ.get(PLAIN_VARIABLE, "0") not in {"", "0"}


def probe_abilities(*, plain: bool = False) -> Abilities:
    """Return what can be used; nothing when ``plain`` or the environment says so."""
    if plain or is_plain_forced():
        return _NO_ABILITIES
    return _probe()


@functools.cache
def _probe() -> Abilities:
    # The structures below are those of 64-bit Linux.
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return _NO_ABILITIES
    return Abilities(
        recvmmsg=_is_callable("recvmmsg"),
        sendmmsg=_is_callable("sendmmsg"),
        gso=_accepts_option(UDP_SEGMENT, 1200),
        gro=_accepts_option(UDP_GRO, 1),
    )


def _function(name: str) -> Callable[..., int]:
    """Return a function of the C library that runs with the interpreter lock held."""
    function = getattr(ctypes.PyDLL(None, use_errno=True), name)
    function.restype = ctypes.c_int
    found: Callable[..., int] = function
    return found


def _is_callable(name: str) -> bool:
    """True when the function is there and the kernel knows the call (no ENOSYS)."""
    try:
        function = _function(name)
    except (AttributeError, OSError):
        return False
    result = function(ctypes.c_int(-1), None, ctypes.c_uint(0), ctypes.c_int(_MSG_DONTWAIT), None)
    return result == 0 or ctypes.get_errno() != errno.ENOSYS


def _accepts_option(option: int, value: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(SOL_UDP, option, value)
        except OSError:
            return False
    return True


class BatchReceiver:
    """An arena that ``recvmmsg`` fills; one serves all sockets of one thread.

    Per batch, lengths, sources and segment sizes are read as whole columns
    through strided views: 1.5 µs a datagram for 1,472-byte datagrams with their
    sources, where ``recvfrom`` costs 2.2 and ``recvmsg`` 2.7, and 0.25 coalesced. Only pages that
    datagrams touch become resident, at most 2 MiB.
    """

    def __init__(self) -> None:
        count = _RECEIVE_BATCH
        self._data = ctypes.create_string_buffer(count * _SLOT_BYTES)
        self._names = ctypes.create_string_buffer(count * _SOCKADDR_BYTES)
        self._controls = ctypes.create_string_buffer(count * _CONTROL_BYTES)
        self._iovecs = (ctypes.c_uint64 * (2 * count))()
        self._headers = (_Mmsghdr * count)()
        data, names = ctypes.addressof(self._data), ctypes.addressof(self._names)
        controls, iovecs = ctypes.addressof(self._controls), ctypes.addressof(self._iovecs)
        for i in range(count):
            self._iovecs[2 * i] = data + i * _SLOT_BYTES
            self._iovecs[2 * i + 1] = _SLOT_BYTES
            header = self._headers[i].header
            header.name = names + i * _SOCKADDR_BYTES
            header.name_length = _SOCKADDR_BYTES
            header.iov = iovecs + i * 16
            header.iov_length = 1
            header.control = controls + i * _CONTROL_BYTES
            header.control_length = _CONTROL_BYTES
        self._view = memoryview(self._data).cast("B")
        words = memoryview(self._headers).cast("B").cast("I")
        self._lengths = words[_Mmsghdr.length.offset // 4 :: ctypes.sizeof(_Mmsghdr) // 4]
        # The first eight bytes of a sockaddr_in are family, port and address.
        self._sources = memoryview(self._names).cast("B").cast("Q")[:: _SOCKADDR_BYTES // 8]
        longs = memoryview(self._headers).cast("B").cast("Q")
        self._control_lengths = longs[
            _Msghdr.control_length.offset // 8 :: ctypes.sizeof(_Mmsghdr) // 8
        ]
        # A cmsghdr is 16 bytes; the segment size follows as an int.
        self._segments = memoryview(self._controls).cast("B").cast("I")[4 :: _CONTROL_BYTES // 4]
        self._control_lengths_full = (
            memoryview((ctypes.c_uint64 * count)(*[_CONTROL_BYTES] * count)).cast("B").cast("Q")
        )
        self._addresses: dict[int, Address] = {}
        # Arguments that are ctypes objects already spare a conversion: a dry call
        # takes 1.0 µs instead of 1.8.
        self._fd = ctypes.c_int()
        self._asked = ctypes.c_uint()
        self._call = functools.partial(
            _function("recvmmsg"),
            self._fd,
            ctypes.c_void_p(ctypes.addressof(self._headers)),
            self._asked,
            ctypes.c_int(_MSG_DONTWAIT),
            None,
        )
        self._batch = _RECEIVE_BATCH

    def receive(self, fd: int, limit: int, into: list[Received]) -> int:
        """Append up to ``limit`` reads of ``fd`` to ``into``; 0, or an errno.

        ``EAGAIN`` means that the socket is dry; 0 that ``limit`` was reached.
        """
        view, addresses, append = self._view, self._addresses, into.append
        self._fd.value = fd
        while limit > 0:
            asked = min(limit, self._batch)
            self._asked.value = asked
            count = self._call()
            if count <= 0:
                return ctypes.get_errno() or errno.EAGAIN
            limit -= count
            lengths = self._lengths[:count].tolist()
            start = 0
            for length, key, control, segment in zip(
                lengths,
                self._sources[:count].tolist(),
                self._control_lengths[:count].tolist(),
                self._segments[:count].tolist(),
                strict=True,
            ):
                source = addresses.get(key)
                if source is None:
                    source = self._learn(key)
                # Room for control data that is used tells of a coalesced buffer.
                append((view[start : start + length].tobytes(), segment if control else 0, source))
                start += _SLOT_BYTES
            # The kernel wrote what it used; unset, no later note would find room.
            self._control_lengths[:count] = self._control_lengths_full[:count]
            large = sum(lengths) > count * _LARGE_BYTES
            self._batch = _RECEIVE_BATCH_LARGE if large else _RECEIVE_BATCH
            if count < asked:
                # Fewer than asked for: the queue was empty when the call looked.
                return errno.EAGAIN
        return 0

    def _learn(self, key: int) -> Address:
        if len(self._addresses) >= _SOURCES_MAX:
            self._addresses.clear()
        packed = key.to_bytes(8, sys.byteorder)
        address = (socket.inet_ntoa(packed[4:]), int.from_bytes(packed[2:4], "big"))
        self._addresses[key] = address
        return address


class BatchSender:
    """Sends packets of one destination with as few calls as possible.

    Measured, 1,472-byte packets to loopback multicast, microseconds a packet:
    ``sendto`` 4.9, ``sendmmsg`` 4.4, GSO 1.2 (0.27 when the receiver uses GRO).
    A GSO run is joined first: as fast as 44 separate buffers through
    ``socket.sendmsg``, and the lock is kept.
    """

    def __init__(self) -> None:
        self._iovecs = (_Iovec * _SEND_BATCH)()
        self._headers = (_Mmsghdr * _SEND_BATCH)()
        self._controls = ctypes.create_string_buffer(_SEND_BATCH * _CONTROL_BYTES)
        self._slots = [self._iovecs[i] for i in range(_SEND_BATCH)]
        self._messages = [self._headers[i].header for i in range(_SEND_BATCH)]
        controls, iovecs = ctypes.addressof(self._controls), ctypes.addressof(self._iovecs)
        for i, message in enumerate(self._messages):
            message.name_length = _SOCKADDR_BYTES
            message.iov = iovecs + i * ctypes.sizeof(_Iovec)
            message.iov_length = 1
            message.control = controls + i * _CONTROL_BYTES
        self._names: dict[Address, ctypes.Array[ctypes.c_char]] = {}
        self._fd = ctypes.c_int()
        self._offered = ctypes.c_uint()
        self._call = functools.partial(
            _function("sendmmsg"),
            self._fd,
            ctypes.c_void_p(ctypes.addressof(self._headers)),
            self._offered,
            ctypes.c_int(_MSG_DONTWAIT),
        )

    def send(
        self,
        fd: int,
        destination: Address,
        packets: list[bytes],
        start: int,
        segment_bytes_max: int,
    ) -> tuple[int, int]:
        """Send ``packets[start:]``; return where it stopped and 0 or an errno.

        Runs of packets of one length, up to ``segment_bytes_max``, use GSO; 0
        turns that off. With an errno, the packets from the returned index on
        were not sent. ``destination`` must pass ``is_sendable``.
        """
        name = self._names.get(destination)
        if name is None:
            name = self._learn(destination)
        name_at = ctypes.addressof(name)
        self._fd.value = fd
        total = len(packets)
        ends: list[int] = []
        slots_used = 0
        try:
            while start < total:
                ends.clear()
                at = start
                while at < total and len(ends) < _SEND_BATCH:
                    slot, message = self._slots[len(ends)], self._messages[len(ends)]
                    message.name = name_at
                    packet = packets[at]
                    end = at + 1
                    if len(packet) <= segment_bytes_max and end < total:
                        end = run_end(packets, at)
                    if end - at > 1:
                        self._mark_segments(len(ends), len(packet))
                        packet = b"".join(packets[at:end])
                    else:
                        message.control_length = 0
                    slot.base = packet
                    slot.length = len(packet)
                    ends.append(end)
                    at = end
                slots_used = max(slots_used, len(ends))
                self._offered.value = len(ends)
                sent = self._call()
                if sent <= 0:
                    return start, ctypes.get_errno() or errno.EAGAIN
                # Fewer than asked: the next call meets the error and reports it.
                start = ends[sent - 1]
            return start, 0
        finally:
            for slot in self._slots[:slots_used]:
                slot.base = b""  # lets go of the packet; None would not

    def _mark_segments(self, index: int, segment_bytes: int) -> None:
        struct.pack_into(
            "=QiiH",
            self._controls,
            index * _CONTROL_BYTES,
            18,
            SOL_UDP,
            UDP_SEGMENT,
            segment_bytes,
        )
        self._messages[index].control_length = 24

    def _learn(self, destination: Address) -> ctypes.Array[ctypes.c_char]:
        if len(self._names) >= _SOURCES_MAX:
            self._names.clear()
        name = ctypes.create_string_buffer(pack_address(destination), _SOCKADDR_BYTES)
        self._names[destination] = name
        return name


class SingleSender:
    """Sends packets one a call with ``sendto``, keeping the interpreter lock.

    Measured, four packets of 59 KB to loopback: 32 µs; 51 when each passed through
    all that a batch needs, and a ``sendmmsg`` of one takes 12 µs more than a
    ``sendto``, because its structures are filled by Python.
    """

    def __init__(self) -> None:
        self._call = _function("sendto")
        # Arguments that are ctypes objects already spare a conversion: 0.7 µs a
        # call instead of 1.3 with declared types.
        self._fd = ctypes.c_int()
        self._length = ctypes.c_size_t()
        self._flags = ctypes.c_int(_MSG_DONTWAIT)
        self._name_length = ctypes.c_uint(_SOCKADDR_BYTES)
        self._names: dict[Address, bytes] = {}

    def send(
        self, fd: int, destination: Address, packets: list[bytes], start: int
    ) -> tuple[int, int]:
        """Send ``packets[start:]``; like ``BatchSender.send``."""
        name = self._names.get(destination)
        if name is None:
            if len(self._names) >= _SOURCES_MAX:
                self._names.clear()
            name = self._names[destination] = pack_address(destination)
        call, length, flags, name_length = self._call, self._length, self._flags, self._name_length
        own = self._fd
        own.value = fd
        for packet in packets[start:]:
            length.value = len(packet)
            if call(own, packet, length, flags, name, name_length) < 0:
                return start, ctypes.get_errno() or errno.EAGAIN
            start += 1
        return start, 0


def pack_address(destination: Address) -> bytes:
    """Return an address as the kernel wants it (``struct sockaddr_in``)."""
    host, port = destination
    family = struct.pack("=H", socket.AF_INET)
    return family + port.to_bytes(2, "big") + socket.inet_pton(socket.AF_INET, host) + bytes(8)


def is_sendable(destination: Address) -> bool:
    """True for a dotted IPv4 address and a port; names would have to be looked up."""
    host, port = destination
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):  # ValueError: a null character
        return False
    return 0 < port < 65536


def run_end(packets: list[bytes], start: int) -> int:
    """Return the end of the run of equal lengths at ``start`` that GSO can send.

    The last packet of a run may be shorter. At most 64 packets and 65,507 bytes.
    """
    size = len(packets[start])
    if not size:
        return start + 1
    count = DATAGRAM_BYTES_MAX // size
    end_max = min(len(packets), start + min(count, GSO_SEGMENTS_MAX))
    end = start + 1
    while end < end_max:
        length = len(packets[end])
        if length != size:
            # An empty tail would vanish: the kernel cuts by bytes.
            return end + 1 if 0 < length < size else end
        end += 1
    return end


def receive_plain(
    receive: Callable[[int], tuple[bytes, Address]], limit: int, into: list[Received]
) -> int:
    """Append up to ``limit`` reads, one ``recvfrom`` each; 0, or an errno."""
    append = into.append
    try:
        for _ in range(limit):
            data, source = receive(_SLOT_BYTES)
            append((data, 0, source))
    except OSError as error:
        return error.errno or errno.EAGAIN
    return 0


@functools.cache
def tune_allocator() -> bool:
    """Keep freed memory in the process instead of giving it back at once.

    Datagrams live briefly. The C library returns their memory to the system as
    soon as 128 KB are free, and every page is then faulted in again: a 60 KB read
    took 40 µs instead of 5 to 9. The limits set here are those that it reaches by
    itself once a program has freed a 32 MB block; up to 64 MB stay unreturned.
    Done once; left alone where the environment says ``MALLOC_...``.
    """
    is_set_by_user = any(
        name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ
    )
    if sys.platform != "linux" or is_set_by_user:
        return False
    try:
        mallopt = _function("mallopt")
    except (AttributeError, OSError):  # another C library than glibc
        return False
    m_trim_threshold, m_mmap_threshold = -1, -3
    return bool(mallopt(m_mmap_threshold, 32 << 20) and mallopt(m_trim_threshold, 64 << 20))


def send_plain(
    sendto: Callable[[bytes, Address], int], destination: Address, packets: list[bytes], start: int
) -> tuple[int, int]:
    """Send ``packets[start:]``, one ``sendto`` each; like ``BatchSender.send``."""
    at = start
    try:
        for at in range(start, len(packets)):
            sendto(packets[at], destination)
    except OSError as error:
        return at, error.errno or errno.EAGAIN
    return len(packets), 0
