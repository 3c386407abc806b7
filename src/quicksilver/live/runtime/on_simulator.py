"""Live objects on simulated nodes: an executor in the virtual time of a host.

    cluster = Cluster(seed=7)
    (node,) = cluster.start(1)
    runtime = runtime_on(node)
    runtime.executor.post(lambda: runtime.open(reference))
    cluster.run(5.0)

What objects do is work of the host's process: it waits for the processor, stops
while the process is frozen, and ends when it is killed. The same seed gives the
same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.identity import Identity
from quicksilver.live.services.on_sim import SimGroups
from quicksilver.trials.node import SimNode


class _Timer:
    __slots__ = ("step",)

    def __init__(self, step: Callable[[], None]) -> None:
        self.step: Callable[[], None] | None = step

    def cancel(self) -> None:
        self.step = None


class SimExecutor:
    """Runs steps in the turns of a simulated host."""

    def __init__(self, node: SimNode) -> None:
        self._host = node.host
        self._events = node.cluster.events
        self._is_closed = False

    def now(self) -> float:
        """The host's clock."""
        return self._host.clock()

    @property
    def is_here(self) -> bool:
        """There is one thread in a simulation."""
        return True

    def post(self, step: Callable[[], None]) -> None:
        """Run a step soon, after those posted before, if the process lives that long."""
        if not self._is_closed:
            self._host.submit(step)

    def call_later(self, delay_s: float, step: Callable[[], None]) -> _Timer:
        """Run a step after some time."""
        timer = _Timer(step)

        def run() -> None:
            if timer.step is not None and not self._is_closed:
                timer.step()

        def due() -> None:
            if timer.step is not None:
                self.post(run)

        self._events.after(max(0.0, delay_s) / (1.0 + self._host.drift), due)
        return timer

    def close(self) -> None:
        """Run nothing more."""
        self._is_closed = True


def runtime_on(
    node: SimNode,
    *,
    components: tuple[type, ...] | None = None,
    services: Mapping[type, object] | None = None,
    **options: Any,
) -> Runtime:
    """Return a runtime whose objects live on a simulated node and use its groups.

    Without ``components`` it knows all of the library. Its chance comes from the
    cluster's seed and the node's number.
    """
    from quicksilver.live.components.library import equip

    executor = SimExecutor(node)
    rng = node.cluster.rng.derive(f"live objects {node.index}.{node.life}")
    runtime = Runtime(executor, seed=rng.bits64(), services=services, **options)
    runtime.provide(Groups, SimGroups(node, executor))
    runtime.provide(Identity, Identity(rng.bits64))
    if components is None:
        equip(runtime)
    else:
        runtime.add_components(components)
    return runtime
