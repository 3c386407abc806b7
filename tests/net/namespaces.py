"""Machines for tests: network namespaces joined by a bridge.

Addresses, routes and the bridge exist inside the namespaces alone; the machine
that runs the tests keeps its own network as it is. Needs root and ``ip``.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_NUMBERS = itertools.count()


def why_impossible() -> str:
    """Return why namespaces cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the ip command"
    return ""


class Network:
    """Namespaces ``0 .. n-1`` on one network segment."""

    def __init__(self, prefix: str, count: int, subnet: int) -> None:
        self.names = [f"{prefix}-{i}" for i in range(count)]
        self.addresses = [f"10.77.{subnet}.{i + 1}" for i in range(count)]
        self.interface = "veth0"
        self._started: list[subprocess.Popen[str]] = []

    def argv(self, index: int, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` inside a namespace."""
        return ["ip", "netns", "exec", self.names[index], *argv]

    def run(
        self, index: int, argv: Sequence[str], timeout_s: float = 30.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside a namespace to its end; it must succeed."""
        done = subprocess.run(
            self.argv(index, argv), capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert done.returncode == 0, f"{argv} in {self.names[index]}: {done.stderr}"
        return done

    def start(self, index: int, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command inside a namespace; it is ended with the network."""
        process = subprocess.Popen(
            self.argv(index, argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def set_link(self, index: int, *, up: bool) -> None:
        """Plug or unplug the cable of one machine."""
        self.run(index, ["ip", "link", "set", self.interface, "up" if up else "down"])
        if up:  # the system forgets routes of an interface that goes down
            self._add_multicast_route(index)

    def _add_multicast_route(self, index: int) -> None:
        self.run(index, ["ip", "route", "replace", "224.0.0.0/4", "dev", self.interface])

    def end_processes(self) -> None:
        """End what ``start`` started, and wait for it."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self._started.clear()


@contextmanager
def network(count: int, *, subnet: int = 1, mtu: int = 1500) -> Iterator[Network]:
    """Give ``count`` namespaces with addresses 10.77.``subnet``.1 and up."""
    assert 1 <= count <= 250
    prefix = f"qs{os.getpid()}-{next(_NUMBERS)}"
    hub = f"{prefix}-hub"
    made = Network(prefix, count, subnet)
    try:
        _ip("netns", "add", hub)
        # Without snooping the bridge floods multicast, like a simple switch.
        _ip("-n", hub, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        _ip("-n", hub, "link", "set", "br0", "mtu", str(mtu), "up")
        for i, name in enumerate(made.names):
            port = f"port{i}"
            _ip("netns", "add", name)
            _ip(
                *("link", "add", port, "netns", hub, "mtu", str(mtu), "type", "veth"),
                *("peer", "name", made.interface, "netns", name, "mtu", str(mtu)),
            )
            _ip("-n", hub, "link", "set", port, "master", "br0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{made.addresses[i]}/24", "dev", made.interface)
            _ip("-n", name, "link", "set", made.interface, "up")
            made._add_multicast_route(i)
        yield made
    finally:
        made.end_processes()
        for name in [*made.names, hub]:
            # One that was never made is no reason to leave the others.
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(args)}: {done.stderr}"
