"""What a node holds, by budget: how much of each is used, and what it never exceeds.

Whatever is kept because somebody sent something belongs to one of these, and each has a
limit that follows from the configuration and from the views that the GMS gave this node.
Packets are counted by the byte; of tables the entries are counted, at what one takes with
its keys and ranges. What the application asked for itself (groups that it joined, messages
that it has not taken) has limits of its own, next to the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from quicksilver.multicast import feeds, peers
from quicksilver.multicast.receiving.lost import ASKED_MAX
from quicksilver.multicast.receiving.relaying import RELAY_BYTES_MAX
from quicksilver.multicast.sending.lane import BURST_BYTES
from quicksilver.recovery.ring import PASSING_MAX
from quicksilver.wire.control import RANGES_MAX
from quicksilver.wire.packets import MESSAGE_BYTES_MAX

if TYPE_CHECKING:
    from quicksilver.multicast.engine import Engine

STREAM_BYTES = 4 << 10
"""A stream's objects, and its entries in the tables of its region."""

ASKED_BYTES = 256
"""A packet that was asked for."""

RANGE_BYTES = 96
"""A range of packets in what members said of a stream."""

TOKEN_BYTES = 640 << 10
"""A token that waits to be passed on, as objects: twenty times its bytes on the wire."""


class Level(NamedTuple):
    """One budget."""

    used: int
    limit: int


def levels_of(engine: Engine) -> dict[str, Level]:
    """Return every budget of an engine by name, in bytes."""
    env, config = engine.environment, engine.config
    live = engine.outgoing.streams.live()
    window = config.window_bytes_max + BURST_BYTES + config.packet_bytes
    lanes = engine.outgoing.lanes()
    regions = engine.regions()
    streams = [stream for region in regions for stream in region.streams.values()]
    streams_max = sum(region.streams_max() for region in regions)
    ranges = sum(each.count_ranges() for each in engine.recoveries())
    agents = [agent for each in engine.recoveries() for agent in each.stack.agents]
    return {
        "queued": Level(
            sum(lane.held_bytes() for lane in lanes), sum(lane.held_bytes_max() for lane in lanes)
        ),
        "waiting": Level(
            engine.outgoing.waiting.bytes, engine.outgoing.waiting.limit + MESSAGE_BYTES_MAX
        ),
        "sent": Level(engine.outgoing.pending_bytes(), window * len(live)),
        "kept": Level(env.kept.used, env.kept.limit),
        "cache": Level(env.copies.used, env.copies.limit),
        "ahead": Level(env.waiting.used, env.waiting.limit),
        "assembly": Level(env.assembly.used, env.assembly.limit),
        "unknown": Level(engine.intake.early.bytes, config.unknown_bytes_max),
        "streams": Level(
            STREAM_BYTES * len(streams) + ASKED_BYTES * sum(len(s.lost.requested) for s in streams),
            (STREAM_BYTES + ASKED_BYTES * ASKED_MAX) * streams_max,
        ),
        "reports": Level(
            RANGE_BYTES * ranges,
            RANGE_BYTES * RANGES_MAX * (1 + 2 * len(agents)) * streams_max,
        ),
        "tokens": Level(
            TOKEN_BYTES * sum(agent.passing_count() for agent in agents),
            TOKEN_BYTES * PASSING_MAX * len(agents),
        ),
        "control": Level(env.control.used_bytes(), feeds.CONTROL_BYTES_MAX),
        "repairs": Level(env.repairs.used_bytes(), feeds.REPAIRS_BYTES_MAX),
        "relays": Level(env.relays.used_bytes, RELAY_BYTES_MAX),
        "peers": Level(env.peers.used_bytes(), peers.BYTES_MAX),
    }
