"""A process of its own that publishes an echo, for tests; prints the address."""

from __future__ import annotations

import sys
import time

from quicksilver.live.references.builder import primitive
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.remote.publishing import Publisher
from quicksilver.live.runtime.runtime import Runtime
from tests.live.runtime.worlds import COMPONENTS


def main() -> None:
    executor = ThreadExecutor()
    runtime = Runtime(executor, components=COMPONENTS)
    proxy = executor.call(lambda: runtime.open(primitive("test.echo")))
    publisher = executor.call(lambda: Publisher(runtime, sys.argv[1]))
    print(executor.call(lambda: publisher.publish(proxy.endpoint("numbers"))), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
