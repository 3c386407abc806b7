"""An application in a process of its own: ``python -m tests.controller.program SPEC``.

It joins a group behind a controller, counts what comes, and answers each line of its input with
what it has. ``SPEC`` is JSON: path, group, overflow.
"""

from __future__ import annotations

import json
import sys
import threading

from quicksilver import sync
from quicksilver.node.errors import QuicksilverError


def main() -> None:
    spec = json.loads(sys.argv[1])
    node = sync.connect(f"unix:{spec['path']}")
    group = node.join(spec["group"], overflow=spec["overflow"])
    state = {"count": 0, "is_in_order": True, "error": ""}

    def read() -> None:
        last = -1
        try:
            while True:
                for message in group.receive_batch():
                    number = int.from_bytes(message.payload[:8], "little")
                    state["is_in_order"] = state["is_in_order"] and number > last
                    last = number
                    state["count"] += 1
        except QuicksilverError as error:
            state["error"] = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    print(json.dumps({"event": "ready"}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({**state, "dropped": group.dropped}), flush=True)


if __name__ == "__main__":
    main()
