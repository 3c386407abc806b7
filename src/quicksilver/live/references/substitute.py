"""Templates given their arguments: the body, with what its parameters are set to in their place.

The result is a reference like any other, portable and without a trace of the
template, so that it can be handed on (2.1.5 C).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar, assert_never

import msgspec

from quicksilver.live.references.catalogue import Catalogue
from quicksilver.live.references.model import (
    Argument,
    ArgumentContent,
    Component,
    Composite,
    External,
    Node,
    Parameter,
    Parameterized,
    Primitive,
    Reference,
    ReferenceArgument,
    Template,
    TypeArgument,
    Use,
    ValueArgument,
)
from quicksilver.live.references.typenames import TypeLiteral, TypeName, TypeTerm
from quicksilver.live.types.model import AnyType
from quicksilver.live.types.parameters import substitute_parameters

Given: TypeAlias = Mapping[str, ArgumentContent]
N = TypeVar("N", bound=Node)


def apply_template(
    template: Template, arguments: tuple[Argument, ...], catalogue: Catalogue
) -> Reference:
    """Return the body of a template with these arguments; defaults stand for what is not given."""
    given = complete(template.parameters, arguments)
    return substitute(template.body, given, catalogue)


def complete(
    parameters: tuple[Parameter, ...], arguments: tuple[Argument, ...]
) -> dict[str, ArgumentContent]:
    """Return what each parameter is set to, by argument or by default."""
    given = {argument.name: argument.content for argument in arguments}
    for parameter in parameters:
        if parameter.name not in given and parameter.default is not None:
            given[parameter.name] = parameter.default
    return given


def substitute(reference: Reference, given: Given, catalogue: Catalogue) -> Reference:
    """Return a reference in which parameters are replaced by what they are set to."""
    if not given:
        return reference
    return _Substitution(catalogue, given).of(reference)


class _Substitution:
    def __init__(self, catalogue: Catalogue, given: Given) -> None:
        self._catalogue = catalogue
        self._given = given
        self._types: dict[str, AnyType] = {
            name: catalogue.resolve(content.type)
            for name, content in given.items()
            if isinstance(content, TypeArgument)
        }

    def of(self, reference: Reference) -> Reference:
        match reference:
            case Use():
                return self._use(reference)
            case Primitive():
                return self._plain(reference)
            case Composite():
                parts = tuple(
                    Component(one.name, self.of(one.reference)) for one in reference.components
                )
                return self._plain(reference, components=parts)
            case Parameterized():
                arguments = tuple(
                    Argument(one.name, self._content(one.content)) for one in reference.arguments
                )
                template = self.of(reference.template)
                return self._plain(reference, template=template, arguments=arguments)
            case External():
                inner = self._without(reference.parameters)
                parameters = tuple(map(inner._parameter, reference.parameters))
                return inner._plain(
                    reference, source=self.of(reference.source), parameters=parameters
                )
            case Template():
                inner = self._without(reference.parameters)
                parameters = tuple(map(inner._parameter, reference.parameters))
                return inner._plain(reference, body=inner.of(reference.body), parameters=parameters)
            case _:
                assert_never(reference)

    def _use(self, reference: Use) -> Reference:
        content = self._given.get(reference.parameter)
        if not isinstance(content, ReferenceArgument):
            return reference  # of a template further in
        if reference.declared is None:
            return content.reference
        # Two casts, one after the other: a composite that shows all of what is inside
        # would lose nothing, but the outer cast alone already hides what it must.
        return msgspec.structs.replace(content.reference, declared=self._term(reference.declared))

    def _without(self, parameters: tuple[Parameter, ...]) -> _Substitution:
        """Parameters of an inner template hide ours of the same name."""
        hidden = {one.name for one in parameters} & self._given.keys()
        if not hidden:
            return self
        kept = {name: one for name, one in self._given.items() if name not in hidden}
        return _Substitution(self._catalogue, kept)

    def _plain(self, reference: N, **changes: object) -> N:
        if reference.declared is not None:
            changes["declared"] = self._term(reference.declared)
        return msgspec.structs.replace(reference, **changes) if changes else reference

    def _parameter(self, parameter: Parameter) -> Parameter:
        bound = None if parameter.bound is None else self._term(parameter.bound)
        default = None if parameter.default is None else self._content(parameter.default)
        return msgspec.structs.replace(parameter, bound=bound, default=default)

    def _content(self, content: ArgumentContent) -> ArgumentContent:
        match content:
            case ReferenceArgument(Use(parameter=name)) if name in self._given:
                return self._given[name]
            case ReferenceArgument(reference):
                return ReferenceArgument(self.of(reference))
            case TypeArgument(term):
                return TypeArgument(self._term(term))
            case ValueArgument():
                return content
            case _:
                assert_never(content)

    def _term(self, term: TypeTerm) -> TypeTerm:
        if not self._types:
            return term
        if isinstance(term, TypeName):
            if not _mentions(term, self._types):
                return term
            return TypeLiteral(self._catalogue.resolve(term, self._types))
        return TypeLiteral(substitute_parameters(term.type, self._types))


def _mentions(term: TypeName, names: Mapping[str, object]) -> bool:
    return term.name in names or any(_mentions(one, names) for one in term.arguments)
