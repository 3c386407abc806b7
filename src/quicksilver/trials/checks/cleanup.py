"""Nothing is left in the end."""

from __future__ import annotations

from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

LEVELS = ("pending_bytes", "queued_bytes", "cache_bytes", "ahead_bytes")


class Cleanup(Watcher):
    """In the end no node keeps anything of any message, nor of any old view.

    "Everything is eventually cleaned up" (DESIGN.md, semantics; dissertation
    4.2.1 C: stable messages are purged from caches). When all has been quiet for
    long, an engine that runs has nothing pending, queued, cached or waiting, and
    no state of views that are over.
    """

    name = "cleanup"

    def on_settled(self) -> None:
        for node in self.cluster.alive():
            self._check(node)

    def _check(self, node: SimNode) -> None:
        engine = node.engine
        stats = engine.stats()
        for level in LEVELS:
            if stats[level]:
                self.fail(f"{node}: {level} is {stats[level]} in the end")
        # What statistics do not tell is looked up inside.
        if engine.intake.early.bytes:
            self.fail(f"{node}: packets of unknown views wait in the end")
        current = {int(r): view.view for r, view in engine.environment.directory.regions.items()}
        for region, view in sorted(engine._regions):
            if current.get(region) != view:
                self.fail(f"{node}: view {view} of region {region} is over and still there")
        for key, stream in sorted(engine.environment.regions.streams.items()):
            if (stream.region.id, stream.region.number) not in engine._regions:
                self.fail(f"{node}: stream {key.hex()} outlived its region view")
            if stream.missing or stream.lost.requested or stream.copies.packets:
                self.fail(f"{node}: stream {key.hex()} still misses or keeps packets")
        kept = (engine.environment.kept.used, engine.environment.copies_for_absent.used)
        if any(kept) or node.disk.used:
            self.fail(f"{node}: {kept} bytes and {node.disk.used} on disk are kept for the absent")
        if engine.outgoing.streams.closing:
            closing = sorted(engine.outgoing.streams.closing)
            self.fail(f"{node}: streams {closing} are closed and not finished")
