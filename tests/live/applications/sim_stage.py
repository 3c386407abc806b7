"""Users of one object on simulated nodes, over the real engine in virtual time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.promises import Promise
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.services.storage import SharedFiles
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from tests.live.applications.desk import User
from tests.live.simulated import runtime_on


def checkpointed(group: str) -> Reference:
    return primitive("quicksilver.checkpointed-channel", group=group, patience_s=4.0)


def reliable(group: str) -> Reference:
    return primitive("quicksilver.group-channel", group=group)


class Seat:
    """A place at an object on a simulated node."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.user: User | None = None

    @property
    def component(self) -> Any:
        assert self.user is not None
        return self.user.component

    def do(self, event: str, *values: Any) -> None:
        """Have the user send an event, in a turn of the node's process."""

        def send() -> None:
            assert self.user is not None
            getattr(self.user.port, event)(*values)

        self.node.host.submit(send)


class SimStage:
    """An object, and those who use it."""

    def __init__(self, reference: Reference, endpoint: str, seed: int = 1) -> None:
        self.cluster = Cluster(seed=seed)
        self._reference = reference
        self._endpoint = endpoint
        self.seats: list[Seat] = []

    def sit(self, count: int = 1, reference: Reference | None = None) -> list[Seat]:
        """Start nodes and open the object on each; returns when all have begun."""
        seats = [Seat(node) for node in self.cluster.start(count)]
        for seat in seats:
            self._open(seat, reference or self._reference)
        self.seats += seats
        assert self.cluster.run(30, lambda: all(seat.user is not None for seat in seats))
        return seats

    def _open(self, seat: Seat, reference: Reference) -> None:
        runtime = runtime_on(seat.node, services={SharedFiles: SharedFiles(tempfile.gettempdir())})

        def opened(done: Promise[Proxy]) -> None:
            seat.user = User(runtime, done.result(), self._endpoint)

        seat.node.host.submit(lambda: runtime.open(reference).when_done(opened))

    def lose(self, share: float) -> None:
        """Lose a share of all datagrams."""
        for node in self.cluster.alive():
            node.host.weather.drop_rate = share

    @property
    def alive(self) -> list[Seat]:
        return [seat for seat in self.seats if not seat.node.is_dead]

    def await_same(self, what: Callable[[Any], Any], expected: Callable[[Any], bool]) -> None:
        """Wait until all who live have the same of something, and it is as expected."""

        def is_same() -> bool:
            found = [what(seat.component) for seat in self.alive]
            return all(one == found[0] for one in found) and expected(found[0])

        same = self.cluster.run(60, is_same)
        found = [what(seat.component) for seat in self.alive]
        assert same, f"after seed {self.cluster.seed}: {found}"
        for seat in self.alive:
            assert seat.user is not None
            assert [str(one) for one in seat.user.runtime.failures] == []
