"""What `host setup` has a machine's shell do, tried in a shell of this machine."""

import os
import shlex
import subprocess
from pathlib import Path

from runners.places.ssh.leftovers import MADE_BY_US
from runners.places.ssh.setup_scripts import INSTALL

# A Python without torch, and a pip that notes how it was called.
_PYTHON = """\
#!/bin/sh
case "$*" in
  "-m venv "*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
  "-m pip "*) echo "$PIP_INDEX_URL $UV_INDEX_URL: $*" >>"$HOME/pip-calls" ;;
  *torch*) exit 1 ;;
esac
"""


def test_the_address_of_an_index_is_in_no_argv(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(_PYTHON)
    python.chmod(0o755)
    source = tmp_path / ".local" / "share" / "fresnel-tui" / "source-digest"
    source.mkdir(parents=True)
    (source / "installed.digest").touch()
    index = "https://user:planted-7c2@index.example/rocm"
    variables = {
        "DIGEST": "digest",
        "FOLDER": str(tmp_path / "fresnel"),
        "PYTHON": str(python),
        "AS_IT_IS": "",
        "UV": "",
        "NEEDED": "textual",
        "TORCH_INDEX": index,
    }
    given = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())
    done = subprocess.run(
        ["sh", "-s"],
        input=f"{given}main() {{\n{INSTALL}\n}}\nmain </dev/null\n",
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fresnel:done=yes" in done.stdout
    assert (tmp_path / "fresnel" / MADE_BY_US).exists()
    assert (tmp_path / "fresnel" / MADE_BY_US).exists()
    torch, rest = (tmp_path / "pip-calls").read_text().splitlines()
    given_to_pip, _, argv = torch.partition(": ")
    assert given_to_pip == f"{index} {index}" and "torch" in argv and "planted" not in argv
    assert "planted" not in rest
