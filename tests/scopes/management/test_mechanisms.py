"""Mechanisms that reach all members by themselves: which, where, and who uses them."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination.channels import External
from quicksilver.scopes.management.events import MechanismClosed, MechanismOpened, PolicyRefused
from quicksilver.scopes.management.mechanisms import AddressRange, BadRangeError
from quicksilver.scopes.management.messages import REGIONS_MAX
from tests.scopes.management.test_manager import T, want
from tests.scopes.network import Network


class TestAddresses:
    def test_topics_have_addresses_to_themselves_while_there_are_enough(self) -> None:
        addresses = AddressRange("239.192.7.0/28:7400")
        given = [addresses.assign(f"lan/{number}") for number in range(16)]
        assert len(set(given)) == 16
        assert all(each.startswith("239.192.7.") and each.endswith(":7400") for each in given)
        assert addresses.assign("lan/16") in given, "then topics share"
        assert addresses.assign("lan/3") == given[3]

    def test_an_address_is_free_again_when_its_topic_is_gone(self) -> None:
        addresses = AddressRange("239.1.1.1/32:7")
        first = addresses.assign("lan/a")
        addresses.release("lan/a")
        addresses.release("lan/unknown")
        assert addresses.assign("lan/b") == first

    def test_a_topic_keeps_its_address_over_a_restart(self) -> None:
        before = AddressRange("239.192.7.0/24:7400").assign("lan/t", "239.192.7.99:7400")
        assert before == "239.192.7.99:7400"
        for other in ("239.192.8.1:7400", "239.192.7.99:7401", ""):
            assert AddressRange("239.192.7.0/24:7400").assign("lan/t", other) != other

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("239.1.1.0/24", "lacks its port"),
            ("239.1.1.0/24:0", "lacks its port"),
            ("239.1.1.0/24:99999999", "lacks its port"),
            ("239.1.1.1/24:7", "no range"),
            ("nonsense:7", "no range"),
            ("10.0.0.0/8:7", "not multicast"),
        ],
    )
    def test_ranges_that_are_none_are_answered_in_one_line(self, text: str, says: str) -> None:
        with pytest.raises(BadRangeError, match=says) as caught:
            AddressRange(text)
        assert "\n" not in str(caught.value)


def opened(network: Network, node: str) -> list[MechanismOpened]:
    return [event for event in network.events[node] if isinstance(event, MechanismOpened)]


class TestUse:
    def test_all_nodes_of_a_network_use_the_address_of_the_topic(self) -> None:
        network = Network()
        network.add("X", policy="multicast", multicast="239.192.7.0/24:7400")
        for node in "ABC":
            network.add(node, "X", is_node=True)
            want(network, node, "ps")
        wheres = {opened(network, node)[0].where for node in "ABC"}
        assert len(wheres) == 1
        assert opened(network, "A")[0].path == ("A",)
        assert not any(network.sources.values()), "no channels between them"
        want(network, "A", "")
        network.run(1.0)
        assert MechanismClosed(T, "X") in network.events["A"]
        assert MechanismClosed(T, "X") not in network.events["B"]

    def test_two_topics_have_two_addresses(self) -> None:
        network = Network()
        network.add("X", policy="multicast", multicast="239.192.7.0/24:7400")
        network.add("A", "X", is_node=True)
        want(network, "A", "ps")
        want(network, "A", "ps", "X/other")
        first, second = opened(network, "A")
        assert first.where != second.where

    def test_a_network_that_is_a_member_has_one_node_use_it(self) -> None:
        """A mechanism between networks is handed down to a node of each, as channels are."""
        network = Network()
        network.add("X", policy="qsm")
        for department in "PQ":
            network.add(department, "X")
        for laptop, department in zip("ABCD", "PPQQ", strict=True):
            network.add(laptop, department, is_node=True)
            want(network, laptop, "ps")
        network.run(1.0)
        using = {laptop: opened(network, laptop) for laptop in "ABCD"}
        kinds = (MechanismOpened, MechanismClosed)
        last = {n: [e for e in network.events[n] if isinstance(e, kinds)][-1:] for n in "ABCD"}
        users = sorted(n for n, each in last.items() if each and isinstance(each[0], kinds[0]))
        assert len(users) == 2
        assert {using[user][0].path[0] for user in users} == set("PQ")
        assert {using[user][0].where for user in users} == {External("qsm", T)}
        inside = {c.scope for each in network.sources.values() for c in each}
        assert inside == {"P", "Q"}

    def test_without_addresses_a_star_serves_and_that_is_told_once(self) -> None:
        network = Network()
        network.add("X", policy="multicast")
        for node in "AB":
            network.add(node, "X", is_node=True)
            want(network, node, "ps")
        (refused,) = [e for e in network.events["X"] if isinstance(e, PolicyRefused)]
        assert "configure one" in refused.problem
        assert sum(map(len, network.sources.values())) == 2

    def test_a_topic_keeps_its_address_when_the_manager_starts_again(self) -> None:
        network = Network()
        network.add("X", policy="multicast", multicast="239.192.7.0/30:7400")
        network.add("A", "X", is_node=True)
        for number in range(3):
            want(network, "A", "ps", f"X/{number}")
        want(network, "A", "", "X/0")
        network.kill("X")
        network.add("X", policy="multicast", multicast="239.192.7.0/30:7400", starts=2)
        network.run(10.0)
        assert len(opened(network, "A")) == 3, "nothing was opened again"
        assert len([e for e in network.events["A"] if isinstance(e, MechanismClosed)]) == 1


class TestRegions:
    """QSM's way: a message goes once to each set of members with the same topics (4.1)."""

    def network(self, **topics: str) -> Network:
        """Return a scope X; each node publishes and subscribes to topics of one letter."""
        network = Network()
        network.add("X", policy="regions", recovery="ring:5", multicast="239.192.7.0/24:7400")
        for node, letters in topics.items():
            network.add(node, "X", is_node=True)
            for letter in letters:
                want(network, node, "ps", f"X/{letter}")
        network.run(1.0)
        return network

    def test_members_with_the_same_topics_listen_at_one_address_for_all_of_them(self) -> None:
        network = self.network(A="xy", B="xy", C="x")
        ways = {node: mechanisms(network, node) for node in "ABC"}
        (both,) = {way.where for node in "AB" for way in ways[node].values()}
        assert ways["C"]["X/x"].where != both
        assert {*ways["A"]["X/x"].to} == {both, ways["C"]["X/x"].where}
        assert ways["A"]["X/x"].to == ways["B"]["X/x"].to == ways["C"]["X/x"].to
        assert ways["A"]["X/y"].to == (both,)

    def test_nothing_is_sent_to_a_region_of_which_nobody_subscribes(self) -> None:
        network = self.network(A="x", B="x")
        network.add("P", "X", is_node=True)
        want(network, "P", "p", "X/x")
        want(network, "P", "ps", "X/own")
        network.run(1.0)
        way = mechanisms(network, "P")["X/x"]
        assert way.to == (mechanisms(network, "A")["X/x"].where,)

    def test_who_changes_its_topics_is_in_another_region_and_all_are_told(self) -> None:
        network = self.network(A="xy", B="xy", C="x")
        before = mechanisms(network, "B")["X/x"].where
        want(network, "B", "", "X/y")
        network.run(1.0)
        ways = {node: mechanisms(network, node)["X/x"] for node in "ABC"}
        assert ways["B"].where == ways["C"].where != before
        assert ways["A"].where == before
        assert {*ways["C"].to} == {ways["A"].where, ways["B"].where}
        closed = [e for e in network.events["C"] if isinstance(e, MechanismClosed)]
        assert not closed, "who only sends elsewhere goes on listening where it does"

    def test_of_very_many_regions_all_listen_at_the_address_of_the_topic(self) -> None:
        letters = [chr(0x4E00 + place) for place in range(REGIONS_MAX)]
        network = self.network(**{f"N{place}": f"x{each}" for place, each in enumerate(letters)})
        ways = {mechanisms(network, node)["X/x"] for node in ("N0", "N1", "N63")}
        (address,) = {way.where for way in ways}
        assert {way.to for way in ways} == {(address,)}

    def test_without_recovery_there_are_no_regions_and_a_star_serves(self) -> None:
        network = Network()
        network.add("X", policy="regions", recovery="none", multicast="239.192.7.0/24:7400")
        for node in "AB":
            network.add(node, "X", is_node=True)
            want(network, node, "ps")
        (refused,) = [e for e in network.events["X"] if isinstance(e, PolicyRefused)]
        assert "choose a protocol" in refused.problem
        assert sum(map(len, network.sources.values())) == 2


def mechanisms(network: Network, node: str) -> dict[str, MechanismOpened]:
    """Return the mechanisms that a node uses in the end, by topic."""
    found: dict[str, MechanismOpened] = {}
    for event in network.events[node]:
        if isinstance(event, MechanismOpened):
            found[event.topic] = event
        elif isinstance(event, MechanismClosed):
            found.pop(event.topic, None)
    return found
