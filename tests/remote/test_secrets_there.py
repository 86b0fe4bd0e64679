"""No secret of a command for another machine stands in any argv, here or there."""

import stat
import threading
from pathlib import Path

from runners.lifecycle.supervisor.kept_environment import place_of
from runners.state.layout import StateDirectory
from runners.state.secret_store import keep_secret
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.remote.test_remote_keys import form_once_reached, opened
from tests.support import eventually, files_below
from tui.panel.launch_planner import LaunchRequest

SECRET = "planted-4f1d9c"
PRESET = """\
launcher: command
command: ["sh", "-c", "test \\"$API_TOKEN\\" = planted-4f1d9c"]
gpus: 0
environment: {API_TOKEN: none}
"""


class _Watch:
    """Every command line of this machine that has the secret in it, but those a person typed."""

    def __init__(self, typed: int) -> None:
        self.found: set[bytes] = set()
        self.looks = 0
        self._typed = typed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.is_set():
            self.looks += 1
            for process in Path("/proc").iterdir():
                if process.name.isdigit() and int(process.name) != self._typed:
                    try:
                        words = (process / "cmdline").read_bytes()
                    except OSError:
                        continue
                    if SECRET.encode() in words:
                        self.found.add(words)


def test_a_secret_of_a_launch_is_in_no_command_line(
    line: CommandLine, rented: RentedMachine
) -> None:
    rented.write("fresnel/presets/own.yaml", PRESET)
    words = ["launch", "own", "--set", f"environment.API_TOKEN={SECRET}", "--wait"]
    typed = line.begin(*words, "--host", "rented")
    with _Watch(typed.pid) as watch:
        said, problem = typed.communicate(timeout=250)
    assert typed.returncode == 0, (said, problem)
    assert watch.looks > 3
    # What a preset's command says is the program's own.
    assert not [words for words in watch.found if b"API_TOKEN=" in words]


def test_a_kept_secret_goes_with_the_one_launch_that_names_it(
    line: CommandLine, rented: RentedMachine
) -> None:
    keep_secret(line.state, "LABEL", SECRET)
    blocks = ["launch", "--gpus", "2", "--name", "blocks", "--host", "rented", "--", "sleep", "600"]
    line.run(*blocks)
    checks = ("--", "sh", "-c", 'test "$LABEL" = "$(cat expected)"')
    rented.write("fresnel/expected", SECRET)
    typed = line.begin("launch", "--gpus", "1", "--env", "LABEL", "--host", "rented", *checks)
    with _Watch(typed.pid) as watch:
        said, problem = typed.communicate(timeout=250)
        assert typed.returncode == 0, problem
        run = StateDirectory(rented.state).run(said.decode().strip())
        # It waits for GPUs, so the value is kept: for its user only, and in memory.
        place = Path(eventually(lambda: place_of(run)))
        assert SECRET.encode() in place.read_bytes()
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        line.run("stop", "blocks", "--force", "--yes", "--host", "rented")
        line.run("wait", run.id, "--host", "rented")
    assert not watch.found
    assert not place.exists()
    assert _holding(rented.state) == []
    # A preset of here names it as well.
    (line.folder / "presets").mkdir()
    preset = PRESET.replace("none", '"${secrets.LABEL}"')
    (line.folder / "presets" / "own.yaml").write_text(preset)
    line.run("push", "own", "--host", "rented")
    line.run("launch", "own", "--wait", "--host", "rented")


def test_a_kept_secret_goes_to_whichever_machine_is_chosen(
    line: CommandLine, rented: RentedMachine
) -> None:
    keep_secret(line.state, "LABEL", SECRET)
    rented.write("fresnel/expected", SECRET)
    checks = ("--", "sh", "-c", 'test "$LABEL" = "$(cat ~/fresnel/expected)"')
    line.run("launch", "--gpus", "1", "--env", "LABEL", "--host", "any", "--wait", *checks)
    assert _holding(line.state.root) == [line.state.secrets / "LABEL"]


def test_a_secret_that_a_preset_names_goes_to_whichever_machine_is_chosen(
    line: CommandLine, rented: RentedMachine
) -> None:
    (line.folder / "presets").mkdir()
    preset = PRESET.replace("none", '"${secrets.LABEL}"')
    (line.folder / "presets" / "own.yaml").write_text(preset)
    line.run("push", "own", "--host", "rented")
    line.run("launch", "--gpus", "0", "own", "--host", "any", "--wait", LABEL=SECRET)
    assert _holding(line.state.root) == []


async def test_the_panel_s_form_sends_no_kept_secret_and_says_what_does(
    line: CommandLine, rented: RentedMachine
) -> None:
    keep_secret(line.state, "LABEL", SECRET)
    (line.folder / "presets").mkdir()
    preset = PRESET.replace("none", '"${secrets.LABEL}"')
    (line.folder / "presets" / "own.yaml").write_text(preset)
    line.run("push", "own", "--host", "rented")
    async with opened(rented) as panel:
        screen = await form_once_reached(panel)
        planner = next(each for each in screen.planners if each.name == "rented")
        answers: list[object] = []
        planner.plan(LaunchRequest([], ["launch", "own"]), answers.append, answers.append)
        await panel.until(lambda: answers)
    (problem,) = answers
    assert isinstance(problem, str)
    # The command that it names takes the secret there.
    command = problem.split("`fresnel-tui ")[1].rstrip("`").split()
    line.run(*command, "--wait")


def test_a_secret_is_not_written_down_for_several_machines(line: CommandLine) -> None:
    """No machine is asked before."""
    both = ("launch", "own", "--hosts", "a,b")
    for given in (
        ("--env", "LABEL"),
        ("--env", f"API_TOKEN={SECRET}"),
        ("--set", f"environment.API_TOKEN={SECRET}"),
    ):
        assert "secrets" in line.run(*both, *given, exits=2).stderr
    assert line.run(*both, "--env", "NCCL_DEBUG=INFO", exits=3).stderr


def _holding(folder: Path) -> list[Path]:
    """The files that have the secret in them."""
    return [path for path, content in files_below(folder).items() if SECRET.encode() in content]
