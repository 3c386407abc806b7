"""A contract that is broken is reported with its side and the events that prove it."""

from __future__ import annotations

import pytest

from quicksilver.live.formalisms.base import FormulaError, UnknownFormalismError
from quicksilver.live.monitors import Watch
from quicksilver.live.types.build import endpoint, event, object_type
from quicksilver.live.types.model import INT, STR, EndpointType

CHANNEL = endpoint(
    [event("send", message=INT)],
    [event("receive", message=INT)],
    provides=[
        ("temporal", "receive(m) -> somewhere once send(m)"),
        ("temporal", "not (receive(m) and previous once receive(m))"),
        ("delivery", "at most once"),
    ],
    requires=[("temporal", "send -> once connect"), ("cardinality", "at most 2 instances")],
)


class TestEndpointWatch:
    def test_a_good_run_breaks_nothing(self) -> None:
        watch = Watch(CHANNEL)
        for instance in "ab":
            assert watch.handle_connect(instance=instance) == []
        for message in range(50):
            assert watch.handle_event("in", "send", message, instance="a") == []
            for instance in "ab":
                assert watch.handle_event("out", "receive", message, instance=instance) == []

    def test_the_owner_breaks_what_it_provides(self) -> None:
        watch = Watch(CHANNEL)
        watch.handle_connect(instance="a")
        watch.handle_event("in", "send", 1, instance="a")
        assert watch.handle_event("out", "receive", 1, instance="a") == []
        (violation,) = watch.handle_event("out", "receive", 1, instance="a")
        assert violation.promise == "provided"
        assert violation.constraint.text.startswith("not (receive(m)")
        assert [one.name for one in violation.events] == ["receive", "receive"]

    def test_the_other_side_breaks_what_is_required(self) -> None:
        (violation,) = Watch(CHANNEL).handle_event("in", "send", 7, instance="a")
        assert violation.promise == "required"
        assert str(violation) == (
            "required temporal 'send -> once connect' was broken by in.send(7) at a: "
            "the formula does not hold"
        )

    def test_instances_are_watched_together(self) -> None:
        watch = Watch(CHANNEL)
        watch.handle_connect(instance="a")
        watch.handle_connect(instance="b")
        watch.handle_event("in", "send", 1, instance="a")
        assert watch.handle_event("out", "receive", 1, instance="b") == []
        (violation,) = watch.handle_connect(instance="c")
        assert violation.constraint.formalism == "cardinality"
        assert watch.handle_disconnect(instance="c") == []

    def test_what_events_cannot_show_is_listed(self) -> None:
        watch = Watch(CHANNEL)
        assert [one.formalism for one in watch.unwatched] == ["delivery"]
        assert len(watch.watched) == 4

    def test_one_event_may_break_several_constraints(self) -> None:
        watch = Watch(
            endpoint(
                [], [event("e")], provides=[("temporal", "not e"), ("temporal", "once connect")]
            )
        )
        assert len(watch.handle_event("out", "e")) == 2

    def test_time_comes_in_as_an_argument(self) -> None:
        type_ = endpoint(
            [event("ask", q=STR)],
            [event("answer", a=INT)],
            provides=[("timing", "100% answer within 2 s of ask")],
        )
        watch = Watch(EndpointType(type_.inputs, type_.outputs, type_.provides))
        watch.handle_event("in", "ask", None, now=1.0)
        (violation,) = watch.handle_event("out", "answer", 4, now=4.0)
        assert "1 of 1 cases were late" in str(violation)


class TestObjectWatch:
    def test_constraints_that_link_two_endpoints(self) -> None:
        """2.1.3: no message of a view is received before the view is known."""
        type_ = object_type(
            {
                "channel": endpoint([], [event("receive", view=INT, text=STR)]),
                "members": endpoint([event("view", number=INT)], []),
            },
            provides=[("temporal", "channel.receive(k, _) -> once members.view(k)")],
        )
        watch = Watch(type_)
        watch.handle_event("in", "view", 1, endpoint="members")
        good = {"view": 1, "text": "x"}
        assert watch.handle_event("out", "receive", good, endpoint="channel") == []
        bad = {"view": 2, "text": "x"}
        (violation,) = watch.handle_event("out", "receive", bad, endpoint="channel")
        assert [str(one) for one in violation.events] == [
            "channel.out.receive({'view': 2, 'text': 'x'})"
        ]


class TestBadConstraints:
    def test_they_are_refused_when_the_watch_is_switched_on(self) -> None:
        with pytest.raises(UnknownFormalismError):
            Watch(endpoint(provides=[("astrology", "lucky")]))
        with pytest.raises(FormulaError, match="column 1"):
            Watch(endpoint(provides=[("temporal", "unknown -> once connect")]))
