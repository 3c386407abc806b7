"""Hosting and encryption on simulated nodes: lossy networks, crashes, the same run for a seed."""

from __future__ import annotations

from typing import Any

import pytest

from quicksilver.live.components.platform.encryption import KeyRing
from quicksilver.live.components.platform.hosting import Host
from quicksilver.live.references.builder import primitive
from quicksilver.live.runtime.allowance import Limits
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.stdx.rand import Rng
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from tests.live.platform.test_hosting import PLATFORM
from tests.live.runtime.worlds import Echo, log
from tests.live.simulated import runtime_on

__all__ = ["log"]


class Seat:
    """One object on one simulated node, with what it said."""

    def __init__(self, node: SimNode, reference: Any, endpoint: str, **services: Any) -> None:
        self.node = node
        self.said: list[tuple[Any, ...]] = []
        given = {type(one): one for one in services.values()}
        self.runtime: Runtime = runtime_on(node, services=given)
        self.runtime.add_components((Echo,))
        self._endpoint = endpoint
        self.port: Any = None
        self._proxy: Proxy | None = None
        self.runtime.executor.post(
            lambda: self.runtime.open(reference, "it").when_done(self._begin)
        )

    def _begin(self, done: Any) -> None:
        self._proxy = done.result()
        endpoint = self._proxy.endpoint(self._endpoint)
        self.port = self.runtime.attach(endpoint, lambda *news: self.said.append(news)).port

    def say(self, event: str, *values: Any) -> None:
        """Say something in the node's next turn."""
        self.runtime.executor.post(lambda: getattr(self.port, event)(*values))

    @property
    def has_guest(self) -> bool:
        return any(cell.name == "it.echo" for cell in self.runtime.cells)


def host_run(seed: int) -> list[list[tuple[Any, ...]]]:
    """Start an object, crash its host, move the object; return what everybody was told."""
    cluster = Cluster(seed=seed)
    limits = Limits(identifiers=("test.*",))
    seats = [
        Seat(node, PLATFORM, "Hosting", host=Host(name=name, limits=limits))
        for name, node in zip("abc", cluster.start(3), strict=True)
    ]
    cluster.run(8.0)
    seats[0].say("start", "echo", primitive("test.echo"), ["b"])
    cluster.run(3.0)
    assert [one.has_guest for one in seats] == [False, True, False]
    seats[1].node.crash()
    cluster.run(15.0)
    seats[0].say("forget", "b")
    seats[0].say("move", "echo", ["c"])
    cluster.run(5.0)
    assert seats[2].has_guest
    assert ("reported", "echo", "c", "started", "") in seats[0].said
    hosts = [one for one in seats[0].said if one[0] == "hosts"]
    assert sorted(hosts[-1][1]) == ["a", "c"]
    return [one.said for one in seats]


@pytest.mark.slow
def test_an_object_survives_its_host() -> None:
    assert host_run(3) == host_run(3)


@pytest.mark.slow
def test_encrypted_messages_pass_and_eavesdroppers_hear_noise() -> None:
    cluster = Cluster(seed=5)
    nodes = cluster.start(3)
    key = bytes(range(32))
    chance = [Rng(number) for number in range(2)]

    def draw(rng: Rng) -> Any:
        return lambda count: b"".join(rng.bits64().to_bytes(8, "big") for _ in range(count // 8))

    plain = primitive("quicksilver.group-channel", group="talk")
    secret = primitive("quicksilver.group-channel", group="talk", as_="EncryptedChannel")
    users = [
        Seat(node, secret, "ReliableChannel", ring=KeyRing({"default": key}, entropy=draw(rng)))
        for node, rng in zip(nodes[:2], chance, strict=True)
    ]
    spy = Seat(nodes[2], plain, "ReliableChannel")
    cluster.run(5.0)
    for number in range(20):
        users[number % 2].say("send", b"secret %d" % number)
    cluster.run(3.0)
    for user in users:
        assert sorted(user.said) == sorted(("receive", b"secret %d" % n) for n in range(20))
    assert len(spy.said) == 20
    assert not any(b"secret" in message for _, message in spy.said)
    spy.say("send", b"let me in")
    spy.say("send", spy.said[0][1])
    cluster.run(3.0)
    assert [len(user.said) for user in users] == [20, 20]
