"""The references of Code 2.2 to 2.5 and Figure 2.4, followed on nodes of two local networks.

The networks are multicast addresses on the loopback interface; libraries are the
files beside the examples, loaded because they are allowed and their hashes are right.
"""

from __future__ import annotations

import importlib.util
import queue
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from quicksilver import live
from quicksilver.live.api import SyncAttachment, SyncObject, SyncPlatform
from quicksilver.live.references.check import check
from quicksilver.live.references.xml import load, load_registry
from quicksilver.live.runtime.errors import OpenError
from quicksilver.live.services.local import LocalNetwork

pytestmark = pytest.mark.integration
EXAMPLES = Path(__file__).parents[2] / "examples" / "live"
LONG_S = 30


def _load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dissertation", EXAMPLES / "dissertation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Chapter:
    """The runnable files, and platforms on nodes of either network."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self._stack = stack
        self._network = LocalNetwork()

    def node(self, lan: str, *, allows: bool = True) -> SyncPlatform:
        library = (EXAMPLES / "library").as_uri()
        return self._stack.enter_context(
            live.platform_in_thread(
                registry=self.directory / f"registry-lan-{lan}",
                libraries=[f"{library}/"] if allows else [],
                network=self._network,
            )
        )

    def open(self, node: SyncPlatform, name: str) -> SyncObject:
        return self._stack.enter_context(node.open(self.directory / f"{name}.liveobject"))


@pytest.fixture
def chapter(tmp_path: Path) -> Iterator[Chapter]:
    # Tests that run at the same time must not hear each other.
    draw = random.SystemRandom()
    net, port = draw.randrange(1, 255), draw.randrange(20_000, 30_000)
    lans = {"x": f"udp://239.78.{net}.1:{port}", "y": f"udp://239.78.{net}.2:{port + 1}"}
    _load_script().write_runnable(tmp_path, lans)
    with ExitStack() as stack:
        yield Chapter(tmp_path, stack)


class Ear:
    """An endpoint of an object, listened to."""

    def __init__(self, opened: SyncObject, endpoint: str, event: str) -> None:
        self._heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.port: SyncAttachment = opened.attach(endpoint, {event: self._heard.put})

    def wait_for(self, value: Any) -> None:
        while self._heard.get(timeout=LONG_S) != value:
            pass


def test_all_of_them_are_sound(chapter: Chapter) -> None:
    files = sorted(chapter.directory.glob("*.liveobject"))
    assert len(files) == 5
    for lan in "xy":
        registry = load_registry(chapter.directory / f"registry-lan-{lan}")
        for file in files:
            checked = check(registry.around(load(file)), registry=registry.references)
            assert checked.findings == (), file


def test_code_2_2_a_text_over_a_channel_of_two_objects(chapter: Chapter) -> None:
    one, two = (chapter.open(chapter.node("x"), "code-2-2-shared-text") for _ in range(2))
    here, there = Ear(one, "Text", "changed"), Ear(two, "Text", "changed")
    here.port.say("edit", 0, 0, "hello")
    there.wait_for("hello")
    there.port.say("edit", 5, 0, " you")
    here.wait_for("hello you")


def test_code_2_3_a_protocol_from_a_library(chapter: Chapter) -> None:
    one, two = (chapter.open(chapter.node("x"), "code-2-3-library") for _ in range(2))
    here, there = Ear(one, "Counter", "total"), Ear(two, "Counter", "total")
    here.port.say("add", 20)
    there.wait_for(20)
    there.port.say("add", 22)
    here.wait_for(42)


def test_code_2_5_a_folder_of_channels(chapter: Chapter) -> None:
    folder = chapter.open(chapter.node("x"), "code-2-5-platform")
    heard: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    port = folder.attach(handlers=lambda *news: heard.put(news))
    port.say("get", "MyChannel")
    port.say("get", "nothing")
    assert heard.get(timeout=LONG_S)[:2] == ("item", "MyChannel")
    assert heard.get(timeout=LONG_S) == ("missing", "nothing")


def test_code_2_4_and_figure_2_4_a_hybrid_of_two_networks(chapter: Chapter) -> None:
    """The same reference means another channel on each network; a tunnel joins them."""
    x = Ear(chapter.open(chapter.node("x"), "code-2-4-hybrid"), "UnreliableChannel", "receive")
    y = Ear(chapter.open(chapter.node("y"), "code-2-4-hybrid"), "UnreliableChannel", "receive")
    gateway = Ear(
        chapter.open(chapter.node("x"), "figure-2-4-gateway"), "UnreliableChannel", "receive"
    )
    x.port.say("send", b"from x")
    y.wait_for(b"from x")
    y.port.say("send", b"from y")
    x.wait_for(b"from y")
    gateway.port.say("send", b"from the middle")
    x.wait_for(b"from the middle")
    y.wait_for(b"from the middle")


def test_nothing_is_loaded_where_it_is_not_allowed(chapter: Chapter) -> None:
    node = chapter.node("x", allows=False)
    with pytest.raises(OpenError, match="not on this node's list of allowed ones"):
        chapter.open(node, "code-2-3-library")
    assert not node.runtime.cells
