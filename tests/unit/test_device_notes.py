"""What a plan says of commands that would not keep to the GPUs that they are given."""

from pathlib import Path

import pytest

from runners.lifecycle.launch.command_notes import command_notes
from runners.model.vendors import traits_of_vendor
from runners.model.wrappers import STDBUF

NVIDIA, AMD = traits_of_vendor("nvidia"), traits_of_vendor("simulated-amd")
SCRIPTS = {
    "a.py": "",
    "bad.py": 'import os\n# os.environ["CUDA_VISIBLE_DEVICES"] = "5"\n'
    'os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu  # mine\n',
    "given.py": 'gpus = os.environ["CUDA_VISIBLE_DEVICES"]\n'
    'os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")\n'
    'if os.environ["HIP_VISIBLE_DEVICES"] == "0": pass\n',
    "bad.sh": "# CUDA_VISIBLE_DEVICES=4\nset -e\nA=1 HIP_VISIBLE_DEVICES=1,2 python a.py\n",
    "given.sh": "echo CUDA_VISIBLE_DEVICES is set; CUDA_VISIBLE_DEVICES=$GPUS python a.py\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "command, found",
    [
        (["env", "CUDA_VISIBLE_DEVICES=0", "python", "a.py"],
         "the command sets CUDA_VISIBLE_DEVICES=0"),
        (["bash", "-c", "cd a; ROCR_VISIBLE_DEVICES=1,2 python a.py"],
         "the command sets ROCR_VISIBLE_DEVICES=1,2"),
        (["python", "bad.py", "--gpu", "0"], "line 3 of bad.py sets CUDA_VISIBLE_DEVICES=args.gpu"),
        (["torchrun", "--nproc_per_node", "2", "bad.py"], "line 3 of bad.py sets"),
        (["bash", "bad.sh"], "line 3 of bad.sh sets HIP_VISIBLE_DEVICES=1,2"),
        (["./bad.sh"], "line 3 of bad.sh sets"),
    ],
)  # fmt: skip
def test_who_sets_the_visible_gpus_is_told(command: list[str], found: str, folder: Path) -> None:
    (note,) = command_notes([*STDBUF, *command], folder, NVIDIA)
    assert note.startswith(found)


@pytest.mark.parametrize(
    "command",
    [
        ["python", "given.py"],
        ["bash", "given.sh"],
        ["bash", "-c", "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES python a.py"],
        ["apptainer", "exec", "--nv", "a.sif", "python", "a.py"],
        ["apptainer", "exec", "instance://box", "python", "a.py"],
        ["apptainer", "pull", "docker://a"],
        ["enroot", "start", "-e", "CUDA_VISIBLE_DEVICES", "a", "python", "/in/it.py"],
        ["podman", "run", "--env-host", "--init", "a", "python", "/in/it.py"],
        ["srun", "apptainer", "exec", "--nv", "a.sif", "python", "/in/it.py"],
        ["docker", "build", "-t", "a", "."],
        ["docker", "run", "--init", "-e", "CUDA_VISIBLE_DEVICES", "a", "python", "a.py", "-d", "b"],
    ],
)
def test_nothing_is_said_of_a_command_that_keeps_to_them(command: list[str], folder: Path) -> None:
    assert command_notes(command, folder, NVIDIA) == ()


def test_a_container_gets_neither_the_gpus_nor_every_signal(folder: Path) -> None:
    run = ["docker", "run", "--gpus", "all", "image", "python", "a.py"]
    gpus, ending = command_notes(run, folder, NVIDIA)
    assert gpus.endswith("add -e CUDA_VISIBLE_DEVICES -e CUDA_DEVICE_ORDER")
    assert ending.startswith("add --init")
    far = ["docker", "--context", "far", "-D", *run[1:]]
    assert command_notes(far, folder, NVIDIA) == command_notes(run, folder, NVIDIA)
    gpus, ending = command_notes(["podman", "run", "-d", "image"], folder, AMD)
    assert gpus.endswith("add -e HIP_VISIBLE_DEVICES") and "leave -d out" in ending
    (ending,) = command_notes(["docker", "exec", "-e", "HIP_VISIBLE_DEVICES", "box"], folder, AMD)
    assert ending.startswith("`docker exec`")


@pytest.mark.parametrize("before", ["sudo -E", "env A=1", "nice", "srun -n 1", "timeout 3h"])
def test_a_container_is_seen_behind_another_program(before: str, folder: Path) -> None:
    for words in (
        "docker run image python /in/it.py",
        "docker container run -d image",
        "singularity exec a.sif python /in/it.py",
        "enroot start image /in/it.sh",
    ):
        alone = command_notes(words.split(), folder, NVIDIA)
        assert alone and command_notes([*before.split(), *words.split()], folder, NVIDIA) == alone


def test_apptainer_shows_gpus_only_by_its_vendor_s_flag(folder: Path) -> None:
    for traits, flag in ((NVIDIA, "--nv"), (AMD, "--rocm")):
        run = ["apptainer", "exec", "a.sif", "python", "/in/it.py"]
        (note,) = command_notes(run, folder, traits)
        assert flag in note.split()
        assert not command_notes(run, folder, None)
