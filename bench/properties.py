"""How long compiling and editing programs take, as processor time: the least of some repetitions.

python -m bench.properties
"""

from __future__ import annotations

import time
from collections.abc import Callable

from quicksilver.properties import library
from quicksilver.properties.compile.program import compile_text
from quicksilver.properties.editor.document import Document
from quicksilver.properties.syntax.parse import parse

REPETITIONS = 9
LINES = 500


def measure(work: Callable[[], object]) -> float:
    """Return the processor time of some work in milliseconds."""
    best = float("inf")
    for _ in range(REPETITIONS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return 1000 * best


def long_program(lines: int) -> str:
    """Return a program of so many lines: the rules of a library program again and again."""
    text = library.text_of("total_order")
    head, _, rest = text.partition("  rules {\n")
    rules, _, tail = rest.partition("  }\n")
    kept = [line for line in rules.splitlines() if "(R" in line and ":=" not in line]
    body: list[str] = []
    have = len((head + tail).splitlines()) + 2
    while have + len(body) < lines:
        body.append(kept[len(body) % len(kept)].rpartition(" (R")[0])
    return f"{head}  rules {{\n" + "\n".join(body) + "\n  }\n" + tail


def main() -> None:
    began = time.process_time()
    parse("protocol P {}")
    print(f"{1000 * (time.process_time() - began):6.1f} ms  the grammar, once for each process")
    for name in library.names():
        text = library.text_of(name)
        taken = measure(lambda text=text: compile_text(text))  # type: ignore[misc]
        print(f"{taken:6.1f} ms  compile {name}, {len(text.splitlines())} lines")
    text = long_program(LINES)
    middle = text.index(";", len(text) // 2)
    document = Document(text)
    answers: dict[str, Callable[[], object]] = {
        "diagnostics": lambda: Document(text).checked,
        "hover": lambda: document.hover(middle - 2),
        "completion": lambda: document.complete(middle),
        "definition": lambda: Document(text, "again").declaration_at(middle - 2),
        "diagnostics and completion": lambda: Document(text).complete(middle),
    }
    for name, work in answers.items():
        print(f"{measure(work):6.1f} ms  {name}, {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
