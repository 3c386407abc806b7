"""Requests in the asyncio form: asking, and being one who answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from quicksilver.node.errors import OptionError, QuicksilverError, RequestTimeoutError
from quicksilver.node.messages import Headers
from quicksilver.node.requests import Handler, Sink, check_request, check_serve
from quicksilver.node.task_serving import TaskServer

if TYPE_CHECKING:
    from quicksilver.node.aio_group import Group
    from quicksilver.node.ports import Core


async def request(
    core: Core,
    group: Group[Any],
    body: bytes,
    timeout: float,  # the name that users of other systems know
    answers: int | None,
    key: Any,
    headers: Headers | None,
) -> Any:
    """Send a request and return what ``Group.request`` does."""
    check_request(timeout, answers)
    requests = core.requests
    pending, is_timeout = None, False
    try:
        async with asyncio.timeout(timeout):
            preparing = requests.prepare(group.name)
            if preparing is not None:
                await asyncio.shield(asyncio.wrap_future(preparing))
            pending, payload = requests.begin(group.name, body, answers, key, headers)
            await group.send_payload(payload)
            await asyncio.wrap_future(pending.done)
    except TimeoutError as error:
        if isinstance(error, QuicksilverError):
            raise
        is_timeout = True
    finally:
        if pending is not None:
            requests.end(pending)
    if pending is None:
        raise RequestTimeoutError(group.name, timeout)
    return pending.result(timeout, is_timeout=is_timeout)


async def serve(core: Core, group: Group[Any], handler: Handler, concurrency: int) -> None:
    """Let a group answer requests."""
    check_serve(handler, concurrency)
    if group.server is not None:
        raise OptionError("serve", f"group {group.name!r} is served by this node already")
    group.server = TaskServer(group, handler, concurrency, core.requests.answers)
    sink = Sink(group.server.attendance)
    try:
        await asyncio.wrap_future(core.subscribe(join=[sink], empty="drop"))
    except BaseException:
        group.server.stop()
        group.server = None
        core.withdraw([sink])
        raise
