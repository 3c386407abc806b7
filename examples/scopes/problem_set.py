"""A professor in the cafeteria sends a problem set to students all over the campus.

The cafeteria, the library and a department are scopes of their own: each has a manager, its own
way to carry messages and its own way to recover lost ones. One topic spans them all (dissertation
3.2.9). A second topic, the cafeteria's menu, never leaves the cafeteria.

python examples/scopes/problem_set.py
"""

import asyncio
from contextlib import AsyncExitStack

import quicksilver
from quicksilver.scopes.server import ScopeOptions, serve_scope


async def start_scope(stack: AsyncExitStack, options: ScopeOptions) -> str:
    """Run a scope's manager in this program; `quicksilver scope run` does it in a process."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_scope(options, stop, ready.set_result))

    async def end() -> None:
        stop.set()
        await serving

    stack.push_async_callback(end)
    host, port = await ready
    return f"{host}:{port}"


async def main() -> None:
    async with AsyncExitStack() as stack:
        campus = await start_scope(stack, ScopeOptions(name="campus", port=0, recovery="ring"))
        places = {}
        for name, policy, recovery in (
            ("campus/cafeteria", "star", "gossip:2"),
            ("campus/library", "tree:2", "tree:2"),
            ("campus/physics", "mesh:2", "ring"),
        ):
            places[name] = await start_scope(
                stack,
                ScopeOptions(name=name, port=0, owners=(campus,), policy=policy, recovery=recovery),
            )
        students = []
        for place in ("campus/library", "campus/library", "campus/physics", "campus/physics"):
            node = await stack.enter_async_context(quicksilver.connect(places[place]))
            students.append((place, await node.join("campus/problems")))
        professor = await stack.enter_async_context(quicksilver.connect(places["campus/cafeteria"]))
        guest = await stack.enter_async_context(quicksilver.connect(places["campus/cafeteria"]))
        menu = await guest.join("campus/cafeteria/menu")
        await (await professor.open("campus/cafeteria/menu")).send(b"soup")
        problems = await professor.open("campus/problems")
        await problems.send(b"prove it")
        await professor.flush()
        print("menu:", (await menu.receive(timeout=30)).payload.decode())
        for place, group in students:
            message = await group.receive(timeout=30)
            print(f"{place} got: {message.payload.decode()}")


asyncio.run(main())
