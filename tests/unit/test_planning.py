"""RunSpec → LaunchPlan: words filled, paths found, secrets kept."""

import os
import sys
from pathlib import Path

import msgspec
import pytest

from runners.host.newest_file import first_whole, matching_files
from runners.lifecycle.launch.planning import Planned, make_plan
from runners.model.errors import WrongInput
from runners.model.gpus import GpuSnapshot
from runners.model.kept_secrets import MASK
from runners.model.spec import RunSpec
from runners.presets.load import command_spec, load_preset
from runners.scheduling.allocation import Allocation
from runners.state.layout import TRAINERS, StateDirectory

RUN = "20261120-101500-demo-7f3a"
TWO = Allocation(tuple(GpuSnapshot(index, f"GPU-{index}", "H100", "nvidia") for index in (5, 2)))


def write(folder: Path, text: str, name: str = "exp.yaml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def plan(spec: RunSpec, directory: Path, allocation: Allocation | None = None) -> Planned:
    return make_plan(
        spec, StateDirectory(directory).run(RUN), allocation or Allocation(), None, None
    )


def plan_of(tmp_path: Path, text: str, allocation: Allocation | None = None) -> Planned:
    return plan(load_preset(write(tmp_path / "presets", text)), tmp_path, allocation)


def test_what_has_no_command_is_refused_and_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="no command"):
        plan(RunSpec(preset="odd", name="odd", launcher="command"), tmp_path)


def test_every_word_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHO", "anna")
    planned = plan_of(
        tmp_path,
        "launcher: command\n"
        "command: [echo, '${run_dir}', '${run_id}', '${gpu_count}', '${gpu_ids}', "
        "'${processes}', '${python}']\n"
        "arguments: ['${trainers}', '${preset_dir}', '${working_directory}', '${WHO}', '$${WHO}']\n"
        "parameters: {port: '${port}'}\n",
        TWO,
    )
    words = planned.plan.argv[
        planned.plan.argv.index(next(w for w in planned.plan.argv if w.endswith("echo"))) + 1 :
    ]
    assert words == (
        str(tmp_path / "runs" / RUN), RUN, "2", "5,2", "2", sys.executable, str(TRAINERS),
        str(tmp_path / "presets"),
        str(tmp_path), "anna", "${WHO}", "--port", str(planned.plan.port),
    )  # fmt: skip
    assert planned.plan.port and 1024 <= planned.plan.port < 65536


def test_no_port_is_taken_when_none_is_needed(tmp_path: Path) -> None:
    assert plan_of(tmp_path, "launcher: command\ncommand: echo\n").plan.port is None


def test_gpus_are_numbered_as_the_program_sees_them(tmp_path: Path) -> None:
    planned = plan_of(tmp_path, "launcher: command\ncommand: echo\n", TWO)
    assert [(gpu.index, gpu.logical) for gpu in planned.plan.gpus] == [(5, 0), (2, 1)]
    assert planned.plan.environment["CUDA_VISIBLE_DEVICES"] == "5,2"


def test_inherited_gpu_variables_are_taken_away_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "7")
    planned = plan_of(tmp_path, "launcher: command\ncommand: echo\n", TWO)
    assert set(planned.plan.environment_removed) == {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}
    assert (
        "HIP_VISIBLE_DEVICES" not in planned.environment
        and "ROCR_VISIBLE_DEVICES" not in planned.environment
    )
    assert planned.environment["CUDA_VISIBLE_DEVICES"] == "5,2"


def test_a_preset_may_set_a_gpu_variable_itself(tmp_path: Path) -> None:
    planned = plan_of(
        tmp_path,
        "launcher: command\ncommand: echo\nenvironment: {CUDA_VISIBLE_DEVICES: '9'}\n",
        TWO,
    )
    assert planned.environment["CUDA_VISIBLE_DEVICES"] == "9"


def test_the_mark_of_an_outer_run_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_RUN_ID", "outer")
    assert (
        "FRESNEL_RUN_ID" not in plan_of(tmp_path, "launcher: command\ncommand: echo\n").environment
    )


SECRETS = {
    "WANDB_API_KEY": "s3cret-1",
    "HF_TOKEN": "s3cret-2",
    "my_secret": "s3cret-3",
    "DB_PASSWORD": "s3cret-4",
}


def test_secrets_reach_the_program_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    text = (
        "launcher: command\ncommand: echo\nenvironment:\n  API_KEY: s3cret-5\n  PLAIN: visible\n"
        "  AUTHORIZATION: Bearer ${HF_TOKEN}\n  COPY: ${env:my_secret}\n"
    )
    spec = load_preset(write(tmp_path / "presets", text))
    planned = plan(spec, tmp_path)
    assert planned.environment["API_KEY"] == "s3cret-5"
    assert planned.environment["AUTHORIZATION"] == "Bearer s3cret-2"
    assert planned.environment["COPY"] == "s3cret-3"
    assert planned.environment.items() >= SECRETS.items()
    assert planned.plan.environment["API_KEY"] == planned.plan.environment["AUTHORIZATION"] == MASK
    assert planned.plan.environment["PLAIN"] == "visible"
    assert b"s3cret" not in msgspec.json.encode(planned.plan)


@pytest.mark.parametrize(
    "keys",
    [
        "command: echo\narguments: ['--token=${HF_TOKEN}']",
        "command: [echo, '${env:HF_TOKEN}']",
        "command: echo ${HF_TOKEN:-none}\nshell: true",
        "command: echo\nparameters: {key: '${WANDB_API_KEY}'}",
        "command: echo\nparameters: {keys: ['${WANDB_API_KEY}']}",
        "command: echo\ncheckpoints: ['${my_secret}/*']",
        "command: echo\nworking_directory: ${my_secret}",
    ],
)
def test_a_secret_on_a_command_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(WrongInput, match="can be read by everyone on this machine") as caught:
        plan_of(tmp_path, f"launcher: command\n{keys}\n")
    assert "s3cret" not in str(caught.value)


def test_a_command_may_speak_of_a_secret_to_its_own_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "s3cret-2")
    planned = plan(command_spec(["sh", "-c", "use ${HF_TOKEN}"]), tmp_path)
    assert planned.plan.argv[-1] == "use ${HF_TOKEN}"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("launcher: python\nscript: nope.py", "script: no file"),
        ("launcher: python\nscript: a.py\ninterpreter: /nope/python", "no program `/nope/python`"),
        ("launcher: command\ncommand: fresnel-nope --x", "no program `fresnel-nope`"),
        ("launcher: command\ncommand: ./run.sh", "no program `./run.sh`"),
        (
            "launcher: command\ncommand: echo\nworking_directory: nope",
            "working_directory: no folder",
        ),
        (
            "launcher: command\ncommand: echo ${FRESNEL_NOPE}",
            "command: ${FRESNEL_NOPE}: the environment variable",
        ),
    ],
)
def test_what_is_not_there_is_said_before_anything_starts(
    tmp_path: Path, keys: str, words: str
) -> None:
    write(tmp_path / "presets", "", "a.py")
    if "working_directory" not in keys:
        keys += "\nworking_directory: ."
    with pytest.raises(WrongInput) as caught:
        plan_of(tmp_path, f"{keys}\n")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python3 -u tain.py", "train.py`?"),
        ("python3 nope.py", "nope.py yet"),
        ("python3 train.py", ""),
        ("python3 -c pass", ""),
        ("torchrun --standalone nope.py", "nope.py yet"),
        ("torchrun --new-switch nope.py", ""),
    ],
)
def test_a_command_whose_python_file_is_not_there_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "", "train.py")
    monkeypatch.setenv("PATH", f"{write(tmp_path, '', 'torchrun').parent}:{os.environ['PATH']}")
    (tmp_path / "torchrun").chmod(0o755)
    notes = [
        note for note in plan(command_spec(command.split()), tmp_path).plan.notes if ".py" in note
    ]
    assert [said in note for note in notes] == [True] * bool(said)


def test_a_preset_s_paths_count_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write(tmp_path / "proj" / "src", "", "train.py")
    write(
        tmp_path / "proj" / "presets",
        "launcher: python\nscript: src/train.py\nworking_directory: ..\n",
    )
    monkeypatch.chdir(tmp_path)
    planned = plan(load_preset(Path("proj/presets/exp.yaml")), tmp_path)
    assert planned.plan.working_directory == str(tmp_path / "proj")
    assert planned.plan.argv[-1] == str(script)


def test_the_preset_s_folder_is_absolute_even_if_it_was_named_relatively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "launcher: command\ncommand: [echo, '${preset_dir}']\nworking_directory: /\n"
    write(tmp_path / "presets", text)
    monkeypatch.chdir(tmp_path)
    planned = plan(load_preset(Path("presets/exp.yaml")), tmp_path)
    assert planned.plan.argv[-1] == str(tmp_path / "presets")


def test_a_program_is_looked_for_on_the_path_the_run_will_have(tmp_path: Path) -> None:
    tool = write(tmp_path / "bin", "#!/bin/sh\n", "mytool")
    tool.chmod(0o755)
    planned = plan_of(
        tmp_path, f"launcher: command\ncommand: mytool\nenvironment: {{PATH: '{tmp_path}/bin'}}\n"
    )
    assert str(tool) in planned.plan.argv


def test_python_children_print_at_once_unless_the_preset_says_otherwise(tmp_path: Path) -> None:
    assert (
        plan_of(tmp_path, "launcher: command\ncommand: echo\n").environment["PYTHONUNBUFFERED"]
        == "1"
    )
    other = plan_of(
        tmp_path, "launcher: command\ncommand: echo\nenvironment: {PYTHONUNBUFFERED: ''}\n"
    )
    assert other.environment["PYTHONUNBUFFERED"] == ""


def test_one_process_per_gpu_unless_the_preset_says_otherwise(tmp_path: Path) -> None:
    write(tmp_path / "presets", "", "a.py")
    assert (
        "--nproc-per-node=2"
        in plan_of(tmp_path, "launcher: torchrun\nscript: a.py\n", _here(tmp_path)).plan.argv
    )
    three = plan_of(tmp_path, "launcher: torchrun\nscript: a.py\nprocesses: 3\n", _here(tmp_path))
    assert "--nproc-per-node=3" in three.plan.argv


def _here(tmp_path: Path) -> Allocation:
    os.chdir(tmp_path / "presets")
    return TWO


@pytest.mark.parametrize("folder", ["plain", "with space", "br[a]ck*t?s", "ünï 'quoted' \"twice\""])
def test_checkpoints_are_found_in_folders_of_any_name(tmp_path: Path, folder: str) -> None:
    root = tmp_path / folder
    planned = plan(
        load_preset(write(root, "launcher: command\ncommand: echo\nworking_directory: .\n")), root
    )
    own = write(root / "runs" / RUN / "checkpoints", "x", "a.pt")
    found = first_whole(matching_files(planned.plan.checkpoints))
    assert found is not None and found.path == str(own)
    relative = load_preset(
        write(
            root, "launcher: command\ncommand: echo\nworking_directory: .\ncheckpoints: 'out/*'\n"
        )
    )
    other = write(root / "out", "xy", "b.pt")
    found = first_whole(matching_files(plan(relative, root).plan.checkpoints))
    assert found is not None and (found.path, found.bytes) == (str(other), 2)


def test_the_plan_says_who_asked_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_HOST", "gpu-box-3")
    origin = plan_of(tmp_path, "launcher: command\ncommand: echo\n").plan.origin
    assert origin.host == "gpu-box-3" and origin.user and origin.created > 0
