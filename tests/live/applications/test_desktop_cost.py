"""A desktop of a thousand objects is a thousand groups, and a packet costs what one group's does.

Groups with the same members share one region (dissertation 4.2.1): tokens, acknowledgements
and repair are the region's, so it does not matter how many groups a node is in.
"""

from __future__ import annotations

import pytest

from quicksilver.live.references.builder import primitive
from quicksilver.live.references.xml import write
from quicksilver.live.services.groups import Groups
from tests.live.applications.desk import User
from tests.live.applications.sim_stage import Seat, SimStage, checkpointed

COUNTED = ("sent_packets", "tokens_received", "ack_sent", "nak_sent", "pushes", "resent")
UPDATES = 50


class Desktop:
    """A desktop with counters on it, on two simulated nodes."""

    def __init__(self, count: int) -> None:
        reference = primitive("quicksilver.desktop", channel=checkpointed("desk"))
        self.stage = SimStage(reference, "Desktop")
        self.seats = self.stage.sit(2)
        self.count = count
        first = self.seats[0]
        for number in range(count):
            channel = checkpointed(f"item {number}")
            item = write(primitive("quicksilver.counter", channel=channel))
            first.do("drop", f"{number}", 0.0, 0.0, item)
        assert self.stage.cluster.run(60, lambda: all(map(self._has_all, self.seats)))
        self.stage.cluster.run(10)  # all have their states, and nothing is under way

    def _has_all(self, seat: Seat) -> bool:
        return len(seat.component.opening.proxies) == self.count

    def requests(self) -> int:
        """How often the second node asked the membership service for groups."""
        user = self.seats[1].user
        assert user is not None
        return user.runtime.service(Groups).requests

    def regions(self) -> int:
        """How many regions the nodes' groups are in."""
        return len(self.seats[1].node.session.directory.regions)

    def cost(self) -> dict[str, int]:
        """What has gone through the network, and what the engines did for it."""
        counters = [seat.node.engine.counters for seat in self.seats]
        found = {name: sum(getattr(one, name) for one in counters) for name in COUNTED}
        return {"datagrams": self.stage.cluster.network.sent_packets, **found}

    def cost_of_updates(self) -> dict[str, int]:
        """What it costs to add to the first counter on the desktop, again and again."""
        seat = self.seats[1]
        user = seat.user
        assert user is not None
        item = min(seat.component.opening.proxies)
        counter = User(user.runtime, seat.component.opening.proxies[item], "Counter")
        before = self.cost()
        for _ in range(UPDATES):
            seat.node.host.submit(lambda: counter.port.add(1))
            self.stage.cluster.run(0.1)
        self.stage.cluster.run(2)
        assert counter.last("total") == UPDATES
        after = self.cost()
        return {name: after[name] - before[name] for name in before}

    def cost_of_nothing(self) -> dict[str, int]:
        """What it costs to have the desktop open."""
        before = self.cost()
        self.stage.cluster.run(5)
        after = self.cost()
        return {name: after[name] - before[name] for name in before}


@pytest.mark.slow
def test_an_update_costs_the_same_among_a_thousand_groups() -> None:
    one, thousand = Desktop(1), Desktop(1000)
    assert thousand.regions() == one.regions() == 1
    assert thousand.requests() <= one.requests() + 2
    for desktop in (one, thousand):
        assert set(desktop.cost_of_nothing().values()) == {0}
    alone, among = one.cost_of_updates(), thousand.cost_of_updates()
    assert alone["datagrams"] >= UPDATES
    # Which round of a token an update meets is a matter of when it is made.
    assert {name: pytest.approx(count, abs=2) for name, count in alone.items()} == among
