"""Nobody keeps more than it may."""

from __future__ import annotations

from quicksilver.trials.scopes.watch import ScopeWatcher


class Budgets(ScopeWatcher):
    name = "budgets"

    def on_look(self) -> None:
        for node in self.cluster.living():
            holdings = node.forwarder.holdings
            if holdings.bytes > holdings.bytes_max:
                self.fail(f"{node} keeps {holdings.bytes:,} of {holdings.bytes_max:,} bytes")
