"""What must hold of a tree of scopes: one property a file."""

from __future__ import annotations

from quicksilver.trials.scopes.checks.budgets import Budgets
from quicksilver.trials.scopes.checks.complete import Complete
from quicksilver.trials.scopes.checks.content import Content
from quicksilver.trials.scopes.checks.one_order import OneOrder
from quicksilver.trials.scopes.checks.order import Order
from quicksilver.trials.scopes.checks.quiescence import Quiescence
from quicksilver.trials.scopes.checks.stability import Stability
from quicksilver.trials.scopes.checks.views import Views
from quicksilver.trials.scopes.watch import ScopeWatcher

ALL: tuple[type[ScopeWatcher], ...] = (
    Order,
    Content,
    Complete,
    Stability,
    OneOrder,
    Views,
    Budgets,
    Quiescence,
)
