"""A page as a story: its blocks are run from the first to the last, as a reader would.

Each page gets a folder of its own in which ``examples`` and ``bench`` are those of this
repository, and ports of its own: what a page calls 127.0.0.1:7401 is another port in a test,
and the page's number again in what is compared. Files in /tmp go to the folder as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.docs.comparing import find_absent, is_shown
from tests.docs.interpreter import DONE, RAISED
from tests.docs.parsing import ROOT, Block, parse_page, parse_steps
from tests.docs.windows import Window
from tests.net.namespaces import Network, network, why_impossible

COMMAND_S = 300.0
LONG_COMMAND_S = 1_800.0
"""For a command of a block that is marked as long."""
PRINTED_MAX = 1_500
"""Characters of the output that a failure repeats."""
_ADDRESS = re.compile(r"\b(127\.0\.0\.1|localhost):(7\d\d\d)\b")
_GMS = re.compile(r"\bquicksilver gms(?! (?:export|--help))")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a block."""

    block: Block
    result: str
    """``run``, or why it was not."""
    seconds: float


class BlockError(AssertionError):
    """A block did not do what its page says."""

    def __init__(self, block: Block, problem: str, printed: str) -> None:
        if len(printed) > PRINTED_MAX:
            printed = f"{printed[:PRINTED_MAX]}\n[{len(printed) - PRINTED_MAX:,} more characters]"
        super().__init__(
            f"{block.place}: {problem}\n--- printed:\n{printed}\n--- the block:\n{block.text}"
        )


class Story:
    """Runs the blocks of one page."""

    def __init__(
        self, folder: Path, *, runs_long: bool = False, machines: Network | None = None
    ) -> None:
        self._folder = folder
        self._machines = machines
        self._here = folder
        self._runs_long = runs_long
        self._ports: dict[str, str] = {}
        self._windows: dict[str, Window] = {}
        self._never: list[tuple[Block, Window, str]] = []
        self._python: Window | None = None
        self._last_python: str | None = None
        for name in ("examples", "bench", "tests", "results"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "tmp").mkdir()
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "PYTHONIOENCODING": "utf-8",
            "TERM": "dumb",
            "COLUMNS": "120",
        }
        self._multicast_port = str(free_port())

    def __enter__(self) -> Story:
        return self

    def __exit__(self, *_: object) -> None:
        for window in [*self._windows.values(), *([self._python] if self._python else [])]:
            window.close()

    def tell_blocks(self, blocks: list[Block]) -> list[Outcome]:
        """Run blocks one after another."""
        outcomes = [self._tell(block) for block in blocks]
        for block, window, word in self._never:
            if word in window.all_printed:
                raise BlockError(block, f"{word!r} was shown", window.all_printed)
        return outcomes

    def _tell(self, block: Block) -> Outcome:
        began = time.monotonic()
        result = self._run(block)
        return Outcome(block, result, time.monotonic() - began)

    def _run(self, block: Block) -> str:
        if (reason := block.first("not run")) is not None:
            return f"not run: {reason}"
        if (reason := block.first("long")) is not None and not self._runs_long:
            return f"long: {reason}"
        if (package := block.first("needs")) is not None and not find_spec(package):
            return f"not run here: it needs {package}"
        if block.has("on") and self._machines is None:
            return f"not run here: {why_impossible()}"
        python, self._last_python = self._last_python, None
        if block.language == "":
            if block.text in self._windows:  # it is not there if its block was left out
                with contextlib.closing(self._windows.pop(block.text)) as window:
                    window.interrupt()
        elif (name := block.first("save as")) is not None:
            path = self._here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._fit(block), encoding="utf-8")
            return f"saved as {name}"
        elif (name := block.first("in")) is not None:
            if name not in self._windows:
                return "its window was not opened"
            self._expect(block, self._windows[name], self._fit(block))
            if (word := block.first("without")) is not None:
                self._never.append((block, self._windows[name], word))
        elif block.language == "console":
            self._run_console(block)
        elif block.language == "python":
            self._run_python(block)
        elif block.language == "text" and python is not None:
            if not is_shown(self._fit(block), python, vary=block.has("numbers vary")):
                raise BlockError(block, "the block before printed something else", python)
            self._check_same(block, block.text, python)
            return "compared"
        else:
            return "not code"
        return "run"

    def _check_same(self, block: Block, shown: str, printed: str) -> None:
        """Compare the parts of what is shown whose numbers do not vary."""
        wanted = [
            text for text in block.directions.get("same", ()) if not find_absent([text], shown)
        ]
        if (absent := find_absent(wanted, printed)) is not None:
            raise BlockError(block, f"not shown: {absent}", printed)

    # --- consoles ---------------------------------------------------------------

    def _run_console(self, block: Block) -> None:
        name = block.first("window")
        steps = parse_steps(self._fit(block))
        for number, step in enumerate(steps, 1):
            is_last = number == len(steps)
            if self._change_place(step.command):
                continue
            window = self._open(step.command, block.first("on"))
            if name is not None and is_last:
                self._windows[name] = window
                self._expect(block, window, step.shown)
                continue
            with contextlib.closing(window):
                code = window.wait(LONG_COMMAND_S if block.has("long") else COMMAND_S)
                # An example in a message is the page's own address, too.
                printed = self._fit_addresses(window.printed)
                if code is None:
                    raise BlockError(block, f"{step.command} does not end", printed)
                wanted = int(block.first("exit code") or 0) if is_last else 0
                if code != wanted:
                    raise BlockError(block, f"{step.command}: exit code {code}", printed)
                if step.shown.strip() and not is_shown(
                    step.shown,
                    printed,
                    vary=block.has("numbers vary"),
                    any_order=block.has("any order"),
                ):
                    raise BlockError(block, f"{step.command}: other output", printed)
                self._check_same(block, step.shown, printed)

    def _change_place(self, command: str) -> bool:
        """Do what only the reader's own shell can do."""
        if command.startswith("cd "):
            self._here = (self._here / command[3:]).resolve()
        elif command.startswith("export "):
            for word in command.split()[1:]:
                name, _, value = word.partition("=")
                self._environment[name] = os.path.expandvars(value.replace("$PWD", str(self._here)))
        else:
            return False
        return True

    def _open(self, command: str, machine: str | None) -> Window:
        # A single command takes the place of the shell, so that signals reach it.
        is_single = not re.search(r"[|;&<>\n]|^[A-Z_]+=", command)
        line = f"exec {command}" if is_single else command
        if machine is not None:
            # A machine of its own has ports of its own: as they are on the page.
            assert self._machines is not None
            argv = self._machines.argv("AB".index(machine), ["sh", "-c", line])
        else:
            argv = ["sh", "-c", _GMS.sub(self._start_gms, line)]
        return Window(argv, self._here, self._environment)

    def _expect(self, block: Block, window: Window, shown: str) -> None:
        """Wait for what a window shows next; what is typed comes in between."""
        lines: list[str] = []
        typed = False
        for line in shown.splitlines():
            if line.startswith("> "):
                self._wait(block, window, "\n".join(lines))
                window.type(line[2:])
                lines, typed = [], True
            else:
                lines.append(line)
        if lines or not typed:
            self._wait(block, window, "\n".join(lines))

    def _wait(self, block: Block, window: Window, shown: str) -> None:
        if block.has("any order"):
            taken = [window.take_line() or "" for _ in shown.splitlines()]
            if not is_shown(shown, "\n".join(taken), any_order=True):
                raise BlockError(block, "the window shows something else", "\n".join(taken))
        elif shown.strip() and not window.take_shown(shown, vary=block.has("numbers vary")):
            raise BlockError(block, f"not shown: {shown}", window.printed)

    # --- Python -----------------------------------------------------------------

    def _run_python(self, block: Block) -> None:
        source = self._fit(block)
        if (name := block.first("window")) is not None:
            self._windows[name] = self._start_python("-c", source)
            return
        if block.has("program"):
            with contextlib.closing(self._start_python("-c", source)) as window:
                code = window.wait(COMMAND_S)
                self._last_python = window.printed
                if code != int(block.first("exit code") or 0):
                    raise BlockError(block, f"exit code {code}", self._last_python)
            return
        if self._python is None:
            self._python = self._start_python("-m", "tests.docs.interpreter")
        self._python.type(json.dumps([block.place, source]))
        lines: list[str] = []
        limit = time.monotonic() + COMMAND_S
        while (line := self._python.take_line(max(0.0, limit - time.monotonic()))) is not None:
            if line.endswith((DONE, RAISED)):
                lines.append(line.removesuffix(DONE).removesuffix(RAISED))
                break
            lines.append(line)
        self._last_python = "\n".join(lines)
        if line is None or line.endswith(RAISED):
            raise BlockError(block, "it raised" if line else "it does not end", self._last_python)

    def _start_python(self, *arguments: str) -> Window:
        # The tests of this clone, besides what the caller's Python finds.
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**self._environment, "PYTHONPATH": path}
        return Window([sys.executable, "-u", *arguments], self._here, environment)

    # --- what a page calls things, and what they are called here -----------------

    def _fit(self, block: Block) -> str:
        text = block.text
        for pair in block.directions.get("with", ()):
            shown, _, real = pair.partition(" = ")
            assert shown in text, f"{block.place}: no {shown!r} in the block"
            if real.startswith("process of "):
                real = str(self._windows[real.removeprefix("process of ")].pid)
            text = text.replace(shown, real)
        return self._fit_addresses(text).replace("/tmp/", f"{self._folder}/tmp/")

    def _fit_addresses(self, text: str) -> str:
        return _ADDRESS.sub(lambda found: self._real(found[0]), text)

    def _start_gms(self, found: re.Match[str]) -> str:
        address = self._real("127.0.0.1:7401")
        # Where commands look for a GMS if they are not told; on a page, at 127.0.0.1:7401.
        self._environment["QUICKSILVER_GMS"] = address
        port = address.rpartition(":")[2]
        return f"{found[0]} --port {port} --multicast-port {self._multicast_port}"

    def _real(self, shown: str) -> str:
        host, _, port = shown.partition(":")
        return f"{host}:{self._ports.setdefault(port, str(free_port()))}"


def free_port() -> int:
    """A port that nobody has, outside the range from which the system gives ports away."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        ):
            try:
                stream.bind(("127.0.0.1", port))
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def tell(name: str, folder: Path, *, runs_long: bool = False) -> list[Outcome]:
    """Run a page in a new folder."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    blocks = parse_page(name)
    with contextlib.ExitStack() as stack:
        machines = None
        if any(block.has("on") for block in blocks) and not why_impossible():
            machines = stack.enter_context(network(2))
        story = Story(folder, runs_long=runs_long, machines=machines)
        return stack.enter_context(story).tell_blocks(blocks)


def pages_with_code() -> list[str]:
    """The pages whose blocks are run. Logs in results say what was run once, and when."""
    return [
        name
        for name in pages()
        if not name.startswith("results/") and any(block.is_run for block in parse_page(name))
    ]


def pages() -> list[str]:
    """All pages."""
    found: Iterable[Path] = (
        path
        for folder in (
            "",
            "docs",
            "docs/properties",
            "results",
            "bench/peers",
            "examples/spark/pipeline",
        )
        for path in sorted((ROOT / folder).glob("*.md"))
    )
    return [str(path.relative_to(ROOT)) for path in found]
