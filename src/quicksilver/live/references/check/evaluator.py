"""The type of a reference, found by going through it; what is wrong is noted on the way.

A reference means an object type, or a template that has yet to be given its
arguments. Where something is wrong the meaning is unknown (None), and nothing
that depends on it is complained about again. No object is made, no code is
loaded, and nothing is fetched: an external reference is what it is declared as,
unless the entries of a registry are given, which are then gone through as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, assert_never

import msgspec

from quicksilver.live.references.catalogue import (
    Catalogue,
    TypeUseError,
    UnknownTypeError,
    check_cast,
)
from quicksilver.live.references.check.arguments import Slot, bind_arguments, declare
from quicksilver.live.references.check.composites import find_composite_type
from quicksilver.live.references.check.externals import check_entry, check_folder
from quicksilver.live.references.model import (
    Composite,
    External,
    Parameter,
    Parameterized,
    Primitive,
    Reference,
    Template,
    Use,
    find_library,
    is_registry,
    step_of,
)
from quicksilver.live.references.names import LIBRARY, is_sha256, list_names
from quicksilver.live.references.typenames import TypeTerm
from quicksilver.live.types import model as types
from quicksilver.live.types.parameters import substitute_parameters
from quicksilver.live.types.subtyping import Checker

Severity: TypeAlias = Literal["error", "warning"]
Scope: TypeAlias = Mapping[str, Slot]

DEPTH_MAX = 60
"""References inside each other, registry entries included."""

STEPS_MAX = 50_000
"""References gone through in all: templates from a registry may be used many times."""


class Found(msgspec.Struct, frozen=True):
    """Something worth saying about a part of a reference."""

    path: str
    severity: Severity
    code: str
    text: str


class Applicable(msgspec.Struct, frozen=True):
    """A template: its parameters, and how its type follows from arguments."""

    parameters: tuple[Parameter, ...]
    instantiate: Callable[[Scope], types.ObjectType | None]

    @property
    def is_complete(self) -> bool:
        """Whether all parameters have defaults: then it is an object where one is wanted."""
        return all(one.default is not None for one in self.parameters)


Meaning: TypeAlias = types.ObjectType | Applicable | None


class Evaluator:
    """Finds the type of one reference and notes what is wrong with it."""

    def __init__(
        self,
        catalogue: Catalogue,
        checker: Checker,
        registry: Mapping[str, Reference] | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.checker = checker
        self.found: list[Found] = []
        self.registry = registry
        self.entries: dict[str, Meaning] = {}
        """What entries of the registry mean, once known."""

        self.fetching: list[str] = []
        """Entries of the registry that are being evaluated, the outermost first."""

        self._depth = 0
        self._steps = 0

    def error(self, path: str, code: str, text: str) -> None:
        """Note what keeps the reference from working."""
        self.found.append(Found(path, "error", code, text))

    def warn(self, path: str, code: str, text: str) -> None:
        """Note what is likely a mistake."""
        self.found.append(Found(path, "warning", code, text))

    def evaluate(self, reference: Reference, around: str, scope: Scope) -> Meaning:
        """Return what a reference means."""
        step = step_of(reference)
        path = f"{around}/{step}" if around else step
        self._steps += 1
        if self._depth >= DEPTH_MAX:
            self.error(path, "too-deep", f"references are nested more than {DEPTH_MAX} deep")
            return None
        if self._steps > STEPS_MAX:
            if self._steps == STEPS_MAX + 1:
                self.error(path, "too-large", f"more than {STEPS_MAX} references to go through")
            return None
        self._depth += 1
        try:
            return self._evaluate(reference, path, scope)
        finally:
            self._depth -= 1

    def evaluate_object(
        self, reference: Reference, path: str, scope: Scope
    ) -> types.ObjectType | None:
        """Return the type of a reference that must be an object, not a template."""
        inner = f"{path}/{step_of(reference)}"
        meaning = self.complete(self.evaluate(reference, path, scope), inner)
        if isinstance(meaning, Applicable):
            names = list_names(one.name for one in meaning.parameters)
            self.error(
                inner,
                "template-unapplied",
                f"a template is no object until it is given {names}",
            )
            return None
        return meaning

    def complete(self, meaning: Meaning, path: str) -> Meaning:
        """Return the type of a template that needs no arguments; anything else as it is."""
        if not isinstance(meaning, Applicable) or not meaning.is_complete:
            return meaning
        given = bind_arguments(self, meaning.parameters, (), path, {})
        return None if given is None else meaning.instantiate(given)

    def _evaluate(self, reference: Reference, path: str, scope: Scope) -> Meaning:
        match reference:
            case Composite():
                return self._cast(
                    find_composite_type(self, reference, path, scope), reference, path, scope
                )
            case External():
                return self._evaluate_external(reference, path, scope)
            case Parameterized():
                made = self._apply(reference, path, scope)
                return self._cast(made, reference, path, scope)
            case Primitive():
                return self._cast(self._find_primitive(reference, path), reference, path, scope)
            case Template():
                return self._evaluate_template(reference, path, scope)
            case Use():
                return self._cast(self._use(reference, path, scope), reference, path, scope)
            case _:
                assert_never(reference)

    # --- types ---------------------------------------------------------------------

    def resolve(self, term: TypeTerm, path: str, scope: Scope) -> types.AnyType | None:
        """Return the type that a term says; what it cannot mean is noted."""
        names = {
            name: slot.type
            for name, slot in scope.items()
            if slot.kind == "type" and slot.type is not None
        }
        try:
            type_ = self.catalogue.resolve(term, names)
        except UnknownTypeError as error:
            self.error(path, "unknown-type", str(error))
            return None
        except TypeUseError as error:
            self.error(path, "bad-type", str(error))
            return None
        problem = self.checker.check_constraints(type_)
        if problem is not None:
            self.error(path, "bad-constraint", f"a constraint cannot be read: {problem.line}")
            return None
        return type_

    def resolve_object(self, term: TypeTerm, path: str, scope: Scope) -> types.ObjectType | None:
        """Return the object type that a term says."""
        type_ = self.resolve(term, path, scope)
        match type_:
            case None | types.ObjectType():
                return type_
            case types.Parameter():
                # An object type that a template has yet to be given: nothing is known of it.
                return None
            case _:
                self.error(path, "bad-type", "an object type is needed here")
                return None

    def _cast(self, meaning: Meaning, reference: Reference, path: str, scope: Scope) -> Meaning:
        """See an object as the type it is declared as, if it is one of that type."""
        if reference.declared is None:
            return meaning
        declared = self.resolve_object(reference.declared, path, scope)
        meaning = self.complete(meaning, path)
        if isinstance(meaning, Applicable):
            self.error(path, "template-cast", "a template cannot be seen as another type")
            return meaning
        if meaning is None or declared is None:
            return declared
        problem = check_cast(self.checker, self.catalogue, meaning, declared)
        if problem is not None:
            self.error(path, "bad-cast", f"is not the type it is declared as: {problem.line}")
        return declared

    # --- kinds of references -------------------------------------------------------

    def _find_primitive(self, reference: Primitive, path: str) -> Meaning:
        known = self.catalogue.find(reference.identifier)
        if known is None:
            near = self.catalogue.suggest(reference.identifier)
            hint = f"; did you mean {near!r}?" if near else ""
            self.error(
                path,
                "unknown-primitive",
                f"nothing built in has the identifier {reference.identifier!r}{hint}",
            )
            return None
        if not known.parameters:
            return known.type
        return Applicable(known.parameters, lambda scope: self._bind(known.type, scope))

    def _bind(self, type_: types.ObjectType, scope: Scope) -> types.ObjectType | None:
        given = {name: slot.type for name, slot in scope.items() if slot.kind == "type"}
        if not given:
            return type_
        if any(slot is None for slot in given.values()):
            return None
        known = {name: slot for name, slot in given.items() if slot is not None}
        return substitute_parameters(type_, known)

    def _evaluate_template(self, reference: Template, path: str, scope: Scope) -> Applicable:
        """Look at the body as the parameters bound it: nobody gives them arguments here."""
        inner = {**scope, **declare(self, reference.parameters, path, scope)}
        self.evaluate_object(reference.body, f"{path}/body", inner)
        return self._make_applicable(reference, path, scope)

    def _make_applicable(self, reference: Template, path: str, scope: Scope) -> Applicable:
        return Applicable(
            reference.parameters,
            lambda given: self.evaluate_object(reference.body, f"{path}/body", {**scope, **given}),
        )

    def _apply(self, reference: Parameterized, path: str, scope: Scope) -> Meaning:
        template = reference.template
        meaning: Meaning
        if isinstance(template, Template):
            # Its body is looked at once, with the arguments it has here.
            meaning = self._make_applicable(template, f"{path}/using/template", scope)
        else:
            meaning = self.evaluate(template, f"{path}/using", scope)
        if isinstance(meaning, types.ObjectType):
            hint = "; declare its parameters" if isinstance(template, External) else ""
            self.error(path, "no-template", f"what it uses is no template{hint}")
            meaning = None
        parameters = None if meaning is None else meaning.parameters
        given = bind_arguments(self, parameters, reference.arguments, path, scope)
        self._look_at_library(reference, path)
        return None if meaning is None or given is None else meaning.instantiate(given)

    def _look_at_library(self, reference: Parameterized, path: str) -> None:
        template = reference.template
        if not isinstance(template, Primitive) or template.identifier != LIBRARY:
            return
        library = find_library(reference)
        if library is None or library.sha256 is None:
            return
        if not is_sha256(library.sha256):
            self.error(path, "bad-hash", "its SHA-256 is not 64 hexadecimal digits in lower case")

    def _use(self, reference: Use, path: str, scope: Scope) -> Meaning:
        slot = scope.get(reference.parameter)
        if slot is None:
            known = list_names(sorted(scope))
            text = f"no parameter {reference.parameter!r} is in scope; there is: {known}"
            self.error(path, "unknown-parameter", text)
            return None
        if slot.kind != "reference":
            text = f"the parameter {reference.parameter!r} is a {slot.kind}, not a reference"
            self.error(path, "bad-argument", text)
            return None
        return slot.type if isinstance(slot.type, types.ObjectType) else None

    def _evaluate_external(self, reference: External, path: str, scope: Scope) -> Meaning:
        source = self.evaluate_object(reference.source, f"{path}/from", scope)
        inner: Scope = scope
        if reference.parameters:
            inner = {**scope, **declare(self, reference.parameters, path, scope)}
        if reference.declared is None:
            self.error(path, "no-type", 'an external reference needs a type: as="..."')
            declared = None
        else:
            declared = self.resolve_object(reference.declared, path, inner)
        if source is not None:
            check_folder(self, source, declared, path)
        if is_registry(reference.source) and self.registry is not None:
            check_entry(self, reference, declared, path)
        if not reference.parameters:
            return declared
        term = reference.declared
        if term is None:
            return None
        return Applicable(
            reference.parameters,
            lambda given: self.resolve_object(term, path, {**scope, **given}),
        )
