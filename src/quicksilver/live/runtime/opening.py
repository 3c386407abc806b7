"""Dereferencing: from a reference to a running proxy (2.1.5).

A reference is checked as a whole before anything runs. What only running can
show is checked on the way: what a folder answers, what a library holds, whether
a constructor works. If any part fails, all that was begun is ended again, and
the error names the place.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from quicksilver.live.references.check import check, require_sound
from quicksilver.live.references.model import (
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
)
from quicksilver.live.references.substitute import apply_template, complete
from quicksilver.live.references.values import from_value
from quicksilver.live.references.wellknown import step_of
from quicksilver.live.references.xml import Parsed, fingerprint
from quicksilver.live.runtime.asking import ask_folder
from quicksilver.live.runtime.cells import Cell, Closeable
from quicksilver.live.runtime.endpoints import End
from quicksilver.live.runtime.errors import LiveRuntimeError, OpenError
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.types.model import Endpoint, ObjectType, ValueType

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime

CHAIN_MAX = 40
"""External references that lead to each other."""

Chain: TypeAlias = tuple[tuple[str, str], ...]
"""The folders and names that were gone through, for telling a circle."""


class Opener:
    """Opens references within one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def open(self, reference: Reference | Parsed, name: str = "") -> Proxy:
        """Return a running proxy; raises UnsoundReferenceError, OpenError."""
        runtime = self._runtime
        require_sound(reference, runtime.catalogue)
        plain = reference.reference if isinstance(reference, Parsed) else reference
        return await self._open(plain, "", name or step_of(plain), ())

    async def _open(self, reference: Reference, around: str, name: str, chain: Chain) -> Proxy:
        path = f"{around}/{step_of(reference)}" if around else step_of(reference)
        match reference:
            case Composite():
                proxy = await self._open_composite(reference, path, name, chain)
            case External():
                found, chain = await self._fetch(reference, path, name, chain)
                proxy = await self._open(found, f"{path}[{reference.name}]", name, chain)
            case Parameterized():
                proxy = await self._apply(reference, path, name, chain)
            case Primitive():
                proxy = await self._make(reference, {}, path, name)
            case Template():
                raise OpenError(path, "a template is no object until it is given its arguments")
            case Use():
                raise OpenError(path, f"nothing sets the parameter {reference.parameter!r}")
            case _:
                assert_never(reference)
        return self._cast(proxy, reference, path)

    def _cast(self, proxy: Proxy, reference: Reference, path: str) -> Proxy:
        if reference.declared is None:
            return proxy
        declared = self._runtime.catalogue.resolve(reference.declared)
        assert isinstance(declared, ObjectType)
        try:
            return proxy.cast(declared)
        except LiveRuntimeError as error:
            proxy.close()
            raise OpenError(path, str(error)) from error

    # Composites

    async def _open_composite(
        self, reference: Composite, path: str, name: str, chain: Chain
    ) -> Proxy:
        runtime = self._runtime
        parts: dict[str, Proxy] = {}
        owned: list[Closeable] = []
        try:
            for part in reference.components:
                place = f"{path}/component[{part.name}]"
                proxy = await self._open(part.reference, place, f"{name}.{part.name}", chain)
                parts[part.name] = proxy
                owned.append(proxy)
            for link in reference.connections:
                one = parts[link.one.component].endpoint(link.one.name)
                other = parts[link.other.component].endpoint(link.other.name)
                try:
                    owned.append(runtime.connect(one, other))
                except LiveRuntimeError as error:
                    place = f"{path}/connection[{link.one},{link.other}]"
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
        return Proxy(runtime, name, ObjectType(tuple(types)), ends, tuple(owned), cells)

    # External references

    async def _fetch(
        self, reference: External, path: str, name: str, chain: Chain
    ) -> tuple[Reference, Chain]:
        """Return what the folder keeps, once it is known to be what was declared."""
        step = (fingerprint(reference.source), reference.name)
        if step in chain:
            names = [entry for _, entry in chain[chain.index(step) :]]
            circle = " → ".join([*names, reference.name])
            raise OpenError(path, f"external references go in a circle: {circle}")
        if len(chain) >= CHAIN_MAX:
            raise OpenError(path, f"more than {CHAIN_MAX} external references lead to each other")
        chain = (*chain, step)
        folder = await self._open(reference.source, f"{path}/from", f"{name}.from", chain)
        try:
            found = await ask_folder(self._runtime, folder, reference.name, path)
        finally:
            folder.close()
        self._check_answer(reference, found, path)
        return found, chain

    def _check_answer(self, reference: External, found: Reference, path: str) -> None:
        runtime = self._runtime
        checked = check(found, runtime.catalogue)
        what = f"what the folder keeps as {reference.name!r}"
        if not checked.is_sound:
            errors = [one for one in checked.findings if one.severity == "error"]
            raise OpenError(path, f"{what} is unsound: {errors[0]}")
        is_template = bool(checked.parameters)
        if is_template != bool(reference.parameters):
            kind = "a template" if is_template else "no template"
            raise OpenError(path, f"{what} is {kind}")
        if checked.type is None or reference.declared is None or is_template:
            return
        declared = runtime.catalogue.resolve(reference.declared)
        assert isinstance(declared, ObjectType)
        problem = runtime.checker.check_object_subtype(checked.type, declared)
        if problem is not None:
            raise OpenError(path, f"{what} is of another type: {problem.line}")

    # Templates

    async def _apply(self, reference: Parameterized, path: str, name: str, chain: Chain) -> Proxy:
        template = reference.template
        place = f"{path}/using"
        while isinstance(template, External):
            template, chain = await self._fetch(template, place, name, chain)
            place = f"{place}/external"
        if isinstance(template, Template):
            body = apply_template(template, reference.arguments, self._runtime.catalogue)
            return await self._open(body, f"{place}/template/body", name, chain)
        if isinstance(template, Primitive):
            known = self._runtime.catalogue.find(template.identifier)
            parameters = known.parameters if known is not None else ()
            return await self._make(template, complete(parameters, reference.arguments), path, name)
        raise OpenError(place, f"a {step_of(template)} is no template")

    # Primitives

    async def _make(
        self, reference: Primitive, given: dict[str, ArgumentContent], path: str, name: str
    ) -> Proxy:
        runtime = self._runtime
        cls = runtime.components.find(reference.identifier)
        if cls is None:
            raise OpenError(path, f"no component here implements {reference.identifier!r}")
        types: dict[str, ValueType] = {}
        arguments: dict[str, Any] = {}
        for parameter, content in given.items():
            match content:
                case TypeArgument(term):
                    types[parameter] = runtime.catalogue.resolve(term)  # type: ignore[assignment]
                case ValueArgument(value):
                    arguments[parameter] = from_value(value)
                case ReferenceArgument(inner):
                    arguments[parameter] = inner
                case _:
                    assert_never(content)
        blueprint = runtime.components.blueprint(cls, types)
        for parameter, annotation in blueprint.annotations.items():
            back = runtime.converters.adapter(annotation).from_plain
            if back is not None and parameter in arguments:
                arguments[parameter] = back(arguments[parameter])
        cell = Cell(runtime, name)
        try:
            cell.make(blueprint, arguments)
            start: Callable[[], Coroutine[Any, Any, None]] | None
            start = getattr(cell.instance, "start", None)
            if start is not None:
                await start()
            if cell.failure is not None:
                raise cell.failure.cause
        except BaseException as error:
            cell.close()
            if not isinstance(error, Exception):
                raise
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            raise OpenError(path, f"{blueprint.name} did not start: {problem}") from error
        return Proxy(runtime, name, blueprint.type, cell.ends, (cell,), (cell,))
