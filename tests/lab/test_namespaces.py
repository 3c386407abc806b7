"""Which process runs in which namespace."""

from __future__ import annotations

from quicksilver.lab.namespaces import Namespaces


def test_receivers_share_the_namespaces_that_are_not_the_senders() -> None:
    spaces = Namespaces(3)
    hosts = [spaces.place(number)[0] for number in range(5)]
    assert hosts == ["10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.2", "10.77.0.3"]
    assert spaces.place(2)[1] == ("ip", "netns", "exec", spaces.names[2])


def test_one_namespace_holds_all() -> None:
    spaces = Namespaces(1)
    assert {spaces.place(number)[0] for number in range(3)} == {"10.77.0.1"}
