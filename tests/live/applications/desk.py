"""Several runtimes on one executor in virtual time, and what their users saw."""

from __future__ import annotations

import heapq
import itertools
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from quicksilver.live.components.applications import COMPONENTS
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.connections import Attachment
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.identity import Identity
from quicksilver.live.services.storage import SharedFiles
from quicksilver.stdx.rand import Rng
from tests.live.applications.memory_channels import CHANNELS, Hub


class _Timer:
    def __init__(self, step: Callable[[], None]) -> None:
        self.step: Callable[[], None] | None = step

    def cancel(self) -> None:
        self.step = None


class VirtualExecutor:
    """Time passes when it is told to."""

    is_here = True

    def __init__(self) -> None:
        self._now = 0.0
        self._steps: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self._now

    def post(self, step: Callable[[], None]) -> None:
        self.call_later(0.0, step)

    def call_later(self, delay_s: float, step: Callable[[], None]) -> _Timer:
        timer = _Timer(step)
        heapq.heappush(self._steps, (self._now + max(0.0, delay_s), next(self._numbers), timer))
        return timer

    def close(self) -> None:
        self._steps.clear()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self._now + seconds
        while self._steps and self._steps[0][0] <= until:
            self._now, _, timer = heapq.heappop(self._steps)
            if timer.step is not None:
                timer.step()
        self._now = until


class User:
    """Somebody at an endpoint: remembers what came, sends what is wanted."""

    def __init__(self, runtime: Runtime, proxy: Proxy, endpoint: str) -> None:
        self.runtime = runtime
        self.proxy = proxy
        self.seen: list[tuple[Any, ...]] = []
        self.attachment: Attachment = runtime.attach(
            proxy.endpoint(endpoint), lambda event, *values: self.seen.append((event, *values))
        )

    @property
    def port(self) -> Any:
        return self.attachment.port

    @property
    def component(self) -> Any:
        return self.proxy.cells[0].instance

    def got(self, event: str) -> list[Any]:
        """What came with an event: single values, or tuples of several."""
        found = [values for name, *values in self.seen if name == event]
        return [values[0] if len(values) == 1 else tuple(values) for values in found]

    def last(self, event: str) -> Any:
        return self.got(event)[-1]


class Desk:
    """The table that a test's users sit around."""

    def __init__(self, seed: int = 0, *, kinds: Iterable[type] = (*CHANNELS, *COMPONENTS)) -> None:
        self.executor = VirtualExecutor()
        self._kinds = tuple(kinds)  # reading them all takes a while
        self.hub = Hub(seed)
        self._files = SharedFiles(tempfile.gettempdir())
        self._identity = Identity(Rng(seed + 1).bits64)
        self._seeds = itertools.count(1 + 1000 * seed)

    def runtime(
        self, components: Iterable[type] = (), services: Mapping[type, object] | None = None
    ) -> Runtime:
        made = Runtime(
            self.executor,
            seed=next(self._seeds),
            services={
                Hub: self.hub,
                Identity: self._identity,
                SharedFiles: self._files,
                **(services or {}),
            },
        )
        made.add_components(self._kinds)
        made.add_components(components)
        return made

    def join(self, reference: Reference, endpoint: str, runtime: Runtime | None = None) -> User:
        """Open a reference on a node of its own and sit at its endpoint."""
        runtime = runtime if runtime is not None else self.runtime()
        task = runtime.open(reference)
        self.run(0.0)
        return User(runtime, task.result(), endpoint)

    def run(self, seconds: float = 1.0) -> None:
        self.executor.run(seconds)

    def disturb(self, group: str, message: bytes) -> None:
        """Have the first member of a group send bytes that make no sense."""
        self.hub.members(group)[0].channel_send(message)
