"""Random programs as text: any that the grammar allows, whether or not they mean something."""

from __future__ import annotations

from hypothesis import strategies as st

names = st.sampled_from(["P", "Q", "Last", "x", "y", "a1", "_t", "Stable"])
numbers = st.integers(0, 2**63).map(str)
types = st.recursive(
    st.sampled_from(["int", "bool", "address", "intset"]),
    lambda inner: st.one_of(
        inner.map(lambda t: f"set < {t} >"),
        st.tuples(inner, inner).map(lambda p: f"pair<{p[0]} , {p[1]}>"),
        st.tuples(inner, inner).map(lambda p: f"map < {p[0]}, {p[1]} >"),
    ),
    max_leaves=4,
)
_operators = st.sampled_from(
    ["union", "∪", "∩", "intersection", "\\", "∖", "+", "-", "−", "*", "×", "/"]
)
_comparisons = st.sampled_from(
    ["=", "==", "!=", "≠", "<", ">", "<=", "≤", ">=", "≥", "in", "∈", "subset", "⊆"]
)
_connectives = st.sampled_from(["&&", "∧", "||", "∨", "=>", "⇒"])
_aggregators = st.sampled_from(["∩", "∪", "union", "min", "max", "+", "∧", "||", "top(3)", "huh"])
_leaves = st.one_of(
    names,
    numbers,
    st.sampled_from(["true", "false", "self", "{}", "P.first", "a.P", "Q(x)"]),
    names.map(lambda n: f"parent . {n}"),
    names.map(lambda n: f"global.{n}"),
    names.map(lambda n: f"parent (select). {n}"),
    st.tuples(_aggregators, names).map(lambda p: f"children( {p[0]} ).{p[1]}"),
)


def _wrap(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    closed = inner.map(lambda e: f"({e})")
    return st.one_of(
        st.tuples(closed, _operators, closed, _operators, closed).map(" ".join),
        st.tuples(closed, _comparisons, closed).map(" ".join),
        st.tuples(closed, _connectives, closed, _connectives, closed).map(" ".join),
        closed.map(lambda e: f"! {e}"),
        closed.map(lambda e: f"- {e}"),
        inner.map(lambda e: f"| {e} |"),
        inner.map(lambda e: f"min({e})"),
        st.tuples(closed, closed).map(lambda p: f"< {p[0]} , {p[1]} >"),
        st.tuples(inner, inner, inner).map(lambda p: f"{{ {p[0]}, {p[1]} .. {p[2]} }}"),
        st.tuples(inner, inner, inner).map(lambda p: f"if {p[0]} then {p[1]} else {p[2]}"),
        st.tuples(closed, inner).map(lambda p: f"{p[0]}[ {p[1]} ] . second"),
    )


expressions = st.recursive(_leaves, _wrap, max_leaves=8)
labels = st.sampled_from(["", "", "(R1)", "( Long_one )"])
modifiers = st.sampled_from(["", "", "[mono]", "[ mono , all,strict ]"])
changes = st.one_of(
    st.tuples(names, st.sampled_from(["+=", "-=", ":=", "∪=", "max="]), expressions).map(
        lambda p: f"{p[0]} {p[1]} {p[2]};"
    ),
    st.tuples(names, expressions, expressions).map(lambda p: f"{p[0]} [ {p[1]} ] := {p[2]} ;"),
    st.tuples(names, expressions).map(lambda p: f"{p[0]} ( {p[1]} , 3 );"),
)
actions = st.recursive(
    changes,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda a: "{" + " ".join(a) + "}"),
        st.tuples(names, expressions, inner).map(lambda p: f"foreach({p[0]} in {p[1]}) {p[2]}"),
        st.tuples(expressions, inner).map(lambda p: f"if({p[0]}) {{ {p[1]} }}"),
        st.tuples(expressions, inner, inner).map(
            lambda p: f"if ( {p[0]} ) {{{p[1]}}}\nelse {p[2]}"
        ),
    ),
    max_leaves=4,
)


def _lines(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(" ".join)


def _just(text: str) -> st.SearchStrategy[str]:
    return st.just(text)


_assignments = st.sampled_from([":=", "∪=", "union=", "∩=", "+=", "max=", "min=", "|=", "&="])
_targets = st.one_of(
    names,
    names.map(lambda n: f"global.{n}"),
    names.map(lambda n: f"local . {n}"),
    names.map(lambda n: f"{n}(x)"),
    st.tuples(names, expressions).map(lambda p: f"{p[0]}[{p[1]}]"),
)
_semicolon = _just(";")
statements = {
    "interface": st.one_of(
        _lines(st.sampled_from(["callback", ""]), names, _just("("), types, names, _just(") ;")),
        names.map(lambda n: f"{n}();"),
    ),
    "properties": st.one_of(
        _lines(types, names, _semicolon), _lines(types, names, _just("="), expressions, _semicolon)
    ),
    "bindings": st.one_of(
        _lines(_just("on"), names, _just("(m,k) :"), actions, labels),
        _lines(
            _just("on update"),
            names,
            _just("("),
            st.sampled_from(["added", "removed", "assign"]),
            names,
            _just(") :"),
            actions,
            labels,
        ),
    ),
    "rules": _lines(_targets, modifiers, _assignments, modifiers, expressions, _semicolon, labels),
    "conditions": _lines(expressions, _semicolon, labels),
    "invariants": _lines(
        st.sampled_from(["invariant", "eventually"]),
        st.sampled_from(["", "forall a :", "∀ any a, b :"]),
        expressions,
        _semicolon,
        labels,
    ),
}
_gaps = st.sampled_from(["\n", "\n\n\n", " ", " // one\n", "\n// own\n", " /* two */ ", "/*a\nb*/"])


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Return the text of a program, with comments between its statements."""
    parts = [draw(_gaps), "protocol ", draw(names), draw(st.sampled_from(["", "(int n = 3)"])), "{"]
    for section in draw(st.lists(st.sampled_from(sorted(statements)), unique=True, max_size=4)):
        parts += [draw(_gaps), section, draw(_gaps), "{"]
        for one in draw(st.lists(statements[section], max_size=4)):
            parts += [draw(_gaps), one]
        parts += [draw(_gaps), "}"]
    return "".join([*parts, draw(_gaps), "}", draw(_gaps)])


@st.composite
def commented_programs(draw: st.DrawFn) -> str:
    """Return a program in which comments and line breaks stand between any two words."""
    text = draw(programs())
    words = text.split(" ")
    for _ in range(draw(st.integers(0, 5))):
        words.insert(draw(st.integers(0, len(words))), draw(_gaps))
    return " ".join(words)


broken_programs = st.builds(
    lambda text, at, cut, put: (
        text[: at % (len(text) + 1)] + put + text[at % (len(text) + 1) + cut :]
    ),
    programs(),
    st.integers(0, 10_000),
    st.integers(0, 20),
    st.one_of(
        st.text(max_size=5), st.sampled_from(["}", "{", ";", "(", "rules {", "/*", "∪", ":="])
    ),
)
