"""What `host setup` does in a machine's shell, of which only a part needs a network."""

import shlex
import subprocess
import sys
from pathlib import Path

from runners.places.ssh.setup_scripts import INSTALL


def test_the_panel_s_environment_sees_what_an_image_s_has(tmp_path: Path) -> None:
    """An image keeps its torch in an environment, which one made from it does not see by itself."""
    image, home = tmp_path / "image", tmp_path / "home"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", image], check=True)
    (packages,) = (image / "lib").glob("python3.*/site-packages")
    (packages / "torch.py").write_text("__version__ = '9.9'\n")
    source = home / ".local" / "share" / "fresnel-tui" / "source-abc"
    source.mkdir(parents=True)
    (source / "installed.digest").write_text("abc")
    given = {
        "HOME": str(home),
        "DIGEST": "abc",
        "FOLDER": str(home / "fresnel"),
        "PYTHON": str(image / "bin" / "python"),
        "AS_IT_IS": "",
        "UV": "",
        "NEEDED": "",
        "TORCH_INDEX": "",
    }
    lines = "".join(f"{name}={shlex.quote(value)}\n" for name, value in given.items())
    done = subprocess.run(
        ["sh", "-s"],
        input=f"{lines}main() {{\n{INSTALL}\n}}\nmain </dev/null\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answers = dict(
        line.removeprefix("fresnel:").split("=", 1)
        for line in done.stdout.splitlines()
        if line.startswith("fresnel:")
    )
    used, _, _, torch, *_ = answers["python"].split("\t")
    assert torch == "9.9" and used.startswith(str(home))
    launcher = Path(answers["launcher"]).read_text()
    assert f'FRESNEL_PYTHON="{image}/bin/python"' in launcher
