"""Engines that are broken on purpose, to prove that the checks can see.

Each is the real code with one mistake in it. A check that lets all of them pass
is no check; a mistake that no check finds shows where one is missing.
"""

from __future__ import annotations

from quicksilver.trials.broken.breaking import Broken
from quicksilver.trials.broken.driving import DRIVING
from quicksilver.trials.broken.receiving import RECEIVING
from quicksilver.trials.broken.recovering import RECOVERING
from quicksilver.trials.broken.sending import SENDING
from quicksilver.trials.broken.serving import SERVING

__all__ = ["BROKEN", "Broken"]

BROKEN: dict[str, Broken] = {
    broken.name: broken for broken in (*RECEIVING, *RECOVERING, *SENDING, *SERVING, *DRIVING)
}
"""All of them, by name."""
