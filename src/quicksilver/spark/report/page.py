"""The page: HTML that needs nothing else, neither files nor a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

STYLE = """
:root{--ink:#1d2330;--soft:#5b6475;--line:#e3e6ec;--paper:#fff;--tint:#f6f7fa;--blue:#1f5fa8}
*{box-sizing:border-box}
body{margin:0;font:16px/1.55 system-ui,"Segoe UI",Roboto,sans-serif;
color:var(--ink);background:var(--tint)}
main{max-width:1180px;margin:0 auto;padding:2.2rem 1.4rem 4rem}
h1{font-size:1.9rem;margin:0 0 .2rem}
h2{font-size:1.35rem;margin:2.6rem 0 .3rem;padding-top:1rem;border-top:1px solid var(--line)}
p.soft,figcaption small{color:var(--soft)}
nav{margin:1.2rem 0;display:flex;flex-wrap:wrap;gap:.4rem}
nav a{background:var(--paper);border:1px solid var(--line);border-radius:1rem;padding:.15rem .8rem;
color:var(--blue);text-decoration:none;font-size:.92rem}
.claim{border-left:3px solid var(--blue);padding:.3rem .9rem;background:var(--paper);margin:.8rem 0}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));gap:1.1rem}
figure{margin:0;background:var(--paper);border:1px solid var(--line);
border-radius:.5rem;padding:.8rem}
figure.wide{grid-column:1/-1}
figure img{width:100%;height:auto;display:block}
figcaption{font-size:.92rem;margin-top:.5rem}
table{border-collapse:collapse;width:100%;background:var(--paper);font-size:.92rem;margin:.8rem 0}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}
.yes{color:#1d7a45;font-weight:600}.no{color:#b3261e;font-weight:600}
.scroll{max-height:28rem;overflow:auto;border:1px solid var(--line);border-radius:.5rem}
code{background:#eceff4;border-radius:.25rem;padding:.05rem .3rem;font-size:.9em}
@media print{body{background:#fff}nav{display:none}figure{break-inside:avoid}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing with what is said about it."""

    image: str
    title: str
    paper: str = ""
    """What the papers say."""
    measured: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, what was measured, and whether it holds."""

    what: str
    measured: str
    holds: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Values for which there is no drawing."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(slots=True, kw_only=True)
class Section:
    """One experiment or one run."""

    name: str
    title: str
    origin: str
    """Where its data is, or the command that made it."""
    claim: str = ""
    pictures: list[Picture] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    sentences: list[tuple[str, str, str]] = field(default_factory=list)
    """Time, node and what it did."""
    remarks: list[str] = field(default_factory=list)


def render(title: str, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    links = "".join(f'<a href="#{escape(s.name)}">{escape(s.title)}</a>' for s in sections)
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>"
        '<p class="soft">Each figure stands next to what the papers say of it. Bars are 95 % '
        "intervals of the mean where a point was run several times; without bars it was run once."
        f"</p><nav>{links}</nav>\n{body}\n</main></body></html>\n"
    )


def _section(section: Section) -> str:
    parts = [
        f'<section id="{escape(section.name)}"><h2>{escape(section.title)}</h2>',
        f'<p class="soft"><code>{escape(section.origin)}</code></p>',
    ]
    if section.claim:
        parts.append(f'<div class="claim"><b>Papers:</b> {escape(section.claim)}</div>')
    parts += [f'<p class="soft">{escape(remark)}</p>' for remark in section.remarks]
    if section.verdicts:
        rows = "".join(_verdict(verdict) for verdict in section.verdicts)
        parts.append(f"<table><tr><th>what</th><th>measured</th><th></th></tr>{rows}</table>")
    parts += [_table(table) for table in section.tables]
    if section.pictures:
        parts.append(f'<div class="grid">{"".join(map(_picture, section.pictures))}</div>')
    if section.sentences:
        rows = "".join(
            f"<tr><td>{escape(at)}</td><td>{escape(node)}</td><td>{escape(text)}</td></tr>"
            for at, node, text in section.sentences
        )
        head = "<tr><th>s</th><th>node</th><th>what happened</th></tr>"
        parts.append(f'<div class="scroll"><table>{head}{rows}</table></div>')
    parts.append("</section>")
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return f'{title}<div class="across"><table><tr>{head}</tr>{rows}</table></div>'


def _verdict(verdict: Verdict) -> str:
    word = {
        True: '<span class="yes">holds</span>',
        False: '<span class="no">does not hold</span>',
        None: "",
    }[verdict.holds]
    cells = (escape(verdict.what), escape(verdict.measured), word)
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _picture(picture: Picture) -> str:
    wide = ' class="wide"' if picture.is_wide else ""
    paper = f"<br><b>Papers:</b> {escape(picture.paper)}" if picture.paper else ""
    measured = f"<br><b>Here:</b> {escape(picture.measured)}" if picture.measured else ""
    return (
        f'<figure{wide}><img alt="{escape(picture.title)}" src="{picture.image}">'
        f"<figcaption>{escape(picture.title)}{paper}{measured}</figcaption></figure>"
    )
