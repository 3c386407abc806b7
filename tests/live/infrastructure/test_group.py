"""What a group channel promises when a sender crashes, and what it does not."""

from __future__ import annotations

from typing import Any

from quicksilver.live.references.builder import primitive
from quicksilver.trials.node import SimNode
from tests.live.infrastructure.kit import Stage

CHANNEL = primitive("quicksilver.group-channel", group="g")
OTHER = primitive("quicksilver.group-channel", group="other")


class Crash:
    """A sender that crashes just after one of two receivers heard its message."""

    def __init__(self, seed: int, *, is_one_region: bool) -> None:
        self.stage = Stage(seed=seed)
        self.sender, self.near, self.deaf = self.stage.start(3)
        self.ports: dict[SimNode, Any] = {}
        self.got: dict[SimNode, list[bytes]] = {}
        for node in self.stage.runtimes:
            self._open(node, CHANNEL)
        if not is_one_region:
            self._open(self.deaf, OTHER)
        self.stage.cluster.run(5)

    def _open(self, node: SimNode, reference: Any) -> None:
        runtime = self.stage.runtimes[node]
        got = self.got.setdefault(node, [])

        def opened(done: Any) -> None:
            proxy = done.result()
            self.stage.kept.append(proxy)
            attached = runtime.attach(proxy.endpoint("ReliableChannel"), {"receive": got.append})
            self.ports.setdefault(node, attached.port)

        node.host.submit(lambda: runtime.open(reference).when_done(opened))

    def send_and_crash(self) -> None:
        cluster = self.stage.cluster
        self.deaf.host.weather.deaf_until = cluster.now + 0.05
        self.sender.host.submit(lambda: self.ports[self.sender].send(b"last words"))
        assert cluster.run(0.05, lambda: bool(self.got[self.near]))
        self.sender.crash()
        cluster.run(20)
        assert not self.stage.failures()
        assert self.got[self.near] == [b"last words"]


def test_what_one_survivor_of_a_region_has_all_of_the_region_get() -> None:
    """Dissertation 4.2.1: reliability is a matter of regions."""
    crash = Crash(61, is_one_region=True)
    crash.send_and_crash()
    assert crash.got[crash.deaf] == [b"last words"]


def test_members_of_another_region_may_go_without() -> None:
    """No promise of all or none is made across regions: nobody in the other one has a copy."""
    crash = Crash(62, is_one_region=False)
    crash.send_and_crash()
    assert crash.got[crash.deaf] == []
