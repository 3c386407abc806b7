"""A process that opens examples over a real GMS, uses them when told, and says what it hears."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from quicksilver import live
from quicksilver.live.components.platform.hosting import Host
from quicksilver.live.references.xml import load
from tests.live.applications.test_examples import DEEDS, EXAMPLES

NOTE = (EXAMPLES / "shared-text.liveobject").read_text(encoding="utf-8")
ALL_DEEDS: dict[str, tuple[str, str, tuple[Any, ...], str]] = {
    **DEEDS,
    "encrypted-text": ("Text", "edit", (0, 0, "hello"), "changed"),
    "checkpointed-channel": ("CheckpointedChannel", "send", (b"hello",), "receive"),
    "total-order": ("CheckpointedChannel", "send", (b"hello",), "receive"),
    "persistent-channel": ("CheckpointedChannel", "send", (b"hello",), "receive"),
    "group-channel": ("ReliableChannel", "send", (b"hello",), "receive"),
    "udp-channel": ("UnreliableChannel", "send", (b"hello",), "receive"),
    "loss-recovery": ("ReliableChannel", "send", (b"hello",), "receive"),
    "folder": ("editing", "put", ("name", load(EXAMPLES / "lock.liveobject").reference), "changed"),
    "lock": ("Lock", "acquire", (), "held"),
    "tunnel": ("UnreliableChannel", "send", (b"hello",), "receive"),
    "presence": ("Presence", "announce", ("Ann", "here"), "present"),
}
"""Example, endpoint, what is done there, and what others hear of it."""


async def run(gms: str, folder: Path) -> None:
    """Open all, then do everything each time a line comes in."""
    loop = asyncio.get_running_loop()

    def say(**news: Any) -> None:
        print(json.dumps(news), flush=True)

    async with live.platform(
        gms,
        files=folder,
        store=folder / "store",
        keys=folder.parent / "keys",
        host=Host(name=folder.name),
        on_failure=lambda failure: say(failure=str(failure)),
        interface="lo",
    ) as platform:
        ports: dict[str, Any] = {}
        for name, (endpoint, *_) in ALL_DEEDS.items():
            opened = await platform.open(EXAMPLES / f"{name}.liveobject", name)

            def hear(event: str, *values: Any, name: str = name) -> None:
                say(name=name, event=event)
                if event == "capture":
                    ports[name][1].checkpoint(values[0], b"")

            ports[name] = (opened, opened.attach(endpoint, hear).port)
        say(ready=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            for name, (_, event, values, _told) in ALL_DEEDS.items():
                given = [NOTE if value == "NOTE" else value for value in values]
                getattr(ports[name][1], event)(*given)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
