"""A text that several processes edit at once: what you type is appended, the text is printed.

    quicksilver gms
    python examples/live/shared_text.py 127.0.0.1:7401

Run it in several windows. The object is described by ``shared-text.liveobject``; any
other reference to a text does as well, as a second argument.
"""

import asyncio
import sys
from pathlib import Path

import quicksilver
from quicksilver.live.components.library import equip
from quicksilver.live.references.xml import load
from quicksilver.live.runtime.on_asyncio import AsyncioExecutor
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.on_node import NodeGroups

REFERENCE = Path(__file__).with_name("shared-text.liveobject")


async def main(gms: str, reference: Path) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    async with quicksilver.connect(gms) as node:
        executor = AsyncioExecutor()
        runtime = Runtime(executor, seed=node.id)
        runtime.provide(Groups, NodeGroups(node, executor))
        equip(runtime)
        text = ""

        def show(changed: str) -> None:
            nonlocal text
            text = changed
            print("--\n" + text, flush=True)

        with await executor.future(runtime.open(load(reference))) as note:
            user = runtime.attach(note.endpoint("Text"), {"changed": show})
            while line := await lines.readline():
                user.port.edit(len(text), 0, line.decode())
            await node.flush()
        runtime.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else REFERENCE))
