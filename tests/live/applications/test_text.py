"""The shared text: any edits, in any interleaving, and everybody has the same text."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.applications.crdt import Edit, TextDocument, replay
from quicksilver.live.components.applications.text import CheckpointedText, ReliableText
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from tests.live.applications.desk import Desk, User
from tests.live.applications.memory_channels import MemoryCheckpointed, MemoryReliable

RELIABLE = primitive("0x3", Channel=primitive("test.reliable", group="t"))
CHECKPOINTED = primitive("quicksilver.text", channel=primitive("test.checkpointed", group="t"))
FORMS = pytest.mark.parametrize("form", [RELIABLE, CHECKPOINTED], ids=["reliable", "checkpointed"])

KINDS = (CheckpointedText, ReliableText, MemoryCheckpointed, MemoryReliable)

LETTERS = st.text(st.sampled_from("abé😀\n字"), max_size=4)
EDITS = st.lists(
    st.tuples(st.integers(0, 2), st.floats(0, 1), st.integers(0, 3), LETTERS, st.booleans()),
    max_size=25,
)


def follow(user: User) -> str:
    """The text of an editor that never looks at ``changed`` after the first."""
    text: str | None = None
    for event, *values in user.seen:
        if event == "changed" and text is None:
            text = values[0]
        elif event in {"edited", "mine"}:
            assert text is not None
            text = replay(text, [Edit(*values)])
    return text or ""


@pytest.mark.slow
@FORMS
@settings(deadline=None, max_examples=25)
@given(edits=EDITS, seed=st.integers(0, 1000))
def test_any_interleaving_of_edits_converges(
    form: Reference, edits: list[tuple[int, float, int, str, bool]], seed: int
) -> None:
    desk = Desk(seed, kinds=KINDS)
    desk.hub.delay_s = 0.2
    users = [desk.join(form, "Editor") for _ in range(3)]
    desk.run(5.0)
    for who, where, removed, inserted, is_alone in edits:
        user = users[who]
        length = len(user.component.document.text)
        position = int(where * length)
        edit = (position, min(removed, length - position), inserted)
        user.seen.append(("mine", *edit))
        user.port.edit(*edit)
        assert user.got("refused") == []
        desk.run(1.0 if is_alone else 0.05)
    desk.run(5.0)
    texts = {user.component.document.text for user in users}
    assert len(texts) == 1
    for user in users:
        assert user.last("changed") in texts
        assert follow(user) in texts


@FORMS
def test_late_comers_get_the_text(form: Reference) -> None:
    desk = Desk(kinds=KINDS)
    first = desk.join(form, "Editor")
    second = desk.join(form, "Editor")
    desk.run()
    first.port.edit(0, 0, "hello wörld")
    desk.run()
    second.port.edit(5, 1, ", ")
    desk.run()
    late = desk.join(form, "Editor")
    desk.run(5.0)
    assert late.last("changed") == first.last("changed") == "hello, wörld"


@FORMS
def test_what_is_typed_before_the_text_is_there_is_merged(form: Reference) -> None:
    desk = Desk(kinds=KINDS)
    first = desk.join(form, "Editor")
    desk.run()
    first.port.edit(0, 0, "there")
    desk.run()
    late = desk.join(form, "Editor")
    late.port.edit(0, 0, "hi ")
    desk.run(5.0)
    assert sorted(late.last("changed")) == sorted("hi there")
    assert late.last("changed") == first.last("changed")


@FORMS
def test_those_who_only_look_and_those_who_edit_share_a_replica(form: Reference) -> None:
    desk = Desk(kinds=KINDS)
    editor = desk.join(form, "Editor")
    reader = User(editor.runtime, editor.proxy, "Text")
    desk.run()
    reader.port.edit(0, 0, "one")
    editor.port.edit(3, 0, " two")
    reader.port.edit(99, 0, "nowhere")
    assert editor.got("edited") == [(0, 0, "one")]
    assert editor.got("changed") == ["", "one", "one two"]
    assert reader.got("changed") == ["", "one", "one two", "one two"]


def test_over_a_reliable_channel_one_answer_is_enough() -> None:
    desk = Desk(kinds=KINDS)
    desk.hub.delay_s = 0.001
    users = [desk.join(RELIABLE, "Editor") for _ in range(10)]
    desk.run(5.0)
    users[0].port.edit(0, 0, "x" * 1000)
    desk.run(0.5)
    before = len(desk.hub.sent)
    late = desk.join(RELIABLE, "Editor")
    desk.run(0.25)
    answers = [data for _, data in desk.hub.sent[before:] if b"answer" in data]
    assert late.last("changed") == "x" * 1000
    assert 1 <= len(answers) <= 2


def test_an_edit_that_a_channel_lost_is_made_up_for() -> None:
    """A channel promises to lose nothing; one that joined late, or split, may have."""
    desk = Desk(kinds=KINDS)
    users = [desk.join(RELIABLE, "Editor") for _ in range(2)]
    desk.run(5.0)
    channel = desk.hub.groups["t"].pop(1)
    users[0].port.edit(0, 0, "unheard")
    desk.run(0.1)
    desk.hub.groups["t"].append(channel)
    assert users[1].last("changed") == ""
    desk.run(20.0)
    assert users[1].last("changed") == "unheard"


def test_an_edit_on_its_way_is_in_no_checkpoint() -> None:
    """If its sender crashes before it is ordered, nobody may have it."""
    desk = Desk(kinds=KINDS)
    first = desk.join(CHECKPOINTED, "Editor")
    desk.run()
    first.port.edit(0, 0, "ordered")
    desk.run()
    first.component.document.edit(0, 0, "on its way ")
    late = desk.join(CHECKPOINTED, "Editor")
    desk.run()
    assert late.last("changed") == "ordered"


@pytest.mark.slow
@FORMS
@settings(deadline=None, max_examples=25)
@given(data=st.binary(max_size=40))
def test_garbage_is_counted_and_dropped(form: Reference, data: bytes) -> None:
    desk = Desk(kinds=KINDS)
    users = [desk.join(form, "Editor") for _ in range(2)]
    desk.run(5.0)
    desk.disturb("t", data)
    tag = b"\x92\xa4edit" if form is RELIABLE else b"\x91"
    desk.disturb("t", tag + msgspec.msgpack.encode(data))
    users[0].port.edit(0, 0, "fine")
    desk.run()
    assert [user.last("changed") for user in users] == ["fine", "fine"]
    assert users[0].component.bad_updates == users[1].component.bad_updates
    assert all(not user.proxy.failures for user in users)


@pytest.mark.parametrize(
    "edit", [(1, 0, "x"), (-1, 0, "x"), (0, 1, ""), (0, -1, ""), (0, 0, "\ud800")]
)
def test_an_edit_outside_the_text_is_refused(edit: tuple[int, int, str]) -> None:
    desk = Desk(kinds=KINDS)
    user = desk.join(CHECKPOINTED, "Editor")
    desk.run()
    user.port.edit(*edit)
    assert len(user.got("refused")) == 1
    assert not user.proxy.failures


def test_a_text_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quicksilver.live.components.applications.crdt.TEXT_CHARACTERS_MAX", 10)
    document = TextDocument(1)
    document.edit(0, 0, "0123456789")
    with pytest.raises(BadMessageError, match="would pass 10 characters"):
        document.edit(0, 0, "x")
    document.edit(0, 1, "x")
    assert document.text == "x123456789"


def test_equal_documents_have_equal_digests_whatever_order_they_were_made_in() -> None:
    one, other = TextDocument(1), TextDocument(2)
    third, fourth = TextDocument(3), TextDocument(4)
    updates = [one.edit(0, 0, "ab"), other.edit(0, 0, "cd")]
    for update in updates:
        third.merge(update)
    for update in reversed(updates):
        fourth.merge(update)
    assert third.text == fourth.text
    assert third.digest() == fourth.digest()
    assert one.digest() != other.digest()
