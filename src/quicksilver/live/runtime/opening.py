"""Dereferencing: from a reference to a running proxy (2.1.5).

A reference is checked as a whole before anything runs. What only running can
show is checked on the way: what a folder answers, what a library holds, whether
a constructor works. If any part fails, all that was begun is ended again, and
the error names the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from quicksilver.live.references.catalogue import check_cast
from quicksilver.live.references.check import Checked, check, require_sound
from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.model import (
    Argument,
    ArgumentContent,
    Composite,
    External,
    Parameterized,
    Primitive,
    Reference,
    ReferenceArgument,
    Template,
    TypeArgument,
    Use,
    ValueArgument,
    step_of,
)
from quicksilver.live.references.names import list_names
from quicksilver.live.references.substitute import apply_template, complete
from quicksilver.live.references.typenames import TypeTerm
from quicksilver.live.references.values import from_value
from quicksilver.live.references.xml import Parsed, fingerprint
from quicksilver.live.runtime.allowance import Allowance
from quicksilver.live.runtime.cells import Cell, Chain, Closeable
from quicksilver.live.runtime.endpoints import End
from quicksilver.live.runtime.errors import LimitError, LiveRuntimeError, OpenError
from quicksilver.live.runtime.folders import ask_folder
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.types.model import AnyType, Endpoint, ObjectType, ValueType

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime

CHAIN_MAX = 40
"""External references that lead to each other."""

DEPTH_MAX = 60
"""Components that open each other."""


class Way(msgspec.Struct, frozen=True):
    """How dereferencing got to a part of a reference."""

    path: str
    """Where in the reference."""
    name: str
    """What the proxy will be called."""
    chain: Chain = ()
    depth: int = 0
    """How many components, each of which opened the next, are around."""
    allowance: Allowance | None = None
    """What whoever opens this is limited to."""

    def to(self, step: str, name: str = "") -> Way:
        """Return the way to a part inside."""
        path = f"{self.path}/{step}" if self.path else step
        label = f"{self.name}.{name}" if name else self.name
        return msgspec.structs.replace(self, path=path, name=label)


class Opener:
    """Opens references within one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def open(
        self,
        reference: Reference | Parsed,
        name: str = "",
        *,
        within: Cell | None = None,
        allowance: Allowance | None = None,
    ) -> Proxy:
        """Return a running proxy; raises UnsoundReferenceError, OpenError.

        ``within`` is the component that opens it: its limits hold here, too.
        """
        runtime = self._runtime
        parsed = reference if isinstance(reference, Parsed) else Parsed(reference, {})
        checked = require_sound(parsed, runtime.catalogue, checker=runtime.checker)
        plain = parsed.reference
        start = Way("", name or step_of(plain), allowance=allowance)
        if within is not None:
            start = Way(
                "", start.name, within.chain, within.depth + 1, allowance or within.allowance
            )
        if start.depth > DEPTH_MAX:
            raise OpenError(step_of(plain), f"more than {DEPTH_MAX} components open each other")
        try:
            if checked.type is None and checked.parameters:
                names = list_names(one.name for one in checked.parameters if one.default is None)
                problem = f"a template is no object until it is given {names}"
                raise OpenError(step_of(plain), problem)
            return await self._open(plain, start)
        except OpenError as error:
            if error.place is None and parsed.places:
                # Of what a component opened in turn, the file knows the component.
                place = parsed.locate(error.path.partition(" → ")[0])
                error.place = msgspec.structs.replace(place, path=error.path)
            raise

    async def _open(self, reference: Reference, around: Way) -> Proxy:
        way = around.to(step_of(reference))
        match reference:
            case Composite():
                proxy = await self._open_composite(reference, way)
            case External():
                found, chain = await self._fetch(reference, way)
                inner = msgspec.structs.replace(
                    way, path=f"{way.path}[{reference.name}]", chain=chain
                )
                proxy = await self._open(found, inner)
            case Parameterized():
                proxy = await self._apply(reference, way)
            case Primitive():
                proxy = await self._make(reference, self._complete(reference), way)
            case Template():
                body = apply_template(reference, (), self._runtime.catalogue)
                proxy = await self._open(body, way.to("body"))
            case Use():
                raise OpenError(way.path, f"nothing sets the parameter {reference.parameter!r}")
            case _:
                assert_never(reference)
        if reference.declared is None:
            return proxy
        return await self._cast(proxy, reference.declared, way.path)

    async def _cast(
        self,
        proxy: Proxy,
        term: TypeTerm,
        path: str,
        scope: Mapping[str, AnyType] | None = None,
    ) -> Proxy:
        """See a proxy as the type that a reference says; what cannot be is closed."""
        try:
            declared = self._runtime.catalogue.resolve(term, scope)
            assert isinstance(declared, ObjectType)
            return await self._runtime.cast(proxy, declared)
        except (LiveRuntimeError, LiveReferenceError) as error:
            proxy.close()
            raise OpenError(path, str(error)) from error
        except BaseException:
            proxy.close()
            raise

    # Composites

    async def _open_composite(self, reference: Composite, way: Way) -> Proxy:
        runtime = self._runtime
        parts: dict[str, Proxy] = {}
        owned: list[Closeable] = []
        try:
            for part in reference.components:
                proxy = await self._open(
                    part.reference, way.to(f"component[{part.name}]", part.name)
                )
                parts[part.name] = proxy
                owned.append(proxy)
            for link in reference.connections:
                one = parts[link.one.component].endpoint(link.one.name)
                other = parts[link.other.component].endpoint(link.other.name)
                try:
                    owned.append(runtime.connect(one, other))
                except LiveRuntimeError as error:
                    place = f"{way.path}/connection[{link.one},{link.other}]"
                    raise OpenError(place, str(error)) from error
            ends: dict[str, End] = {}
            types: list[Endpoint] = []
            for export in reference.exports:
                inner = parts[export.endpoint.component].endpoint(export.endpoint.name)
                ends[export.name] = inner.end
                types.append(Endpoint(export.name, inner.type))
        except BaseException:
            for one_owned in reversed(owned):
                one_owned.close()
            raise
        cells = tuple(cell for proxy in parts.values() for cell in proxy.cells)
        return Proxy(runtime, way.name, ObjectType(tuple(types)), ends, tuple(owned), cells)

    # External references

    async def _fetch(self, reference: External, way: Way) -> tuple[Reference, Chain]:
        """Return what the folder keeps, once it is known to be what was declared."""
        path, chain = way.path, way.chain
        step = (fingerprint(reference.source), reference.name)
        if step in chain:
            names = [entry for _, entry in chain[chain.index(step) :]]
            circle = " → ".join([*names, reference.name])
            raise OpenError(path, f"external references go in a circle: {circle}")
        if len(chain) >= CHAIN_MAX:
            raise OpenError(path, f"more than {CHAIN_MAX} external references lead to each other")
        chain = (*chain, step)
        source = msgspec.structs.replace(way.to("from", "from"), chain=chain)
        folder = await self._open(reference.source, source)
        try:
            found = await ask_folder(self._runtime, folder, reference.name, path)
        finally:
            folder.close()
        self._check_answer(reference, found, path)
        return found, chain

    def _check_answer(self, reference: External, found: Reference, path: str) -> None:
        runtime = self._runtime
        what = f"what the folder keeps as {reference.name!r}"
        checked = self._check(found, what, path)
        if reference.parameters:
            if not checked.parameters:
                raise OpenError(path, f"{what} is no template")
            return
        if checked.type is None and checked.parameters:
            raise OpenError(path, f"{what} is a template")
        if checked.type is None or reference.declared is None:
            return
        declared = runtime.catalogue.resolve(reference.declared)
        assert isinstance(declared, ObjectType)
        problem = check_cast(runtime.checker, runtime.catalogue, checked.type, declared)
        if problem is not None:
            raise OpenError(path, f"{what} is of another type: {problem.line}")

    def _check(self, reference: Reference, what: str, path: str) -> Checked:
        runtime = self._runtime
        checked = check(reference, runtime.catalogue, checker=runtime.checker)
        for finding in checked.findings:
            if finding.severity == "error":
                raise OpenError(path, f"{what} is unsound: {finding}")
        return checked

    # Templates

    async def _apply(self, reference: Parameterized, way: Way) -> Proxy:
        template = reference.template
        place = way.to("using")
        externals: list[External] = []
        while isinstance(template, External):
            externals.append(template)
            template, chain = await self._fetch(template, place)
            place = msgspec.structs.replace(place.to("external"), chain=chain)
        if externals:
            # What the folder keeps may want other parameters than were declared.
            applied = Parameterized(template=template, arguments=reference.arguments)
            self._check(applied, f"what the folder keeps as {externals[0].name!r}", way.path)
        if isinstance(template, Template):
            body = apply_template(template, reference.arguments, self._runtime.catalogue)
            proxy = await self._open(body, place.to("template/body"))
        elif isinstance(template, Primitive):
            given = self._complete(template, reference.arguments)
            proxy = await self._make(template, given, way)
        else:
            raise OpenError(place.path, f"a {step_of(template)} is no template")
        for external in reversed(externals):
            if external.declared is not None:
                types = self._types_given(external, reference)
                proxy = await self._cast(proxy, external.declared, f"{way.path}/using", types)
        return proxy

    def _complete(
        self, primitive: Primitive, arguments: tuple[Argument, ...] = ()
    ) -> dict[str, ArgumentContent]:
        known = self._runtime.catalogue.find(primitive.identifier)
        return complete(known.parameters if known is not None else (), arguments)

    def _types_given(self, external: External, reference: Parameterized) -> dict[str, AnyType]:
        return {
            name: self._runtime.catalogue.resolve(content.type)
            for name, content in complete(external.parameters, reference.arguments).items()
            if isinstance(content, TypeArgument)
        }

    # Primitives

    async def _make(
        self, reference: Primitive, given: dict[str, ArgumentContent], way: Way
    ) -> Proxy:
        runtime = self._runtime
        cls = runtime.components.find(reference.identifier)
        if cls is None:
            raise OpenError(way.path, f"no component here implements {reference.identifier!r}")
        types, arguments = self._read_arguments(given)
        try:
            if way.allowance is not None:
                way.allowance.admit(reference.identifier, way.depth)
        except LimitError as error:
            raise OpenError(way.path, str(error)) from error
        cell = Cell(runtime, way.name, way.depth, way.allowance)
        cell.chain = way.chain
        try:
            blueprint = runtime.components.blueprint(cls, types)
            for parameter, annotation in blueprint.annotations.items():
                back = runtime.converters.adapter(annotation).from_plain
                if back is not None and parameter in arguments:
                    arguments[parameter] = back(arguments[parameter])
            cell.make(blueprint, arguments)
            await cell.start()
        except OpenError as error:
            # Of what the component opened in turn: say where, not how often it was passed on.
            cell.close()
            raise OpenError(f"{way.path} → {error.path}", error.problem) from error
        except BaseException as error:
            cell.close()
            if not isinstance(error, Exception):
                raise
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            raise OpenError(way.path, f"{cls.__qualname__} did not start: {problem}") from error
        ends = {name: cell.ends[name] for name in blueprint.type.by_name}
        return Proxy(runtime, way.name, blueprint.type, ends, (cell,), (cell,))

    def _read_arguments(
        self, given: dict[str, ArgumentContent]
    ) -> tuple[dict[str, ValueType], dict[str, Any]]:
        types: dict[str, ValueType] = {}
        arguments: dict[str, Any] = {}
        for parameter, content in given.items():
            match content:
                case TypeArgument(term):
                    types[parameter] = self._runtime.catalogue.resolve(term)  # type: ignore[assignment]
                case ValueArgument(value):
                    arguments[parameter] = from_value(value)
                case ReferenceArgument(inner):
                    arguments[parameter] = inner
                case _:
                    assert_never(content)
        return types, arguments
