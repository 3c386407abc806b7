"""Opening what lies on desktops: a bounded number at once and in all, each for itself.

A desktop is opened by what is written on it, so there are limits: on how many
objects all desktops of a runtime hold, on desktops within desktops, and none may
lie on itself.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.xml import parse
from quicksilver.live.runtime.errors import LiveRuntimeError
from quicksilver.live.runtime.promises import Promise, Task
from quicksilver.stdx.errors import QuicksilverError

if TYPE_CHECKING:
    from quicksilver.live.runtime.context import Context
    from quicksilver.live.runtime.proxies import Proxy
    from quicksilver.live.runtime.runtime import Runtime

AT_ONCE_MAX: Final = 16
OPENED_IN_ALL_MAX: Final = 20_000
DEPTH_MAX: Final = 4
LOOK_EVERY_S: Final = 2.0
"""How often opened objects are looked at: one that failed is shown as such."""

_ITEM = ".item-"


class DesktopLimitError(QuicksilverError):
    """Something that may not lie on a desktop, or not open there."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class Windows:
    """Whoever shows a desktop's objects to people; give the runtime one as a service.

    The desktop opens and closes proxies; a window may connect to them meanwhile.
    """

    MISSING_HINT = "nothing shows what lies on desktops"

    def opened(self, desktop: str, item: int, proxy: Proxy) -> None:
        """Show an object that was opened."""

    def closed(self, desktop: str, item: int) -> None:
        """Stop showing it."""


class _Ledger:
    """What the desktops of one runtime have opened."""

    def __init__(self) -> None:
        self.opened = 0
        self.desktops: dict[int, tuple[str, str]] = {}


_ledgers: weakref.WeakKeyDictionary[Runtime, _Ledger] = weakref.WeakKeyDictionary()


class Opening:
    """The objects of one desktop."""

    def __init__(
        self,
        context: Context,
        channel: str,
        opened_max: int,
        *,
        on_opened: Callable[[int], None],
        on_failed: Callable[[int, str], None],
    ) -> None:
        """Begin; raises DesktopLimitError if this desktop may not be where it is."""
        self._context = context
        self._windows = _find_windows(context)
        self._opened_max = opened_max
        self._on_opened = on_opened
        self._on_failed = on_failed
        self._queue: deque[tuple[int, str]] = deque()
        self._wanted: set[int] = set()
        self._busy: set[int] = set()
        self._is_closed = False
        self.proxies: dict[int, Proxy] = {}
        self.failures: dict[int, str] = {}
        self._ledger = _ledgers.setdefault(context.runtime, _Ledger())
        self._check_place(channel)
        self._ledger.desktops[id(self)] = (context.name, channel)
        self._look_later()

    def _check_place(self, channel: str) -> None:
        around = [
            fingerprint
            for name, fingerprint in self._ledger.desktops.values()
            if self._context.name.startswith(f"{name}{_ITEM}")
        ]
        if channel in around:
            raise DesktopLimitError("a desktop cannot lie on itself")
        if len(around) >= DEPTH_MAX:
            raise DesktopLimitError(f"desktops lie at most {DEPTH_MAX} deep on each other")

    def open(self, item: int, reference: str) -> None:
        """Open an object soon; how it went is told by a call back."""
        self._wanted.add(item)
        self._queue.append((item, reference))
        self._pump()

    def close(self, item: int) -> None:
        """Close an object, or do not open it."""
        self._wanted.discard(item)
        self.failures.pop(item, None)
        proxy = self.proxies.pop(item, None)
        if proxy is not None:
            self._end(item, proxy)

    def close_all(self) -> None:
        """Close everything."""
        self._is_closed = True
        self._queue.clear()
        for item in [*self.proxies]:
            self.close(item)
        self._wanted.clear()
        self._ledger.desktops.pop(id(self), None)

    # One after the other

    def _pump(self) -> None:
        while self._queue and len(self._busy) < AT_ONCE_MAX:
            item, reference = self._queue.popleft()
            if item not in self._wanted or item in self._busy or item in self.proxies:
                continue
            try:
                self._begin(item, reference)
            except (DesktopLimitError, LiveReferenceError) as error:
                self._fail(item, str(error))

    def _begin(self, item: int, reference: str) -> None:
        if len(self.proxies) + len(self._busy) >= self._opened_max:
            raise DesktopLimitError(f"this desktop opens at most {self._opened_max} objects here")
        if self._ledger.opened >= OPENED_IN_ALL_MAX:
            raise DesktopLimitError(f"desktops hold {OPENED_IN_ALL_MAX} objects here already")
        parsed = parse(reference, source=f"item {item}")
        self._busy.add(item)
        self._ledger.opened += 1
        # As the desktop's own: if it is a guest here, what lies on it counts as part of it.
        task = Task(self._context.open(parsed.reference, f"{_ITEM[1:]}{item}"))
        task.when_done(lambda done: self._finish(item, done))

    def _finish(self, item: int, done: Promise[Proxy]) -> None:
        self._busy.discard(item)
        if done.error is not None:
            self._ledger.opened -= 1
            if item in self._wanted:
                self._fail(item, _one_line(done.error))
        elif self._is_closed or item not in self._wanted:
            self._ledger.opened -= 1
            done.result().close()
        else:
            self.proxies[item] = done.result()
            self.failures.pop(item, None)
            self._show(item, done.result())
            self._on_opened(item)
        if not self._is_closed:
            self._pump()

    def _show(self, item: int, proxy: Proxy) -> None:
        try:
            self._windows.opened(self._context.name, item, proxy)
        except Exception as error:  # noqa: BLE001  # a window's error is not the desktop's
            self._fail(item, f"it could not be shown: {_one_line(error)}")

    def _end(self, item: int, proxy: Proxy) -> None:
        self._ledger.opened -= 1
        try:
            self._windows.closed(self._context.name, item)
        except Exception as error:  # noqa: BLE001  # a window's error is not the desktop's
            self._fail(item, f"its window did not close: {_one_line(error)}")
        proxy.close()

    def _fail(self, item: int, problem: str) -> None:
        if self._is_closed:
            return
        self.failures[item] = problem
        self._on_failed(item, problem)

    # Those that fail later

    def _look_later(self) -> None:
        self._context.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        for item, proxy in list(self.proxies.items()):
            failures = proxy.failures
            if failures and item in self.proxies:
                del self.proxies[item]
                self._end(item, proxy)
                self._fail(item, str(failures[0]))
        self._look_later()


def _find_windows(context: Context) -> Windows:
    try:
        return context.service(Windows)
    except LiveRuntimeError:
        return Windows()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
