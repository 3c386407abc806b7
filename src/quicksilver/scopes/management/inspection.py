"""What a manager says of itself: what its scope is made of, and who does what for a topic, why.

Answers are rows, some at a time: ``quicksilver scope tree`` and ``scope explain`` put those of
many managers together, going down from address to address. A manager tells of its own scope
only, since it knows of no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.policies.choice import describe_policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.arranging import Arranger, Node
from quicksilver.scopes.management.domains import Domain
from quicksilver.scopes.management.locating import key_of
from quicksilver.scopes.management.members import Members
from quicksilver.scopes.management.messages import (
    NO_DOMAIN,
    REASON_MAX,
    ROWS_MAX,
    Flavour,
    Row,
    Session,
    Source,
    Target,
)
from quicksilver.scopes.management.owners import Owners
from quicksilver.scopes.management.planning import Plan
from quicksilver.scopes.management.topics import NO_RECOVERY, Topic
from quicksilver.scopes.posts import Post
from quicksilver.scopes.routing import EVERY

PAGE_BYTES_MAX = 512 << 10

WAITED_MAX = 20
"""Members that are named as those whom a change of sessions waits for."""


@dataclass(frozen=True, slots=True)
class Account:
    """The parts of a manager that are told of."""

    name: str
    address: str
    is_dialable: bool
    members: Members
    owners: Owners
    arranger: Arranger
    node: Node | None
    count_traffic: Callable[[], Mapping[str, int]]


def answer_inspect(account: Account, asked: say.Inspect) -> say.Inspected:
    """Return a page of rows, from the one that was asked for on."""
    rows = _explain(account, asked.topic) if asked.topic else _tell(account)
    first = max(0, asked.first)
    page: list[Row] = []
    size = 0
    for row in islice(rows, first, None):
        size += len(say.encode(row))
        if page and (len(page) >= ROWS_MAX or size > PAGE_BYTES_MAX):
            return say.Inspected(asked.topic, first, tuple(page), first + len(page))
        page.append(row)
    return say.Inspected(asked.topic, first, tuple(page), 0)


def _row(kind: str, name: object, **facts: object) -> Row:
    """Return a row; what is unknown or empty is left out."""
    said = {key: str(value)[:REASON_MAX] for key, value in facts.items() if value not in (None, "")}
    return Row(kind, str(name)[:REASON_MAX], said)


def _yes(value: object) -> str:
    return "yes" if value else "no"


# The scope


def _tell(account: Account) -> Iterator[Row]:
    arranger = account.arranger
    if not arranger.is_settled:
        state = "waits for its members after a restart"
    elif not arranger.is_owner_settled:
        state = "waits for its owners after a restart"
    else:
        state = "at work"
    yield _row(
        "scope",
        account.name,
        role="scope" if account.node is None else "node",
        address=account.address,
        dialable=_yes(account.is_dialable),
        state=state,
        members=len(account.members.by_name),
        topics=len(arranger.topics),
        domains=len(arranger.domains.by_id),
        posts=len(arranger.held),
        version=say.PROTOCOL_VERSION,
    )
    traffic = account.count_traffic()
    if traffic:
        yield _row("traffic", account.name, **traffic)
    for owner in account.owners.by_address.values():
        yield _row(
            "owner",
            owner.name or "?",
            address=owner.address,
            state="connected" if owner.is_there else "away",
            above=" ".join(owner.above),
        )
    for member in account.members.by_name.values():
        yield _row(
            "member",
            member.name,
            role="member" if member.is_member else "client",
            address=member.address or "cannot be dialled",
            state="connected" if member.conn is not None else f"away: {member.why_away}",
            topics=len(member.confirmed),
            grace_s=f"{member.grace_s:g}",
        )
    for topic in arranger.topics.values():
        yield _describe_topic(account, topic)
    for domain in arranger.domains.by_id.values():
        yield _describe_domain(domain)
    for name, count in sorted(arranger.counters.items()):
        yield _row("counter", name, count=count)


def _describe_topic(account: Account, topic: Topic) -> Row:
    asked = account.owners.asked.get(topic.name)
    publishes = [m for m, part in topic.parts.items() if part.publishes]
    subscribes = [m for m, part in topic.parts.items() if part.subscribes]
    sessions = topic.sessions.sessions
    facts: dict[str, object] = {
        "root": _yes(topic.is_root),
        "owner": "" if asked is None else asked[0].name,
        "publishers": len(publishes),
        "subscribers": len(subscribes),
        "sessions": ", ".join(map(_describe_session, sessions)),
    }
    if topic.sessions.pending is not None:
        facts["next_session"] = _describe_flavour(topic.sessions.pending)
    plan = account.arranger.plans.get(topic.name)
    if plan is not None and plan.refused:
        channel, reason = next(iter(plan.refused.items()))
        facts["refused"] = f"{len(plan.refused)} channels, such as {channel}: {reason}"
    waited = _find_waited(topic)
    if waited:
        facts["waits_for"] = waited
    if account.node is None:
        number = account.arranger.domains.number_for(topic.name)
        facts["policy"] = describe_policy(topic.policy)
        facts["mechanism"] = "" if topic.where is None else topic.where.name
        facts["recovery"] = topic.protocol
        facts["domain"] = NO_DOMAIN if number is None else number
        facts["top"] = _yes(not topic.is_recovered_above)
    return _row("topic", topic.name, **facts)


def _describe_session(session: Session) -> str:
    text = f"{session.number}: {_describe_flavour(session.flavour)}"
    if session.flavour.ordering == "total":
        who = "nobody yet" if session.sequencer is None else session.sequencer.node
        text += f" as {who} says"
    return text + " (flushing)" * session.is_flushing


def _describe_flavour(flavour: Flavour) -> str:
    key = f" key {flavour.key}" if flavour.key else ""
    return f"{flavour.reliability} {flavour.ordering}{key}"


def _find_waited(topic: Topic) -> str:
    """Return which members a change of sessions waits for, and with what."""
    sessions = topic.sessions.sessions
    if len(sessions) < 2:
        return ""
    old, new = sessions[0], sessions[-1]
    behind = []
    for member, part in topic.parts.items():
        installed, flushed = topic.sessions.progress.get(member, (0, 0))
        is_behind = flushed < old.number if old.is_flushing else installed < new.number
        if part.is_member and is_behind:
            behind.append(member)
    what = f"to deliver all of {old.number}" if old.is_flushing else f"to install {new.number}"
    shown = " ".join(behind[:WAITED_MAX]) + " ..." * (len(behind) > WAITED_MAX)
    return f"{shown} {what}"[:REASON_MAX] if behind else ""


def _describe_domain(domain: Domain) -> Row:
    seats = " ".join(seat.member for seat in domain.seats)
    return _row(
        "domain",
        f"{domain.id.scope}:{domain.id.number}",
        of="members" if domain.is_part else "parts",
        protocol=domain.used_protocol,
        instead_of="" if domain.used_protocol == domain.protocol else domain.protocol,
        view=domain.view,
        leader=domain.seats[0].member if domain.seats else "",
        seats=len(domain.seats),
        members=seats if len(seats) < REASON_MAX else f"{seats[: REASON_MAX - 3]}...",
        topics=len(domain.topics),
        top=_yes(domain.is_top),
    )


# One topic


def _explain(account: Account, name: str) -> Iterator[Row]:
    topic = account.arranger.topics.get(name)
    if topic is None:
        yield _row("nothing", name, why=f"nobody in {account.name!r} takes part in it")
        return
    yield _describe_topic(account, topic)
    for origin, problem in topic.problems().items():
        whose = "all origins" if origin == EVERY else origin
        yield _row("policy refused", whose, why=problem)
    plan = account.arranger.plans.get(name)
    if plan is not None:
        yield from _explain_plan(account, topic, plan)
    if account.node is not None:
        yield from _explain_node(topic, account.node)
    domains = account.arranger.domains.of_topic(name)
    if not domains and account.node is None:
        why = "chosen" if topic.protocol == NO_RECOVERY else "nobody has a domain for it"
        yield _row("domain", "none", why=why)
    for domain in domains:
        yield _describe_domain(domain)
    for member, post in account.arranger.handing.all():
        if name in post.topics:
            yield _explain_agent(member, post)


def _explain_plan(account: Account, topic: Topic, plan: Plan) -> Iterator[Row]:
    relays = set(plan.relayed.values())
    policy = describe_policy(topic.policy)
    if EVERY in topic.problems():
        policy = f"not {policy}, which was refused"
    for member, work in plan.work.items():
        for source in work.sources:
            channel = source.channel
            if len(channel.source) > 1:
                why = f"{account.name} hands it to {member}: by lot among those who get messages"
            elif member in relays or channel.target[0] in relays:
                why = f"{policy}; somebody has to stand between those who cannot be dialled"
            else:
                why = policy
            yield _row("channel", channel, **_describe_source(source), why=why)
        for target in work.targets:
            if len(target.channel.target) > 1:
                why = f"{account.name} hands it to {member}: by lot among those who get messages"
                yield _row("way in", target.channel, **_describe_target(target), why=why)
        for medium in work.media:
            yield _row(
                "mechanism",
                f"{medium.where.mechanism} {medium.where.name}",
                scope=medium.scope,
                member=":".join(medium.path),
                why=policy if len(medium.path) == 1 else "handed down",
            )
    for (source_name, target_name), relay in plan.relayed.items():
        why = "neither end can be dialled"
        yield _row("relay", f"{source_name}-{target_name}", through=relay, why=why)
    for refused, reason in plan.refused.items():
        yield _row("refused", refused, why=reason)


def _describe_source(source: Source) -> dict[str, object]:
    filters = [] if source.filters == (ALL,) else [repr(rule) for rule in source.filters]
    return {
        "dials": "the source" if source.address else "the target",
        "address": source.address,
        "filters": " or ".join(filters),
        "slow": "waits" if source.waits else "misses messages",
    }


def _describe_target(target: Target) -> dict[str, object]:
    return {
        "dials": "the target" if target.address else "the source",
        "address": target.address,
    }


def _explain_node(topic: Topic, node: Node) -> Iterator[Row]:
    for source in topic.sources:
        state = node.carrier.state_of(key_of(source.channel), of_source=True)
        yield _row("source", source.channel, **_describe_source(source), state=state)
    for target in topic.targets:
        state = node.carrier.state_of(key_of(target.channel), of_source=False)
        yield _row("target", target.channel, **_describe_target(target), state=state)
    for medium in topic.media:
        yield _row("mechanism", f"{medium.where.mechanism} {medium.where.name}", scope=medium.scope)
    for post in node.hosting.posts():
        if topic.name in post.topics:
            found, missing = node.hosting.peers_of(post.domain)
            row = _explain_agent("", post)
            row.facts["found"] = " ".join(found)[:REASON_MAX]
            if missing:
                row.facts["searched"] = " ".join(missing)[:REASON_MAX]
            yield row


def _explain_agent(member: str, post: Post) -> Row:
    is_first = post.path[0] == post.seats[0].member
    return _row(
        "agent",
        f"{post.path[0]} in {post.domain.scope}:{post.domain.number}",
        handed=member,
        path=":".join(post.path),
        view=post.view,
        protocol=post.protocol,
        leads=_yes(is_first),
        why="it leads what the agent speaks for" if len(post.path) > 1 else "",
    )
