"""Library programs with words exchanged: what the checker lets through compiles and runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.properties import library
from quicksilver.properties.check.program import check
from quicksilver.properties.compile.digest import digest
from quicksilver.properties.compile.program import compile_checked
from quicksilver.properties.explain.drawing import draw
from quicksilver.properties.plan import Event
from quicksilver.properties.run.program import Program
from quicksilver.properties.run.steps import (
    blank,
    close_round,
    handle_event,
    make_domain,
    make_node,
    merge,
    open_round,
    visit,
)
from quicksilver.properties.syntax.tokens import span_of, tokenize
from quicksilver.properties.values.kinds import (
    AddressKind,
    BoolKind,
    IntKind,
    Kind,
    Value,
    default_of,
    has_kind,
)

TEXTS = [library.text_of(name) for name in library.names()]
WORDS = sorted({str(token) for text in TEXTS for token in tokenize(text).tokens} - {""})


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """Return a library program in which a few words are others of the library, or gone."""
    text = draw(st.sampled_from(TEXTS))
    tokens = list(tokenize(text).tokens[:-1])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(tokens) - 1))
        near = [str(token) for token in tokens if token.type == tokens[at].type]
        word = draw(st.sampled_from(near) | st.sampled_from(WORDS) | st.just(""))
        span = span_of(tokens[at])
        text = text[: span.start] + word + text[span.end :]
        tokens = list(tokenize(text).tokens[:-1]) or tokens
    return text


def sample(kind: Kind) -> Value:
    match kind:
        case IntKind():
            return 3
        case BoolKind():
            return True
        case AddressKind():
            return "b"
        case _:
            return default_of(kind)


def arguments_of(event: Event) -> tuple[Value, ...]:
    return tuple(sample(kind) for _, kind in event.parameters)


def run_two_rounds(program: Program) -> None:
    """Two nodes and the domain at the top; every value is of its property's kind throughout."""
    nodes = [make_node(program, name, 1) for name in "ab"]
    top = make_domain(program, "top", 1, "a", 1, is_top=True)
    for _ in range(2):
        for at in range(len(nodes)):
            for event, declared in enumerate(program.plan.callbacks):
                nodes[at], _ = handle_event(program, nodes[at], event, arguments_of(declared))
        top, word = open_round(program, top)
        report = blank(program)
        for at, node in enumerate(nodes):
            nodes[at], own, _ = visit(program, node, word, at, 2)
            report = merge(program, report, own)
        top = close_round(program, top, word.round, report, 2, is_top=True)
        for domain in (*nodes, top):
            for declared_property, slot in zip(program.plan.properties, domain.slots, strict=True):
                value = slot.value
                assert value is None or has_kind(value, declared_property.kind), declared_property


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(mutants())
def test_what_is_sound_compiles_and_keeps_its_types(text: str) -> None:
    """The checker's types hold when the program runs."""
    checked = check(text)
    if not checked.is_sound:
        assert checked.diagnostics
        return
    plan = compile_checked(checked)
    assert digest(plan) == digest(compile_checked(check(text)))
    assert draw(plan)
    run_two_rounds(Program(plan))


@pytest.mark.parametrize("text", TEXTS, ids=library.names())
def test_the_library_keeps_its_types(text: str) -> None:
    run_two_rounds(Program(compile_checked(check(text))))
