"""What people come to the panel for, each by its keys, in terminals of three sizes.

One panel at each size plays all of them, so each story ends where it began: on the main screen,
with nothing filtered and nothing marked. After a story that failed, the next one has a new machine.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import pytest

from runners.host.files import replace
from runners.host.identity import host_name
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.command_text import unfilled
from tests.conftest import FAILED
from tests.process.conftest import end_everything
from tests.screen_text import (
    AS_LEFT,
    CHARTS,
    COMMAND_HELP,
    DRAIN,
    DRAINED,
    END_DRAIN,
    FIELD_HELP,
    FINDING,
    FORM,
    FREE,
    GUARDED,
    LEAVE_AS_IT_WAS,
    LEFT_TO_UNDO,
    MAIN_SCREEN,
    MONEY,
    NO_GUARD,
    OWN_COMMAND,
    RUNS_HELP,
    RUNS_PANE,
    SETTINGS,
    STARTS,
    TYPED_ONLY,
    YOUR_NOTE,
    command_field,
    comparison,
    deletion,
    field,
    first_row,
    found_of,
    go_on,
    gpu_row,
    held_by,
    in_all,
    log_of,
    marked,
    note_on,
    queue_place,
    queued_because,
    run_row,
    starred,
    stop_dialog,
    tags_of,
)
from tests.support import CEILING_S, eventually, make_plan
from tests.terminal import REPOSITORY, Terminal, panel_command
from tests.warm import COMMANDS

# All in one process: each worker that plays a part of them opens panels of its own.
pytestmark = pytest.mark.xdist_group("stories")
SIZES = ((80, 24), (200, 60), (120, 40))
DAY = 86_400.0
WHY = "RuntimeError: no space left on device"
OLD = 40
"""Ended runs of the last weeks, more than any of these screens has rows for runs."""
SECOND = "second line"
DIFF = """\
diff --git a/train.py b/train.py
index 1111111..2222222 100644
--- a/train.py
+++ b/train.py
@@ -1,3 +1,3 @@
 import torch
-rate = 1e-3
+rate = 3e-4
"""


class Scene(NamedTuple):
    """A machine with a history: a panel of one size, and the commands beside it."""

    panel: Terminal
    columns: int
    state: StateDirectory
    command: Callable[..., "subprocess.CompletedProcess[str]"]

    def listed(self, *words: str) -> list[dict[str, object]]:
        """The runs that `list` finds."""
        found: list[dict[str, object]] = json.loads(self.command("list", "--json", *words).stdout)
        return found

    def choose(self, words: str, count: int = 1) -> None:
        """Find runs; the cursor is on the first of them."""
        self.panel.press(f"/{words}", "Enter")
        self.panel.wait_for(found_of(count, r"\d+"))

    def back(self) -> None:
        """All runs again, the cursor where it was before."""
        self.panel.press("Escape")
        self.panel.wait_gone(LEFT_TO_UNDO)


def output_of(name: str) -> str:
    """What a run of that name has written."""
    return f"the log of {name}"


def make_ended(
    home: StateDirectory, name: str, age_s: float, loss: float, diff: str = "", **record: object
) -> None:
    """A run that has ended, as its supervisor leaves it."""
    began = time.time() - age_s
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(began))}-{name}-7f3a"
    directory = home.run(run_id)
    directory.path.mkdir(parents=True)
    origin = {"user": "anna", "host": host_name(), "boot_id": "b", "created": began}
    argv = ("python", "train.py", "--lr", f"{loss:g}")
    plan = msgspec.to_builtins(make_plan(run_id, name=name, argv=argv))
    replace(directory.plan, msgspec.json.encode({**plan, "origin": origin}))
    ending = {"state": "done", "started": began, "ended": began + 60, "exit_code": 0, **record}
    replace(directory.state, msgspec.json.encode(ending))
    values = {"last": loss, "step": 9, "count": 9, "best": loss / 2, "best_step": 7}
    final = {"ended": ending["ended"], "progress": {"fraction": 1.0}, "metrics": {"loss": values}}
    replace(directory.path / "final.json", msgspec.json.encode({**final, "headline": "loss"}))
    directory.output.write_text(f"{output_of(name)}\n")
    if diff:
        source = {"root": "/nowhere", "dirty": True, "diff_bytes": len(diff), "diff_sha256": "x"}
        replace(directory.source, msgspec.json.encode(source))
        directory.source_diff.write_text(diff)


class Stage:
    """Where the stories of one size are played; a scene is set when one is needed."""

    def __init__(self, columns: int, rows: int, folders: pytest.TempPathFactory) -> None:
        self.columns, self.rows = columns, rows
        self._folders = folders
        self._scene: Scene | None = None

    def scene(self) -> Scene:
        """The scene that stands, or a new one."""
        self._scene = self._scene or self._set_up()
        return self._scene

    def strike(self) -> None:
        """End everything of the scene that stands."""
        scene, self._scene = self._scene, None
        if scene is not None:
            scene.panel.close()
            end_everything(scene.state)

    def _set_up(self) -> Scene:
        folder = self._folders.mktemp("stories")
        own = {
            "FRESNEL_STATE_DIR": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "FRESNEL_GPUS": "sim:2xMI300X",
            "FRESNEL_SAMPLER_LINGER_S": "2",
        }
        environment = {**os.environ, **own, "PYTHONPATH": str(REPOSITORY)}

        def command(*words: str) -> "subprocess.CompletedProcess[str]":
            done = COMMANDS.run(
                panel_command("--no-ui", *words),
                env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=CEILING_S,
            )  # fmt: skip
            assert done.returncode == 0, done
            return done

        state = StateDirectory(folder / "state").create()
        for i in range(OLD):
            make_ended(state, f"old-{i:02}", (i + 2) * DAY / 2, 0.5 + i / 100)
        make_ended(state, "rate-1e-4", 9000, 0.11, DIFF)
        make_ended(state, "rate-3e-4", 8000, 0.22)
        words = {
            "state": "failed",
            "exit_code": 1,
            "ending": {"cause": "failed", "summary": WHY},
        }
        make_ended(state, "broken", 7000, 0.9, **words)
        for name in ("holder", "waiter"):
            command("launch", "--gpu-ids", "0", "--name", name, "--", "sleep", "900")
        panel = Terminal(panel_command(), self.columns, self.rows, **own)
        scene = self._scene = Scene(panel, self.columns, state, command)
        panel.wait_for(run_row(State.RUNNING, "holder"))
        panel.wait_for(in_all(OLD + 5, running=1))
        return scene


def named(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


least_and_most = pytest.mark.parametrize("stage", SIZES[:2], ids=named, indirect=True)
"""For what is typed into a form that another story has opened at every size."""


@pytest.fixture(scope="module", params=SIZES, ids=named)
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    found = Stage(*request.param, tmp_path_factory)
    yield found
    found.strike()


@pytest.fixture
def scene(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The scene on its main screen, where a story has to leave it."""
    yield stage.scene()
    is_left = bool(request.node.stash.get(FAILED, True))
    try:
        if not is_left:
            stage.scene().panel.wait_for(rf"(?s)╭[^\n]* Runs.*?{in_all(OLD + 5, running=1)}")
            stage.scene().panel.wait_gone(FINDING)
    except AssertionError:
        is_left = True
        raise
    finally:
        if is_left:
            stage.strike()


def test_who_runs_stands_on_top_and_who_holds_a_gpu_has_its_letter(scene: Scene) -> None:
    panel = scene.panel
    panel.press("Home")  # another story may have left the cursor further down
    panel.wait_for(first_row(run_row(State.RUNNING, "holder", letter="A")))
    named = " holder" if scene.columns >= 120 else ""
    panel.wait_for(gpu_row(0, f"A:0{named}"))
    panel.wait_for(gpu_row(1, FREE))


def test_what_ended_before_this_panel_kept_its_result(scene: Scene) -> None:
    scene.panel.press("/rate-1e-4")
    scene.panel.wait_for(run_row(State.DONE, r"rate-1e-4 .*0\.11"))
    scene.panel.press("Escape")
    scene.panel.wait_gone(FINDING)


def test_last_week_s_failure_is_found_and_the_oldest_is_reached(scene: Scene) -> None:
    panel = scene.panel
    scene.choose("state:failed since:7d")
    panel.wait_for(run_row(State.FAILED, "broken"))
    scene.back()
    panel.press("End")
    panel.wait_for(output_of("old-39"))
    panel.press("Home")
    panel.wait_for(log_of("holder"))


def sort_marks(panel: Terminal) -> list[str]:
    """The headings that say what the table is sorted by."""
    return re.findall(r"\S+[▲▼]", panel.text)


def test_the_best_run_is_found_by_sorting(scene: Scene) -> None:
    panel = scene.panel
    sorted_by_loss = r"loss▲"
    for _ in range(12):
        before = sort_marks(panel)
        panel.press("<")
        eventually(lambda before=before: panel.read() or sort_marks(panel) != before)  # type: ignore[misc]
        if "loss▲" in sort_marks(panel):
            break
    panel.wait_for(sorted_by_loss)
    panel.press("Home")
    panel.wait_for(r"(?s)loss▲.*?rate-1e-4.*?rate-3e-4")
    panel.press("Escape", "Escape")
    panel.wait_gone(sorted_by_loss)
    panel.wait_for(first_row(run_row(State.RUNNING, "holder", letter="A")))
    panel.press("Home")
    panel.wait_for(log_of("holder"))


def test_why_a_run_failed_stands_in_its_row_and_in_its_details(scene: Scene) -> None:
    panel = scene.panel
    panel.press("/broken")
    panel.wait_for(run_row(State.FAILED, "broken +.*RuntimeError"))
    panel.press("Enter", "Enter")
    panel.wait_for(field("command", r"python train\.py --lr 0\.9"))
    panel.wait_for(WHY)
    panel.press("Escape")
    panel.wait_gone(field("command", r"python train"))
    panel.press("Escape")
    panel.wait_gone(FINDING)


def test_the_code_that_was_changed_is_shown(scene: Scene) -> None:
    panel = scene.panel
    scene.choose("rate-1e-4")
    panel.press("i")
    panel.wait_for(field("command", r"python train\.py"))
    panel.press("End")
    panel.wait_for(r"-rate = 1e-3\s*[│▁-█ ]*\n.*\+rate = 3e-4")
    panel.press("Escape")
    panel.wait_gone("rate = 3e-4")
    scene.back()
    said = scene.command("status", "rate-1e-4", "--diff").stdout
    assert "uncommitted changes: 1 file, +1 −1" in said and "\n+rate = 3e-4\n" in said
    told = json.loads(scene.command("status", "rate-1e-4", "--diff", "--json").stdout)
    assert told["diff"] == DIFF


def test_what_a_queued_run_waits_for_is_told_in_full(scene: Scene) -> None:
    panel = scene.panel
    panel.wait_for(run_row(State.QUEUED, "waiter +.*GPU 0 held"))
    scene.choose("waiter")
    panel.wait_for(queued_because(held_by(0, "holder ")))
    panel.wait_for(queue_place(1, 1))
    # Whole in the log's place, and not above that as well.
    assert not re.search(rf"╯\n[^╭]*{held_by(0, 'holder')}", panel.text), panel.text
    scene.back()


def test_a_note_of_several_lines_is_written_and_read(scene: Scene) -> None:
    panel = scene.panel
    scene.choose("rate-3e-4")
    panel.press("N")
    panel.wait_for(note_on("rate-3e-4"))
    panel.press("first line", "Enter", SECOND)
    panel.wait_for(SECOND)
    panel.press("\x13")
    panel.wait_gone(note_on("rate-3e-4"))
    (run,) = eventually(lambda: [one for one in scene.listed("note:second") if one["note"]])
    assert run["note"] == f"first line\n{SECOND}"
    panel.press("i")
    panel.wait_for(rf"{YOUR_NOTE} +first line .*\n.* {SECOND}")
    panel.press("Escape")
    panel.wait_gone(YOUR_NOTE)
    panel.press("N")
    panel.wait_for(note_on("rate-3e-4"))
    panel.press(" thrown away", "Escape")
    panel.wait_for(LEAVE_AS_IT_WAS)
    panel.press("Escape")
    panel.wait_gone(note_on("rate-3e-4"))
    scene.back()
    table = scene.command("list", "note:second", "--columns", "name,note").stdout
    assert "first line …" in table and "second" not in table


def test_a_run_is_tagged_starred_deleted_and_brought_back(scene: Scene) -> None:
    panel = scene.panel
    scene.choose("old-03")
    panel.press("t")
    panel.wait_for(tags_of("old-03"))
    panel.press("good, late", "Enter")
    panel.wait_gone(tags_of("old-03"))
    panel.press("*")
    panel.wait_for(starred("old-03"))
    panel.press("x")
    panel.wait_for(deletion(1))
    panel.press("y")
    panel.wait_for(found_of(0, OLD + 4))
    panel.press("u")
    panel.wait_for(found_of(1, OLD + 5))
    scene.back()
    assert [one["tags"] for one in scene.listed("is:starred")] == [["good", "late"]]


def test_two_marked_runs_are_compared(scene: Scene) -> None:
    panel = scene.panel
    scene.choose("rate-", 2)
    panel.press("Home", "  ")
    panel.wait_for(marked(2))
    panel.press("=")
    panel.wait_for(comparison(2))
    panel.wait_for(field("lr", r"0\.\d+ +0\.\d+"))
    panel.wait_for("★")
    panel.press("Escape")
    panel.wait_gone(comparison(2))
    panel.press("Escape")
    panel.wait_gone(FINDING)
    scene.back()


def test_a_command_of_one_s_own_is_launched_named_and_stopped(scene: Scene) -> None:
    panel = scene.panel
    panel.press("n")
    panel.wait_for(OWN_COMMAND)
    panel.press("sleep 901", "Enter")
    panel.wait_for(COMMAND_HELP)
    panel.press("Tab")
    panel.wait_for(FIELD_HELP["name"])
    panel.press("mine", "F2")
    panel.wait_for(run_row(State.RUNNING, "mine"))
    panel.wait_for(log_of("mine"))
    panel.press("s")
    panel.wait_for(stop_dialog("mine"))
    panel.press("Enter")
    panel.wait_gone(stop_dialog("mine"))
    assert [one["state"] for one in scene.listed("name:mine")] == ["running"], "asked, and left"
    panel.press("s")
    panel.wait_for(stop_dialog("mine"))
    panel.press("y")
    panel.wait_for(run_row(State.STOPPED, "mine"))
    panel.press("x")
    panel.wait_for(deletion(1))
    panel.press("y")
    panel.wait_for(in_all(OLD + 5))


@least_and_most
def test_a_command_that_was_typed_is_kept_and_earlier_ones_come_back(scene: Scene) -> None:
    panel = scene.panel
    panel.press("n")
    panel.wait_for(OWN_COMMAND)
    panel.press("sleep {lr}", "Enter")
    panel.wait_for(COMMAND_HELP)
    panel.wait_for(command_field(r"sleep \{lr\}"))
    panel.wait_for(rf"{STARTS} (?s:.*){unfilled('lr')}")
    panel.press("Escape")
    panel.wait_for(TYPED_ONLY)
    panel.press("Escape")
    panel.wait_gone(FORM)
    panel.press("n")
    panel.wait_for(AS_LEFT)
    panel.wait_for(command_field(r"sleep \{lr\}"))
    panel.press("Enter")
    panel.wait_for(COMMAND_HELP)
    panel.press("Up")
    panel.wait_for(command_field("sleep 900"))
    panel.press("Down")
    panel.wait_for(command_field(r"sleep \{lr\}"))
    panel.press("\x1b[20~")
    panel.wait_gone(r"sleep \{lr\}")
    panel.press("Escape")
    panel.wait_gone(FORM)


@least_and_most
def test_paths_are_completed_and_what_they_may_be_is_listed(scene: Scene) -> None:
    folder = scene.state.root.parent / "paths"
    (folder / "deep er").mkdir(parents=True, exist_ok=True)
    for name in ("train.py", "train_big.py"):
        (folder / "deep er" / name).write_text("")
    panel = scene.panel
    panel.press("n")
    panel.wait_for(OWN_COMMAND)
    panel.press(f"ls {folder}/d", "Enter")
    panel.wait_for(COMMAND_HELP)
    panel.press("Tab")
    panel.wait_for(r"deep\\ er/")
    panel.press("tr", "Tab")
    panel.wait_for(r"train\.py +train_big\.py")
    panel.press("_", "Tab")
    panel.wait_for(r"er/train_big\.py")
    panel.press("Tab")
    panel.wait_for(FIELD_HELP["name"])
    panel.press("\x1b[20~")
    panel.wait_gone("train_big")
    panel.press("Escape")
    panel.wait_gone(FORM)


def test_drain_and_guard_are_asked_for_and_stand_in_the_header(scene: Scene) -> None:
    panel = scene.panel
    panel.press("D")
    panel.wait_for(DRAIN)
    panel.press("y")
    panel.wait_for(DRAINED)
    panel.press("D")
    panel.wait_for(END_DRAIN)
    panel.press("y")
    panel.wait_gone(DRAINED)
    panel.press("$")
    panel.wait_for(NO_GUARD)
    panel.press("Escape")
    panel.wait_gone(MONEY)
    scene.command("guard", "set", "--max-age", "9000h")
    panel.wait_for(GUARDED)
    scene.command("guard", "off")
    panel.wait_gone(GUARDED)


def test_help_is_of_the_pane_in_focus_and_settings_are_shown(scene: Scene) -> None:
    panel = scene.panel
    panel.press("2", "?")
    panel.wait_for(RUNS_HELP)
    panel.press("Escape")
    panel.wait_gone(RUNS_HELP)
    panel.press(",")
    panel.wait_for(SETTINGS)
    panel.press("Escape")
    panel.wait_gone(SETTINGS)


def test_curves_of_the_marked_are_looked_at(scene: Scene) -> None:
    panel = scene.panel
    panel.press("m")
    panel.wait_for(CHARTS)
    panel.wait_gone(RUNS_PANE)
    panel.press("Escape")
    panel.wait_for(MAIN_SCREEN)


def test_leaving_says_what_goes_on(scene: Scene) -> None:
    """The last one: there is no panel after it."""
    again = Terminal(
        panel_command(), scene.columns, 24,
        FRESNEL_STATE_DIR=str(scene.state.root), FRESNEL_GPUS="none",
    )  # fmt: skip
    try:
        again.wait_for(run_row(State.RUNNING, "holder"))
        again.press("q")
        again.wait_for(go_on(2))
        assert again.wait_end() == 0
    finally:
        again.close()
