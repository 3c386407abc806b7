"""Names with levels: one subscription to many groups, those to come included."""

import asyncio
import sys

import quicksilver


async def main(gms: str) -> None:
    async with quicksilver.connect(gms) as watcher, quicksilver.connect(gms) as feed:
        prices = await watcher.join("prices.>")
        for name in ("prices.eu", "prices.us", "prices.us.spot"):
            group = await feed.open(name)
            await group.send(b"1.08", key="EURUSD")
        for _ in range(3):
            message = await prices.receive(timeout=5)
            print(message.group, message.key, message.payload)
        print("watches", *prices.groups)


asyncio.run(main(sys.argv[1]))
