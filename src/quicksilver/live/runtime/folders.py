"""The folders that every runtime has: its registry, and libraries of code (2.1.5 D)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from quicksilver.live.references.library import LibraryError, make_module, read_library
from quicksilver.live.references.model import LibraryAt, Primitive, Reference
from quicksilver.live.references.names import LIBRARY, REGISTRY
from quicksilver.live.references.standard import ANY_OBJECT, FOLDER_ENDPOINT
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.promises import Promise
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref


class FolderRequests(Protocol):
    """What a folder can be asked."""

    def get(self, name: str) -> None:
        """Ask for what is kept under a name."""


class FolderAnswers(Protocol):
    """What a folder answers."""

    def item(self, name: str, reference: Ref[ANY_OBJECT]) -> None:  # type: ignore[valid-type]
        """Say what is kept under a name."""

    def missing(self, name: str) -> None:
        """Say that nothing is."""


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
