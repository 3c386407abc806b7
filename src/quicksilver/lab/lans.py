"""Several local networks on one machine, with routers between them.

Each network is a bridge with a namespace for every host; multicast stays inside of it. A router
joins the networks, and passes unicast on. A network may be behind NAT: its hosts reach the
others, which see the router's address and cannot dial back.

Needs root and ``ip``; NAT also needs ``nft``. Everything made here is removed at the end, and
nothing outside of the namespaces changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Self

from quicksilver.lab.namespaces import NamespacesUnavailableError, ip


@dataclass(frozen=True, slots=True)
class Place:
    """A host in one of the networks."""

    namespace: str
    address: str

    def prefix(self) -> tuple[str, ...]:
        """Return the words before a command that is to run there."""
        return ("ip", "netns", "exec", self.namespace)


class Lans:
    """Local networks of so many hosts each, with routed unicast between them."""

    def __init__(self, hosts: tuple[int, ...], *, behind_nat: frozenset[int] = frozenset()) -> None:
        """``behind_nat``: which of the networks others cannot dial into."""
        assert all(1 <= count <= 200 for count in hosts)
        tag = os.getpid() % 100_000
        self._router = f"qs{tag}-rt"
        self._behind_nat = behind_nat
        self.lans = tuple(
            tuple(
                Place(f"qs{tag}-{lan}-{place}", f"10.78.{lan + 1}.{place + 1}")
                for place in range(count)
            )
            for lan, count in enumerate(hosts)
        )

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise NamespacesUnavailableError("run as root")
        if shutil.which("ip") is None:
            raise NamespacesUnavailableError("install iproute2")
        if self._behind_nat and shutil.which("nft") is None:
            raise NamespacesUnavailableError("a network behind NAT needs nft: install nftables")
        try:
            self._make()
        except (subprocess.CalledProcessError, OSError) as error:
            self._remove()
            raise NamespacesUnavailableError(str(error)) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def set_uplink(self, lan: int, *, up: bool) -> None:
        """Cut a network off from the others, or join it to them again."""
        # Its bridge keeps carrying what its own hosts say to each other.
        gateway = f"10.78.{lan + 1}.254/24"
        ip("-n", self._router, "address", "add" if up else "delete", gateway, "dev", f"br{lan}")

    def _make(self) -> None:
        router = self._router
        ip("netns", "add", router)
        ip("-n", router, "link", "set", "lo", "up")
        _write(router, "/proc/sys/net/ipv4/ip_forward", "1")
        for lan, places in enumerate(self.lans):
            bridge = f"br{lan}"
            # Without snooping the bridge floods multicast, like a simple switch.
            ip("-n", router, "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
            ip("-n", router, "address", "add", f"10.78.{lan + 1}.254/24", "dev", bridge)
            ip("-n", router, "link", "set", bridge, "up")
            for number, place in enumerate(places):
                name, port = place.namespace, f"p{lan}x{number}"
                ip("netns", "add", name)
                ip(
                    *("-n", name, "link", "add", "eth0", "type", "veth"),
                    *("peer", "name", port, "netns", router),
                )
                ip("-n", router, "link", "set", port, "master", bridge, "up")
                ip("-n", name, "link", "set", "lo", "up")
                ip("-n", name, "address", "add", f"{place.address}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "route", "add", "default", "via", f"10.78.{lan + 1}.254")
                ip("-n", name, "route", "add", "224.0.0.0/4", "dev", "eth0")
        for lan in sorted(self._behind_nat):
            self._hide(lan)

    def _hide(self, lan: int) -> None:
        """Others see the router instead of a network's hosts, and cannot dial into it."""
        net, bridge = f"10.78.{lan + 1}.0/24", f"br{lan}"
        rules = f"""
        table ip quicksilver{lan} {{
          chain out {{
            type nat hook postrouting priority srcnat;
            ip saddr {net} oifname != "{bridge}" masquerade
          }}
          chain in {{
            type filter hook forward priority filter;
            iifname != "{bridge}" oifname "{bridge}" ct state new drop
          }}
        }}
        """
        subprocess.run(
            ["ip", "netns", "exec", self._router, "nft", "-f", "-"],
            input=rules.encode(),
            check=True,
            capture_output=True,
        )

    def _remove(self) -> None:
        names = [place.namespace for places in self.lans for place in places]
        for name in (*names, self._router):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _write(namespace: str, path: str, text: str) -> None:
    subprocess.run(
        ["ip", "netns", "exec", namespace, "tee", path],
        input=text.encode(),
        check=True,
        capture_output=True,
    )
