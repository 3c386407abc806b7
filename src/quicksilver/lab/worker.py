"""The program of a process with a node: ``python -m quicksilver.lab.worker SPEC``.

``SPEC`` is one of the roles as JSON. The parent starts it with ``start_worker``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from quicksilver.lab.child import run_child
from quicksilver.lab.load import Receiver, Sender, run_receiver, run_sender
from quicksilver.lab.nodes import NodeSpec, open_node
from quicksilver.lab.participants import (
    Member,
    Publisher,
    Subscriber,
    run_member,
    run_publisher,
    run_subscriber,
)
from quicksilver.lab.processes import Child, Children
from quicksilver.lab.scopes.members import TopicMember, run_topic_member
from quicksilver.lab.soak.records import Worker as SoakWorker
from quicksilver.lab.soak.worker import run_soak_worker
from quicksilver.lab.stalls import (
    StallListener,
    StallPublisher,
    run_stall_listener,
    run_stall_publisher,
)

Role = (
    Member
    | Publisher
    | Receiver
    | Sender
    | SoakWorker
    | StallListener
    | StallPublisher
    | Subscriber
    | TopicMember
)


def start_worker(
    children: Children, spec: NodeSpec, *, prefix: Sequence[str] = (), **options: Any
) -> Child:
    """Start a process that plays a role; ``options``: as ``Children.start``."""
    # Arguments are bytes to the system, whatever the locale.
    text = os.fsdecode(msgspec.json.encode(spec))
    return children.start_python(spec.name, __name__, text, prefix=prefix, **options)


def run_worker() -> None:
    """Play the role that the first argument describes."""
    spec = msgspec.json.decode(os.fsencode(sys.argv[1]), type=Role)
    match spec:
        case Sender():
            run_sender(spec)
        case Receiver():
            run_receiver(spec)
        case SoakWorker():
            run_soak_worker(spec)
        case StallListener():
            run_stall_listener(spec)
        case StallPublisher():
            run_stall_publisher(spec)
        case Subscriber():
            with open_node(spec) as node:
                run_subscriber(node, spec)
        case Publisher():
            with open_node(spec) as node:
                run_publisher(node, spec)
        case Member():
            with open_node(spec) as node:
                run_member(node, spec)
        case TopicMember():
            with open_node(spec) as node:
                run_topic_member(node, spec)
        case _:
            assert_never(spec)


if __name__ == "__main__":
    run_child(run_worker)
