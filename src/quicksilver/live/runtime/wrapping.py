"""Casting proxies: what is hidden, and what a wrapper adds (2.1.4 F)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.live.references.catalogue import Wrapper, find_wrapper
from quicksilver.live.runtime.endpoints import End
from quicksilver.live.runtime.errors import CastError
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.types.model import Endpoint, EndpointType, ObjectType

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


async def cast_proxy(runtime: Runtime, proxy: Proxy, type_: ObjectType) -> Proxy:
    """Return a proxy seen as a type, with a wrapper around it if it is not of the type.

    The proxy that was cast stays as it is if this fails; otherwise the new one owns it.
    """
    problem = runtime.checker.check_object_subtype(proxy.type, type_)
    if problem is None:
        return proxy.show_as(type_)
    wrapper = find_wrapper(runtime.checker, runtime.catalogue, proxy.type, type_)
    if wrapper is None:
        raise CastError(proxy.name, problem)
    return (await _wrap(runtime, proxy, wrapper)).show_as(type_)


async def _wrap(runtime: Runtime, proxy: Proxy, wrapper: Wrapper) -> Proxy:
    allowance = next((cell.allowance for cell in proxy.cells if cell.allowance is not None), None)
    around = await runtime.opener.open(
        wrapper.reference, f"{proxy.name}.{wrapper.title}", allowance=allowance
    )
    try:
        wrapped, mine = proxy.endpoint(wrapper.wraps), around.endpoint(wrapper.inside)
        connection = runtime.connect(wrapped, mine)
    except BaseException:
        around.close()
        raise
    ends: dict[str, End] = {}
    types: list[Endpoint] = []
    shown = {one: one for one in proxy.type.by_name if one != wrapper.wraps} | wrapper.shows
    for name, inner in shown.items():
        endpoint = (around if name in wrapper.shows else proxy).endpoint(inner)
        ends[name] = endpoint.end
        types.append(Endpoint(name, endpoint.type))
    assert all(isinstance(one.type, EndpointType) for one in types)
    owned = (proxy, around, connection)
    cells = proxy.cells + around.cells
    return Proxy(runtime, proxy.name, ObjectType(tuple(types)), ends, owned, cells)
