"""What checking and converting cost: ``python -m bench.live.types``.

Reports and asserts nothing. Each number is the best of several repeats, so that a
busy machine disturbs it least.
"""

from __future__ import annotations

from bench.live.events import Change, Changes, Update, Updates
from bench.live.measured import Measured, best_us
from quicksilver.live.monitors import Watch
from quicksilver.live.types.bridges import bridge_event
from quicksilver.live.types.build import endpoint, event, object_type, struct
from quicksilver.live.types.convert import Converters
from quicksilver.live.types.encoding import encode_type, parse_type
from quicksilver.live.types.interfaces import signatures_of
from quicksilver.live.types.model import FLOAT, INT, STR, EndpointType, ObjectType
from quicksilver.live.types.subtyping import Checker


def channel(value_title: str = "") -> EndpointType:
    """Return the type of a channel endpoint like that of Code 2.6."""
    message = struct({"text": STR, "at": FLOAT, "number": INT}, title=value_title)
    return endpoint(
        [event("send", message=message)],
        [event("receive", message=message)],
        provides=[
            ("delivery", "virtually synchronous"),
            ("temporal", "receive(m) -> somewhere once send(m)"),
        ],
        requires=[("temporal", "send -> once connect")],
    )


def client() -> EndpointType:
    """Return the type of the endpoint that an application connects to a channel."""
    message = struct({"text": STR, "at": FLOAT, "number": INT})
    return endpoint(
        [event("receive", message=message)],
        [event("send", message=message)],
        provides=[("temporal", "send -> once connect")],
        requires=[("delivery", "fifo"), ("temporal", "receive -> somewhere once send")],
    )


def composite() -> ObjectType:
    """Return an object type of six endpoints, about the size of what Code 2.2 composes."""
    return object_type({f"endpoint {number}": channel() for number in range(6)})


def _in_us(what: str, value: float) -> Measured:
    return Measured(what, value, "us")


def measure_checking() -> list[Measured]:
    """Measure the relations, with nothing known before and with the answer kept."""
    here, there, whole = channel(), client(), composite()
    wider = object_type({f"endpoint {n}": channel("Other") for n in range(5)})
    warm = Checker()
    data = encode_type(whole)

    def match_cold() -> object:
        return Checker().check_match(here, there)

    return [
        _in_us("match two endpoints, nothing known", best_us(match_cold, number=50)),
        _in_us(
            "match two endpoints, answer kept",
            best_us(lambda: warm.check_match(here, there), number=1000),
        ),
        _in_us(
            "object subtyping, six endpoints, answer kept",
            best_us(lambda: warm.check_object_subtype(whole, wider), number=1000),
        ),
        _in_us("encode an object type", best_us(lambda: encode_type(whole), number=200)),
        _in_us(
            f"parse an object type of {len(data)} bytes",
            best_us(lambda: parse_type(data), number=50),
        ),
    ]


def measure_converting() -> list[Measured]:
    """Measure an event of one argument: by a method call, direct, and converted."""
    taken: list[object] = []

    class Handler:
        def take(self, item: object) -> None:
            """Take it."""

    handler, item, converters = Handler().take, Update("ann", 7, b"x" * 100), Converters()
    ours, theirs = signatures_of(Updates)["take"], signatures_of(Changes)["take"]
    direct = bridge_event(ours, ours, handler, converters=converters)
    converted = bridge_event(ours, theirs, handler, converters=converters)
    bridge_event(ours, theirs, taken.append, converters=converters)(item)
    assert taken == [Change("ann", 7, b"x" * 100)]
    number = 50_000
    return [
        _in_us("an event by a plain method call", best_us(lambda: handler(item), number=number)),
        _in_us("an event, same classes", best_us(lambda: direct(item), number=number)),
        _in_us("an event, converted", best_us(lambda: converted(item), number=number)),
    ]


def measure_monitoring() -> list[Measured]:
    """Measure what a watch adds to an event, for a formula with a variable over many values."""
    watch = Watch(channel())
    watch.handle_connect()
    events = 5_000

    def feed() -> None:
        for message in range(events // 2):
            watch.handle_event("in", "send", message)
            watch.handle_event("out", "receive", message)

    return [_in_us("watching an event", best_us(feed, number=1, repeats=3) / events)]


def main() -> None:
    """Print what was measured."""
    for one in (*measure_checking(), *measure_converting(), *measure_monitoring()):
        print(f"{one.value:10.2f} {one.unit}  {one.what}")


if __name__ == "__main__":
    main()
