"""What every program of trainers/ has: its first line before torch, and the machine's flags."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("nrrd")
pytest.importorskip("skimage")
pytest.importorskip("nibabel")

from trainers.common import device_flags
from trainers.common.settings_parser import SettingsParser, output_file, output_folder

pytestmark = pytest.mark.trainers

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = {"trainers/common/checkpoint_tool.py"}
"""Asked by other programs in JSON on a line; it has no flags, and its output is the answer."""
PROGRAMS = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "trainers").rglob("*.py")
    if 'if __name__ == "__main__":' in path.read_text()
    and str(path.relative_to(ROOT)) not in ANSWERS
)
FORWARDED = {
    "train_completion": "train", "test_completion": "sample",
    "train_accelerate": "train", "train_distributed": "train", "train_progressive": "train",
}  # fmt: skip
"""Names of the guides that run another program as it is."""
FLAGS = ("--device", "--threads", "--workers")
IDLE = {
    "gaussian/export_decoder.py": "--workers",
    "gaussian/export_dinov2_model.py": "--workers",
    "gaussian/infer.py": "--workers",
    "gaussian/prepare_scenes.py": "--threads",
    "cascade/make_patients.py": "--threads",
    "cascade/sample.py": "--workers",
    "pcdiff/sample.py": "--workers",
    "skulls/made_up.py": "--threads",
    "skulls/prepare.py": "--threads",
    "voxelization/generate.py": "--workers",
}
"""Programs to whose work a flag can do nothing; they take it and say so."""
ON_CPU = ("skulls/made_up.py", "skulls/prepare.py", "cascade/make_patients.py",
          "cascade/make_drrs.py", "gaussian/prepare_scenes.py")  # fmt: skip
"""Programs that compute nothing a GPU could."""


WRITTEN = ("output_dir", "output", "eval_path", "checkpoint_dir", "made_up_root", "to")
"""Settings that name what is written, which is looked at before any work."""


class Captured(Exception):
    """Carries a program's parser out of its main function."""


def parser_of(program: str, monkeypatch: pytest.MonkeyPatch) -> SettingsParser:
    """The parser with which a program reads its command line."""

    def capture(self: SettingsParser, *_: object) -> None:
        raise Captured(self)

    path = Path(program)
    name = path.with_name(FORWARDED.get(path.stem, path.stem))
    module = importlib.import_module(".".join(name.parts))
    monkeypatch.setattr(SettingsParser, "parse_args", capture)
    with pytest.raises(Captured) as found:
        module.main([])
    return found.value.args[0]


def test_the_programs_are_found() -> None:
    assert len(PROGRAMS) > 20
    assert {f"trainers/{name}" for name in (*IDLE, *ON_CPU)} <= set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_machine_s_flags_are_there_with_one_meaning(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = program.removeprefix("trainers/")
    name = str(Path(name).with_stem(FORWARDED.get(Path(name).stem, Path(name).stem)))
    with monkeypatch.context() as patch:
        parser = parser_of(program, patch)
    device, threads, workers = (parser._option_string_actions[flag] for flag in FLAGS)
    assert tuple(device.choices or ()) == device_flags.DEVICES and device.default == "auto"
    assert threads.type is not None and threads.default == 0
    assert "process" in (workers.help or "")
    # An action that stores is asked as argparse would: what stands beside does not matter.
    for action, words, value in ((threads, "3", 3), (workers, "2", 2), (device, "cpu", "cpu")):
        space = argparse.Namespace()
        read = action.type(words) if action.type else words
        action(parser, space, read, action.option_strings[0])
        assert getattr(space, action.dest) == value
        said = capsys.readouterr().out
        idle = action.option_strings[0] == IDLE.get(name)
        assert ("changes nothing: " in said) == idle, said
    if name in ON_CPU:
        with pytest.raises(SystemExit) as ended:
            device(parser, argparse.Namespace(), "cuda", "--device")
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith("error: --device cuda: ")
    else:
        device(parser, space, "cuda", "--device")
    written = {action.dest: action.type for action in parser._actions if action.dest in WRITTEN}
    if name == "voxelization/train.py":
        del written["eval_path"]  # a list that is read
    assert set(written.values()) <= {output_folder, output_file}, written
    assert written or name in ("skulls/made_up.py", "skulls/prepare.py") or "cascade/make" in name


def test_they_are_declared_in_one_place() -> None:
    here = Path(device_flags.__file__)
    found = {
        (str(path.relative_to(ROOT)), flag)
        for path in (ROOT / "trainers").rglob("*.py")
        for flag in FLAGS
        if f'("{flag}"' in path.read_text() and f'("{flag}", str(' not in path.read_text()
    }
    assert found == {(str(here.relative_to(ROOT)), flag) for flag in FLAGS}


def test_every_program_says_its_first_line_before_torch(tmp_path: Path) -> None:
    """A torch stands in that says so and ends the program; nothing here is about seconds."""
    (tmp_path / "torch.py").write_text(
        "import os\nprint('TORCH', flush=True)\nos._exit(0)\n", encoding="utf-8"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def lines(program: str) -> list[str]:
        ended = subprocess.run([sys.executable, program], cwd=ROOT, env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        return ended.stdout.splitlines()

    with ThreadPoolExecutor(2) as pool:
        for program, said in zip(PROGRAMS, pool.map(lines, PROGRAMS), strict=True):
            path = Path(program)
            stem = FORWARDED.get(path.stem, path.stem)
            assert said[0] == f"loading      {path.parent.name}/{stem}.py: its libraries", program
            assert "TORCH" in said or f"trainers/{path.parent.name}/{path.name}" in WITHOUT_TORCH
    told = subprocess.run([sys.executable, "trainers/gaussian/train.py"], cwd=ROOT, text=True,
                          env=environment | {"RANK": "1"}, capture_output=True)  # fmt: skip
    assert told.stdout == "TORCH\n"


def test_ctrl_c_while_libraries_are_loaded_ends_a_program_whatever_they_make_of_it(
    tmp_path: Path,
) -> None:
    swallowing = "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept: pass\n"
    (tmp_path / "torch.py").write_text(swallowing + "print('TORCH', flush=True)\nos._exit(0)\n")
    ended = subprocess.run(
        [sys.executable, "trainers/gaussian/train.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        # A shell's background jobs, as these tests may be, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")
    assert "TORCH" not in ended.stdout
    code = (
        "import signal, trainers; trainers.begin('__main__'); trainers.loaded()\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert ended.stdout.endswith("True\n")


def test_ctrl_c_changes_nothing_where_a_program_has_its_exit_code() -> None:
    """PyTorch, and a handler that has been asked before, answer it while the interpreter ends."""
    ends = {
        "making": "code = make_data(lambda stop: 0)",
        "main_program": "code = run_main(lambda _: 0, SettingsParser(''), [])",
    }
    for module, work in ends.items():
        code = (
            "import os, signal, sys, trainers; trainers.begin('__main__')\n"
            f"from trainers.common.{module} import *\n"
            "from trainers.common.settings_parser import SettingsParser\n"
            f"trainers.loaded()\n{work}\n"
            "for _ in range(2): os.kill(os.getpid(), signal.SIGINT)\n"
            "sys.exit(code)"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, ""), module


def test_a_usual_place_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that is named is; argparse asks given texts alone."""
    (tmp_path / "file").touch()
    for kind, name in ((output_folder, "out"), (output_file, "out/model.onnx")):
        parser = SettingsParser("")
        parser.add_argument("--to", type=kind, default=tmp_path / "file" / name)
        with pytest.raises(SystemExit) as ended:
            parser.read([])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert said.startswith("error: argument --to: ") and "cannot be written" in said
        assert parser.read(["--to", str(tmp_path / name)]).to == tmp_path / name


def test_what_was_loaded_is_not_looked_through_for_garbage() -> None:
    """Then garbage is collected as ever; parser_of sees that every program gets there."""
    code = (
        "import gc, trainers; trainers.begin('__main__'); before = gc.isenabled()\n"
        "from trainers.common.settings_parser import SettingsParser\n"
        "SettingsParser('').parse_args([])\n"
        "print(before, gc.isenabled(), gc.get_freeze_count() > 1000)"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True)
    assert ended.stdout.splitlines()[-1] == "False True True", ended.stderr


WITHOUT_TORCH = {f"trainers/{name}" for name in ("skulls/made_up.py", "skulls/prepare.py")}
"""Programs that load no torch before they know what is asked of them."""
