"""Views: who is in a group, as numbered events."""

import asyncio
import sys

import quicksilver


async def watch(group: quicksilver.Group, size: int) -> None:
    """Print views until one has ``size`` members."""
    async for view in group.views():
        print(f"view {view.number}: {len(view.members)} members")
        if len(view.members) == size:
            return


async def main(gms: str) -> None:
    async with quicksilver.connect(gms) as first:
        group = await first.join("room")
        async with quicksilver.connect(gms) as second:
            await second.join("room")
            await watch(group, 2)
        await watch(group, 1)
        print("alone again")


asyncio.run(main(sys.argv[1]))
