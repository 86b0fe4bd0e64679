"""What is installed from a package: all of it, under one name, in nobody's way."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runners.state.layout import StateDirectory
from tests.packages import build, install, names_in
from tests.process.conftest import CommandLine
from tests.support import REPOSITORY, committed_files

pytest.importorskip("hatchling")

OURS = ("tui", "runners", "trainers", "presets")
THEIRS = """\
import sys
import runners.theirs, trainers.theirs, tui.theirs
print(runners.theirs.WHOSE, trainers.theirs.WHOSE, tui.theirs.WHOSE)
try:
    import tui.cli
    print("ours is there too")
except ImportError:
    print("alone")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package"), "wheel")


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment in which only that is installed."""
    return install(wheel, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture
def installed(programs: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The installed command, in a folder with packages of our names that are no packages of ours."""
    monkeypatch.setenv("VIRTUAL_ENV", str(programs.parent))
    for name in ("tui", "runners", "trainers"):
        (cli.folder / name).mkdir()
        (cli.folder / name / "theirs.py").write_text(f"WHOSE = 'their-{name}'\n")
    (cli.folder / "fit.py").write_text(THEIRS)
    cli.begins = (str(programs / "fresnel-tui"),)
    return cli


def tracked() -> set[str]:
    """The names of the committed files; skipped where this is no checkout."""
    found = {str(path.relative_to(REPOSITORY)) for path in committed_files()}
    if not found:
        pytest.skip("not a checkout")
    return found


def test_a_wheel_has_all_of_the_program_and_nothing_else(wheel: Path) -> None:
    found = {name for name in names_in(wheel) if ".dist-info/" not in name}
    manual = {name for name in found if name.endswith(".data/data/share/man/man1/fresnel-tui.1")}
    assert len(manual) == 1
    package = "tui/package/"
    builds = f"{package}wheel_contents.py"
    documents = {name for name in tracked() if re.fullmatch(r"docs/[^/]+\.md", name)}
    ours = {name for name in tracked() if name.startswith(OURS)} | documents
    wanted = {
        name.removeprefix(package) if name.startswith(package) else f"fresnel_tui/{name}"
        for name in ours - {builds}
    }
    assert found - wanted - manual == {"fresnel_tui/pyproject.toml", "fresnel_tui/constraints.txt"}
    assert wanted <= found


def test_an_editable_installation_has_only_the_way_to_the_source(tmp_path: Path) -> None:
    """A copy would be found before it, and would not find the rest."""
    found = names_in(build(tmp_path, "editable"))
    found = {name for name in found if not re.search(r"\.(dist-info|data)/", name)}
    assert [name.rpartition(".")[2] for name in found] == ["pth"]


def test_a_source_package_has_what_git_has(tmp_path: Path) -> None:
    assert names_in(build(tmp_path, "sdist")) - tracked() == {"PKG-INFO"}


def test_a_program_keeps_its_own_packages_of_our_names(installed: CommandLine) -> None:
    """They are folders without `__init__.py`, which any package of that name would hide."""
    python = Path(installed.begins[0]).parent / "python"
    for more in ({}, {"PYTHONPATH": str(installed.folder)}):
        given = {"PYTHONPATH": "", **more}
        run = installed.launch("--gpus", "0", "--", str(python), "fit.py", **given)
        installed.run("wait", run.id, **given)
        assert run.output.read_text() == "their-runners their-trainers their-tui\nalone\n"


def test_a_trainer_without_torch_says_what_to_install(installed: CommandLine) -> None:
    """Started by the preset, and by its path."""
    refused = installed.run("launch", "gaussian-tiny", "--gpus", "0", exits=None, PYTHONPATH="")
    assert "torch" in refused.stderr and "[train]" in refused.stderr
    root = Path(installed.begins[0]).parents[1]
    for script in ("gaussian/train.py", "cascade/train.py", "pcdiff/train.py", "skulls/prepare.py"):
        path = next(root.glob(f"lib/*/site-packages/fresnel_tui/trainers/{script}"))
        done = subprocess.run(
            [str(root / "bin" / "python"), str(path), "--help"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, script
        assert "'fresnel-tui[train]'" in done.stderr
        assert done.stderr.count("\n") == 1


def test_the_commands_work_where_only_the_package_is(installed: CommandLine) -> None:
    bare = {"PYTHONPATH": ""}
    assert "# Money" in installed.run("help", "money", **bare).stdout
    names = {row["name"] for row in json.loads(installed.run("presets", "--json", **bare).stdout)}
    assert {"gaussian-tiny", "launch-both"} <= names
    installed.run("doctor", exits=None, **bare)
    run = installed.launch("--gpus", "0", "--name", "mine", "--", "echo", "hello", **bare)
    installed.run("wait", run.id, **bare)
    code = (
        "from fresnel_tui.api import runs\nprint([(run.name, run.state.value) for run in runs()])\n"
    )
    python = Path(installed.begins[0]).parent / "python"
    done = subprocess.run(
        [str(python), "-c", code],
        env=installed.environment({**bare, "FRESNEL_STATE_DIR": str(StateDirectory().root)}),
        cwd=installed.folder.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[('mine', 'done')]\n", done.stderr


def test_python_beside_packages_of_our_names_is_told(installed: CommandLine) -> None:
    """They are imported already: ours cannot be, and it says what to do."""
    (installed.folder / "runners" / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", "import runners, fresnel_tui.api"],
        env=installed.environment({"PYTHONPATH": ""}),
        cwd=installed.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert str(installed.folder / "runners") in done.stderr.splitlines()[-1]
