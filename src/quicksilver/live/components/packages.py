"""Packages that only some components need."""

from __future__ import annotations

import importlib
from typing import Any

from quicksilver.stdx.errors import QuicksilverError
from quicksilver.stdx.install import install_line


class MissingPackageError(QuicksilverError, ImportError):
    """A component needs a package that is not installed."""

    def __init__(self, component: str, package: str) -> None:
        super().__init__(component, package)
        self.component = component
        self.package = package

    def __str__(self) -> str:
        return f"{self.component} needs {self.package}: {install_line('live')}"


def need(package: str, component: str) -> Any:
    """Return a package; raises MissingPackageError, which says what to install."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(component, package) from error
