"""Groups overlap: each node hears exactly what it joined, and pays for little else."""

import asyncio
import sys

import quicksilver

WISHES = {"ann": ["news", "sport"], "bob": ["sport", "music"], "eve": ["news", "sport", "music"]}


async def read(name: str, groups: list[quicksilver.Group]) -> None:
    """Print one message of each group."""
    for group in groups:
        async for message in group:
            print(f"{name} hears {message.payload.decode()}")
            break


async def main(gms: str) -> None:
    async with (
        quicksilver.connect(gms) as ann,
        quicksilver.connect(gms) as bob,
        quicksilver.connect(gms) as eve,
        quicksilver.connect(gms) as radio,
    ):
        nodes = {"ann": ann, "bob": bob, "eve": eve}
        joined = {name: await nodes[name].join_all(wish) for name, wish in WISHES.items()}
        for group in await radio.open_all(["news", "sport", "music"]):
            await group.send(group.name.encode())
        await asyncio.gather(*(read(name, groups) for name, groups in joined.items()))


asyncio.run(main(sys.argv[1]))
