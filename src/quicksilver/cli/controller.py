"""``quicksilver controller``: one node for all applications of this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.problems import CommandError, MisuseError


def controller(
    path: Annotated[
        str,
        typer.Option(
            "--path",
            metavar="PATH",
            help="Unix socket to listen at. Applications connect to unix:PATH.",
            show_default="in the user's runtime folder",
        ),
    ] = "",
    ring_bytes: Annotated[
        str,
        typer.Option(
            "--ring-bytes",
            metavar="SIZE",
            help="Shared memory of each group, for messages that applications have not read yet: "
            "a power of two, such as 4MiB.",
        ),
    ] = "4MiB",
    failure_timeout: Annotated[
        float,
        typer.Option(
            "--failure-timeout",
            min=0.1,
            metavar="SECONDS",
            help="Cut off an application that holds others up and does not answer for this long.",
        ),
    ] = 3.0,
    gms: options.Gms = options.GMS_DEFAULT,
    name: options.Name = "",
    interface: options.InterfaceName = None,
    faults: options.Faults = None,
    verbose: options.Verbose = 0,
    log_json: options.LogJson = False,
    as_json: options.Json = False,
) -> int:
    """Run one node that all applications of this machine share, through shared memory.

    Each message reaches the machine once, however many applications want it. They use
    quicksilver.connect("unix:PATH"). Runs until Ctrl-C or SIGTERM.
    """
    from quicksilver.cli.logs import start_logging
    from quicksilver.cli.running import node_options, run_async
    from quicksilver.cli.waiting import waiting_for_gms
    from quicksilver.controller.process import Controller, ControllerOptions
    from quicksilver.net.local_socket import SocketPathError
    from quicksilver.net.shared_ring import CAPACITY_MAX, CAPACITY_MIN
    from quicksilver.node.options import default_controller_path

    start_logging(verbose, as_json=log_json)
    size = options.parse_size(ring_bytes)
    if not CAPACITY_MIN <= size <= CAPACITY_MAX or size & (size - 1):
        raise MisuseError(
            f"--ring-bytes {ring_bytes}: must be a power of two from 4KiB to 1GiB, such as 4MiB"
        )
    settings = ControllerOptions(
        path=path or default_controller_path(),
        gms=gms,
        node=node_options(interface, faults, name),
        ring_bytes=size,
        failure_timeout_s=failure_timeout,
    )

    async def serve() -> None:
        try:
            server = Controller(settings)
        except SocketPathError as error:
            raise CommandError(str(error)) from None
        try:
            with waiting_for_gms(gms):
                await server.start()
            _announce(settings.path, server.core.session.node, is_json=as_json)
            await server.wait()
        finally:
            await server.close()

    run_async(serve())
    return 0


def _announce(path: str, node: int, *, is_json: bool) -> None:
    from quicksilver.cli.output import emit, say

    if is_json:
        emit("ready", {"path": path, "node": node})
    else:
        say(f"controller ready at unix:{path}, node {node}")
