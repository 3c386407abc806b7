"""``quicksilver gms`` answers nodes that look for it, unless it should not."""

from __future__ import annotations

import json

import pytest

from quicksilver.lab.processes import free_udp_port
from quicksilver.net.discovery import discover
from tests.cli.processes import running

pytestmark = pytest.mark.integration

PORTS = ("--host", "127.0.0.1", "--port", "0")


@pytest.mark.parametrize(("option", "is_found"), [("--discovery", True), ("--no-discovery", False)])
def test_a_gms_is_found_if_it_wants_to_be(option: str, is_found: bool) -> None:
    port = free_udp_port()
    ports = (*PORTS, "--multicast-port", str(free_udp_port()), "--discovery-port", str(port))
    with running("gms", *ports, option, "--json") as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        found = [f"{host}:{number}" for host, number in discover(port=port)]
        assert found == ([address] if is_found else [])


def test_a_gms_on_any_free_port_is_not_found_unless_it_says_so() -> None:
    """It is for those who were told where it is: tests, demonstrations, benchmarks."""
    port = free_udp_port()
    ports = (*PORTS, "--multicast-port", str(free_udp_port()), "--discovery-port", str(port))
    with running("gms", *ports, "--json") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert discover(port=port) == []
