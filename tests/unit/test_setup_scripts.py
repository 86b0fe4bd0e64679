"""What `host setup` does in a machine's shell, of which only a part needs a network."""

import shlex
import subprocess
import sys
from pathlib import Path

from runners.places.ssh.setup_scripts import FIND_PYTHON, INSTALL


def test_torch_is_loaded_where_a_driver_is_or_nothing_else_tells_its_version(
    tmp_path: Path,
) -> None:
    """Loading takes seconds, from a cluster's network disk minutes: on a login node for nothing."""
    code = "__version__ = '9.9'\nclass cuda:\n    is_available = staticmethod(lambda: False)\n"
    (tmp_path / "torch.py").write_text(code)

    def told(drivers: str) -> str:
        script = f"import glob\nglob.glob = lambda path: {drivers}\n{FIND_PYTHON}"
        asked = subprocess.run(
            [sys.executable, "-"],
            input=script,
            env={"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return asked.stdout.split("\t")[3]

    metadata = tmp_path / "torch-9.8.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: torch\nVersion: 9.8\n")
    assert told("[]") == "9.8" and told("[path]") == "9.9"
    (metadata / "METADATA").unlink()
    metadata.rmdir()
    (tmp_path / "torch.py").write_text("raise ValueError('no such library\\nat all')")
    assert told("[path]") == ""


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
