"""A typed group: structs go in, validated structs come out.

Two nodes in one program, to keep the example short.
"""

import asyncio
import sys

import msgspec

import quicksilver


class Quote(msgspec.Struct, frozen=True):
    """The price of something, in its currency."""

    symbol: str
    price: float


async def main(gms: str) -> None:
    async with quicksilver.connect(gms) as desk, quicksilver.connect(gms) as feed:
        prices = await desk.join("quotes", Quote)
        out = await feed.open("quotes", Quote)
        await out.send(Quote("EURUSD", 1.0842))
        await out.send(Quote("EURCHF", 0.9391))
        async for message in prices:
            print(message.payload.symbol, message.payload.price)
            if message.sequence == 1:
                break


asyncio.run(main(sys.argv[1]))
