"""What live objects cost, in one table: ``python -m bench.live.run [--json] [--items N]``.

Each time is the best of several repeats; memory is measured in fresh processes.
Nothing fails if a target is missed: the table says so.
"""

from __future__ import annotations

import argparse

import msgspec

from bench.live.desktop import ITEMS, measure_desktop
from bench.live.events import measure_check, measure_events
from bench.live.measured import Measured
from bench.live.proxies import COUNT, measure_proxies


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What live objects cost.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--proxies", type=int, default=COUNT, help="how many proxies to open")
    parser.add_argument("--items", type=int, default=ITEMS, help="objects on the desktop")
    options = parser.parse_args()
    results = [
        *measure_check(),
        *measure_events(),
        *measure_proxies(options.proxies),
        *measure_desktop(options.items),
    ]
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(results)).decode())
    else:
        print(render(results))


def render(results: list[Measured]) -> str:
    """Return the numbers as lines of a table."""
    lines = []
    for one in results:
        target = "" if one.target is None else f"≤ {one.target:g} {one.unit}: {one.verdict}"
        lines.append(f"{one.value:12,.2f} {one.unit:3} {one.what}  {target}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    main()
