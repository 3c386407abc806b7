"""Two or more hosts on one machine: network namespaces joined by a bridge.

Needs root and ``ip``. Everything made here is removed at the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Self

from quicksilver.stdx.errors import QuicksilverError


class NamespacesUnavailableError(QuicksilverError):
    """Namespaces cannot be made here."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"network namespaces are not available: {self.problem}"


class Namespaces:
    """``count`` namespaces on one virtual Ethernet with an MTU of 1500."""

    def __init__(self, count: int) -> None:
        tag = os.getpid() % 100_000
        self.names = tuple(f"qs{tag}-{place}" for place in range(count))
        self._switch = f"qs{tag}-sw"
        self.addresses = tuple(f"10.77.0.{place + 1}" for place in range(count))

    def place(self, number: int) -> tuple[str, tuple[str, ...]]:
        """Return the address of a namespace and how to start a process there.

        0 is the first one; the processes 1, 2, … share the others in turn.
        """
        others = len(self.names) - 1
        index = 1 + (number - 1) % others if number and others else 0
        return self.addresses[index], ("ip", "netns", "exec", self.names[index])

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise NamespacesUnavailableError("run as root")
        if shutil.which("ip") is None:
            raise NamespacesUnavailableError("install iproute2")
        try:
            self._make()
        except (subprocess.CalledProcessError, OSError) as error:
            self._remove()
            raise NamespacesUnavailableError(str(error)) from error
        return self

    def _make(self) -> None:
        # The bridge lives in a namespace of its own: nothing touches the host.
        ip("netns", "add", self._switch)
        ip("-n", self._switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        ip("-n", self._switch, "link", "set", "br0", "up")
        for place, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            ip("netns", "add", name)
            ip(
                "-n", name, "link", "add", "eth0", "type", "veth",
                "peer", "name", f"port{place}", "netns", self._switch,
            )  # fmt: skip
            ip("-n", self._switch, "link", "set", f"port{place}", "master", "br0", "up")
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "route", "add", "224.0.0.0/4", "dev", "eth0")

    def _remove(self) -> None:
        for name in (*self.names, self._switch):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def __exit__(self, *_: object) -> None:
        self._remove()


def ip(*words: str) -> None:
    """Run ``ip``. Raises ``subprocess.CalledProcessError``."""
    subprocess.run(["ip", *words], check=True, capture_output=True)
