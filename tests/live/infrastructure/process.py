"""A process of the integration tests: a node with live objects, told what to do by JSON lines."""

from __future__ import annotations

import json
import sys
from typing import Any

from quicksilver import sync
from quicksilver.live.components.library import equip
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.on_node import NodeGroups
from quicksilver.live.services.storage import FileStorage, Storage
from tests.live.infrastructure.kit import User, checkpointed


def main() -> None:
    settings = json.loads(sys.argv[1])
    executor = ThreadExecutor()
    runtime = Runtime(executor)
    equip(runtime)
    if settings.get("directory"):
        runtime.provide(Storage, FileStorage(settings["directory"]))
    user = User(settings["name"])
    with sync.connect(settings["gms"], name=settings["name"], interface="lo") as node:
        runtime.provide(Groups, NodeGroups(node, executor))
        reference = checkpointed(**settings.get("channel", {}))
        proxy = executor.call(lambda: runtime.open(reference, settings["name"]))
        executor.call(lambda: user.begin(runtime, proxy))
        say(ready=True)
        for line in sys.stdin:
            order = json.loads(line)
            match order["do"]:
                case "send":
                    executor.call(lambda order=order: send(user, order["count"]))  # type: ignore[misc]
                    say(sent=user.sent)
                case "report":
                    say(
                        items=user.items,
                        starts=user.starts,
                        me=user.me,
                        people=user.people[-1] if user.people else [],
                        failures=[str(one) for one in runtime.failures],
                    )
                case "exit":
                    executor.call(runtime.close)
                    break
    executor.close()
    say(closed=True)


def send(user: User, count: int) -> None:
    for _ in range(count):
        user.send(f"{user.name}/{user.sent}")
        user.sent += 1


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
