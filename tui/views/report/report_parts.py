"""What a report shows, gathered from the folders of its runs: curves, pictures, words."""

import base64
import time
from collections.abc import Sequence
from pathlib import Path

from runners import __version__
from runners.gpus.usage import read_usage
from runners.host.clock import local_time
from runners.host.files import read_plain
from runners.host.identity import host_name
from runners.model.masking import mask_text
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.watch.metrics.epoch_means import step_metric
from runners.watch.metrics.judging import ordered
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.pictures import RunPicture, find_pictures
from tui.views.format import dollars, duration, metric, place
from tui.views.health.diagnosis_text import diagnose_run, diagnosis_pairs
from tui.views.log_lines import last_lines
from tui.views.metrics.chart_svg import MEAN_TEXT, SvgCurve, chart_svg
from tui.views.metrics.curves import AxisName, Curve, by_time, curve_of
from tui.views.metrics.pinned_charts import in_order, pinned_charts
from tui.views.report.report import EmbeddedPicture, Report, RunPart
from tui.views.runs.comparison import Comparison, compare, label_of
from tui.views.runs.run_facts import RunFacts
from tui.views.runs.run_text import describe_use

MOST_CURVES = 20
MOST_CHARTS = 40
MOST_DEVICE_CHARTS = 24
PICTURES_PER_SERIES = 6
PICTURE_BYTES = 4 << 20
ALL_PICTURES_BYTES = 24 << 20
_MOST_OUTPUT = 1 << 30
_AXES: tuple[AxisName, ...] = ("step", "time")
_LAST_LINES = 20
_KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}


def make_report(
    state: StateDirectory,
    facts: Sequence[RunFacts],
    title: str,
    headline: str | None = None,
    baseline: str | None = None,
) -> Report:
    """Gather a report on runs whose facts are known; all their output is read."""
    pinned = pinned_charts(state)
    comparison = compare(facts, baseline, headline, pinned=pinned)
    metrics = [_metrics_of(fact.run) for fact in facts]
    drawn = list(comparison.ranking[:MOST_CURVES])
    room = ALL_PICTURES_BYTES
    parts = []
    for i, fact in enumerate(facts):
        part, used = _run_part(state, fact, metrics[i].notes, room // (len(facts) - i))
        room -= used
        parts.append(part)
    charts, devices = _charts(comparison, metrics, drawn, pinned)
    where = f"{host_name()}, {time.strftime('%Y-%m-%d %H:%M')}, fresnel-tui {__version__}"
    return Report(title, where, comparison, parts, charts, devices, len(facts) - len(drawn))


def _metrics_of(run: Run) -> RunMetrics:
    metrics = RunMetrics(run, _MOST_OUTPUT)
    while metrics.poll():
        pass
    return metrics


def _charts(
    comparison: Comparison,
    metrics: Sequence[RunMetrics],
    drawn: Sequence[int],
    pinned: Sequence[str],
) -> tuple[list[str], list[str]]:
    """The charts of the program's metrics, and those of its GPUs."""
    series = [measured.series() for measured in metrics]
    sources = {name: found.source for i in reversed(drawn) for name, found in series[i].items()}
    every = in_order(sources, [metrics[i].run for i in drawn], pinned)
    names = [name for name in every if step_metric(name, sources) is None]
    devices = [
        name for name in names if any(name in series[i] and by_time(series[i][name]) for i in drawn)
    ]
    own = [name for name in names if name not in devices]

    def curve_in(i: int, name: str, axis: AxisName) -> Curve | None:
        run = metrics[i].run
        return curve_of([(run, series[i])], name, axis, metrics[i].higher(name))

    def draw(name: str) -> str:
        unit = next(found.unit for i in drawn if (found := series[i].get(name)) is not None)
        means = [each for each in every if step_metric(each, sources) == name]
        for axis in _AXES:
            curves = [
                SvgCurve(f"{label_of(comparison, i)}, {MEAN_TEXT}", curve.beside_steps())
                if each in means
                else SvgCurve(label_of(comparison, i), curve)
                for each in (name, *means)
                for i in drawn
                if (curve := curve_in(i, each, axis)) is not None
            ]
            if curves:
                return chart_svg(name, curves, axis, unit=unit)
        return ""

    return (
        [svg for name in own[:MOST_CHARTS] if (svg := draw(name))],
        [svg for name in devices[:MOST_DEVICE_CHARTS] if (svg := draw(name))],
    )


def _run_part(
    state: StateDirectory, fact: RunFacts, notes: list[str], room: int
) -> tuple[RunPart, int]:
    run = fact.run
    pictures, used, left = _pictures(run, room)
    settings = {**fact.settings, **fact.stated}
    lines = last_lines(state.run(run.id).output, _LAST_LINES) if run.state.has_failed else []
    surroundings = {**fact.code, **fact.machine, **fact.environment}
    part = RunPart(
        about=_about(fact, pinned_charts(state)),
        settings=[*settings.items(), *surroundings.items()],
        ending=_ending(run),
        # Masked: a report is made for others.
        last_lines=[mask_text(line) for line in lines],
        pictures=pictures,
        pictures_left_out=left,
        notes=notes,
    )
    return part, used


def _about(fact: RunFacts, pinned: Sequence[str]) -> list[tuple[str, str]]:
    run, money = fact.run, fact.money
    pairs = [("id", run.id), ("preset", run.preset)]
    if run.labels.tags:
        pairs.append(("tags", ", ".join(run.labels.tags)))
    pairs += [("note", line) for line in run.labels.note.splitlines()]
    if run.plan is not None:
        pairs.append(("started by", f"{run.plan.origin.user} on {run.plan.origin.host}"))
    if run.started is not None:
        started = local_time(run.started, "%Y-%m-%d %H:%M:%S")
        pairs.append(("started", started))
    pairs.append(("time", duration(fact.seconds)))
    pairs.append(("cost", dollars(money.cost)))
    if money.gpu_hours is not None:
        pairs.append(("GPU hours", f"{money.gpu_hours:.3f}"))
    pairs += [("GPU use", describe_use(use)) for use in read_usage(Path(run.directory))]
    for name in ordered(fact.metrics, [run], pinned)[:12]:
        final = fact.metrics[name]
        best = ""
        if final.best is not None and final.best != final.last and final.best_step is not None:
            best = f", best {metric(final.best)} at {final.axis} {place(final.best_step)}"
        pairs.append((name, f"{metric(final.value)} at {final.axis} {place(final.step)}{best}"))
    return pairs


def _ending(run: Run) -> list[tuple[str, str]]:
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    pairs = [("state", f"{run.state}{code}")]
    if run.reason:
        pairs.append(("reason", run.reason))
    return pairs + diagnosis_pairs(diagnose_run(run), run.reason)


def _pictures(run: Run, room: int) -> tuple[list[EmbeddedPicture], int, int]:
    """Pictures of each series, first to newest, in `room` bytes; bytes used, number left out."""
    found = find_pictures(run)
    by_series: dict[str, list[RunPicture]] = {}
    for picture in found:
        by_series.setdefault(picture.series, []).append(picture)
    chosen = [picture for several in by_series.values() for picture in _spread(several)]
    embedded: list[EmbeddedPicture] = []
    used = 0
    for picture in chosen:
        if picture.bytes > min(PICTURE_BYTES, room - used):
            continue
        uri = _data_uri(picture.path)
        if uri is not None:
            embedded.append(EmbeddedPicture(uri, _caption(picture)))
            used += picture.bytes
    return embedded, used, len(found) - len(embedded)


def _spread(pictures: Sequence[RunPicture]) -> list[RunPicture]:
    """The first, the newest, and some evenly between."""
    count = len(pictures)
    if count <= PICTURES_PER_SERIES:
        return list(pictures)
    places = {
        round(k * (count - 1) / (PICTURES_PER_SERIES - 1)) for k in range(PICTURES_PER_SERIES)
    }
    return [pictures[i] for i in sorted(places)]


def _caption(picture: RunPicture) -> str:
    place = ""
    if picture.epoch is not None:
        place = f", epoch {picture.epoch:,}"
    elif picture.step is not None:
        place = f", step {picture.step:,}"
    return f"{picture.caption or picture.series}{place}"


def _data_uri(path: str) -> str | None:
    """The file as a data URI; None when it is gone, or neither PNG nor JPEG whatever its name."""
    try:
        content = read_plain(path, PICTURE_BYTES)
    except OSError:
        return None
    kind = next((kind for magic, kind in _KINDS.items() if content.startswith(magic)), None)
    return kind and f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
