"""A program that the system could not execute is refused before a run starts, and why is said."""

import shutil
import stat
from pathlib import Path

import pytest

from runners.lifecycle.launch.executables import find_program
from runners.model.errors import WrongInput

FILES = {
    "plain.py": "print(1)\n",
    "run.sh": "python plain.py\n",
    "executable.py": "print(1)\n",
    "windows.py": "#!/usr/bin/env python3\r\nprint(1)\r\n",
    "absent.py": "#!/opt/nowhere/python -u\n",
    "absent_by_env.py": "#!/usr/bin/env fresnel-nowhere\n",
    "good.py": "#!/usr/bin/env sh\n",
    "options.py": "#!/usr/bin/env -S sh -e\n",
    "shell": "echo a script without a first line\n",
    "program": "\x7fELF\x02\x01\n",
}
NOT_EXECUTABLE = ("plain.py", "run.sh")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.write_bytes(text.encode())
        if name not in NOT_EXECUTABLE:
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return tmp_path


@pytest.mark.parametrize(
    "name, why, advice",
    [
        ("./plain.py", "no permission", "python ./plain.py"),
        ("./run.sh", "no permission", "bash ./run.sh"),
        ("plain.py", "PATH", "python ./plain.py"),
        ("good.py", "PATH", "python ./good.py"),
        ("fresnel-nowhere", "PATH", "/usr/bin, /bin"),
        ("CUDA_VISIBLE_DEVICES=3", "PATH", "--gpu-ids 3"),
        ("OMP_NUM_THREADS=8", "PATH", "env OMP_NUM_THREADS=8 PROGRAM"),
        ("python a.py --lr 1", "PATH", "-- python a.py --lr 1"),
        ("cd x && ./a.out", "PATH", "-- bash -c 'cd x && ./a.out'"),
        ("source", "PATH", "bash -c 'source … && PROGRAM'"),
        ("./executable.py", "#!", "python ./executable.py"),
        ("./windows.py", "Windows line endings", "sed -i"),
        ("./absent.py", "/opt/nowhere/python -u", "python ./absent.py"),
        ("./absent_by_env.py", "fresnel-nowhere", "python ./absent_by_env.py"),
        ("./", "folder", ""),
    ],
)
def test_why_a_program_cannot_be_executed(name: str, why: str, advice: str, folder: Path) -> None:
    with pytest.raises(WrongInput) as refused:
        find_program(name, folder, {"PATH": "/usr/bin:/bin"})
    assert why in refused.value.message and f"`{name}`" in refused.value.message
    assert advice in (refused.value.hint or "") and bool(advice) == bool(refused.value.hint)


@pytest.mark.parametrize("name", ["./good.py", "./options.py", "./shell", "./program"])
def test_what_the_system_may_execute_is_left_to_it(name: str, folder: Path) -> None:
    assert Path(find_program(name, folder, {})).samefile(folder / name)


def test_a_python_3_is_told_of_where_there_is_no_python(folder: Path) -> None:
    for name in ("python3", "sh"):
        (folder / "bin").mkdir(exist_ok=True)
        shutil.copy(folder / "good.py", folder / "bin" / name)
    with pytest.raises(WrongInput) as refused:
        find_program("python", folder, {"PATH": str(folder / "bin")})
    assert "`python3`" in refused.value.hint
    # Of a long PATH nobody wants the list.
    with pytest.raises(WrongInput) as refused:
        find_program("fresnel-nowhere", folder, {"PATH": "/a:/b:/c:/d"})
    assert not refused.value.hint


def test_a_program_is_looked_for_in_the_path_of_its_own_environment(folder: Path) -> None:
    assert find_program("good.py", Path("/"), {"PATH": f"{folder}:/usr/bin:/bin"}) == str(
        folder / "good.py"
    )
    assert find_program("sh", folder, {"PATH": "/usr/bin:/bin"}) == shutil.which(
        "sh", path="/usr/bin:/bin"
    )
