"""What a person writes where a path is meant may be no name of a file: it is told, and is no error."""

from pathlib import Path

import pytest

from runners.lifecycle.launch.interpreter import Interpreter
from runners.lifecycle.launch.planner import plan_runs
from runners.lifecycle.launch.requirements import missing_packages
from runners.model.program import Needs
from runners.model.spec import RunSpec
from runners.presets.catalogue import resolve_preset
from runners.presets.config_file import read_config
from runners.presets.load import command_spec
from runners.state.layout import StateDirectory
from tui.agent.launching import enter

LONG = "x" * 300


@pytest.mark.parametrize("package", ["/x", "**x", "..", "", "a/b", LONG])
def test_a_package_is_any_text(tmp_path: Path, package: str) -> None:
    spec = RunSpec("p", "p", "python", needs=Needs((package,)))
    missing_packages(spec, Interpreter(Path("/bin/true"), {}, (tmp_path,)))


def test_a_command_and_a_configuration_may_name_what_no_file_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    (tmp_path / "c.yaml").write_text(f"lr: 1\nbase: {LONG}.yaml\n")
    (tmp_path / "p.yaml").write_text(
        "launcher: python\nscript: t.py\nneeds: {packages: [sys]}\n"
        "config: {file: c.yaml, parameters: {lr: 2}}\n"
    )
    state = StateDirectory().create()
    specs = [resolve_preset(str(tmp_path / "p.yaml")), command_spec(["true", f"{LONG}.py"])]
    specs += [command_spec(["env", "python3", f"{LONG}.py"])]
    assert [run.plan.directory for run in plan_runs(state, specs)]


def test_aliases_of_nothing_to_aliases_are_counted(tmp_path: Path) -> None:
    lines = ["a0: &a0 {}"]
    for i in range(1, 40):
        names = ", ".join(f"k{j}: *a{i - 1}" for j in range(8))
        lines.append(f"a{i}: &a{i} {{{names}}}")
    (tmp_path / "c.yaml").write_text("\n".join(lines))
    with pytest.raises(Exception, match="keys"):
        read_config(tmp_path / "c.yaml")


def test_a_form_is_answered_though_the_folder_of_the_link_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    enter(tmp_path / "new")
    assert Path.cwd() == tmp_path / "new"
