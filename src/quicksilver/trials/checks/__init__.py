"""What must hold of a cluster: one property a file.

Every check watches from the start and notes a violation at once where
it can, or when a trial has settled. ``ALL`` has them in the order in which they
are worth reading.
"""

from __future__ import annotations

from quicksilver.trials.checks.answers import Answers
from quicksilver.trials.checks.cleanup import Cleanup
from quicksilver.trials.checks.complete import Complete
from quicksilver.trials.checks.content import Content
from quicksilver.trials.checks.convergence import Convergence
from quicksilver.trials.checks.doubt import Doubt
from quicksilver.trials.checks.duplicates import Duplicates
from quicksilver.trials.checks.envelopes import Envelopes
from quicksilver.trials.checks.fifo import Fifo
from quicksilver.trials.checks.gaps import Gaps
from quicksilver.trials.checks.joins import Joins
from quicksilver.trials.checks.members_only import MembersOnly
from quicksilver.trials.checks.memory import Memory
from quicksilver.trials.checks.proof import Proof
from quicksilver.trials.checks.queues import Queues
from quicksilver.trials.checks.quiescence import Quiescence
from quicksilver.trials.checks.retained import Retained
from quicksilver.trials.checks.survivors import Survivors
from quicksilver.trials.checks.tokens import Tokens
from quicksilver.trials.checks.views import Views
from quicksilver.trials.checks.views_told import ViewsTold
from quicksilver.trials.checks.vouched import Vouched
from quicksilver.trials.watch import Watcher

ALL: tuple[type[Watcher], ...] = (
    Fifo,
    Duplicates,
    Gaps,
    Content,
    Envelopes,
    Queues,
    Retained,
    Answers,
    MembersOnly,
    Joins,
    Complete,
    Survivors,
    Vouched,
    Views,
    ViewsTold,
    Cleanup,
    Quiescence,
    Memory,
    Tokens,
    Proof,
    Doubt,
    Convergence,
)
