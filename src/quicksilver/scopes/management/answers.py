"""What a manager answers to nodes that ask where a channel ends or where an agent is.

It knows of its own scope only: it names the member that has the end or the agent, and that
member's manager knows more; a node's manager names the node. Nobody is told of channels that
no owner has announced, nor of agents that nobody has posted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.handing import Handing
from quicksilver.scopes.management.messages import Referral
from quicksilver.scopes.management.planning import choose_worker, handed_on
from quicksilver.scopes.management.topics import Topic
from quicksilver.scopes.posts import AgentKey, Post

ChannelAnswer = say.OfferChannel | say.ChannelRefused
AgentAnswer = say.OfferAgent | say.AgentRefused


def answer_channel(
    scope: str,
    place: Link | None,
    topic: Topic | None,
    addresses: Mapping[str, str],
    asked: say.RequestChannel,
) -> tuple[ChannelAnswer, bool]:
    """Return the answer, and whether such a channel is known; ``place``: of a node."""
    channel, of_source = asked.channel, asked.of_source
    find = None if topic is None else topic.find_source if of_source else topic.find_target
    if topic is None or find is None or find(channel) is None:
        reason = f"{scope!r} was not told of this channel"
        return say.ChannelRefused(channel, reason, of_source), False
    if place is not None:
        return say.OfferChannel(channel, place, of_source), True
    worker = choose_worker(topic, channel, addresses, dialable=True)
    if worker is None:
        reason = f"nobody in {scope!r} who can be dialled takes it at the moment"
        return say.ChannelRefused(channel, reason, of_source), True
    where = Referral(addresses[worker])
    return say.OfferChannel(handed_on(channel, worker, of_source=of_source), where, of_source), True


def answer_agent(
    scope: str,
    place: Link | None,
    hosted: Iterable[Post],
    handing: Handing,
    addresses: Mapping[str, str],
    asked: say.RequestAgent,
) -> tuple[AgentAnswer, bool]:
    """Return the answer, and whether such an agent is known; ``hosted``: by a node."""
    domain, path = asked.domain, asked.path
    if place is not None:
        if any(post.domain == domain and post.path == path for post in hosted):
            return say.OfferAgent(domain, path, place), True
        return say.AgentRefused(domain, path, f"{scope!r} hosts no such agent"), False
    found = handing.find(AgentKey(domain, path[0]))
    if found is None or found[1].path[: len(path)] != path:
        return say.AgentRefused(domain, path, f"{scope!r} was not told of this agent"), False
    member, post = found
    address = addresses.get(member, "")
    # A member speaks for itself: it was asked for by its name alone.
    known = post.path if len(post.path) > len(path) else path
    if not address or known == path:
        return say.AgentRefused(domain, path, f"{member!r} cannot be dialled"), True
    return say.OfferAgent(domain, known, Referral(address)), True
