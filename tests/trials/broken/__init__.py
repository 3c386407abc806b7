"""Engines that are broken on purpose, to prove that the checks can see.

Each is the real code with one mistake in it. A check that lets all of them pass
is no check; a mistake that no check finds shows where one is missing.
"""

from __future__ import annotations

from tests.trials.broken.breaking import Broken
from tests.trials.broken.driving import DRIVING
from tests.trials.broken.receiving import RECEIVING
from tests.trials.broken.recovering import RECOVERING
from tests.trials.broken.sending import SENDING
from tests.trials.broken.serving import SERVING
from tests.trials.broken.sharing import SHARING

__all__ = ["BROKEN", "Broken"]

BROKEN: dict[str, Broken] = {
    broken.name: broken
    for broken in (*RECEIVING, *RECOVERING, *SENDING, *SERVING, *DRIVING, *SHARING)
}
"""All of them, by name."""
