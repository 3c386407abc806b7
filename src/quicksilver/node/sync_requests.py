"""Requests in the synchronous form: asking, and being one who answers."""

from __future__ import annotations

import time
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quicksilver.node.errors import OptionError, RequestTimeoutError, TimedOutError
from quicksilver.node.messages import Headers
from quicksilver.node.requests import Handler, Sink, check_request, check_serve
from quicksilver.node.serving import ThreadServer

if TYPE_CHECKING:
    from quicksilver.node.ports import Core
    from quicksilver.node.sync_group import Group


class Limit:
    """A time that several waits have together."""

    __slots__ = ("_end_s", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end_s = time.monotonic() + seconds

    def left(self) -> float:
        """Return how many seconds are left; none or fewer when the time is over."""
        return self._end_s - time.monotonic()


def request(
    core: Core,
    group: Group[Any],
    body: bytes,
    timeout: float,
    answers: int | None,
    key: Any,
    headers: Headers | None,
) -> Any:
    """Send a request and return what ``Group.request`` does."""
    check_request(timeout, answers)
    requests = core.requests
    limit = Limit(timeout)
    preparing = requests.prepare(group.name)
    if preparing is not None:
        try:
            preparing.result(timeout)
        except FutureTimeout:
            raise RequestTimeoutError(group.name, timeout) from None
    pending, payload = requests.begin(group.name, body, answers, key, headers)
    try:
        with suppress(TimedOutError):
            group.send_payload(payload, limit)
            wait([pending.done], max(0.0, limit.left()))
    finally:
        requests.end(pending)
    return pending.result(timeout, is_timeout=not pending.done.done())


def serve(core: Core, group: Group[Any], handler: Handler, concurrency: int) -> None:
    """Let a group answer requests."""
    check_serve(handler, concurrency)
    if group.server is not None:
        raise OptionError("serve", f"group {group.name!r} is served by this node already")
    server = group.server = ThreadServer(group, handler, concurrency, core.requests.answers)
    sink = Sink(server.attendance)
    try:
        core.subscribe(join=[sink], empty="drop").result(core.options.connect_timeout_s)
    except BaseException as error:
        server.stop()
        group.server = None
        core.withdraw([sink])
        if isinstance(error, FutureTimeout):
            raise core.unreachable() from None
        raise
