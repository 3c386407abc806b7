"""Local networks with a router between them, and NAT."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from quicksilver.lab.lans import Lans, Place
from tests.net.namespaces import why_impossible

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible"),
    pytest.mark.skipif(shutil.which("nft") is None, reason="NAT needs nft (nftables)"),
]

LISTEN = """
import socket
s = socket.create_server(("0.0.0.0", 7000)); s.settimeout(10); print("ready", flush=True)
c, a = s.accept(); print(a[0], flush=True)
"""
DIAL = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 7000), 1.0); print("through")
except OSError:
    print("refused")
"""


@pytest.fixture(scope="module")
def lans() -> Iterator[Lans]:
    with Lans((2, 1, 1), behind_nat=frozenset({2})) as made:
        yield made


def dial(source: Place, target: Place) -> tuple[str, str]:
    """Return what the dialler saw, and the address that the listener saw."""
    listener = subprocess.Popen(
        [*target.prefix(), sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, text=True
    )
    try:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        done = subprocess.run(
            [*source.prefix(), sys.executable, "-c", DIAL, target.address],
            capture_output=True,
            text=True,
            check=True,
        )
        seen = listener.stdout.readline().strip() if "through" in done.stdout else ""
        return done.stdout.strip(), seen
    finally:
        listener.kill()
        listener.communicate()


def test_unicast_passes_between_networks(lans: Lans) -> None:
    one, other = lans.lans[0][0], lans.lans[1][0]
    assert dial(one, other) == ("through", one.address)


def test_hosts_behind_nat_dial_out_and_cannot_be_dialled(lans: Lans) -> None:
    """Others see the router: there is no way back but the connection itself."""
    outside, hidden = lans.lans[0][0], lans.lans[2][0]
    assert dial(hidden, outside) == ("through", "10.78.1.254")
    assert dial(outside, hidden) == ("refused", "")


def test_a_network_can_be_cut_off(lans: Lans) -> None:
    one, near, other = lans.lans[0][0], lans.lans[0][1], lans.lans[1][0]
    lans.set_uplink(0, up=False)
    try:
        assert dial(one, other)[0] == "refused"
        assert dial(one, near)[0] == "through"
    finally:
        lans.set_uplink(0, up=True)
    assert dial(one, other)[0] == "through"
