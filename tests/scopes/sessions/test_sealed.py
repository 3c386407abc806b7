"""Sessions with a key: who has it reads and sends, who has not carries."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management.messages import Flavour
from quicksilver.scopes.sessions.keys import BadKeysError, KeyRing, parse_keys
from tests.scopes.network import Network
from tests.scopes.test_whole import T, check_complete, lose, publish, two_networks

EXAM = Flavour(key="exam")
KEY = bytes(range(32))
A = Sender("P", "A", 1)


def sealed_networks(strangers: str = "") -> tuple[Network, list[bytes]]:
    """Return two networks in a session with a key, and all that goes over links from then on."""
    network = two_networks("multicast", "ring")
    for name, node in network.nodes.items():
        if name not in strangers:
            node.sessions._keys = KeyRing({"exam": KEY})
    assert network.managers["X"].change_session(T, EXAM, network.now) is None
    network.run(10.0)
    seen: list[bytes] = []
    deliver, throw = network._deliver, network._throw
    network._deliver = lambda conn, data: (seen.append(data), deliver(conn, data))[1]  # type: ignore[method-assign, func-returns-value]
    network._throw = lambda name, where, data: (seen.append(data), throw(name, where, data))[1]  # type: ignore[method-assign, func-returns-value]
    return network, seen


def test_messages_are_sealed_on_the_way_and_open_at_the_end() -> None:
    network, seen = sealed_networks()
    got: list[bytes] = []
    poll = network.nodes["H"].poll_delivery

    def spy() -> object:
        told = poll()
        got.extend(told.split() if isinstance(told, Packet) else ())
        return told

    network.nodes["H"].poll_delivery = spy  # type: ignore[method-assign, assignment]
    network.nodes["A"].publish(T, [b"the questions", b"the answers"], None, network.now)
    network.run(5.0)
    assert got == [b"the questions", b"the answers"]
    assert seen
    assert not any(b"questions" in data or b"answers" in data or KEY in data for data in seen)


def test_what_was_sealed_is_repaired_by_nodes_that_cannot_read_it() -> None:
    network, _ = sealed_networks(strangers="CG")
    lose(network, 0.2, seed=10)
    sent = publish(network, 40)
    network.run(15.0)
    for stranger in "CG":
        assert network.got.pop(stranger) == []
        missing = [(e.topic, e.key) for e in network.missing_keys[stranger]]
        assert missing == [(T, "exam")], "said once"
        forwarder = network.nodes.pop(stranger).forwarder
        stream = forwarder.holdings.find(T, A)
        assert stream is not None
        assert stream.low == sent["A"], "it carries them"
        del network.managers[stranger]
    check_complete(network, sent)


def test_a_publisher_without_the_key_waits_and_sends_nothing_in_the_open() -> None:
    network, seen = sealed_networks(strangers="A")
    network.nodes["A"].publish(T, [b"the questions"], None, network.now)
    network.run(5.0)
    assert network.got["B"] == []
    assert not network.nodes["A"].promised.is_stable(T, 1)
    assert not any(b"questions" in data for data in seen)
    assert network.managers["X"].change_session(T, Flavour(), network.now) is None
    network.run(10.0)
    assert network.got["B"] == [("A", 0)], "in the next session, which has no key"


def test_a_message_opens_only_as_what_it_was_sealed_as() -> None:
    ring = KeyRing({"exam": KEY, "other": bytes(32)})
    sealed = ring.seal("exam", T, 3, A, 7, b"x")
    assert ring.open("exam", T, 3, A, 7, sealed) == b"x"
    for key, topic, session, sender, number, data in (
        ("other", T, 3, A, 7, sealed),
        ("exam", "X/other", 3, A, 7, sealed),
        ("exam", T, 4, A, 7, sealed),
        ("exam", T, 3, Sender("P", "A", 2), 7, sealed),
        ("exam", T, 3, A, 8, sealed),
        ("exam", T, 3, A, 7, sealed[:-1]),
        ("exam", T, 3, A, 7, b""),
    ):
        assert ring.open(key, topic, session, sender, number, data) is None


def test_an_open_message_in_a_sealed_session_is_told_as_lost() -> None:
    """Somebody without the key pretends to be A."""
    network, _ = sealed_networks()
    network.forwarders["A"].publish(T, [b"forged"], None, network.now)
    network.nodes["F"].publish(T, [b"x"], None, network.now)
    network.run(5.0)
    assert network.got["B"] == [("F", 0)]
    assert network.nodes["B"].counters["forged"] == 1


def test_keys_are_read_from_lines_of_a_name_and_digits() -> None:
    text = f"# of the exam\n\nexam {KEY.hex()}  # until June\nother {bytes(32).hex()}\n"
    assert parse_keys(text) == {"exam": KEY, "other": bytes(32)}
    for bad in ("exam", "exam 00", f"exam {KEY.hex()} more", f"exam {'zz' * 32}"):
        with pytest.raises(BadKeysError) as caught:
            parse_keys(f"\n{bad}")
        assert str(caught.value).startswith("keys, line 2: ")
        assert KEY.hex() not in str(caught.value)
    with pytest.raises(BadKeysError, match="twice"):
        parse_keys(f"a {KEY.hex()}\na {KEY.hex()}")
