"""The short way: a platform, an object, functions at its endpoints; in asyncio and in threads."""

from __future__ import annotations

import asyncio
import queue
import threading
from pathlib import Path

import pytest

from quicksilver import live
from quicksilver.live.references.builder import external, primitive, registry
from quicksilver.live.references.check import UnsoundReferenceError
from quicksilver.live.references.xml import write
from quicksilver.live.runtime.errors import NoEndpointError
from quicksilver.live.services.local import LocalNetwork

TEXT = Path(__file__).parents[2] / "examples" / "live" / "shared-text-over-a-group.liveobject"
LONG_S = 20


def test_in_asyncio() -> None:
    async def run() -> tuple[list[str], int]:
        network = LocalNetwork()
        texts: list[str] = []
        arrived = asyncio.Event()

        def changed(text: str) -> None:
            texts.append(text)
            if text == "hello":
                arrived.set()

        async with live.platform(network=network) as one, live.platform(network=network) as two:
            async with await one.open(TEXT) as here, await two.open(TEXT) as there:
                there.attach("Text", {"changed": changed})
                here.attach("Text").port.edit(0, 0, "hello")
                async with asyncio.timeout(LONG_S):
                    await arrived.wait()
                assert not one.runtime.failures
            return texts, len(one.runtime.cells) + len(two.runtime.cells)

    texts, left = asyncio.run(run())
    assert texts[-1] == "hello"
    assert left == 0


def test_in_threads() -> None:
    network = LocalNetwork()
    arrived = threading.Event()
    with (
        live.platform_in_thread(network=network) as one,
        live.platform_in_thread(network=network) as two,
        one.open(TEXT) as here,
        two.open(TEXT) as there,
    ):
        there.attach("Text", {"changed": lambda text: arrived.set() if text == "hello" else None})
        text = here.attach("Text")
        text.say("edit", 0, 0, "hello")
        assert arrived.wait(LONG_S)
        assert here.endpoints == ["Editor"]
        text.close()
        assert here.endpoints == ["Editor", "Text"]
    assert not one.runtime.cells
    assert not text.is_connected


def test_the_registry_may_be_a_directory_or_a_mapping(tmp_path: Path) -> None:
    kept = primitive("quicksilver.group-channel", group="g")
    (tmp_path / "channel.liveobject").write_text(write(kept), encoding="utf-8")
    reference = external("channel", "ReliableChannel", registry())
    for entries in (tmp_path, {"channel": kept}):
        with (
            live.platform_in_thread(registry=entries) as platform,
            platform.open(reference) as channel,
        ):
            heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
            port = channel.attach(handlers={"receive": heard.put})
            port.say("send", b"hello")
            assert heard.get(timeout=LONG_S) == b"hello"


def test_what_is_wrong_is_raised() -> None:
    with live.platform_in_thread() as platform:
        with pytest.raises(UnsoundReferenceError, match="nothing built in"):
            platform.open(primitive("acme.nothing"))
        with pytest.raises(OSError, match="No such file"):
            platform.open("missing.liveobject")
        with platform.open(TEXT) as text, pytest.raises(NoEndpointError, match="Editor, Text"):
            text.attach()
        assert not platform.runtime.cells


def test_nothing_else_is_exported() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = live.nonsense  # type: ignore[attr-defined]
