"""The trainers' tests with the oldest PyTorch that pyproject.toml allows, in an environment of its own.

    python tests/bench/oldest_torch.py [--index-url https://download.pytorch.org/whl/cpu]

Some 200 MB from PyTorch's index of CPU builds; from PyPI several GB of CUDA libraries.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("test_gaussian_published", "test_gaussian_files", "test_trainers_common_checkpoints")


def oldest() -> str:
    """Return the lower bound of pyproject.toml."""
    found = re.search(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert found, "pyproject.toml names no torch>="
    return found[1]


def main() -> int:
    """Install it and run the tests that load checkpoints; return pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index-url", help="where torch comes from; without it: as pip is set up")
    settings = parser.parse_args()
    index = ["--index-url", settings.index_url] if settings.index_url else []
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        pip = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, f"torch=={oldest()}.*", *index], check=True)
        subprocess.run([*pip, f"{ROOT}[train,dev]"], check=True)
        files = [str(ROOT / "tests" / "trainers" / f"{name}.py") for name in TESTS]
        return subprocess.run([str(python), "-m", "pytest", "-q", "-n", "0", *files]).returncode


if __name__ == "__main__":
    sys.exit(main())
