"""One odd file of one run is a sentence in its row; everything else is shown as before."""

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from runners.model.run import Checkpoint, Run
from runners.watch.metrics import checkpoints
from tests.process.conftest import CommandLine
from tests.support import CEILING_S, eventually
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed

_LONG = "1" + "0" * 400
_LOOKS = (
    ("list",),
    ("list", "--json"),
    ("status", "odd"),
    ("status", "odd", "--json"),
    ("metrics", "odd"),
    ("monitor",),
    ("cost",),
)
ODD_OUTPUT = (
    "{'loss': nan, 'epoch': nan}",
    "{'loss': 0.5, 'epoch': inf}",
    "{'loss': 0.1, 'step': nan}",
    f"Epoch {_LONG}/10 loss: 0.5",
    f"epoch: {_LONG} step {_LONG}/10 loss: 0.3",
    f"Step {_LONG} | loss 0.1",
)


def snapshot(cli: CommandLine) -> PanelSnapshot:
    """What a panel that opens now shows first, and then once more."""
    feed = SnapshotFeed(cli.state, read_only=True)
    try:
        first = feed.first_snapshot(CEILING_S)
        assert first is not None
        return feed._reader.submit(feed._take).result(CEILING_S)
    finally:
        feed._reader.shutdown()


def look_everywhere(cli: CommandLine) -> None:
    """Every command that shows runs answers, with the odd run and the good one beside it."""
    for words in _LOOKS:
        text = cli.run(*words).stdout
        assert "odd" in text or words[0] in ("metrics", "cost"), words
    assert {"odd", "good"} <= {view.run.name for view in snapshot(cli).runs}


@pytest.fixture
def good(cli: CommandLine) -> None:
    """A run in which nothing is odd."""
    cli.command("sleep", "600", options=("--name", "good"))


@pytest.mark.usefixtures("good")
def test_steps_and_epochs_that_no_run_can_have_are_none(cli: CommandLine) -> None:
    script = "; ".join(f'echo "{line}"' for line in (*ODD_OUTPUT, "done"))
    run = cli.command("sh", "-c", f"{script}; sleep 600", options=("--name", "odd"), ready="done")
    events = [
        {"step": _LONG},
        {"epoch": _LONG},
        {"epochs": _LONG, "steps": _LONG},
        {"values": f'{{"loss": {_LONG}}}'},
    ]
    with run.events.open("w") as file:
        for event in events:
            fields = "".join(f', "{name}": {text}' for name, text in event.items())
            file.write(f'{{"time": {time.time()}, "type": "metrics"{fields}}}\n')
    look_everywhere(cli)
    (shown,) = [view for view in snapshot(cli).runs if view.run.name == "odd"]
    assert not shown.problem
    assert shown.progress.step is None and shown.progress.epoch is None


def _field(number: int, kind: int, content: bytes) -> bytes:
    return bytes([number << 3 | kind]) + content


def _record(tensor: bytes) -> bytes:
    """A TensorBoard record with one tensor."""
    value = _field(1, 2, b"\x01x") + _field(8, 2, bytes([len(tensor)]) + tensor)
    summary = _field(1, 2, bytes([len(value)]) + value)
    event = _field(2, 0, b"\x01") + _field(5, 2, bytes([len(summary)]) + summary)
    return struct.pack("<QI", len(event), 0) + event + bytes(4)


@pytest.mark.usefixtures("good")
def test_a_record_of_forty_bytes_ends_nothing(cli: CommandLine) -> None:
    run = cli.command("sleep", "600", options=("--name", "odd"))
    # DT_FLOAT, and its float_val as a number that needs more than the four bytes of a float.
    odd = _record(_field(1, 0, b"\x01") + _field(5, 0, b"\xff" * 8 + b"\x7f"))
    assert len(odd) < 50
    (run.path / "events.out.tfevents.1.here").write_bytes(odd)
    look_everywhere(cli)


@pytest.mark.usefixtures("good")
def test_what_a_reader_raises_is_a_sentence_in_the_row_of_its_run(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = cli.command("sleep", "600", options=("--name", "odd"))

    def look(run: Run, *more: Any, **named: Any) -> Checkpoint | None:
        if run.id == odd.id:
            raise OverflowError("cannot convert float infinity to integer")
        return usual(run, *more, **named)

    usual = checkpoints.run_checkpoint
    monkeypatch.setattr(checkpoints, "run_checkpoint", look)
    problems = {view.run.name: view.problem for view in snapshot(cli).runs}
    assert problems["good"] == ""
    assert "cannot be read: checkpoints (OverflowError" in problems["odd"]
    log = (cli.state.host / "unreadable.log").read_text()
    assert log.count("Traceback") == 1
    snapshot(cli)
    assert (cli.state.host / "unreadable.log").read_text() == log, "said once"


@pytest.mark.usefixtures("good")
def test_a_fifo_under_a_name_that_is_looked_for_stops_nobody(cli: CommandLine) -> None:
    run = cli.command("sleep", "600", options=("--name", "odd"))
    (run.path / "checkpoints").mkdir()
    for name in (
        "checkpoints/a.pt",
        "checkpoints/b.safetensors",
        "checkpoints/c.h5",
        "events.out.tfevents.1.here",
        "metrics.csv",
        "trainer_state.json",
        "usage.json",
        "health.json",
        "gpus.jsonl",
    ):
        (run.path / name).unlink(missing_ok=True)
        os.mkfifo(run.path / name)
    run.leader.unlink()
    os.mkfifo(run.leader)
    run.output.rename(run.path / "kept.log")
    os.mkfifo(run.output)
    look_everywhere(cli)
    cli.run("logs", "odd", "-n", "5", exits=None)


def test_signatures_as_a_fifo_are_told_by_diagnose(cli: CommandLine, tmp_path: Path) -> None:
    run = cli.launch("--gpus", "0", "--name", "odd", "--", "false")
    cli.ended(run)
    folder = tmp_path / "config" / "fresnel-tui"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "signatures.yaml")
    done = cli.run("diagnose", "odd", exits=None, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert "signatures.yaml" in done.stdout + done.stderr


def test_a_restart_passes_over_a_fifo_among_its_checkpoints(cli: CommandLine) -> None:
    (cli.folder / "presets").mkdir(exist_ok=True)
    (cli.folder / "presets" / "again.yaml").write_text(
        "launcher: command\n"
        "command: [sh, -c, 'mkdir -p ck; mkfifo ck/a.pt 2>/dev/null; exit 3']\n"
        "gpus: 0\n"
        "checkpoints: ['ck/*.pt']\n"
        "restart: {times: 1, backoff: 0.1s}\n"
        "resume: {arguments: [--resume, '${checkpoint}']}\n"
    )
    run = cli.launch("again")
    assert cli.ended(run)["attempt"] == 2
    assert eventually(lambda: (cli.folder / "ck" / "a.pt").is_fifo(), what="the FIFO")
