"""`make install` never puts a build of torch on a ROCm machine that cannot see its GPUs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import CEILING_S, REPOSITORY

# `-S`: a Python without any package, so without torch.
BARE = f"{sys.executable} -S"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("version", "index"), [("6.4.1-43\n", "rocm6.4"), (None, "rocmVERSION")])
def test_an_amd_machine_without_torch_is_told_which_index(
    tmp_path: Path, version: str | None, index: str
) -> None:
    (tmp_path / "rocm" / ".info").mkdir(parents=True)
    if version:
        (tmp_path / "rocm" / ".info" / "version").write_text(version)
    (tmp_path / "kfd").touch()
    done = subprocess.run(
        [
            *("make", "-C", str(REPOSITORY), "install", f"PYTHON={BARE}", f"VENV={tmp_path}/venv"),
            *(f"KFD={tmp_path}/kfd", f"ROCM={tmp_path}/rocm"),
        ],
        capture_output=True,
        text=True,
        timeout=CEILING_S,
        check=False,
    )
    assert done.returncode == 2
    assert f"TORCH_INDEX=https://download.pytorch.org/whl/{index}\n" in done.stdout
    assert not (tmp_path / "venv").exists()


# What Python adds to a new environment takes five seconds of a processor: pip.
WITHOUT_PIP = """\
#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then shift 2; set -- -m venv --without-pip "$@"; fi
exec {python} "$@"
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_an_environment_that_has_torch_lends_it(tmp_path: Path) -> None:
    """Images keep their torch in an environment of its own, whose packages a second one made by it
    would not see.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "image"], check=True)
    (packages,) = (tmp_path / "image" / "lib").glob("python*/site-packages")
    (packages / "torch.py").write_text("__version__ = '2.6.0+image'\n")
    python = tmp_path / "python"
    python.write_text(WITHOUT_PIP.format(python=tmp_path / "image" / "bin" / "python"))
    python.chmod(0o755)
    subprocess.run(
        [
            *("make", "-C", str(REPOSITORY), "install", f"VENV={tmp_path}/venv"),
            f"PYTHON={python}",
        ],
        env=os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (tmp_path / "venv" / "constraints.txt").read_text() == "torch==2.6.0+image\n"
