from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.scopes.management import messages as say

if TYPE_CHECKING:
    from quicksilver.scopes.management.manager import ScopeManager


def answer_inspect(manager: ScopeManager, asked: say.Inspect) -> say.Inspected:
    return say.Inspected(asked.topic, asked.first, (), 0)
