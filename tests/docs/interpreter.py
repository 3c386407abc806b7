"""A Python that runs the blocks of a page one after another, in one namespace.

It reads the source of a block as a JSON string, one a line, runs it, and ends what the block
printed with a line that says whether it raised.
"""

from __future__ import annotations

import doctest
import json
import linecache
import sys
import traceback

DONE = "\x00done"
RAISED = "\x00raised"


def run(source: str, name: str, namespace: dict[str, object]) -> None:
    """Run a block; one with prompts is a session, whose answers are compared."""
    if source.lstrip().startswith(">>>"):
        example = doctest.DocTestParser().get_doctest(source, namespace, name, name, 0)
        # get_doctest copies the namespace; what this block defines is for the next one too.
        example.globs = namespace
        outcome = doctest.DocTestRunner(verbose=False).run(
            example, out=sys.stdout.write, clear_globs=False
        )
        if outcome.failed:
            raise AssertionError(f"{outcome.failed} of {outcome.attempted} answers differ")
    else:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), namespace)


def main() -> None:
    """Run blocks until the input ends."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line in sys.stdin:
        name, source = json.loads(line)
        try:
            run(source, name, namespace)
        except BaseException:  # noqa: BLE001  # whatever it is, the page must hear of it
            traceback.print_exc(file=sys.stdout)
            print(RAISED, flush=True)
        else:
            print(DONE, flush=True)


if __name__ == "__main__":
    main()
