"""Whether other networks have what a node of a GMS has sent: the gateways of its network say.

The node flushes as ever. If gateways are members of groups that it has sent to, it then asks
them, as one request to their group (``scopes.gateway.questions``), and the flush ends when they
have answered. One that speaks for all is enough; without recovery each speaks for what it
carries itself, and all are waited for. How far messages are known to have come is kept, so a
node that has sent nothing since asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.unconfirmed import Reason, Unconfirmed
from quicksilver.node.errors import NoResponderError, QuicksilverError, UnconfirmedError
from quicksilver.node.messages import Message
from quicksilver.node.promises import fail, settle
from quicksilver.node.requests import Sink, Waiting
from quicksilver.scopes.gateway.messages import (
    FOR_ALL,
    GROUP,
    MARKS_MAX,
    Question,
    encode,
    parse_node,
)
from quicksilver.scopes.names import root_of
from quicksilver.wire.envelope import Kind

if TYPE_CHECKING:
    from quicksilver.node.core import NodeCore

Found = tuple[Unconfirmed, ...]


class _Asking(Waiting):
    """A question to the gateways."""

    def __init__(self, group: str, wanted: int | None, servers: frozenset[int]) -> None:
        super().__init__(group, wanted, servers)
        self.asked = len(servers)
        self.is_vouched = False
        """True: one of them speaks for all."""

    def handle(self, kind: Kind, message: Message[bytes]) -> None:
        super().handle(kind, message)
        if kind == Kind.ANSWER and bytes(message.payload) == FOR_ALL:
            self.is_vouched = True
            settle(self.done, None)


class OtherNetworks:
    """Asks gateways on behalf of one node; core thread."""

    def __init__(self, core: NodeCore, *, asks: bool) -> None:
        """``asks``: False for gateways' own nodes, which ask nobody."""
        self._core = core
        self._asks = asks
        self._node = 0
        """The incarnation that numbered the messages in …"""
        self._known: dict[str, int] = {}
        """… which are known to be everywhere below this, or were reported, by topic."""
        self._is_open = False
        """True once the gateways' group was opened."""

    def topics(self) -> list[str]:
        """Return the topics that gateways carry, and that this node has sent to."""
        if not self._asks:
            return []
        groups = self._core.session.engine.outgoing.groups
        return [each.name for each in groups.senders() if "/" in each.name and self._has(each)]

    def _has(self, sender: GroupSender) -> bool:
        directory = self._core.session.directory
        view = directory.groups.get(sender.id)  # type: ignore[call-overload]  # a plain number
        members = () if view is None else view.members
        return any(
            node in directory.nodes and _carries(directory.nodes[node].name, sender.name)
            for node in members
        )

    def unfinished(self) -> tuple[Unconfirmed, ...]:
        """Return which messages other networks may lack, of those that nobody told of."""
        return tuple(self._describe(*each) for each in self._marks(self.topics()).items())

    def handle_flushed(
        self, topics: Iterable[str], future: Future[Found], flushed: Future[Found]
    ) -> None:
        """This network has all that was sent, or may lack some; ``topics``: those that gateways
        carried before."""
        error = flushed.exception()
        if isinstance(error, Exception):
            if future.cancelled() and isinstance(error, UnconfirmedError):
                self._put_back(error.messages)
            fail(future, error)
            return
        found = flushed.result()
        marks = self._marks(topics)
        if not marks or future.done():
            self._end(future, found, marks, lost=False)
            return
        self._prepare(partial(self._ask, marks, future, found), future)

    def _marks(self, topics: Iterable[str]) -> dict[str, int]:
        """Return which numbers follow on what was sent and is not known to be everywhere."""
        session = self._core.session
        if session.node != self._node:
            self._node = session.node
            self._known.clear()
        marks: dict[str, int] = {}
        for topic in topics:
            sender = session.find_sender(topic)
            if sender is not None and sender.next_sequence > self._known.get(topic, 0):
                marks[topic] = sender.next_sequence
        return dict(list(marks.items())[:MARKS_MAX])

    def _prepare(self, then: Any, future: Future[Found]) -> None:
        """Open what questions need, the first time."""
        core = self._core
        preparing = core.requests.prepare(GROUP)
        if not self._is_open:
            self._is_open = True
            preparing = core.subscribe(open_=[Sink(GROUP)], empty="drop")
        if preparing is None:
            then()
            return

        def go_on(done: Future[dict[str, int]]) -> None:
            error = done.exception()
            if isinstance(error, Exception):
                self._is_open = False
                fail(future, error)
            else:
                core.call(then)

        preparing.add_done_callback(go_on)

    def _ask(self, marks: dict[str, int], future: Future[Found], found: Found) -> None:
        core = self._core
        sender = core.session.find_sender(GROUP)
        assert sender is not None, "the group is open"
        body = encode(Question(tuple(marks.items())))
        try:
            asking, payload = core.requests.begin(GROUP, body, None, None, None, _Asking)
        except NoResponderError:
            self._end(future, found, marks, lost=True)
            return
        except QuicksilverError as error:
            fail(future, error)
            return
        assert isinstance(asking, _Asking)
        core.session.put_enveloped(sender, payload)

        def end(_: Future[Any]) -> None:
            core.requests.end(asking)
            if not future.done():
                core.call(partial(self._handle_answered, asking, marks, future, found))

        asking.done.add_done_callback(end)
        future.add_done_callback(lambda _: settle(asking.done, None))

    def _handle_answered(
        self, asking: _Asking, marks: dict[str, int], future: Future[Found], found: Found
    ) -> None:
        if asking.is_vouched:
            self._end(future, found, marks, lost=False)
        elif len(asking.answers) + len(asking.failures) < asking.asked:
            self._ask(marks, future, found)  # One has gone: what it carried others carry now.
        else:
            self._end(future, found, marks, lost=not asking.answers)

    def _end(
        self, future: Future[Found], found: Found, marks: dict[str, int], *, lost: bool
    ) -> None:
        """Tell whoever flushed; each loss is told once."""
        if future.done() or not future.set_running_or_notify_cancel():
            self._put_back(found)
            return
        if lost:
            found = (*found, *(self._describe(topic, mark) for topic, mark in marks.items()))
        self._known.update(marks)
        if any(each.reason.is_failure for each in found):
            future.set_exception(UnconfirmedError(found))
        else:
            future.set_result(found)

    def _describe(self, topic: str, mark: int) -> Unconfirmed:
        first = self._known.get(topic, 0)
        ranges = ((first, mark - 1),)
        return Unconfirmed(Reason.NETWORKS, self._node, topic, mark - first, ranges, ())

    def _put_back(self, found: Found) -> None:
        if found:
            self._core.call(partial(self._core.session.put_back_unconfirmed, found))


def _carries(name: str, topic: str) -> bool:
    """Whether a node with this name is a gateway that carries a topic."""
    known = parse_node(name)
    root = root_of(topic)
    return known is not None and (known[0] == root or known[0].startswith(f"{root}/"))
