"""Run the blocks of all pages, or of some, and print the list of them.

``python -m tests.docs.blocks [--short] [PAGE...]``; without ``--short`` the long ones too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.docs.story import Outcome, pages_with_code, tell


def describe(outcome: Outcome) -> str:
    """One row of the list."""
    block = outcome.block
    line = block.text.strip().splitlines()[0] if block.text.strip() else ""
    if block.language == "python":
        lines = len(block.text.splitlines())
        line = f"{lines} lines" if lines > 1 else line
    line = line[:70].replace("|", "\\|")
    cells = (block.place, block.language, f"`{line}`", outcome.result, f"{outcome.seconds:.1f}")
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Return 1 if a page is not as it says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="all pages with code, if none is named")
    parser.add_argument("--short", action="store_true", help="leave out what takes long")
    parser.add_argument("--jobs", type=int, default=2, help="pages at a time")
    chosen = parser.parse_args()
    names = chosen.pages or pages_with_code()
    failures: dict[str, str] = {}

    def run(name: str) -> list[Outcome]:
        with tempfile.TemporaryDirectory(prefix="quicksilver-docs-") as folder:
            try:
                return tell(name, Path(folder) / "page", runs_long=not chosen.short)
            except AssertionError as error:
                failures[name] = str(error)
                return []

    began = time.monotonic()
    with ThreadPoolExecutor(chosen.jobs) as pool:
        outcomes = [one for found in pool.map(run, names) for one in found if one.block.is_run]
    print("| block | language | begins with | result | seconds |\n| --- | --- | --- | --- | --- |")
    for outcome in outcomes:
        print(describe(outcome))
    ran = sum(not outcome.result.startswith(("not run", "long")) for outcome in outcomes)
    print(
        f"\n{ran} of {len(outcomes)} blocks of {len(names)} pages executed"
        f" in {time.monotonic() - began:.0f} s; {len(failures)} pages failed"
    )
    for problem in failures.values():
        print(f"\n{problem}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
