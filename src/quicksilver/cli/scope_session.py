"""What ``scope session`` asks the manager of a topic's root, and how it waits for the change."""

from __future__ import annotations

import asyncio

from quicksilver.cli.problems import CommandError
from quicksilver.cli.scope_view import ask, request
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.messages import Flavour

LOOK_S = 0.2
"""How often the manager is asked how far the change is."""


async def change_session(address: str, topic: str, flavour: Flavour, timeout_s: float) -> str:
    """Begin a new session and wait until the one before is retired; return the new one.

    Raises:
        CommandError: the manager refuses, or it is not over in time; it says what is waited for.
        InspectError: the manager does not answer.
    """
    before = _newest(await _look(address, topic))
    answer = await request(address, say.ChangeSession(topic, flavour), say.SessionAsked)
    if answer.reason:
        raise CommandError(answer.reason)
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        facts = await _look(address, topic)
        sessions = facts.get("sessions", "")
        is_one = bool(sessions) and ", " not in sessions and "next_session" not in facts
        if is_one and _newest(facts) != before:
            return sessions
        if asyncio.get_running_loop().time() > deadline:
            waited = facts.get("waits_for") or "the change before it to be over"
            raise CommandError(
                f"{topic} has sessions {sessions} after {timeout_s:g} s: waiting for {waited}; "
                "the change goes on, `quicksilver scope explain` shows it"
            )
        await asyncio.sleep(LOOK_S)


async def _look(address: str, topic: str) -> dict[str, str]:
    rows = await ask(address, topic)
    return next((row.facts for row in rows if row.kind == "topic"), {})


def _newest(facts: dict[str, str]) -> str:
    """Return the number of the newest session, as text."""
    return facts.get("sessions", "").rpartition(", ")[2].partition(":")[0]
