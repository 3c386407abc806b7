"""The signals that the processes of a test begin with, however the tests were started."""

from __future__ import annotations

import signal
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def give_children_default_signals() -> None:
    """Let processes started from here on begin with the default action of every signal.

    A shell starts its background jobs with SIGINT ignored, nohup does so with SIGHUP,
    and a process passes what it ignores or blocks on to its children; what it handles
    becomes the default in them. So an ignored signal gets a handler that does nothing:
    this process goes on ignoring it, and its children do not.
    """
    for number in STOPPING:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _ignore(number: int, frame: FrameType | None) -> None:
    pass
