"""What happens to a terminal: suspended, resized, detached, cut off; without colours or mouse;
small and large.
"""

import json
import os
import re
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.process.conftest import end_everything
from tests.screen_text import (
    COMMANDS,
    FOOTER,
    FREE,
    LAST_KEY,
    LOG_PROMPTS,
    NEWEST_CHECKPOINT,
    NO_RUNS,
    NO_SHELL,
    PALETTE,
    PLAN,
    RUNS_HELP,
    RUNS_PANE,
    gpu_row,
    log_of,
    run_row,
)
from tests.sshd import Sshd, running_sshd
from tests.support import eventually
from tests.terminal import Terminal, headless, panel_command
from tests.ui.conftest import Show
from tests.ui.tmux import Tmux
from tui.panel.terminal.line import QUESTION

COUNTER = """\
launcher: command
shell: true
command: "for i in $(seq 1 100000); do echo counting $i; sleep 0.2; done"
gpus: 0
stop: {ladder: [SIGINT 5s, SIGKILL 5s], target: group}
"""
COUNTING = r"counting \d+"
"""What it writes, line by line."""
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, presets: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A preset that counts; at the end no run is left."""
    (presets / "aa-counter.yaml").write_text(COUNTER)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    end_everything(StateDirectory())


def counted() -> int:
    """The last number that the counter wrote."""
    return int(headless("logs", "aa-counter", "-n", "1").stdout.split()[-1])


@pytest.fixture
def tmux(place: Path) -> Iterator[Callable[..., Tmux]]:
    opened: list[Tmux] = []

    def open_it(*command: str, columns: int = 80, rows: int = 24, **environment: str) -> Tmux:
        folder = place / f"tmux-{len(opened)}"
        folder.mkdir()
        opened.append(Tmux(folder, command, columns, rows, **environment))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()


def panel_of(pid: int) -> psutil.Process:
    """The panel among the descendants of a process."""

    def found() -> psutil.Process | None:
        for process in psutil.Process(pid).children(recursive=True):
            try:
                if process.cmdline()[:3] == [sys.executable, "-m", "fresnel_tui"]:
                    return process
            except psutil.NoSuchProcess:
                continue
        return None

    process = eventually(found, what="the panel's process")
    assert process is not None
    return process


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# ── Ctrl+Z ────────────────────────────────────────────────────────────────────────────────────────

PROMPT, SAME = "ready>", "all the same"
ANSWER = "\x1b[1;1R"
SUSPENDED = rf"Stopped.*\n(.*\n)*{PROMPT}$"
"""What the shell says of a job."""
SHELL = ("bash", "--norc", "--noprofile", "-i")
MODES = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{mouse_sgr_flag} #{mouse_all_flag}"


@needs_tmux
@pytest.mark.parametrize(
    "wrapped", [False, True], ids=["from the shell", "from a program like make"]
)
def test_ctrl_z_gives_the_terminal_back_and_fg_paints_it_all_again(
    tmux: Callable[..., Tmux], tmp_path: Path, wrapped: bool
) -> None:
    window = tmux(*SHELL, PS1=f"{PROMPT} ", FRESNEL_GPUS="sim:2xH100")
    panel = " ".join(panel_command())
    window.press(
        f"cd {tmp_path}; stty -a > before; " + (f"sh -c '{panel}; true'" if wrapped else panel),
        "Enter",
    )
    window.wait_for(NO_RUNS)
    window.wait_for(gpu_row(1, FREE))
    assert window.ask(MODES) == "1 0 1 1 1"
    window.press("C-z")
    window.wait_for(SUSPENDED)
    assert window.ask(MODES) == "0 1 0 0 0"
    assert NO_RUNS not in window.text
    window.press(f"clear; stty -a > after; cmp before after && echo {SAME}", "Enter")
    window.wait_for(f"^{SAME}")
    window.press("fg", "Enter")
    window.wait_for(NO_RUNS)
    window.wait_for(FOOTER)
    window.wait_for(gpu_row(1, FREE))
    assert window.ask(MODES) == "1 0 1 1 1"
    assert SAME not in window.text
    window.press("?")
    window.wait_for(RUNS_HELP)
    window.press("Escape")
    window.wait_gone(RUNS_HELP)
    window.press("q")
    window.wait_for(rf"{SAME}\n(.*\n)*{PROMPT}$")
    assert window.ask(MODES) == "0 1 0 0 0"


@needs_tmux
def test_a_panel_stopped_by_force_goes_on_and_can_be_left(tmux: Callable[..., Tmux]) -> None:
    window = tmux(*SHELL, PS1=f"{PROMPT} ")
    window.press(" ".join(panel_command()), "Enter")
    window.wait_for(NO_RUNS)
    panel = panel_of(window.pid)
    panel.send_signal(signal.SIGSTOP)
    window.wait_for(PROMPT)
    window.press("fg", "Enter")
    window.wait_for(FOOTER)
    window.wait_gone(f"{PROMPT} fg")

    def asked_to_leave() -> bool:
        window.press(
            "q"
        )  # again and again: what is typed while the terminal is set up anew is lost
        return not is_alive(panel)

    eventually(asked_to_leave, what="the panel gone")


def test_continued_without_having_stopped_it_still_ends(show: Show) -> None:
    panel = show()
    panel.wait_for(NO_RUNS)
    for started in range(2, 7):
        os.kill(panel.child.pid, signal.SIGCONT)
        eventually(
            lambda started=started: panel.read() or panel.raw.count(b"\x1b[?1049h") == started
        )
        panel.press("?")
        panel.wait_for(RUNS_HELP)
        panel.press("Escape")
        panel.wait_gone(RUNS_HELP)
    panel.press("q")
    assert panel.wait_end() == 0


def test_without_a_shell_to_come_back_to_ctrl_z_says_so(show: Show) -> None:
    panel = show()
    panel.wait_for(NO_RUNS)
    panel.press("\x1a")
    panel.wait_for(NO_SHELL)
    panel.press("?")
    panel.wait_for(RUNS_HELP)


@needs_tmux
def test_a_suspended_panel_ends_with_its_terminal(tmux: Callable[..., Tmux]) -> None:
    window = tmux(*SHELL, PS1=f"{PROMPT} ")
    window.press(" ".join(panel_command("--launch", "aa-counter")), "Enter")
    window.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel = panel_of(window.pid)
    window.press("C-z")
    window.wait_for(SUSPENDED)
    window.close()
    eventually(lambda: not is_alive(panel), what="the panel gone")
    assert [run["state"] for run in json.loads(headless("list", "--json").stdout)] == ["running"]


# ── sizes ─────────────────────────────────────────────────────────────────────────────────────────


def outline(text: str) -> str:
    """A screen without what changes from second to second."""
    return re.sub(r"[\s\d.%°░█▏▎▍▌▋▊▉]+", " ", text)


@needs_tmux
def test_resized_it_looks_as_if_opened_at_that_size_and_nothing_is_left_over(
    tmux: Callable[..., Tmux],
) -> None:
    simulated = {"FRESNEL_GPUS": "sim:2xH100", "FRESNEL_HOST": "here"}
    window = tmux(*panel_command(), **simulated)
    window.wait_for(gpu_row(1, FREE))
    opened = {
        size: tmux(*panel_command(), columns=size[0], rows=size[1], **simulated)
        for size in ((200, 60), (80, 24))
    }
    for size in ((200, 60), (40, 12), (20, 5), (250, 70), (80, 24), (200, 60), (40, 12), (80, 24)):
        window.resize(*size)
        if size[1] == 12:
            window.wait_for(r"\? Help +q Quit *\n?\Z")
        if size in opened:
            same = opened[size]
            same.wait_for(gpu_row(1, FREE))
            eventually(
                lambda same=same: outline(window.text) == outline(same.text),
                what=f"the picture at {size}",
            )
    window.press("?")
    window.wait_for(RUNS_HELP)


@needs_tmux
def test_detached_and_attached_at_another_size_the_panel_goes_on(
    tmux: Callable[..., Tmux], monkeypatch: pytest.MonkeyPatch
) -> None:
    window = tmux(*panel_command("--launch", "aa-counter"))
    window.call("set-option", "-g", "window-size", "latest")
    attach = ["tmux", "attach", "-t", "main"]
    monkeypatch.setenv("TMUX_TMPDIR", window.environment["TMUX_TMPDIR"])
    first = Terminal(attach, 100, 30)
    first.wait_for(r"(?m)^╭.{98}╮$")
    first.wait_for(COUNTING)
    panel = psutil.Process(window.pid)
    first.press("\x02", "d")
    first.wait_end()
    before = counted()
    eventually(lambda: counted() > before + 5)
    second = Terminal(attach, 140, 40)
    second.wait_for(r"(?m)^╭.{138}╮$")
    second.wait_for(COUNTING)

    def newest() -> int:
        second.read()  # half a frame may have none
        return max(map(int, re.findall(r"counting (\d+)", second.text)), default=0)

    eventually(lambda: newest() > before + 5, what="the log going on")
    assert is_alive(panel)
    second.press("q")
    second.wait_end()
    eventually(lambda: not is_alive(panel))


@pytest.mark.parametrize("size", [(80, 24), (250, 70)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_screen_by_keys(show: Show, size: tuple[int, int]) -> None:
    panel = show(
        "--launch", "aa-counter", columns=size[0], rows=size[1], FRESNEL_GPUS="sim:8xMI300X"
    )
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for(COUNTING)
    panel.wait_for(gpu_row(7, FREE))
    panel.wait_for(FOOTER)
    look(panel)
    for key, shown, back in (
        ("n", PLAN, "Escape"),
        ("s", NEWEST_CHECKPOINT, "Escape"),
        ("?", RUNS_HELP, "Escape"),
        ("c", COMMANDS, "Escape"),
        ("Ctrl+P", PALETTE, "Escape"),
        ("3/", LOG_PROMPTS["search"], "Escape"),
    ):
        panel.press(key)
        panel.wait_for(shown)
        look(panel)
        panel.press(back)
        panel.wait_gone(shown)
    for key, shown, gone in (
        ("1", "GPUs", RUNS_PANE),
        ("2", RUNS_PANE, "GPUs"),
        ("3", COUNTING, RUNS_PANE),
    ):
        panel.press(f"{key}z")  # as fast as a person who has the habit
        panel.wait_gone(gone)
        panel.wait_for(shown)
        panel.wait_for(LAST_KEY)
        look(panel)
        panel.press("z")
        panel.wait_for(rf"(?s)GPUs.*{log_of('aa-counter')}")
    panel.press("m")
    panel.wait_gone(RUNS_PANE)
    look(panel)
    panel.press("q")
    panel.wait_for(RUNS_PANE)
    panel.press("q")
    code = panel.wait_end()
    panel.read()
    assert code == 0, panel.text


def look(panel: Terminal) -> None:
    """Nothing broke, a footer is there, and what begins with a frame ends with it, at the edge.

    A picture may come in parts: it is looked at until it is whole.
    """

    def whole() -> bool:
        panel.read()
        assert "Traceback" not in panel.text
        rows = panel.screen.display
        broken = any(row[0] in "╭╰│" and row[-1] not in "╮╯│" for row in rows)
        return not broken and bool(rows[-1].strip())

    try:
        eventually(whole)
    except AssertionError as never:
        raise AssertionError(f"frames that do not close:\n{panel.text}") from never


# ── colours and mouse ─────────────────────────────────────────────────────────────────────────────


def colours(stream: bytes) -> set[str]:
    """Every SGR parameter that sets a colour."""
    found = {
        part
        for codes in re.findall(rb"\x1b\[([0-9;:]*)m", stream)
        for part in re.split(rb"[;:]", codes)
        if part
    }
    numbers = {int(part) for part in found}
    return {str(n) for n in numbers if 30 <= n <= 38 or 40 <= n <= 48 or n == 58 or 90 <= n <= 107}


def row_of(panel: Terminal, sign: str) -> int:
    """The row of the screen that holds the words."""
    return next(row for row, line in enumerate(panel.screen.display) if sign in line)


@pytest.mark.parametrize("theme", ["", "ansi-dark", "contrast-light"])
def test_no_color_means_none_and_states_are_read_by_sign_and_word(
    show: Show, place: Path, theme: str
) -> None:
    (place / "config" / "fresnel-tui" / "settings.yaml").write_text(
        f"panel: {{theme: '{theme}'}}\n"
    )
    headless(
        "launch",
        "--gpus",
        "0",
        "--name",
        "broken",
        "--",
        "sh",
        "-c",
        "printf '\\033[31mred\\033[0m'; exit 3",
    )
    panel = show(
        "--launch", "aa-counter", columns=120, rows=40, NO_COLOR="1", FRESNEL_GPUS="sim:2xH100"
    )
    panel.wait_for(run_row(State.RUNNING, "aa-counter"))
    panel.wait_for(run_row(State.FAILED, "broken"))
    panel.wait_for(gpu_row(1, FREE))
    panel.wait_gone("launched aa-counter")  # the notice, which lies over the row
    eventually(
        lambda: (
            panel.read() or panel.screen.buffer[row_of(panel, run_row(State.RUNNING))][60].reverse
        ),
        what="the cursor's row reversed",
    )
    below = row_of(panel, run_row(State.FAILED)) > row_of(panel, run_row(State.RUNNING))
    panel.wait_for("┏━ Runs")  # the pane with the keys
    panel.press("1")
    panel.wait_for("┏━ GPUs")
    panel.press("2")
    for key, shown in (
        ("n", PLAN),
        ("?", RUNS_HELP),
        ("Ctrl+P", PALETTE),
    ):
        panel.press(key)
        panel.wait_for(shown)
        panel.press("Escape")
        panel.wait_gone(shown)
    panel.press("j" if below else "k")
    panel.wait_for("red")
    assert not colours(bytes(panel.raw))


def test_colours_are_found_where_they_are_not_refused(show: Show) -> None:
    panel = show()
    panel.wait_for(NO_RUNS)
    assert colours(bytes(panel.raw))


MOUSE = re.compile(rb"\x1b\[\?(?:\d+;)*(1000|1002|1003|1006|1015|1016)h")


def test_no_mouse_leaves_it_to_the_terminal(show: Show) -> None:
    panel = show("--no-mouse")
    panel.wait_for(NO_RUNS)
    panel.press("?")
    panel.wait_for(RUNS_HELP)
    panel.press("Escape")
    panel.wait_gone(RUNS_HELP)
    panel.press("q")
    assert panel.wait_end() == 0
    assert not MOUSE.search(bytes(panel.raw))
    other = show()
    other.wait_for(NO_RUNS)
    assert MOUSE.search(bytes(other.raw))


# ── a slow line ──


@pytest.mark.parametrize("flag", ["", "--slow"])
def test_what_a_reader_did_not_take_is_not_kept_for_it(show: Show, flag: str) -> None:
    flood = "import time\nfor i in range(10**6): print('line', i, flush=True); time.sleep(3e-4)"
    headless("launch", "--gpus", "0", "--name", "flood", "--", sys.executable, "-c", flood)
    panel = show(*flag.split(), rows=40)
    panel.wait_for(r"line \d+")
    log = log_file()
    before = log.stat().st_size
    # Nobody reads the terminal meanwhile.
    eventually(lambda: log.stat().st_size > before + 20_000, what="the log going on")
    written, last = panel.written, int(log.read_text().split()[-1])
    panel.press("?")
    panel.wait_for(RUNS_HELP)
    panel.press("Escape")
    panel.wait_gone(RUNS_HELP)

    def newest() -> int:
        panel.read()  # half a frame may have none
        return max(map(int, re.findall(r"line (\d+) *│", panel.text)), default=0)

    eventually(lambda: newest() > last, what="a line written since")
    assert panel.written - written < 40_000


def test_no_answer_of_the_terminal_is_left_for_the_shell(show: Show) -> None:
    """It answers late, as behind a slow line: the panel ends when what is under way has come."""
    panel = show()
    asked, due = 0, deque[float]()

    def attend() -> None:
        nonlocal asked
        panel.read(0.01)
        count = panel.raw.count(QUESTION.encode())
        due.extend([time.monotonic() + 0.2] * (count - asked))
        asked = count
        while due and due[0] <= time.monotonic():
            os.write(panel.window, ANSWER.encode())
            due.popleft()

    def attended(until: Callable[[], object]) -> bool:
        attend()
        return bool(until())

    eventually(lambda: attended(lambda: asked > 1 and not due), what="a first screen answered")
    os.write(panel.window, b"?")
    eventually(lambda: attended(lambda: re.search(RUNS_HELP, panel.text) and not due))
    os.write(panel.window, b"\x1b")
    # Of another frame it may be Escape that has not been told from Alt yet: then q is Alt+q.
    eventually(
        lambda: attended(lambda: due and not re.search(RUNS_HELP, panel.text)),
        what="a question about what Escape shows",
    )
    os.write(panel.window, b"q")
    eventually(lambda: attended(lambda: panel.child.poll() is not None), what="its end")
    assert panel.child.poll() == 0 and not due


def log_file() -> Path:
    return next(path for path in StateDirectory().runs.glob("*/output.log"))


# ── ssh ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def sshd(place: Path) -> Iterator[Sshd]:
    with running_sshd(place / "ssh") as server:
        yield server


@pytest.mark.parametrize("cut", ["the client is killed", "the server's side is killed"])
def test_a_cut_connection_ends_the_panel_and_not_the_run(sshd: Sshd, cut: str) -> None:
    there = Terminal(sshd.command(*panel_command("--launch", "aa-counter")), 100, 30)
    there.wait_for(run_row(State.RUNNING, "aa-counter"))
    there.wait_for(COUNTING)
    panel = panel_of(sshd.process.pid)
    if cut == "the client is killed":
        os.kill(there.child.pid, signal.SIGKILL)
    else:
        for session in panel.parents():
            if session.name() == "sshd" and session.pid != sshd.process.pid:
                session.kill()
    eventually(lambda: not is_alive(panel), what="the panel gone")
    there.close()
    before = counted()
    eventually(lambda: counted() > before + 5, what="the run's output going on")
    assert [run["state"] for run in json.loads(headless("list", "--json").stdout)] == ["running"]


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_what_is_shown_is_utf_8_in_every_locale(locale: str, show: Show) -> None:
    # Python reads a locale that is not installed as UTF-8: its streams are told.
    words = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    headless("launch", "--gpus", "0", "--name", "ended", "--wait", "--", "true")
    show(until=run_row(State.DONE, "ended"), **words)
    assert State.DONE.sign in headless("list", **words).stdout
