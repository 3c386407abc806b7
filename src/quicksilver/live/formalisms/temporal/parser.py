"""Reads temporal formulas.

    formula  := disjunct { ("->" | "implies") disjunct }        groups to the right
    disjunct := conjunct { ("or" | "|") conjunct }
    conjunct := since { ("and" | "&") since }
    since    := unary { "since" unary }                         groups to the left
    unary    := ("not" | "!" | "once" | "historically" | "previous"
                | "somewhere" | "everywhere") unary | primary
    primary  := "(" formula ")" | "true" | "false" | event | comparison
    event    := [endpoint "."] [("in" | "out") "."] name ["(" [argument {"," argument}] ")"]
    argument := operand | "_" | field "=" (operand | "_")
    comparison := operand ("==" | "!=" | "<" | "<=" | ">" | ">=") operand
    operand  := variable | number | "text" | "true" | "false" | "none"

``connect`` and ``disconnect`` are events of every endpoint. An event that comes in
and goes out under one name means either, unless it is said which.
"""

from __future__ import annotations

from quicksilver.live.formalisms.structure import CONNECT, DISCONNECT, Direction, Place, Structure
from quicksilver.live.formalisms.temporal.syntax import (
    And,
    Compares,
    Constant,
    Formula,
    Matches,
    Not,
    Occurs,
    Once,
    Operand,
    Previous,
    Since,
    Somewhere,
    Truth,
    Variable,
    compare,
    either,
    implication,
    is_late,
    negate,
    variables_of,
    walk,
)
from quicksilver.live.formalisms.tokens import Cursor, Token
from quicksilver.live.types.model import EventType, Recursive, StructOf
from quicksilver.live.types.walk import unfold

DEPTH_MAX = 40
VARIABLES_MAX = 3

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "=")
_QUANTIFIERS = ("somewhere", "everywhere")
_PREFIXES = ("not", "!", "once", "historically", "previous", *_QUANTIFIERS)
_CONSTANTS: dict[str, Constant] = {
    "true": Constant("bool", True),
    "false": Constant("bool", False),
    "none": Constant("none", None),
}


def parse_formula(formalism: str, text: str, structure: Structure) -> Formula:
    """Read a formula about a structure, or raise FormulaError with the column."""
    parser = _Parser(formalism, text, structure)
    formula = parser.parse_implication()
    parser.finish(formula)
    return formula


class _Parser:
    """One reading of one formula."""

    def __init__(self, formalism: str, text: str, structure: Structure) -> None:
        self._cursor = Cursor(formalism, text)
        self._structure = structure
        self._depth = 0
        self._inside_quantifier = False
        self._compared: list[tuple[Token, Formula]] = []

    def finish(self, formula: Formula) -> None:
        """Check what depends on the whole formula, once all of it has been read."""
        cursor = self._cursor
        cursor.expect_end()
        bound = {
            one.operand.name
            for one in walk(formula)
            if isinstance(one, Matches) and isinstance(one.operand, Variable)
        }
        for token, comparison in self._compared:
            for variable in variables_of(comparison):
                if variable.name not in bound:
                    cursor.fail(f"no event gives a value to {variable.name!r}", token)
        remembered = {
            inner
            for one in walk(formula)
            if isinstance(one, Once | Previous | Since)
            for inner in walk(one)
            if isinstance(inner, Compares)
        }
        for token, comparison in self._compared:
            if any(one in remembered and is_late(one) for one in walk(comparison)):
                problem = "only variables may be compared for equality inside a temporal operator"
                cursor.fail(f"{problem}: say it outside", token)
        if len(bound) > VARIABLES_MAX:
            cursor.fail(f"{len(bound)} variables are more than {VARIABLES_MAX}")

    def parse_implication(self) -> Formula:
        """Read a formula of any kind."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._cursor.fail(f"nested deeper than {DEPTH_MAX}")
        left = self._parse_disjunction()
        if self._cursor.accept("->", "=>", "implies"):
            left = implication(left, self.parse_implication())
        self._depth -= 1
        return left

    def _parse_disjunction(self) -> Formula:
        parts = [self._parse_conjunction()]
        while self._cursor.accept("or", "|", "||"):
            parts.append(self._parse_conjunction())
        return either(*parts)

    def _parse_conjunction(self) -> Formula:
        parts = [self._parse_since()]
        while self._cursor.accept("and", "&", "&&"):
            parts.append(self._parse_since())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _parse_since(self) -> Formula:
        left = self._parse_unary()
        chained = 0
        while token := self._cursor.accept("since"):
            chained += 1
            if chained > DEPTH_MAX:
                self._cursor.fail(f"nested deeper than {DEPTH_MAX}", token)
            left = Since(left, self._parse_unary())
        return left

    def _parse_unary(self) -> Formula:
        cursor = self._cursor
        token = cursor.accept(*_PREFIXES)
        if token is None:
            return self._parse_primary()
        self._depth += 1
        if self._depth > DEPTH_MAX:
            cursor.fail(f"nested deeper than {DEPTH_MAX}", token)
        word = token.text.lower()
        if word in _QUANTIFIERS:
            if self._inside_quantifier:
                cursor.fail(f"{word!r} inside a quantifier: say it outside", token)
            self._inside_quantifier = True
        body = self._parse_unary()
        if word in _QUANTIFIERS:
            self._inside_quantifier = False
        self._depth -= 1
        match word:
            case "not" | "!":
                return negate(body)
            case "once":
                return Once(body)
            case "historically":
                return Not(Once(negate(body)))
            case "previous":
                return Previous(body)
            case "somewhere":
                return Somewhere(body)
            case _:
                return Not(Somewhere(negate(body)))

    def _parse_primary(self) -> Formula:
        cursor = self._cursor
        if cursor.accept("("):
            formula = self.parse_implication()
            cursor.expect(")")
            return formula
        token = cursor.token
        compared = cursor.peek().kind == "sign" and cursor.peek().text in _COMPARISONS
        if compared or token.kind in {"number", "text"}:
            return self._parse_comparison()
        if token.kind != "word":
            cursor.fail(f"expected an event or a formula, found {token}")
        if token.text.lower() in {"true", "false"}:
            return Truth(cursor.take().text.lower() == "true")
        return self._parse_event()

    def _parse_comparison(self) -> Formula:
        cursor = self._cursor
        token = cursor.token
        left = self._parse_operand()
        operator = cursor.expect(*_COMPARISONS).text
        right = self._parse_operand()
        formula = compare(operator, left, right)
        self._compared.append((token, formula))
        return formula

    def _parse_operand(self) -> Operand:
        token = self._cursor.take()
        if token.kind == "number":
            number = float(token.text) if "." in token.text else int(token.text)
            return Constant("number", number)
        if token.kind == "text":
            return Constant("str", token.text)
        if token.kind != "word":
            self._cursor.fail(f"expected a variable or a value, found {token}", token)
        return _CONSTANTS.get(token.text.lower()) or Variable(token.text)

    def _parse_event(self) -> Formula:
        cursor = self._cursor
        first = cursor.token
        words = [cursor.expect_kind("word", "an event").text]
        while cursor.accept("."):
            words.append(cursor.expect_kind("word", "an event").text)
        places = self._find_places(words, first)
        arguments: list[tuple[Token, str | None, Operand | None]] = []
        if cursor.accept("("):
            while not cursor.is_at(")"):
                arguments.append(self._parse_argument())
                if not cursor.accept(","):
                    break
            cursor.expect(")")
        return either(*(self._say_event(place, arguments) for place in places))

    def _find_places(self, words: list[str], first: Token) -> list[Place]:
        """Return the places that ``[endpoint.][in.|out.]name`` means."""
        *before, name = words
        direction: Direction = ""
        if before and before[-1] in {"in", "out"}:
            direction = "in" if before.pop() == "in" else "out"
        endpoint = before.pop(0) if before else ""
        structure = self._structure
        known_endpoint = endpoint in structure.endpoints if structure.endpoints else not endpoint
        places = structure.find(endpoint, direction, name) if known_endpoint and not before else []
        if not places:
            known = ", ".join([*structure.names, CONNECT, DISCONNECT])
            self._cursor.fail(f"no event {'.'.join(words)!r}; there is {known}", first)
        return places

    def _parse_argument(self) -> tuple[Token, str | None, Operand | None]:
        cursor = self._cursor
        token, field = cursor.token, None
        if token.kind == "word" and cursor.peek().text in {"=", "=="}:
            field = cursor.take().text
            cursor.take()
        operand = None if cursor.accept("_") else self._parse_operand()
        return token, field, operand

    def _say_event(
        self, place: Place, arguments: list[tuple[Token, str | None, Operand | None]]
    ) -> Formula:
        event = self._structure.event_at(place)
        parts: list[Formula] = [Occurs(place)]
        for position, (token, field, operand) in enumerate(arguments):
            path = self._find_path(event, position, field, len(arguments), token)
            if operand is not None:
                parts.append(Matches(place, path, operand))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _find_path(
        self, event: EventType, position: int, field: str | None, count: int, token: Token
    ) -> str:
        value = unfold(event.value) if isinstance(event.value, Recursive) else event.value
        if field is not None:
            if not isinstance(value, StructOf) or field not in value.by_name:
                known = ", ".join(value.by_name) if isinstance(value, StructOf) else "none"
                self._cursor.fail(f"{event.name!r} has no field {field!r}; there is {known}", token)
            return field
        if count == 1 and len(event.arguments) <= 1:
            return ""
        if position >= len(event.arguments):
            has = ", ".join(event.arguments) or "no arguments"
            self._cursor.fail(f"{event.name!r} has {has}: say which field is meant", token)
        return event.arguments[position]
