"""A queue of workers: each job goes to one of them. A late one gets the last value first."""

import asyncio
import sys

import quicksilver


async def work(name: str, jobs: quicksilver.Group[bytes], done: asyncio.Queue[str]) -> None:
    async for job in jobs:
        await done.put(f"{name} did {job.payload.decode()}")


async def main(gms: str) -> None:
    async with (
        quicksilver.connect(gms) as boss,
        quicksilver.connect(gms) as one,
        quicksilver.connect(gms) as two,
    ):
        done: asyncio.Queue[str] = asyncio.Queue()
        workers = [
            asyncio.create_task(work(name, await node.join("jobs", queue="workers"), done))
            for name, node in (("one", one), ("two", two))
        ]
        jobs = await boss.open("jobs")
        for number in range(6):
            await jobs.send(b"job %d" % number)
        for _ in range(6):
            print(await done.get())
        for worker in workers:
            worker.cancel()

        state = await boss.open("state", retain=1)
        await state.send(b"busy")
        await state.send(b"finished")
        late = await one.join("state")
        message = await late.receive(timeout=5)
        print("retained:", message.payload.decode())


asyncio.run(main(sys.argv[1]))
