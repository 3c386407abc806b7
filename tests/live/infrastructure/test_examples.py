"""Every example of the infrastructure opens and runs; those that share a state share it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quicksilver import live
from quicksilver.live.references.xml import load
from quicksilver.live.services.datagrams import Datagrams
from quicksilver.live.services.storage import Storage
from quicksilver.stdx.rand import Rng
from tests.integration.cluster import Cluster
from tests.live.infrastructure.kit import Stage
from tests.live.media import DatagramMedium, MediumDatagrams, MemoryStorage

EXAMPLES = Path(__file__).parents[3] / "examples" / "live"
NAMES = (
    "backup",
    "checkpointed-channel",
    "folder",
    "group-channel",
    "lock",
    "loss-recovery",
    "membership",
    "persistent-channel",
    "presence",
    "timer",
    "total-order",
    "tunnel",
    "udp-channel",
    "udp-peers",
)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_on_two_nodes_in_the_simulator(name: str) -> None:
    """Opened, attached to at every endpoint, closed: nothing fails, and something is said."""
    stage = Stage(seed=41)
    medium = DatagramMedium(Rng(41), stage.cluster.events.after)
    reference = load(EXAMPLES / f"{name}.liveobject")
    said: list[tuple[Any, ...]] = []
    proxies: list[Any] = []
    for node in stage.cluster.start(2):
        runtime = stage.equip(node, {Storage: MemoryStorage()})
        runtime.provide(Datagrams, MediumDatagrams(medium, runtime.executor))

        def opened(done: Any, runtime: Any = runtime) -> None:
            proxy = done.result()
            proxies.append(proxy)
            for endpoint in proxy.endpoints():
                port = runtime.attach(endpoint, lambda *event, **_: said.append(event)).port
                if hasattr(port, "send"):
                    port.send(b"hello")
                if hasattr(port, "announce"):
                    port.announce("Ann", "here")
                if hasattr(port, "list"):
                    port.list()

        node.host.submit(
            lambda runtime=runtime, opened=opened: runtime.open(reference).when_done(opened)  # type: ignore[misc]
        )
    stage.cluster.run(5)
    assert len(proxies) == 2
    assert said
    for proxy in proxies:
        proxy.close()
    stage.cluster.run(1)
    assert not stage.failures()


@pytest.mark.integration
def test_two_platforms_share_objects_over_a_real_cluster() -> None:
    """Threads, real nodes, a real GMS: a dictionary, a lock, presence and a folder."""
    import time

    def wait(check: Any) -> None:
        deadline = time.monotonic() + 30
        while not check():
            assert time.monotonic() < deadline, (heard, failures)
            time.sleep(0.02)

    failures: list[str] = []
    heard: dict[tuple[int, str], list[tuple[Any, ...]]] = {}
    with Cluster() as cluster:
        options = {"interface": "lo", "on_failure": lambda one: failures.append(str(one))}
        with (
            live.platform_in_thread(cluster.address, **options) as one,
            live.platform_in_thread(cluster.address, **options) as other,
        ):
            ends: dict[tuple[int, str], Any] = {}
            objects = []
            for number, platform in enumerate((one, other)):
                for name, endpoint in (
                    ("dictionary", "Dictionary"),
                    ("lock", "Lock"),
                    ("presence", "Presence"),
                    ("folder", "editing"),
                ):
                    said = heard[number, name] = []
                    found = platform.open(EXAMPLES / f"{name}.liveobject")
                    objects.append(found)
                    ends[number, name] = found.attach(
                        endpoint,
                        lambda *event, said=said, **named: said.append(  # type: ignore[misc]
                            (*event, *named.values())
                        ),
                    )
            ends[0, "dictionary"].say("put", "k", b"v")
            # It comes as a change, or is in the state already.
            news = (("changed", "k", b"v"), ("snapshot", {"k": b"v"}))
            wait(lambda: any(one in heard[1, "dictionary"] for one in news))
            ends[0, "lock"].say("acquire")
            wait(lambda: ("granted",) in heard[0, "lock"])
            ends[1, "lock"].say("acquire")
            ends[0, "lock"].say("release")
            wait(lambda: ("granted",) in heard[1, "lock"])
            ends[0, "presence"].say("announce", "Ann", "here")
            ends[1, "presence"].say("announce", "Bob", "here")
            wait(lambda: len((heard[0, "presence"] or [("", [])])[-1][1]) == 2)
            ends[1, "folder"].say(
                "put", "names", load(EXAMPLES / "dictionary.liveobject").reference
            )
            wait(lambda: ("changed", "names") in heard[0, "folder"])
            through = one.open(EXAMPLES / "through-a-folder.liveobject")
            got: list[Any] = []
            through.attach("Dictionary", {"snapshot": got.append})
            wait(lambda: got == [{"k": b"v"}])
            through.close()
            for each in objects:
                each.close()
    assert not failures
