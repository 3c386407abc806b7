"""Children never outlive their parent.

The child itself asks the kernel to be killed with its parent (a function run
between fork and exec could deadlock a parent with threads). The parent's number
travels in the environment: a parent that died before the child could ask is
noticed by comparing it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PARENT_VARIABLE = "QUICKSILVER_PARENT"
_PR_SET_PDEATHSIG = 1


def parent_environment() -> dict[str, str]:
    """Return the environment for a child that must end with this process."""
    return os.environ | {PARENT_VARIABLE: str(os.getpid())}


def die_with_parent() -> None:
    """End this process when its parent does, if the parent asked for that."""
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if not parent.isdigit():
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        os._exit(1)
