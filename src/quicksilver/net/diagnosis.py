"""The checks behind ``quicksilver doctor``: is this machine fit, and if not, what helps.

Each check looks at one thing and returns findings; none raises, changes the
system or sends beyond this machine, except that the GMS is contacted when its
address is given. A finding that is not ok says what to do in one line.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from quicksilver.net.batch_calls import is_plain_forced, probe_abilities
from quicksilver.net.datagrams import multicast_works
from quicksilver.net.interfaces import (
    Interface,
    InterfaceError,
    choose_interface,
    datagram_bytes_max,
)
from quicksilver.net.sockopts import may_exceed_limits
from quicksilver.stdx.units import format_bytes, format_seconds

_RECEIVE_BUFFER_BYTES_WANTED = 16 << 20
_SEND_BUFFER_BYTES_WANTED = 4 << 20
_MEMBERSHIPS_DEFAULT = 20
_MTU_MIN = 1280
_CLOCK_RESOLUTION_MAX_S = 1e-5

_PROC_SYS = Path("/proc/sys")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw."""

    check: str
    """What was looked at, in a word or two."""

    ok: bool
    """False: something will not work, or not well."""

    detail: str
    """What was seen, with numbers."""

    fix: str = ""
    """What to do, in one line; empty when all is well."""


def diagnose(
    *, spec: str | None = None, gms: str | None = None, timeout_s: float = 2.0
) -> list[Finding]:
    """Run every check for the interface that a node would use.

    ``spec`` and the host in ``gms`` (``host:port``) choose the interface, as for
    a node.
    """
    findings = []
    try:
        interface = choose_interface(spec, gms)
    except InterfaceError as error:
        findings.append(Finding("interface", False, error.problem, error.fix))
    else:
        findings += check_interface(interface)
        findings += check_multicast(interface)
        findings += check_closed_port(interface)
    findings += check_buffers()
    findings += check_memberships()
    findings += check_batching()
    findings += check_clocks()
    findings += check_processors()
    if gms is not None:
        findings += check_gms(gms, timeout_s)
    return findings


def check_interface(interface: Interface) -> list[Finding]:
    """Look at the flags and the MTU of the interface."""
    where = f"{interface.name} ({interface.address})"
    findings = [
        Finding(
            "interface",
            interface.supports_multicast,
            f"{where}, {'multicast' if interface.supports_multicast else 'no multicast'}",
            ""
            if interface.supports_multicast
            else f"ip link set {interface.name} multicast on, or choose another interface",
        )
    ]
    is_wide = interface.mtu >= _MTU_MIN
    payload = datagram_bytes_max(interface)
    findings.append(
        Finding(
            "mtu",
            is_wide,
            f"{interface.mtu} bytes, {payload:,} of them payload of a datagram",
            "" if is_wide else f"ip link set {interface.name} mtu 1500",
        )
    )
    return findings


def check_multicast(interface: Interface) -> list[Finding]:
    """Send a datagram to a group and see it come back."""
    works = multicast_works(interface)
    if works:
        return [Finding("multicast", True, f"a datagram to a group on {interface.name} came back")]
    return [
        Finding(
            "multicast",
            False,
            f"a datagram to a group on {interface.name} did not come back",
            f"ip route add 224.0.0.0/4 dev {interface.name}, and let the firewall pass UDP to "
            "239.0.0.0/8; without multicast, nodes fall back to unicast",
        )
    ]


def check_buffers() -> list[Finding]:
    """Compare the socket buffers that the system allows with those that nodes ask for."""
    findings = []
    for check, setting, wanted in (
        ("receive buffer", "net.core.rmem_max", _RECEIVE_BUFFER_BYTES_WANTED),
        ("send buffer", "net.core.wmem_max", _SEND_BUFFER_BYTES_WANTED),
    ):
        limit = read_setting(setting)
        if limit is None:
            findings.append(Finding(check, True, f"{setting} cannot be read here"))
            continue
        # Processes with CAP_NET_ADMIN are not bound by the limit.
        is_exempt = may_exceed_limits()
        ok = limit >= wanted or is_exempt
        note = " (this process may exceed it)" if is_exempt and limit < wanted else ""
        findings.append(
            Finding(
                check,
                ok,
                f"up to {format_bytes(limit)}{note}, {format_bytes(wanted)} wanted",
                "" if ok else f"sysctl -w {setting}={wanted}",
            )
        )
    return findings


def check_memberships() -> list[Finding]:
    """See how many groups one socket may join."""
    limit = read_setting("net.ipv4.igmp_max_memberships")
    if limit is None:
        return [Finding("memberships", True, "igmp_max_memberships cannot be read here")]
    ok = limit >= _MEMBERSHIPS_DEFAULT
    return [
        Finding(
            "memberships",
            ok,
            f"{limit} multicast groups per socket; nodes open another socket past that",
            "" if ok else f"sysctl -w net.ipv4.igmp_max_memberships={_MEMBERSHIPS_DEFAULT}",
        )
    ]


def check_batching() -> list[Finding]:
    """See which ways there are to move many datagrams per system call."""
    abilities = probe_abilities()
    names = {
        "recvmmsg": abilities.recvmmsg,
        "sendmmsg": abilities.sendmmsg,
        "GSO": abilities.gso,
        "GRO": abilities.gro,
    }
    missing = [name for name, is_there in names.items() if not is_there]
    if not missing:
        return [Finding("batching", True, ", ".join(names))]
    fix = "unset QUICKSILVER_PLAIN" if is_plain_forced() else "use 64-bit Linux 5.0 or later"
    return [Finding("batching", False, f"missing: {', '.join(missing)}; slower without", fix)]


def check_clocks() -> list[Finding]:
    """See how fine the monotonic clock is, and whether wall time is synchronised."""
    resolution = time.get_clock_info("monotonic").resolution
    is_fine = resolution <= _CLOCK_RESOLUTION_MAX_S
    findings = [
        Finding(
            "monotonic clock",
            is_fine,
            f"resolution {format_seconds(resolution)}",
            "" if is_fine else "boot with a high-resolution clock source (tsc, kvm-clock)",
        )
    ]
    state = read_clock_sync()
    if state is None:
        findings.append(Finding("wall clock", True, "synchronisation cannot be read here"))
    elif state[0]:
        detail = f"synchronised, error at most {format_seconds(state[1])}"
        findings.append(Finding("wall clock", True, detail))
    else:
        findings.append(
            Finding(
                "wall clock",
                False,
                "not synchronised: traces of several machines will not line up; "
                "delivery is not affected",
                "start a time service, for example: systemctl enable --now chrony",
            )
        )
    return findings


def check_processors() -> list[Finding]:
    """Count the processors that this process may use."""
    count = _usable_processors()
    return [
        Finding(
            "processors",
            count >= 2,
            f"{count} usable",
            "" if count >= 2 else "give the process two, so that protocol and application overlap",
        )
    ]


def check_closed_port(interface: Interface) -> list[Finding]:
    """Send to a port where nobody listens: the answer must be silence or a refusal."""
    check = "send"
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reserved,
        ):
            reserved.bind((interface.address, 0))
            closed = reserved.getsockname()
            reserved.close()
            sender.bind((interface.address, 0))
            sender.connect(closed)
            sender.send(b"quicksilver self-test")
            readable, _, _ = select.select([sender], [], [], 0.1)
            detail = "a datagram to a closed port left, and nothing came back"
            if readable:
                refusal = sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if refusal == errno.ECONNREFUSED:
                    detail = "a datagram to a closed port was refused, as it should be"
    except OSError as error:
        return [
            Finding(
                check,
                False,
                f"cannot send on {interface.name} ({error.strerror})",
                "let the firewall pass UDP, for example: nft list ruleset",
            )
        ]
    return [Finding(check, True, detail)]


def check_gms(gms: str, timeout_s: float) -> list[Finding]:
    """Open a TCP connection to the GMS and close it."""
    host, colon, port_text = gms.rpartition(":")
    if not colon or not host or not port_text.isdecimal() or not 0 < int(port_text) < 65536:
        return [Finding("gms", False, f"{gms!r} is no address", "write host:port")]
    started = time.monotonic()
    try:
        socket.create_connection((host, int(port_text)), timeout_s).close()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return [
            Finding(
                "gms",
                False,
                f"{gms} cannot be reached ({reason})",
                "start it with `quicksilver gms`, or check host, port and firewall",
            )
        ]
    took = format_seconds(time.monotonic() - started)
    return [Finding("gms", True, f"{gms} answers, connected in {took}")]


def read_setting(name: str) -> int | None:
    """Return a kernel setting such as ``net.core.rmem_max``; ``None`` if there is none."""
    try:
        return int((_PROC_SYS / name.replace(".", "/")).read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def read_clock_sync() -> tuple[bool, float] | None:
    """Return whether wall time is synchronised and its largest error in seconds."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    # struct timex: modes, offset, freq, maxerror, esterror, status, ...; modes 0 only reads.
    timex = (ctypes.c_long * 64)()
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    except (AttributeError, OSError):
        return None
    if state < 0:
        return None
    time_error = 5
    return state != time_error, timex[3] / 1e6


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
