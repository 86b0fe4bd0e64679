"""The tutorial, typed from top to bottom as a stranger types it."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support import REPOSITORY

_PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text()


def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    program = re.search(r"```python\n(.*?)```", _PAGE, re.DOTALL)
    assert program is not None
    (tmp_path / "train.py").write_text(program[1])
    blocks = re.findall(r"```sh\n(.*?)```", _PAGE, re.DOTALL)
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-ec", "\n".join(blocks)],
        cwd=tmp_path,
        env={
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(REPOSITORY),
        },
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(re.findall("fresnel-tui", "".join(blocks))) > 25
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / ".config/fresnel-tui/presets/mine.yaml").is_file()
    assert "ValueError: lr=3.0 is too large" in done.stdout
