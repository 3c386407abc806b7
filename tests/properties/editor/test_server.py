"""The language server as an editor meets it: a process that speaks JSON-RPC."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pygls")

URI = "file:///program.pl"
TEXT = """protocol P {
  // 😀 takes two units of UTF-16
  properties { /* 😀 */ int Last = 0; }
  rules { Last := children(min).Lost; }
}
"""


class Editor:
    """One end of a conversation."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._number = 0

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request; returns its answer."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            told = self._read()
            if told.get("id") == self._number and "method" not in told:
                return told["result"]

    def tell(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def hear(self, method: str) -> Any:
        """Return the parameters of the next notification of this name."""
        while (told := self._read()).get("method") != method:
            pass
        return told["params"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        assert length, "the server has gone away"
        found: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return found


@pytest.fixture
def editor() -> Iterator[Editor]:
    command = [sys.executable, "-m", "quicksilver", "pl", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        editor = Editor(process)
        editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        editor.tell("initialized", {})
        yield editor
        editor.ask("shutdown", {})
        editor.tell("exit", {})
        assert process.wait(30) == 0


@pytest.mark.integration
def test_a_program_is_opened_mended_and_asked_about(editor: Editor) -> None:
    document = {"uri": URI, "languageId": "quicksilver-pl", "version": 1, "text": TEXT}
    editor.tell("textDocument/didOpen", {"textDocument": document})
    told = editor.hear("textDocument/publishDiagnostics")
    (finding,) = told["diagnostics"]
    assert finding["code"] == "undefined"
    assert finding["message"] == "Lost is not declared; did you mean Last?"
    assert finding["range"]["start"] == {"line": 3, "character": 32}

    mended = TEXT.replace("Lost", "Last")
    changed = {"uri": URI, "version": 2}
    editor.tell(
        "textDocument/didChange",
        {"textDocument": changed, "contentChanges": [{"text": mended}]},
    )
    assert editor.hear("textDocument/publishDiagnostics")["diagnostics"] == []

    place = {"textDocument": {"uri": URI}, "position": {"line": 3, "character": 33}}
    target = editor.ask("textDocument/definition", place)
    assert target["range"]["start"] == {"line": 2, "character": 28}, "😀 counts twice"
    assert editor.ask("textDocument/hover", place)["contents"].startswith("int Last: a property")
    after_dot = {**place, "position": {"line": 3, "character": 32}}
    labels = [one["label"] for one in editor.ask("textDocument/completion", after_dot)]
    assert labels == ["Last", "first", "second"]
    (edit,) = editor.ask(
        "textDocument/formatting",
        {"textDocument": {"uri": URI}, "options": {"tabSize": 2, "insertSpaces": True}},
    )
    assert "    Last := children(min).Last;\n" in edit["newText"]
