"""Ten lines of asyncio: join a group, send to it, hear yourself and everybody else.

Run it in several windows: ``python examples/hello.py 127.0.0.1:7401``.
"""

import asyncio
import sys

import quicksilver


async def main() -> None:
    async with quicksilver.connect(sys.argv[1]) as node:
        group = await node.join("hello", echo=True)
        await group.send(f"hello from node {node.id}".encode())
        async for message in group:
            print(f"{message.sender}#{message.sequence} {message.payload.decode()}")
            if message.sender == node.id:
                break


asyncio.run(main())
