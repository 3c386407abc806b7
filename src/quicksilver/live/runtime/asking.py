"""Asking a folder for what it keeps under a name (2.1.5 B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.model import Node, Reference
from quicksilver.live.references.standard import FOLDER, FOLDER_ENDPOINT, FOLDER_ITEM
from quicksilver.live.runtime.attaching import attach
from quicksilver.live.runtime.errors import OpenError
from quicksilver.live.runtime.promises import Promise
from quicksilver.live.runtime.proxies import Proxy

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


async def ask_folder(runtime: Runtime, folder: Proxy, name: str, path: str) -> Reference:
    """Return the reference that a folder keeps under a name; raises OpenError."""
    answer: Promise[Reference] = Promise()

    def item(name_found: str, reference: Any) -> None:
        if name_found != name:
            return
        if isinstance(reference, Node):
            answer.keep(reference)  # type: ignore[arg-type]  # all nodes are references
        else:
            kind = type(reference).__name__
            answer.fail(OpenError(path, f"the folder answered with a {kind}, not a reference"))

    def missing(name_missing: str) -> None:
        if name_missing == name:
            answer.fail(OpenError(path, f"the folder has nothing called {name!r}"))

    def gone() -> None:
        why = f": {folder.failures[0]}" if folder.failures else ""
        answer.fail(OpenError(path, f"the folder ended without an answer about {name!r}{why}"))

    def late() -> None:
        wait = runtime.folder_timeout_s
        answer.fail(OpenError(path, f"the folder did not answer about {name!r} in {wait:g} s"))

    seen = folder.cast(FOLDER)
    attachment = attach(
        runtime,
        seen.endpoint(FOLDER_ENDPOINT),
        {FOLDER_ITEM: item, "missing": missing},
        name=f"{folder.name}.asking",
        on_disconnected=gone,
    )
    timer = runtime.executor.call_later(runtime.folder_timeout_s, late)
    try:
        attachment.port.get(name)
        return await answer
    except LiveReferenceError as error:
        raise OpenError(path, f"the folder failed: {error}") from error
    finally:
        timer.cancel()
        attachment.close()
