"""Lists that users share over a checkpointed channel, and clusters of them in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from quicksilver.live.references.builder import composite, given, primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.connections import Attachment
from quicksilver.live.runtime.promises import Promise
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from tests.live.simulated import runtime_on


def checkpointed(group: str = "list", **options: Any) -> Reference:
    """Return the channel as one component."""
    return primitive("quicksilver.checkpointed-channel", group=group, **options)


def composed(group: str = "list", **options: Any) -> Reference:
    """Return the same channel made of a group, its membership and an order."""
    return (
        composite()
        .component("network", primitive("quicksilver.group-channel", group=group))
        .component("views", primitive("quicksilver.membership", group=group))
        .component("order", given(primitive("quicksilver.total-order"), options))
        .connect("network.ReliableChannel", "order.ReliableChannel")
        .connect("views.Membership", "order.Membership")
        .export("order.CheckpointedChannel")
        .export("order.Participants")
        .build()
    )


class User:
    """Somebody who keeps a list of all updates as its state."""

    def __init__(self, name: str = "", size: int = 0) -> None:
        self.name = name
        self.items: list[str] | None = None
        self.padding = "." * size
        """Makes states large."""
        self.sent = 0
        self.starts = 0
        self.captures = 0
        self.people: list[list[str]] = []
        self.me = ""
        self.port: Any = None
        self.proxy: Proxy | None = None

    def begin(self, runtime: Runtime, proxy: Proxy) -> None:
        """Connect to a channel; on the executor."""
        self.proxy = proxy
        attached: Attachment = runtime.attach(
            proxy.endpoint("CheckpointedChannel"),
            {"initialize": self.initialize, "receive": self.receive, "capture": self.capture},
        )
        self.port = attached.port
        runtime.attach(proxy.endpoint("Participants"), {"participants": self.participants})

    def initialize(self, state: bytes | None) -> None:
        self.starts += 1
        self.items = [] if state is None else json.loads(state)["items"]

    def receive(self, message: bytes) -> None:
        assert self.items is not None, "an update before the state"
        self.items.append(message.decode())

    def capture(self, ticket: int) -> None:
        self.captures += 1
        state = {"items": self.items, "padding": self.padding}
        self.port.checkpoint(ticket, json.dumps(state).encode())

    def participants(self, names: list[str], me: str) -> None:
        self.people.append(names)
        self.me = me

    def send(self, text: str) -> None:
        self.port.send(text.encode())


class Stage:
    """Users on simulated nodes."""

    def __init__(self, seed: int = 1, reference: Reference | None = None, **options: Any) -> None:
        self.cluster = Cluster(seed=seed, **options)
        self.reference = checkpointed() if reference is None else reference
        self.users: dict[SimNode, list[User]] = {}
        self.runtimes: dict[SimNode, Runtime] = {}
        self.kept: list[Proxy] = []

    def start(self, count: int = 1, services: Any = None) -> list[SimNode]:
        """Start nodes with a runtime each."""
        nodes = self.cluster.start(count)
        for node in nodes:
            self.equip(node, services)
        return nodes

    def equip(self, node: SimNode, services: Any = None) -> Runtime:
        """Give a node a runtime."""
        runtime = self.runtimes[node] = runtime_on(node, services=services, on_failure=print)
        return runtime

    def join(self, node: SimNode, size: int = 0, reference: Reference | None = None) -> User:
        """Open the channel for one more user on a node."""
        user = User(f"{node.index}.{node.life}", size)
        self.users.setdefault(node, []).append(user)
        runtime = self.runtimes[node]

        def opened(done: Promise[Proxy]) -> None:
            user.begin(runtime, done.result())

        def begin() -> None:
            runtime.open(reference or self.reference, user.name).when_done(opened)

        node.host.submit(begin)
        return user

    def send(self, node: SimNode, user: User, text: str) -> None:
        """Have a user send, if it has connected."""

        def send() -> None:
            if user.port is not None:
                user.send(text)

        node.host.submit(send)

    def leave(self, node: SimNode, user: User) -> None:
        """Close a user's proxy."""

        def close() -> None:
            assert user.proxy is not None
            user.proxy.close()

        self.users[node].remove(user)
        node.host.submit(close)

    def alive(self) -> list[User]:
        """Return the users on nodes that live."""
        return [u for node, users in self.users.items() if not node.is_dead for u in users]

    def agree(self, check: Callable[[list[str]], bool] = lambda items: True) -> bool:
        """Whether all living users have the same list, and it is as wanted."""
        lists = [user.items for user in self.alive()]
        first = lists[0]
        return first is not None and check(first) and all(one == first for one in lists)

    def failures(self) -> list[str]:
        """What components raised."""
        return [str(one) for runtime in self.runtimes.values() for one in runtime.failures]
