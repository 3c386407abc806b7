"""Interfaces: listing, choosing, and errors that say what to do."""

from __future__ import annotations

import sys

import pytest

from quicksilver.net.interfaces import (
    Interface,
    InterfaceError,
    choose_interface,
    datagram_bytes_max,
    list_interfaces,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="names and MTU as on Linux")


@linux
def test_loopback_is_listed_with_its_mtu() -> None:
    """Tests and single-machine use depend on it."""
    loopback = next(some for some in list_interfaces() if some.address == "127.0.0.1")
    assert (loopback.name, loopback.is_loopback, loopback.supports_multicast) == ("lo", True, True)
    assert loopback.mtu > 1500


@pytest.mark.parametrize(
    ("spec", "towards"),
    [("lo", None), ("127.0.0.1", None), (None, "127.0.0.1"), (None, "localhost:7777")],
)
@linux
def test_loopback_is_found_by_name_address_and_route(spec: str | None, towards: str | None) -> None:
    """The three ways in which a user may say which interface is meant."""
    assert choose_interface(spec, towards).name == "lo"


@linux
def test_any_loopback_address_can_be_chosen() -> None:
    """All of 127.0.0.0/8 is local though only one address is listed."""
    assert choose_interface("127.0.0.9").address == "127.0.0.9"


def test_a_name_wins_over_a_route() -> None:
    """What the user says explicitly is not second-guessed."""
    name = choose_interface("127.0.0.1").name
    assert choose_interface(name, "203.0.113.1").is_loopback


@pytest.mark.parametrize(
    ("spec", "towards"),
    [
        ("no-such-interface", None),
        ("203.0.113.77", None),
        ("::1", None),
        (None, ""),
        (None, "x" * 300),
        (None, "a..b"),
    ],
)
def test_a_bad_choice_says_what_is_wrong_and_what_to_do(
    spec: str | None, towards: str | None
) -> None:
    """One line, no traceback, for a user's mistake."""
    with pytest.raises(InterfaceError) as caught:
        choose_interface(spec, towards)
    assert caught.value.problem
    assert caught.value.fix
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("mtu", "is_loopback", "expected"),
    [(1500, False, 1472), (9000, False, 8972), (65536, True, 60_000), (16384, True, 16356)],
)
def test_datagrams_fit_the_mtu(mtu: int, is_loopback: bool, expected: int) -> None:
    """A fragment lost is a datagram lost: on a network none is made."""
    interface = Interface("any", "10.0.0.1", mtu, is_loopback, True)
    assert datagram_bytes_max(interface) == expected
