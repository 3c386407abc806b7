"""Request and reply: members that serve a group answer whoever asks."""

import asyncio
import sys

import quicksilver


async def main(gms: str) -> None:
    async with quicksilver.connect(gms) as server, quicksilver.connect(gms) as client:
        squares = await server.join("squares")

        async def square(message: quicksilver.Message[bytes]) -> bytes:
            return b"%d" % (int(message.payload) ** 2)

        await squares.serve(square)

        group = await client.open("squares")
        for number in range(1, 4):
            answer = await group.request(b"%d" % number, timeout=5)
            print(f"{number} squared is {answer.payload.decode()}")
        try:
            await group.request(b"seven", timeout=5)
        except quicksilver.RequestFailedError as error:
            print(f"refused: {error.text}")


asyncio.run(main(sys.argv[1]))
