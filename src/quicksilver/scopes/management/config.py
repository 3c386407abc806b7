"""How a scope manager behaves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Config:
    """How one manager behaves; managers may differ."""

    alive_s: float = 0.5
    """How often members and owners say that they are there."""
    silent_s: float = 3.0
    """The connection of whoever says nothing for so long is ended; whoever connects has as long
    to say what for."""
    yield_s: float = 1.5
    """A member that says nothing for so long gives way to one that registers under its name."""
    grace_s: float = 0.5
    """How long owners keep this scope after its connection has ended, and what it wanted after
    it came back. A scope of many nodes goes on without its manager: there it is longer, such as
    20 s, and a restart moves nothing."""
    grace_s_max: float = 60.0
    """What members may ask for as theirs."""
    settle_s: float = 6.0
    """A manager that starts again, with records of its members, waits so long at most for all
    of them to say what they want before it gives orders, and as long again for its owners'.
    More than ``retry_s_max`` of the members, and less than its own ``grace_s``."""
    dissolve_s: float = 60.0
    """How long a topic keeps a recovery domain of its own after only one part of the scope is
    left that takes part in it. To give it up costs a message to the owner."""
    waits: bool = True
    """Whether a target that is slow holds up publishers, or misses messages."""
    multicast: str = ""
    """The addresses that belong to this scope, as in ``239.192.7.0/24:7400``; for the policy
    ``multicast``. No other scope that its messages can reach should have them."""
    retry_s: float = 0.2
    retry_s_max: float = 5.0
    """How soon an owner or a channel is tried again, at first and in the end."""
    answer_s: float = 3.0
    """How long an answer is waited for when somebody is asked for a channel."""
    collect_s: float = 0.01
    """Changes are collected for so long before it is worked out what members have to do."""

    def pause_s(self, tries: int) -> float:
        """Return how long to wait after so many tries."""
        return min(self.retry_s_max, self.retry_s * 2.0 ** min(tries, 16))
