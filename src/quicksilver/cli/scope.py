"""``quicksilver scope``: managers of scopes, and what they look like from outside."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError
from quicksilver.cli.scope_demo import demo

if TYPE_CHECKING:
    import asyncio

    from quicksilver.scopes.server import ScopeOptions


class _RunByDefault(TyperGroup):
    """``quicksilver scope --name lan1 …`` runs a manager, as ``quicksilver scope run`` does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Run the manager of a scope, or look at a hierarchy of scopes. `quicksilver scope` with "
    "options and no command does the same as `quicksilver scope run`.",
)


@app.command()
def run(
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="SCOPE",
            help="Name of the scope, a path: campus, or campus/lan1.",
            show_default=False,
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address to listen on. 0.0.0.0 listens on all addresses of this machine, which "
            "members on other machines need; port 0 takes a free one.",
        ),
    ] = "127.0.0.1:7501",
    owner: Annotated[
        list[str] | None,
        typer.Option(
            "--owner",
            metavar="HOST:PORT",
            help="Manager of a scope that this one becomes a member of. Can be repeated.",
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="How messages travel between the members: star, chain, tree:N, mesh:N, stripes:N, "
            "gossip:N, multicast, or regions (by multicast, once to all who have the same topics).",
        ),
    ] = "star",
    recovery: Annotated[
        str,
        typer.Option(
            "--recovery",
            metavar="PROTOCOL",
            help="How members recover messages that were lost on the way to them: ring, star, "
            "tree:N, gossip:N, requests, or none. ring:5 has rings of about five members, and "
            "rings of rings.",
        ),
    ] = "none",
    multicast: Annotated[
        str,
        typer.Option(
            "--multicast",
            metavar="NETWORK:PORT",
            help="Multicast addresses of this scope, for --policy multicast and regions. "
            "Example: 239.192.7.0/24:7400.",
            show_default=False,
        ),
    ] = "",
    state: Annotated[
        str,
        typer.Option(
            "--state",
            metavar="FILE",
            help="SQLite file that keeps what must survive a restart. With :memory: nothing is "
            "kept.",
        ),
    ] = ":memory:",
    behind_nat: Annotated[
        bool,
        typer.Option(
            "--behind-nat",
            help="Say to owners that nobody can connect to this manager; it connects to them.",
        ),
    ] = False,
    gms: Annotated[
        str,
        typer.Option(
            "--gms",
            metavar="HOST:PORT",
            help="Put the network of this GMS under the scope: also be a gateway, which takes "
            "messages of its nodes out and brings others in. The nodes do not change.",
            show_default=False,
        ),
    ] = "",
    verbose: options.Verbose = 0,
    log_json: options.LogJson = False,
    as_json: options.Json = False,
) -> int:
    """Manage a scope: its members, its topics and how messages travel between the members.

    Nodes and managers of smaller scopes connect to it. Messages never pass through it, and go on
    while it is away. Runs until Ctrl-C or SIGTERM.
    """
    from quicksilver.cli.logs import start_logging
    from quicksilver.lab.ending import interruption
    from quicksilver.net.serving import run_until_signal
    from quicksilver.net.streams import ListenError
    from quicksilver.scopes.dissemination.policies.choice import BadPolicyError, parse_policy
    from quicksilver.scopes.names import find_scope_name_problem
    from quicksilver.scopes.server import ScopeOptions, serve_scope

    start_logging(verbose, as_json=log_json)
    problem = find_scope_name_problem(name)
    if problem is not None:
        raise MisuseError(problem)
    try:
        parse_policy(policy)
    except BadPolicyError as error:
        raise MisuseError(str(error)) from None
    host, port = _parse_listen(listen)
    settings = ScopeOptions(
        name=name,
        host=host,
        port=port,
        owners=tuple(dict.fromkeys(map(_check_address, owner or ()))),
        policy=policy,
        recovery=_check_recovery(recovery),
        multicast=_check_multicast(policy, multicast),
        state=None if state == ":memory:" else Path(state),
        is_behind_nat=behind_nat,
    )
    told = _Announcer(settings, is_json=as_json)
    try:
        if gms:
            number = run_until_signal(_with_gateway(settings, _check_address(gms), told))
        else:
            number = run_until_signal(lambda stop: serve_scope(settings, stop, told.scope))
    except ListenError as error:
        raise CommandError(str(error)) from None
    raise interruption(number)


Manager = Annotated[
    str,
    typer.Option(
        "--manager",
        metavar="HOST:PORT",
        envvar="QUICKSILVER_MANAGER",
        help="Manager of the scope to begin with.",
    ),
]


@app.command()
def tree(manager: Manager = "127.0.0.1:7501", as_json: options.Json = False) -> int:
    """Show a scope and all scopes and nodes below it, as their managers tell it now."""
    import asyncio

    from quicksilver.cli.output import emit, say
    from quicksilver.cli.scope_view import as_rows, draw_tree, look

    top = asyncio.run(look(_check_address(manager)))
    if as_json:
        for row in as_rows(top):
            emit("scope", row)
    else:
        say("\n".join(draw_tree(top)))
    return 0


@app.command()
def explain(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="Name of the topic, a path: campus/news.", show_default=False
        ),
    ],
    manager: Manager = "127.0.0.1:7501",
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Also show what each node has to do, and how it stands.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Show who forwards the messages of a topic to whom, by which mechanism, and why.

    Begins with one scope and goes down. JSON has the nodes in any case.
    """
    import asyncio

    from quicksilver.cli import scope_view
    from quicksilver.cli.output import emit, say
    from quicksilver.scopes.names import find_topic_name_problem

    problem = find_topic_name_problem(topic)
    if problem is not None:
        raise MisuseError(problem)
    top = asyncio.run(scope_view.look(_check_address(manager), topic))
    lines = scope_view.explain(top, with_nodes=nodes)
    if not any(row.kind != "nothing" for _, told in top.walk() for row in told.about):
        raise CommandError(f"nobody in {top.name!r} or below takes part in {topic!r}")
    if as_json:
        for _, told in top.walk():
            for row in told.about:
                if row.kind != "nothing":
                    emit(
                        row.kind.replace(" ", "_"),
                        {"scope": told.name, "name": row.name, "facts": row.facts},
                    )
    else:
        say("\n".join(lines))
    return 0


@app.command()
def session(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="Name of the topic, a path: campus/news.", show_default=False
        ),
    ],
    ordering: Annotated[
        str,
        typer.Option(
            "--ordering",
            metavar="fifo|total",
            help="With fifo the messages of each sender are in order; with total all messages are "
            "in one order, the same everywhere.",
        ),
    ] = "fifo",
    reliability: Annotated[
        str,
        typer.Option(
            "--reliability",
            metavar="none|repair",
            help="With repair what is lost is sent again; with none it is told as missing at once.",
        ),
    ] = "repair",
    key: Annotated[
        str,
        typer.Option(
            "--key",
            metavar="NAME",
            help="Seal messages with the key of this name, which nodes have from their keys files "
            "(QUICKSILVER_KEYS). Nodes without it can carry messages, and not read or send them.",
            show_default=False,
        ),
    ] = "",
    manager: Annotated[
        str,
        typer.Option(
            "--manager",
            metavar="HOST:PORT",
            envvar="QUICKSILVER_MANAGER",
            help="Manager of the topic's root: the scope that the topic's name begins with.",
        ),
    ] = "127.0.0.1:7501",
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0.0, help="How long to wait for it."),
    ] = 60.0,
    as_json: options.Json = False,
) -> int:
    """Change what a running topic promises: no message is lost or repeated by it.

    Begins a new session, and waits until everybody is in it and the old one is over. Whoever can
    reach the manager may do this; there is no password.
    """
    import asyncio

    from quicksilver.cli.output import emit, say
    from quicksilver.cli.scope_session import change_session
    from quicksilver.scopes.management.messages import Flavour
    from quicksilver.scopes.management.sessions import find_flavour_problem
    from quicksilver.scopes.names import find_topic_name_problem

    flavour = Flavour(reliability, ordering, key)
    problem = find_topic_name_problem(topic) or find_flavour_problem(flavour)
    if problem is not None:
        raise MisuseError(problem)
    now = asyncio.run(change_session(_check_address(manager), topic, flavour, timeout))
    if as_json:
        emit("session", {"topic": topic, "session": now})
    else:
        say(f"{topic} is in session {now}")
    return 0


@app.command()
def gateway(
    gms: Annotated[
        str,
        typer.Option(
            "--gms", metavar="HOST:PORT", help="GMS of the network to join.", show_default=False
        ),
    ],
    manager: Manager = "127.0.0.1:7501",
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="TEXT",
            help="Name of the gateway in the scope. Default: one that nobody else has.",
            show_default=False,
        ),
    ] = "",
    faults: options.Faults = None,
    verbose: options.Verbose = 0,
    log_json: options.LogJson = False,
    as_json: options.Json = False,
) -> int:
    """Run one more gateway between the network of a GMS and its scope.

    Several share the work, and if one fails the others take over. Runs until Ctrl-C or SIGTERM.
    """
    from quicksilver.cli.logs import start_logging
    from quicksilver.cli.output import emit, say
    from quicksilver.lab.ending import interruption
    from quicksilver.net.faults import parse_faults
    from quicksilver.node.gateway import GatewayOptions, run_gateway

    start_logging(verbose, as_json=log_json)
    settings = GatewayOptions(gms=_check_address(gms), manager=_check_address(manager), name=name)
    if faults is not None:
        plan = parse_faults(faults)
        settings = replace(settings, node=replace(settings.node, faults=plan))

    def announce(name: str) -> None:
        if as_json:
            emit("ready", {"gateway": name, "gms": gms, "manager": manager})
        else:
            say(f"gateway {name} ready between the GMS at {gms} and the scope at {manager}")

    raise interruption(run_gateway(settings, announce))


app.command()(demo)


class _Announcer:
    """Says when a manager, and perhaps its gateway, is ready."""

    def __init__(self, settings: ScopeOptions, *, is_json: bool) -> None:
        self._settings = settings
        self._is_json = is_json

    def scope(self, address: tuple[str, int]) -> None:
        from quicksilver.cli.output import emit, say

        settings = self._settings
        where = f"{address[0]}:{address[1]}"
        state = ":memory:" if settings.state is None else str(settings.state)
        if self._is_json:
            fields = {
                "address": where,
                "scope": settings.name,
                "owners": settings.owners,
                "policy": settings.policy,
                "recovery": settings.recovery,
                "state": state,
            }
            emit("ready", fields)
            return
        owners = f"owned by {', '.join(settings.owners)}" if settings.owners else "no owner"
        how = f"policy {settings.policy}, recovery {settings.recovery}"
        kept = "state in memory" if settings.state is None else f"state in {state}"
        say(f"scope {settings.name} ready at {where}, {owners}, {how}, {kept}")

    def gateway(self, name: str) -> None:
        from quicksilver.cli.output import emit, say

        if self._is_json:
            emit("gateway", {"gateway": name})
        else:
            say(f"gateway {name} ready")


def _with_gateway(
    settings: ScopeOptions, gms: str, told: _Announcer
) -> Callable[[asyncio.Event], Coroutine[Any, Any, None]]:
    """Return what serves a scope, and a gateway between it and the network of a GMS."""
    from quicksilver.node.gateway import GatewayOptions, serve_gateway
    from quicksilver.scopes.server import serve_scope

    async def serve(stop: asyncio.Event) -> None:
        import asyncio

        listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def note(address: tuple[str, int]) -> None:
            told.scope(address)
            # The gateway is of this machine, whatever addresses others use.
            host = "127.0.0.1" if address[0] == "0.0.0.0" else address[0]
            listening.set_result(f"{host}:{address[1]}")

        async def be_gateway() -> None:
            options = GatewayOptions(gms=gms, manager=await listening)
            await serve_gateway(options, stop, told.gateway)

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(serve_scope(settings, stop, note))
                tasks.create_task(be_gateway())
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    return serve


def _check_address(text: str) -> str:
    """Return an address; raises MisuseError for what is none."""
    from quicksilver.node.options import parse_gms_address

    try:
        parse_gms_address(text)
    except ValueError:
        raise MisuseError(f"{text!r} is not an address: write HOST:PORT") from None
    return text


def _parse_listen(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise MisuseError(
            f"--listen {text!r} is not an address: write HOST:PORT, with port 0 to 65535"
        )
    return host, int(port)


def _check_recovery(text: str) -> str:
    """Return a recovery protocol; raises MisuseError for what is none."""
    from quicksilver.scopes.reliability.kinds import parse_protocol

    if text != "none" and parse_protocol(text) is None:
        known = "ring, ring:N, star, tree:N, gossip:N, requests and none"
        raise MisuseError(f"there is no recovery protocol {text!r}; there are {known}")
    return text


def _check_multicast(policy: str, text: str) -> str:
    """Return a range of multicast addresses; raises MisuseError for what is none."""
    from quicksilver.scopes.management.mechanisms import REGIONS, AddressRange, BadRangeError

    if policy in ("multicast", REGIONS) and not text:
        raise MisuseError(f"--policy {policy} needs --multicast, such as 239.192.7.0/24:7400")
    if text:
        try:
            AddressRange(text)
        except BadRangeError as error:
            raise MisuseError(str(error)) from None
    return text
