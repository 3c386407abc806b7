"""The tutorial of docs/live-objects.md does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from quicksilver.live import platform_in_thread
from quicksilver.live.references.builder import STARTERS, composite, primitive
from quicksilver.live.references.check import check
from quicksilver.live.references.xml import load

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "live-objects.md"


def blocks() -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_file_to_start_from_runs() -> None:
    shown: list[str] = []
    with platform_in_thread() as platform, platform.open(STARTERS["shared-text"]()) as notes:
        text = notes.attach("Text", {"changed": shown.append})
        text.say("edit", 0, 0, "bread\n")
    assert shown[-1] == "bread\n"


def test_the_composed_reference_is_written_and_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    block = next(one for one in blocks() if "plain.liveobject" in one)
    exec(block, {})
    assert check(load(tmp_path / "plain.liveobject")).is_sound


def test_encryption_is_put_around_the_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(next(one for one in blocks() if "create_key" in one), scope)
    shown: list[str] = []
    with platform_in_thread(keys="keys") as platform, platform.open(scope["notes"]) as notes:  # type: ignore[arg-type]
        notes.attach("Text", {"changed": shown.append}).say("edit", 0, 0, "secret")
    assert shown[-1] == "secret"


def test_the_component_counts_the_words_of_the_shared_text() -> None:
    block = next(one for one in blocks() if "class WordCount" in one)
    scope: dict[str, object] = {"__name__": __name__}
    exec(block, scope)
    reference = (
        composite()
        .component("notes", STARTERS["shared-text"]())
        .component("counter", primitive("example.word-count"))
        .connect("notes.Text", "counter.text")
        .export("notes.Editor")
        .export("counter.counts")
        .build()
    )
    counted: list[int] = []
    with platform_in_thread() as platform:
        platform.add_components(scope["WordCount"])  # type: ignore[arg-type]
        with platform.open(reference) as both:
            both.attach("counts", {"words": counted.append})
            both.attach("Editor", None).say("edit", 0, 0, "one two three")
    assert counted[-1] == 3
