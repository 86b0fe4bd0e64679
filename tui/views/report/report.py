"""A report on runs as one HTML file that needs nothing else. Pure: it reads no file."""

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tui.views.format import dollars, duration, metric
from tui.views.runs.comparison import Comparison, label_of
from tui.views.runs.comparison_text import agreements, tables_of
from tui.views.safe import safe_cell

MARK = "<!-- fresnel-tui report -->"
"""In the second line of every report: what has it may be replaced by a newer one."""

_STYLE = """\
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;color:#1b1b1b;background:#fff;
max-width:1120px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem;margin:0}h2{margin:2.2rem 0 .6rem;border-bottom:1px solid #ddd}
h3{margin:1.4rem 0 .4rem}.quiet{color:#5c5c5c}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .8rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid #eee}
th{font-weight:600}pre{background:#f6f6f6;padding:.7rem;overflow-x:auto;font-size:13px}
svg{max-width:100%;height:auto;margin:.4rem 0 1rem}
figure{display:inline-block;margin:0 .8rem .8rem 0;max-width:320px;vertical-align:top}
figure img{max-width:100%;height:auto;display:block;image-rendering:auto}
figcaption{font-size:12px;color:#5c5c5c;overflow-wrap:anywhere}
details{margin:.4rem 0}summary{cursor:pointer}
@media print{details{display:block}h2{break-after:avoid}svg,figure{break-inside:avoid}}
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class EmbeddedPicture(NamedTuple):
    """A picture as a data URI, and what stands under it."""

    uri: str
    caption: str


class RunPart(NamedTuple):
    """One run's part besides the comparison; `last_lines` of output only where it ended badly."""

    about: list[tuple[str, str]]
    settings: list[tuple[str, str]]
    ending: list[tuple[str, str]]
    last_lines: list[str]
    pictures: list[EmbeddedPicture]
    pictures_left_out: int
    notes: list[str]


class Report(NamedTuple):
    """Everything a report shows; `charts` and `devices` are SVG documents."""

    title: str
    made: str
    comparison: Comparison
    runs: list[RunPart]
    charts: list[str]
    devices: list[str]
    curves_left_out: int


def report_html(report: Report) -> str:
    """The HTML document; every word from outside is escaped."""
    facts = report.comparison.facts
    several = len(facts) > 1
    body = [
        f"<h1>{escaped(report.title)}</h1>",
        f'<p class="quiet">{escaped(report.made)}</p>',
        *_summary(report),
        *_charts(report),
    ]
    if several:
        body += _differences(report.comparison)
    for i, part in enumerate(report.runs):
        body += _run(label_of(report.comparison, i) if several else "", part)
    if report.devices:
        body += ["<h2>GPUs</h2>", _folded("use, memory and cost over the run", report.devices)]
    head = (
        f'<!doctype html>\n{MARK}\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(report.title)}</title><style>\n{_STYLE}</style></head><body>\n"
    )
    return head + "\n".join(body) + "\n</body></html>\n"


def _summary(report: Report) -> list[str]:
    comparison = report.comparison
    row = next((row for row in comparison.metrics if row.name == comparison.headline), None)
    named = [f"{row.name}, last", f"{row.name}, best"] if row is not None else []
    heads = ["run", "state", *named, "time", "cost"]
    rows = []
    for i in comparison.ranking:
        fact = comparison.facts[i]
        value = None if row is None else row.values[i]
        numbers = []
        if row is not None:
            pair = (None, None) if value is None else (value.value, value.best)
            numbers = [metric(number) for number in pair]
        state = f"{fact.run.state.sign} {fact.run.state}"
        cost = dollars(fact.money.cost)
        rows.append([label_of(comparison, i), state, *numbers, duration(fact.seconds), cost])
    known = [fact.money.cost for fact in comparison.facts if fact.money.cost is not None]
    found = ["<h2>Runs</h2>", _table([heads, *rows])]
    if known and len(comparison.facts) > 1:
        found.append(f"<p>Together {escaped(dollars(sum(known[1:], known[0])))}.</p>")
    return found


def _charts(report: Report) -> list[str]:
    if not report.charts:
        return ["<h2>Curves</h2>", '<p class="quiet">No metric was found.</p>']
    left = report.curves_left_out
    note = (
        f'<p class="quiet">Only the best runs are drawn; {left} more are left out.</p>'
        if left
        else ""
    )
    return ["<h2>Curves</h2>", note, *report.charts]


def _differences(comparison: Comparison) -> list[str]:
    found = ["<h2>Differences</h2>"]
    for title, rows in tables_of(comparison):
        found += [f"<h3>{escaped(title)}</h3>", _table(rows)]
    if same := agreements(comparison):
        found.append(f'<p class="quiet">No difference in {escaped(", ".join(same))}.</p>')
    return found


def _run(heading: str, part: RunPart) -> list[str]:
    found = [f"<h2>{escaped(heading)}</h2>"] if heading else ["<h2>The run</h2>"]
    found.append(_pairs(part.about))
    found += [f'<p class="quiet">{escaped(note)}</p>' for note in part.notes]
    if part.ending:
        found += ["<h3>How it ended</h3>", _pairs(part.ending)]
    if part.last_lines:
        text = "\n".join(escaped(line) for line in part.last_lines)
        found.append(f"<pre>{text}</pre>")
    if part.settings:
        found.append(_folded("Settings", [_pairs(part.settings)], opened=not heading))
    if part.pictures:
        found.append("<h3>Pictures</h3>")
        found += [
            f'<figure><img src="{picture.uri}" alt="{escaped(picture.caption)}">'
            f"<figcaption>{escaped(picture.caption)}</figcaption></figure>"
            for picture in part.pictures
        ]
    if part.pictures_left_out:
        left = f"{part.pictures_left_out:,} more pictures are left out."
        found.append(f'<p class="quiet">{left}</p>')
    return found


def _folded(title: str, inner: Iterable[str], opened: bool = False) -> str:
    state = " open" if opened else ""
    return f"<details{state}><summary>{escaped(title)}</summary>{''.join(inner)}</details>"


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{escaped(a)}</th><td>{escaped(b)}</td></tr>" for a, b in pairs)
    return f'<div class="scroll"><table>{rows}</table></div>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escaped(cell)}</th>" for cell in rows[0])
    lines = [f"<tr>{heads}</tr>"]
    for row in rows[1:]:
        lines.append("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def escaped(text: str) -> str:
    """Words from outside as HTML text or attribute."""
    return html.escape(safe_cell(text))
