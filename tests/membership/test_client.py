"""The client, as a transcript of what goes in and what comes out."""

from __future__ import annotations

import pytest

from quicksilver.membership import client as client_module
from quicksilver.membership.client import MembershipClient
from quicksilver.membership.events import (
    ClientEvent,
    Connecting,
    Departed,
    Excluded,
    Member,
    Refused,
    Resyncing,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.membership.names import BadGroupNameError
from quicksilver.wire import gms

SETTINGS = gms.ClusterSettings()
SECRET = b"0123456789abcdef"
HELLO = gms.Hello(gms.PROTOCOL_VERSION, "n", "10.0.0.1", 9000, 4096)
RESUME = gms.Hello(gms.PROTOCOL_VERSION, "n", "10.0.0.1", 9000, 4096, gms.Resume(77, 3, SECRET, 1))
WELCOME = gms.Welcome(gms.PROTOCOL_VERSION, 77, 3, False, SETTINGS, SECRET)
RESUMED = gms.Welcome(gms.PROTOCOL_VERSION, 77, 3, True, SETTINGS, SECRET)
SELF = gms.NodeInfo(3, "n", "10.0.0.1", 9000)


def update(batch: int = 1, *, view: int = 1, base: int = 0, alive: tuple[int, ...] = ()):
    """Return an update in which the node is the only member of group "a"."""
    joined = (3,) if base == 0 else ()
    return gms.Update(
        batch,
        nodes=(SELF,),
        regions=(gms.RegionChange(5, 1, 0, "239.192.0.1", (3,), (), (3,)),) if base == 0 else (),
        groups=(gms.GroupChange(7, "a", view, base, ((5, 1),), joined),),
        alive=alive,
    )


class Script:
    """``says`` are the client's frames, ``hears`` its inputs."""

    def __init__(self) -> None:
        self.client = MembershipClient(
            name="n", ip="10.0.0.1", port=9000, receive_buffer_bytes=4096
        )
        self.now = 5.0

    def opened(self) -> Script:
        self.client.handle_opened(self.now)
        return self

    def closed(self) -> Script:
        self.client.handle_closed("gone", self.now)
        assert self.client.poll_event() is None
        return self

    def hears(self, *replies: gms.Reply) -> list[ClientEvent]:
        for reply in replies:
            self.client.handle_frame(gms.encode(reply), self.now)
        return self.events()

    def events(self) -> list[ClientEvent]:
        return list(iter(self.client.poll_event, None))

    def says(self) -> list[gms.Request | None]:
        frames = []
        while (frame := self.client.poll_transmit(self.now)) is not None:
            frames.append(gms.parse_request(frame))
        return frames

    def member_of_a(self) -> Script:
        self.client.subscribe(join=["a"])
        self.opened()
        self.says()
        self.hears(WELCOME, update(), gms.Subscribed(1, (7,)))
        assert self.client.state == Member()
        return self


def test_what_was_asked_before_the_connection_goes_out_with_the_hello() -> None:
    """One round trip and one batch from nothing to member."""
    script = Script()
    assert script.client.subscribe(join=["a"], open=["b"]) == 1
    assert script.says() == []
    script.opened()
    assert script.says() == [HELLO, gms.Subscribe(1, ("a",), (), ("b",), ())]
    assert script.client.state == Connecting()
    assert script.hears(WELCOME) == [Welcomed(3, 77, SETTINGS, False)]
    [changed] = script.hears(update())
    assert isinstance(changed, ViewsChanged)
    assert changed.groups[0].name == "a"
    assert script.hears(gms.Subscribed(1, (7, 8))) == [
        SubscriptionCompleted(1, {"a": 7, "b": 8}),
    ]


def test_a_bad_name_is_the_callers_mistake() -> None:
    """Better here, with a traceback, than as a refusal by the GMS."""
    with pytest.raises(BadGroupNameError, match="is empty"):
        Script().client.subscribe(join=[""])
    with pytest.raises(BadGroupNameError, match="256 bytes"):
        Script().client.subscribe(open=["x" * 256])


def test_heartbeats_carry_the_numbers_of_the_moment() -> None:
    """They are made when polled, from the freshest state."""
    script = Script().member_of_a()
    script.client.set_stats(lambda: {"sent": 9})
    assert script.client.next_timeout() == 5.5
    script.client.handle_timeout(5.4)
    assert script.says() == []
    script.client.handle_timeout(5.5)
    assert script.client.next_timeout() == 6.0
    assert script.says() == [gms.Heartbeat({"sent": 9})]
    script.closed()
    assert script.client.next_timeout() is None


def test_a_connection_on_which_nothing_comes_is_given_up() -> None:
    """TCP would wait for minutes; the GMS answers heartbeats, so silence means that it is dead."""
    script = Script().member_of_a()
    for at in (5.5, 6.0, 6.5):
        script.now = at
        script.client.handle_timeout(at)
        assert len(script.says()) == 1
        script.hears(gms.Heard())
    for at in (7.0, 7.5, 8.0, 8.5, 9.0):
        script.now = at
        script.client.handle_timeout(at)
        script.says()
        assert script.client.poll_close() is None
    script.client.handle_timeout(9.5)
    assert script.client.has_transmits()
    assert script.client.poll_close() == "the GMS said nothing for 3 s"
    assert script.client.poll_close() is None
    script.now = 9.6
    script.closed().opened()
    assert script.says() == [RESUME]


def test_a_node_that_stood_still_reads_before_it_judges() -> None:
    """What the GMS said meanwhile is in its socket."""
    script = Script().member_of_a()
    script.client.handle_timeout(25.0)
    assert script.client.poll_close() is None
    script.now = 25.01
    script.hears(gms.Heard())
    script.client.handle_timeout(25.3)
    assert script.client.poll_close() is None


def test_a_gms_that_never_answers_is_asked_less_and_less_often() -> None:
    """It may be busy for long: a plan that takes ten seconds must not be asked for for ever."""
    script = Script()
    waited = []
    for _ in range(6):
        script.opened()
        wake = script.client.next_timeout()
        assert wake is not None
        script.client.handle_timeout(wake)
        assert script.client.poll_close() is not None
        waited.append(wake - script.now)
        script.now = wake
        script.closed()
    assert waited == [5.0, 10.0, 20.0, 40.0, 40.0, 40.0]


def test_a_new_address_is_announced_with_the_next_hello() -> None:
    """The GMS then ends the incarnation that others know under the old one."""
    script = Script().member_of_a()
    script.client.handle_address("10.0.0.2", 9001)
    script.closed().opened()
    [said] = script.says()
    assert isinstance(said, gms.Hello)
    assert (said.ip, said.port, said.resume) == ("10.0.0.2", 9001, RESUME.resume)


def test_reasons_of_the_gms_are_made_fit_to_be_shown() -> None:
    """They end up on terminals."""
    script = Script().member_of_a()
    [event] = script.hears(gms.Excluded("gone\x1b[2J\n"))
    assert event == WasExcluded(r"gone\x1b[2J\n")


def test_a_reconnect_resumes_and_keeps_the_directory_until_all_is_there() -> None:
    """Traffic goes on during a GMS restart."""
    script = Script().member_of_a()
    pending = script.client.subscribe(join=["b"])
    script.says()
    script.closed()
    assert script.client.state == Connecting("gone")
    assert 7 in script.client.directory.groups
    script.opened()
    assert script.says() == [RESUME, gms.Subscribe(pending, ("b",))]
    assert script.hears(RESUMED) == [Welcomed(3, 77, SETTINGS, True)]
    assert isinstance(script.client.state, Resyncing)
    assert 7 in script.client.directory.groups
    assert script.hears(gms.Subscribed(pending, (8,))) == []
    assert script.hears(update(9, alive=(3,))) == [
        ViewsChanged((), (), (), (), (), is_complete=True),
        SubscriptionCompleted(pending, {"b": 8}),
    ]
    assert script.client.state == Member()


def test_an_excluded_node_comes_back_as_a_new_one_in_the_same_groups() -> None:
    """Nobody asks the application: what it wanted is still wanted."""
    script = Script().member_of_a()
    script.client.subscribe(open=["z"])
    script.says()
    script.hears(gms.Subscribed(2, (9,)))
    pending = script.client.subscribe(join=["b"], leave=["a"])
    assert script.hears(gms.Excluded("silent")) == [WasExcluded("silent")]
    assert script.client.state == Excluded("silent")
    assert script.client.node is None
    assert not script.client.directory.groups
    assert script.says() == []
    script.closed().opened()
    assert script.says() == [
        HELLO,
        gms.Subscribe(0, ("a",), (), ("z",)),
        gms.Subscribe(pending, ("b",), ("a",)),
    ]
    script.hears(gms.Welcome(gms.PROTOCOL_VERSION, 77, 4, False, SETTINGS, SECRET))
    assert script.client.node == 4
    assert script.hears(gms.Subscribed(0, (7, 9)), gms.Subscribed(pending, (8,))) == [
        SubscriptionCompleted(0, {"a": 7, "z": 9}),
        SubscriptionCompleted(pending, {"b": 8}),
    ]


def test_a_node_that_begins_again_says_goodbye_and_comes_back_in_the_same_groups() -> None:
    """What was on its way to the old incarnation is not for the new one."""
    script = Script().member_of_a()
    script.client.begin_again("it lacks packets")
    assert script.events() == [WasExcluded("it lacks packets")]
    assert script.client.state == Excluded("it lacks packets")
    assert script.says() == [gms.Goodbye()]
    assert script.hears(update(2, view=2, base=1), RESUMED) == []
    assert script.client.node is None
    script.closed().opened()
    assert script.says() == [HELLO, gms.Subscribe(0, ("a",))]


def test_a_completion_that_an_exclusion_overtook_is_still_reported() -> None:
    """Somebody awaits it."""
    script = Script().member_of_a()
    pending = script.client.subscribe(join=["b"])
    script.closed().opened()
    script.hears(RESUMED, gms.Subscribed(pending, (8,)), gms.Excluded("silent"))
    script.closed().opened()
    assert script.says() == [HELLO, gms.Subscribe(0, ("a", "b"))]
    script.hears(gms.Welcome(gms.PROTOCOL_VERSION, 77, 4, False, SETTINGS, SECRET))
    assert script.hears(gms.Subscribed(0, (17, 18))) == [
        SubscriptionCompleted(0, {"a": 17, "b": 18}),
        SubscriptionCompleted(pending, {"b": 18}),
    ]


def test_an_update_that_does_not_fit_makes_the_client_ask_for_everything() -> None:
    """On the same connection, and once: a loop would not help anybody."""
    script = Script().member_of_a()
    assert script.hears(update(3, view=9, base=8)) == []
    assert isinstance(script.client.state, Resyncing)
    assert script.says() == [RESUME]
    assert script.hears(update(4, view=10, base=9)) == []
    assert script.says() == []
    [_, changed] = script.hears(RESUMED, update(5, view=10, alive=(3,)))
    assert isinstance(changed, ViewsChanged)
    assert changed.groups[0].view == 10
    assert script.client.state == Member()
    assert script.client.misfits == 1


def test_a_complete_update_that_does_not_fit_is_asked_for_again_later() -> None:
    """Something is wrong with the GMS: it is given time."""
    script = Script().member_of_a()
    script.client.handle_frame(b"\xc1nonsense", script.now)
    assert script.says() == [RESUME]
    script.hears(
        RESUMED,
        gms.Update(
            9,
            regions_gone=(),
            groups_gone=(),
            alive=(3,),
            groups=(gms.GroupChange(7, "a", 1, 0, ((6, 1),), (3,)),),
        ),
    )
    assert script.says() == []
    assert script.client.next_timeout() == 5.5
    script.client.handle_timeout(6.0)
    assert RESUME in script.says()


def test_a_refusal_gives_up_what_was_not_answered() -> None:
    """Or the same request would be refused for ever."""
    script = Script().member_of_a()
    first, second = script.client.subscribe(join=["b"]), script.client.subscribe(join=["c"])
    assert script.hears(gms.Refused("too much")) == [WasRefused("too much", (first, second))]
    assert script.client.state == Refused("too much")
    script.closed().opened()
    assert script.says() == [RESUME]


def test_goodbye_is_the_last_word() -> None:
    """A client that left does not come back."""
    script = Script().member_of_a()
    script.client.goodbye()
    assert script.says() == [gms.Goodbye()]
    assert script.client.state == Departed()
    assert script.hears(update(2, view=2, base=1)) == []
    script.closed().opened()
    assert script.says() == []
    assert script.client.next_timeout() is None


def test_a_long_subscription_is_sent_in_parts_and_completes_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frame has a limit, what an application wants has none."""
    monkeypatch.setattr(client_module, "NAMES_PER_FRAME_MAX", 2)
    script = Script()
    script.opened()
    request = script.client.subscribe(join=["a", "b", "c"], leave=["z"])
    _, *frames = script.says()
    assert frames == [
        gms.Subscribe(request, leave=("z",)),
        gms.Subscribe(request, join=("a", "b")),
        gms.Subscribe(request, join=("c",)),
    ]
    script.hears(WELCOME)
    assert script.hears(gms.Subscribed(request, ()), gms.Subscribed(request, (1, 2))) == []
    assert script.hears(gms.Subscribed(request, (3,))) == [
        SubscriptionCompleted(request, {"a": 1, "b": 2, "c": 3})
    ]


def test_answers_nobody_waits_for_are_counted_and_dropped() -> None:
    """A confused GMS must not stop a node."""
    script = Script().member_of_a()
    assert script.hears(gms.Subscribed(99, (1,))) == []
    assert script.client.state == Member()
    assert script.client.misfits == 1


def test_an_update_that_is_awaited_is_confirmed_once_it_is_applied() -> None:
    """Whoever joins waits until nodes that may send have its view in use."""
    script = Script().member_of_a()
    script.says()
    awaited = gms.Update(2, groups=(gms.GroupChange(7, "", 2, 1, (), (), ()),), is_awaited=True)
    [changed] = script.hears(awaited)
    assert isinstance(changed, ViewsChanged)
    assert script.says() == [gms.Applied(2)]


def test_an_update_that_does_not_fit_is_not_confirmed() -> None:
    """The complete one that follows is."""
    script = Script().member_of_a()
    script.says()
    script.hears(
        gms.Update(2, groups=(gms.GroupChange(99, "", 2, 1, (), (), ()),), is_awaited=True)
    )
    assert gms.Applied(2) not in script.says()
