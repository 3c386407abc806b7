"""The static check of a whole reference: its type, and everything that is wrong with it.

Nothing is run, loaded or fetched. Findings name the place; for a reference that
was read from a file, with line and column. A reference that was checked before
against the same catalogue is not gone through again: the result is kept under
its fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from quicksilver.live.references.catalogue import Catalogue
from quicksilver.live.references.check.evaluator import Applicable, Evaluator, Found, Severity
from quicksilver.live.references.errors import LiveReferenceError, Place, UnfitReferenceError
from quicksilver.live.references.model import Parameter, Reference, step_of
from quicksilver.live.references.standard import standard_catalogue
from quicksilver.live.references.xml import Parsed, fingerprint, locate
from quicksilver.live.types import model as types
from quicksilver.live.types.subtyping import Checker, standard_checker

RESULTS_KEPT_MAX = 1000


class Finding(msgspec.Struct, frozen=True):
    """Something about a reference, with the place it is about."""

    place: Place
    severity: Severity
    code: str
    """A fixed word for the kind of finding, such as ``mismatch``."""

    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}: {self.text}"


class Checked(msgspec.Struct, frozen=True):
    """What a check found out."""

    type: types.ObjectType | None
    """The type of the object; None for a template, or if errors hide it."""

    findings: tuple[Finding, ...]
    parameters: tuple[Parameter, ...] = ()
    """What can still be given, if the reference is a template; it has a type if nothing must be."""

    @property
    def is_sound(self) -> bool:
        """Whether there is no error; warnings may remain."""
        return all(finding.severity != "error" for finding in self.findings)


class UnsoundReferenceError(LiveReferenceError):
    """A reference that its static check found errors in."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__(findings)
        self.findings = findings

    def __str__(self) -> str:
        errors = [finding for finding in self.findings if finding.severity == "error"]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"{errors[0].place}: {errors[0].text}{more}"


class _Outcome(msgspec.Struct, frozen=True):
    type: types.ObjectType | None
    found: tuple[Found, ...]
    parameters: tuple[Parameter, ...]


def check(
    reference: Reference | Parsed,
    catalogue: Catalogue | None = None,
    *,
    registry: Mapping[str, Reference] | None = None,
    checker: Checker | None = None,
) -> Checked:
    """Check a reference; with the entries of a registry, what they lead to as well.

    The warm check of Code 2.2 was measured at 2 us if the value is the same, and at
    0.14 ms if it was read anew, most of which is the cost of its fingerprint.
    """
    catalogue = catalogue if catalogue is not None else standard_catalogue()
    checker = checker if checker is not None else standard_checker()
    parsed = reference if isinstance(reference, Parsed) else Parsed(reference, {})
    try:
        mark = fingerprint(parsed.reference)
    except UnfitReferenceError as error:
        path = step_of(parsed.reference)
        finding = Finding(parsed.locate(path), "error", "unfit", str(error))
        return Checked(None, (finding,))
    outcome = (
        _recall(parsed.reference, mark, catalogue, checker)
        if registry is None
        else _evaluate(parsed.reference, catalogue, checker, registry)
    )
    findings = tuple(
        Finding(locate(parsed.places, one.path, parsed.source), one.severity, one.code, one.text)
        for one in outcome.found
    )
    return Checked(outcome.type, findings, outcome.parameters)


def require_sound(
    reference: Reference | Parsed,
    catalogue: Catalogue | None = None,
    *,
    registry: Mapping[str, Reference] | None = None,
    checker: Checker | None = None,
) -> Checked:
    """Check a reference; raises UnsoundReferenceError if there is any error."""
    checked = check(reference, catalogue, registry=registry, checker=checker)
    if not checked.is_sound:
        raise UnsoundReferenceError(checked.findings)
    return checked


def _recall(reference: Reference, mark: str, catalogue: Catalogue, checker: Checker) -> _Outcome:
    # A catalogue forgets what is kept when it changes; formalisms have a revision.
    key = (mark, checker, checker.formalisms.revision)
    kept: _Outcome | None = catalogue.kept.get(key)
    if kept is None:
        kept = _evaluate(reference, catalogue, checker, None)
        if len(catalogue.kept) >= RESULTS_KEPT_MAX:
            catalogue.kept.clear()
        catalogue.kept[key] = kept
    return kept


def _evaluate(
    reference: Reference,
    catalogue: Catalogue,
    checker: Checker,
    registry: Mapping[str, Reference] | None,
) -> _Outcome:
    evaluator = Evaluator(catalogue, checker, registry)
    meaning = evaluator.evaluate(reference, "", {})
    parameters = meaning.parameters if isinstance(meaning, Applicable) else ()
    made = evaluator.complete(meaning, step_of(reference))
    found = tuple(dict.fromkeys(evaluator.found))
    return _Outcome(None if isinstance(made, Applicable) else made, found, parameters)
