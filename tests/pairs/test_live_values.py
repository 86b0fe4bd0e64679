"""A growing log, followed and looked at once: both say the same of it, whatever its size."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runners.model.run import Run
from runners.model.states import State
from runners.watch.metrics import live
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.metric_files import RunFiles
from tests.support import make_run
from tests.unit.test_metrics_tensorboard import write
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run

KIB = 1024
AT_ONCE = 192 * KIB
SIZES = sorted(
    {
        *range(0, 2 * AT_ONCE, 10_000),
        *range(2 * AT_ONCE, 1_000_000, 100_000),
        *(edge + by for edge in (128 * KIB, AT_ONCE) for by in (-200, -1, 0, 1, 5_000)),
    }
)
"""Bytes of output, close together where one look does not read much more than all of it."""
STORM = range(0, 1_000_000, 100_000)


def _loss(step: int) -> float:
    """A loss that is least long before the end."""
    return round(abs(step - 300) / 1000 + 0.01, 4)


def _epochs() -> Iterator[str]:
    """Ten steps an epoch, as text."""
    for step in range(1, 1 << 20):
        epoch = (step - 1) // 10 + 1
        yield f"epoch: {epoch}/90000 | step: {(step - 1) % 10 + 1}/10 | loss: {_loss(step)}\n"


def _unnamed_bars() -> Iterator[str]:
    """A bar per epoch without a name: which epoch it is, only the bars before it tell."""
    for epoch in range(1 << 20):
        for done in range(1, 26):
            loss = _loss(epoch * 25 + done)
            tail = "\n" if done == 25 else "\r"
            yield f"{4 * done}%|{'█' * 10}| {done}/25 [00:58<01:03,  4.9s/it, loss={loss}]{tail}"


FORMS: dict[str, Callable[[], Iterator[str]]] = {"text": _epochs, "bars": _unnamed_bars}


def said(run: Run, report: LiveReport | None = None) -> dict[str, Any]:
    """What is shown of a run; `report` is that of a panel, kept open."""
    found = to_json(view_run(run, report))
    progress = {key: found["progress"][key] for key in ("epoch", "epochs", "step", "steps")}
    return {**progress, "metrics": found["metrics"], "best": found["best"]}


def grow(output: Path, lines: Iterator[str], size: int) -> None:
    """Append whole lines until the file has `size` bytes, or a line more."""
    with output.open("ab") as file:
        while file.tell() < size:
            file.write(next(lines).encode())


@pytest.mark.parametrize("sizes", [SIZES, STORM], ids=["steadily", "in a storm"])
@pytest.mark.parametrize("form", FORMS)
def test_at_every_size_a_command_says_what_an_open_panel_says(
    tmp_path: Path, form: str, sizes: Sequence[int]
) -> None:
    """What a panel leaves out of a storm it has from the watcher."""
    run = make_run(State.RUNNING, directory=str(tmp_path))
    watcher, panel, lines = LiveReport(run), LiveReport(run), FORMS[form]()
    for size in sizes:
        grow(tmp_path / "output.log", lines, size)
        watcher.poll(run, follow=True)
        watcher.save()
        shown = said(run, panel)
        assert said(run) == shown, f"at {size:,} bytes"
    assert shown["best"]["loss"]["value"] == 0.01


@pytest.mark.parametrize("form", FORMS)
def test_of_a_run_that_nobody_follows_a_command_says_nothing_else(
    tmp_path: Path, form: str
) -> None:
    run = make_run(State.RUNNING, directory=str(tmp_path))
    panel, lines = LiveReport(run), FORMS[form]()
    for size in SIZES[::2]:
        grow(tmp_path / "output.log", lines, size)
        shown, alone = said(run, panel), said(run)
        whole = (tmp_path / "output.log").stat().st_size <= AT_ONCE
        # A panel that was short of time in a storm has missed lines, until somebody follows them.
        if not shown["best"]:
            alone["best"] = {}
        known = {key: value for key, value in alone.items() if value}
        assert known == {key: shown[key] for key in known}, f"at {size:,} bytes"
        assert not whole or alone == shown, f"at {size:,} bytes: all that there are"
        assert alone["metrics"] == shown["metrics"], f"at {size:,} bytes: the newest values"


@pytest.mark.parametrize("reports", ["events", "output"])
def test_what_only_tensorboard_has_of_a_live_run_is_known_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: str
) -> None:
    monkeypatch.setattr(live, "_FILES_EVERY_S", 0.0)
    run = make_run(State.RUNNING, directory=str(tmp_path))
    watcher, panel = LiveReport(run), LiveReport(run)
    for first, last in ((1, 2), (3, 3)):
        if reports == "events":
            event = {"time": 9.0, "type": "metrics", "step": last, "values": {"loss": 0.5}}
            (tmp_path / "events.jsonl").write_text(json.dumps(event) + "\n")
        else:
            (tmp_path / "output.log").write_text(f"step: {last}/9 | loss: 0.5\n")
        steps = range(first, last + 1)
        scalars = {"loss": [0.5 for _ in steps], "grad/norm": [step - 1.0 for step in steps]}
        write(tmp_path / "tb", scalars, first)
        watcher.poll(run, follow=True)
        watcher.save()
        shown = said(run, panel)
        assert shown["metrics"] == {"loss": 0.5, "grad/norm": last - 1.0}
        assert said(run) == shown


def test_a_first_look_knows_what_the_watcher_read_and_loads_no_reader_of_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(State.RUNNING, directory=str(tmp_path))
    (tmp_path / "output.log").write_text("step: 1/9 | loss: 0.5\n")
    watcher, panel = LiveReport(run), LiveReport(run)
    watcher.poll(run, follow=True)
    watcher.save()
    with monkeypatch.context() as patched:
        patched.setattr(LiveReport, "_new_output", lambda _: pytest.fail("it loads all readers"))
        panel.poll(run, brief=True)
        assert panel.metrics == {"loss": 0.5}
        assert (panel.course.step, panel.course.steps, panel.problems) == (1, 9, ())
    with (tmp_path / "output.log").open("a") as file:
        file.write("step: 2/9 | loss: 0.25\n")
    panel.poll(run)
    assert (panel.metrics, panel.course.step) == ({"loss": 0.25}, 2)


def test_metric_files_are_looked_for_more_rarely_where_there_never_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(State.RUNNING, directory=str(tmp_path))
    now, looks = 1000.0, []
    monkeypatch.setattr(live.time, "monotonic", lambda: now)
    poll = RunFiles.poll
    monkeypatch.setattr(RunFiles, "poll", lambda *more: (looks.append(now), poll(*more)))
    report = LiveReport(run)
    for second in range(90):
        now = 1000.0 + second
        report.poll(run)
    assert [look - 1000.0 for look in looks] == [0.0, 10.0, 30.0, 50.0, 70.0]
    write(tmp_path / "tb", {"loss": [0.5]}, 1)
    for second in range(90, 106):
        now = 1000.0 + second
        report.poll(run)
    assert [look - 1000.0 for look in looks[5:]] == [90.0, 95.0, 100.0, 105.0]
    assert report.metrics == {"loss": 0.5}
