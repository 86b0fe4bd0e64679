"""No escape sequence from outside reaches the terminal: injected into every field that is shown."""

import json
import re
import sys
from pathlib import Path

import pytest
from rich.segment import Segment

from tests.command_text import NOT_SHOWABLE
from tests.process.conftest import CommandLine
from tests.support import eventually
from tests.terminal import Terminal, panel_command
from tui.panel.terminal.cells import NO_INK, cells_of
from tui.views.safe import safe, safe_cell, safe_json

EVIL = "\x1b]52;c;ZXZpbA==\x07\x9b31m\u202eevil\x7f"
# What only an injected text could bring; the panel's own sequences are others.
INJECTED = re.compile("\x1b\\]52|\x9b|\u202e|\x07")
EVENTS = [
    {"type": "metrics", "step": 1, "values": {f"loss{EVIL}": 0.5, "ok": 1}},
    {"type": "phase", "name": f"phase{EVIL}", "text": EVIL},
    {"type": "alert", "text": f"alert{EVIL}"},
    {"type": "checkpoint", "path": f"/x{EVIL}.pt", "step": 1},
]
COMMANDS = [
    ["list"],
    ["status", "last"],
    ["logs", "--json", "last"],
    ["metrics", "last"],
    ["metrics", "last", "--csv"],
    ["cost"],
    ["cost", "export", "--csv"],
    ["gpus"],
    ["presets"],
    ["plan", "evil"],
    ["doctor"],
    ["list", "--json"],
    ["status", "last", "--json"],
    ["metrics", "last", "--json"],
    ["plan", "evil", "--json"],
]


@pytest.fixture
def evil(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose every text is hostile: arguments, events, plan, record, waits, and a preset."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    (cli.folder / "presets").mkdir()
    (cli.folder / "presets" / "evil.yaml").write_text(
        f'launcher: command\ncommand: ["true", {json.dumps(EVIL)}]\ngpus: 0\n'
        f"description: {json.dumps(EVIL)}\n"
    )
    script = f"import sys, time; print('up', flush=True); time.sleep(600)  # {EVIL!r}"
    run = cli.launch("--gpus", "1", "--", sys.executable, "-c", script, EVIL)
    eventually(lambda: "up" in run.output.read_text())
    for event in EVENTS:
        with run.events.open("a") as file:
            file.write(json.dumps({"time": 1.0, **event}) + "\n")
    plan = json.loads(run.plan.read_text())
    plan["notes"] = [EVIL]
    plan["spec"] |= {"name": EVIL, "preset": EVIL}
    plan["origin"]["user"] = EVIL
    run.plan.write_text(json.dumps(plan))
    return run.path


def test_no_headless_command_lets_one_through(cli: CommandLine, evil: Path) -> None:
    for words in COMMANDS:
        done = cli.run(*words, exits=None)
        found = INJECTED.search(done.stdout + done.stderr)
        assert found is None, (words, done.stdout, done.stderr)
        assert done.stdout or done.returncode, words


def test_json_still_says_what_is_there(cli: CommandLine, evil: Path) -> None:
    assert cli.json("status", "last")["name"] == EVIL
    assert safe_json(json.dumps(EVIL, ensure_ascii=False)) != json.dumps(EVIL, ensure_ascii=False)


def test_nothing_comes_through_the_panel(cli: CommandLine, evil: Path) -> None:
    panel = Terminal(panel_command())
    try:
        panel.wait_for("evil")
        for key in ("1", "\r", "\x1b", "2", "\r", "\x1b", "M", "\x1b", "$", "\x1b"):
            panel.press(key)
    finally:
        panel.close()
    # BEL ends the panel's own title.
    shown = panel.raw.decode("utf-8", "replace").replace("\x07", "")
    assert INJECTED.search(shown) is None


def test_a_name_that_cannot_be_shown_is_refused(cli: CommandLine) -> None:
    done = cli.run("launch", "--gpus", "0", "--name", "x\x1b]52;c;\x07", "--", "true", exits=2)
    assert repr("x\x1b]52;c;\x07") in done.stderr and NOT_SHOWABLE in done.stderr
    assert "\x1b" not in done.stderr
    assert cli.run("launch", "--gpus", "0", "--", "echo", "\udcff", exits=2).stderr.startswith(
        "fresnel-tui: not UTF-8 text"
    )
    assert not any(cli.state.runs.iterdir()) and not any(cli.state.live.iterdir())


@pytest.mark.parametrize("text", ["plain ä 漢字 🙂", "tab\tand\nline"])
def test_what_is_harmless_stays(text: str) -> None:
    assert safe(text) == text


def test_every_control_character_is_shown_instead() -> None:
    unsafe = [chr(code) for code in (*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F))]
    for char in unsafe:
        assert char not in safe_cell(f"a{char}b")
        assert json.loads(safe_json(json.dumps(char, ensure_ascii=False))) == char
    assert safe("\udcff") == "‹FF›"


def test_no_cell_of_the_screen_has_a_control_character() -> None:
    cells = cells_of([Segment(f"a{EVIL}b"), Segment("\x1b[2J", None, ())], {None: (NO_INK, NO_INK)})
    painted = "".join(cell.text for cell in cells)
    assert INJECTED.search(painted) is None and painted.startswith("a") and "b" in painted
    assert painted.isprintable()
