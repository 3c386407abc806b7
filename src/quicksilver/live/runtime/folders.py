"""Folders of references: those that every runtime has, and how any folder is asked (2.1.5).

Every runtime has its registry, and libraries of code (2.1.5 D).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.library import LibraryError, make_module, read_library
from quicksilver.live.references.model import LibraryAt, Node, Primitive, Reference
from quicksilver.live.references.names import LIBRARY, REGISTRY
from quicksilver.live.references.standard import ANY_OBJECT, FOLDER, FOLDER_ENDPOINT, FOLDER_ITEM
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.connections import attach
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.errors import OpenError
from quicksilver.live.runtime.promises import Promise
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


class FolderRequests(Protocol):
    """Events that users send to a folder."""

    def get(self, name: str) -> None:
        """Ask for what is kept under a name."""


class FolderAnswers(Protocol):
    """Events that a folder sends to its users."""

    def item(self, name: str, reference: Ref[ANY_OBJECT]) -> None:  # type: ignore[valid-type]
        """Say what is kept under a name."""

    def missing(self, name: str) -> None:
        """Say that nothing is kept under a name."""


@component(REGISTRY)
@live_object(title="Folder")
class Registry:
    """the folder that each node keeps for itself"""

    context: Context
    folder = endpoint(FolderRequests, FolderAnswers, name=FOLDER_ENDPOINT)

    def folder_get(self, name: str) -> None:
        reference: Reference | None = self.context.runtime.registry.get(name)
        if reference is None:
            self.folder.missing(name)
        else:
            self.folder.item(name, reference)


@component(LIBRARY)
@live_object(title="Folder")
class Library:
    """the objects that a file of code implements, by the names of their classes"""

    context: Context
    folder = endpoint(FolderRequests, FolderAnswers, name=FOLDER_ENDPOINT)

    def __init__(self, URL: Given[str], SHA256: Given[str]) -> None:  # noqa: N803  # as references say it
        self._at = LibraryAt(URL, SHA256)
        self._module: ModuleType | None = None

    async def start(self) -> None:
        """Load it: an allowed library that does not work is told of when it is opened."""
        source = await self._read()
        self._module = make_module(self._at, source)

    def _read(self) -> Promise[bytes]:
        """Read the bytes; from a network on a thread, as the executor must not wait for one."""
        promise: Promise[bytes] = Promise()
        runtime = self.context.runtime

        def read() -> Callable[[], None]:
            try:
                source = read_library(self._at, runtime.policy)
            except LibraryError as error:
                failure = error
                return lambda: promise.fail(failure)
            return lambda: promise.keep(source)

        if not runtime.policy.is_allowed(self._at.url) or self._at.url.startswith("file:"):
            read()()
        else:
            post = self.context.post
            threading.Thread(target=lambda: post(read()), name="live-library", daemon=True).start()
        return promise

    def folder_get(self, name: str) -> None:
        found: Any = vars(self._module).get(name)
        if not isinstance(found, type):
            self.folder.missing(name)
            return
        assert self._at.sha256 is not None
        identifier = f"library.sha{self._at.sha256}.{name}"
        runtime = self.context.runtime
        runtime.components.add_loaded(found, runtime.catalogue, identifier)
        self.folder.item(name, Primitive(identifier=identifier))


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
