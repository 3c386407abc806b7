"""The page: HTML that needs nothing else, neither files nor a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

STYLE = """
:root{--ink:#1d2330;--soft:#5b6475;--line:#e1e5ec;--paper:#fff;--tint:#f5f6f9;--blue:#1f5fa8;
--code:#eceff4;--yes:#1d7a45;--no:#b3261e;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#a0a9ba;--line:#333a47;--paper:#1b2029;
--tint:#13171e;--blue:#7fb2ee;--code:#262c38;--yes:#63c78d;--no:#f28b82}
figure img{filter:invert(.92) hue-rotate(180deg)}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:1rem}
body{margin:0;font:16px/1.55 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
color:var(--ink);background:var(--tint)}
.page{max-width:1500px;margin:0 auto;padding:2rem 1.4rem 4rem}
header p{max-width:60rem}
h1{font-size:1.8rem;line-height:1.25;margin:0 0 .3rem}
h2{font-size:1.35rem;margin:2.4rem 0 .3rem;padding-top:1.1rem;border-top:1px solid var(--line)}
section:first-of-type h2{margin-top:0;border-top:0;padding-top:0}
h3{font-size:1.02rem;margin:1.3rem 0 .3rem}
.soft{color:var(--soft)}
nav{font-size:.9rem;line-height:1.4}
nav>b{display:block;margin-bottom:.4rem}
nav ul{list-style:none;margin:0;padding:0}
nav li{margin:.3rem 0}
nav ul ul{padding-left:.8rem;border-left:1px solid var(--line);margin:.2rem 0 .6rem}
nav a{color:var(--blue);text-decoration:none}
nav a:hover{text-decoration:underline}
nav ul ul a{color:var(--soft)}
main{min-width:0}
@media(min-width:1080px){.page.wide{display:grid;grid-template-columns:17rem minmax(0,1fr);
column-gap:2.4rem}
.page.wide header{grid-column:1/-1}
.page.wide nav{position:sticky;top:1rem;align-self:start;max-height:calc(100vh - 2rem);
overflow:auto;padding-right:.5rem}}
@media(max-width:1079px){nav{background:var(--paper);border:1px solid var(--line);
border-radius:.5rem;padding:.7rem 1rem;margin:1rem 0}nav ul ul{display:none}}
.claim{border-left:3px solid var(--blue);padding:.5rem .9rem;background:var(--paper);
margin:.8rem 0;border-radius:0 .4rem .4rem 0}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,460px),1fr));
gap:1.1rem;margin-top:1rem;align-items:start}
figure{margin:0;background:var(--paper);border:1px solid var(--line);
border-radius:.5rem;padding:.9rem}
figure.wide{grid-column:1/-1}
figure img{width:100%;height:auto;display:block}
figure.wide img{max-width:1000px;margin:0 auto}
figcaption{font-size:.92rem;margin-top:.6rem;overflow-wrap:anywhere}
figcaption p{margin:.35rem 0 0}
.across{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem;background:var(--paper);
margin:.8rem 0}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.4rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
th{color:var(--soft);font-weight:600;white-space:nowrap}
td.no-wrap{white-space:nowrap;font-variant-numeric:tabular-nums}
.yes{color:var(--yes);font-weight:600}.no{color:var(--no);font-weight:600}
.verdict{white-space:nowrap}
.scroll{max-height:28rem;overflow:auto;border:1px solid var(--line);border-radius:.5rem;
background:var(--paper);margin:.8rem 0}
.scroll th{position:sticky;top:0;background:var(--paper)}
.dot{display:inline-block;width:.65rem;height:.65rem;border-radius:50%;margin-right:.45rem;
background:#888}
.ViewInstalled{background:#2f8f5b}.ViewRetired{background:#9ac5ac}.NodesFailed{background:#c01717}
.WasExcluded{background:#7a0f0f}.PacketsMissed{background:#c8501e}.RepairsSent{background:#1f5fa8}
.PacketsResent{background:#7b4fa3}
code{background:var(--code);border-radius:.25rem;padding:.05rem .3rem;font-size:.88em;
overflow-wrap:anywhere}
@media print{body{background:#fff}nav{display:none}figure{break-inside:avoid}
.scroll{max-height:none}}
"""
KINDS = frozenset(
    {
        "ViewInstalled",
        "ViewRetired",
        "NodesFailed",
        "WasExcluded",
        "PacketsMissed",
        "RepairsSent",
        "PacketsResent",
    }
)
"""Kinds of events that have a colour."""


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


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a node did, and when."""

    at: str
    node: str
    kind: str
    text: str


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
    sentences: list[Sentence] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def render(title: str, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    body = "\n".join(_section(section, place) for place, section in enumerate(sections))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f'<body><div class="page wide"><header><h1>{escape(title)}</h1>'
        '<p class="soft">Each figure stands next to what the papers say of it. Bars and bands are '
        "95 % intervals where there are several runs; without them a point was run once."
        f"</p></header>\n<nav><b>Contents</b>{_contents(sections)}</nav>\n"
        f"<main>{body}</main></div></body></html>\n"
    )


def _anchor(place: int, picture: int | None = None) -> str:
    # Numbers, not names: names come from data and may repeat.
    return f"s{place}" if picture is None else f"s{place}-f{picture}"


def _contents(sections: Sequence[Section]) -> str:
    items = []
    for place, section in enumerate(sections):
        inner = "".join(
            f'<li><a href="#{_anchor(place, number)}">{escape(picture.title)}</a></li>'
            for number, picture in enumerate(section.pictures)
        )
        items.append(
            f'<li><a href="#{_anchor(place)}">{escape(section.title)}</a>'
            + (f"<ul>{inner}</ul>" if inner else "")
            + "</li>"
        )
    return f"<ul>{''.join(items)}</ul>"


def _section(section: Section, place: int) -> str:
    parts = [
        f'<section id="{_anchor(place)}"><h2>{escape(section.title)}</h2>',
        f'<p class="soft"><code>{escape(section.origin)}</code></p>',
    ]
    if section.claim:
        parts.append(f'<div class="claim"><b>Papers:</b> {escape(section.claim)}</div>')
    parts += [f'<p class="soft">{escape(remark)}</p>' for remark in section.remarks]
    if section.verdicts:
        rows = "".join(_verdict(verdict) for verdict in section.verdicts)
        head = "<tr><th>what</th><th>measured</th><th></th></tr>"
        parts.append(f'<div class="across"><table>{head}{rows}</table></div>')
    parts += [_table(table) for table in section.tables]
    if section.pictures:
        figures = "".join(
            _picture(picture, _anchor(place, number))
            for number, picture in enumerate(section.pictures)
        )
        parts.append(f'<div class="grid">{figures}</div>')
    if section.sentences:
        parts.append(_sentences(section.sentences))
    parts.append("</section>")
    return "\n".join(parts)


def _sentences(sentences: Sequence[Sentence]) -> str:
    rows = "".join(
        f'<tr><td class="no-wrap">{escape(s.at)}</td><td class="no-wrap">{escape(s.node)}</td>'
        f'<td><span class="dot {s.kind if s.kind in KINDS else ""}"></span>{escape(s.text)}</td>'
        "</tr>"
        for s in sentences
    )
    head = "<tr><th>s</th><th>node</th><th>what it did</th></tr>"
    return f'<h3>What happened</h3><div class="scroll"><table>{head}{rows}</table></div>'


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return f'{title}<div class="across"><table><tr>{head}</tr>{rows}</table></div>'


def _verdict(verdict: Verdict) -> str:
    word = {
        True: '<span class="yes">✓ holds</span>',
        False: '<span class="no">✗ does not hold</span>',
        None: "",
    }[verdict.holds]
    return (
        f"<tr><td>{escape(verdict.what)}</td><td>{escape(verdict.measured)}</td>"
        f'<td class="verdict">{word}</td></tr>'
    )


def _picture(picture: Picture, anchor: str) -> str:
    wide = ' class="wide"' if picture.is_wide else ""
    paper = f"<p><b>Papers:</b> {escape(picture.paper)}</p>" if picture.paper else ""
    measured = f"<p><b>Here:</b> {escape(picture.measured)}</p>" if picture.measured else ""
    title = escape(picture.title)
    return (
        f'<figure id="{anchor}"{wide}><img alt="{title}" src="{escape(picture.image)}">'
        f"<figcaption><b>{title}</b>{paper}{measured}</figcaption></figure>"
    )
