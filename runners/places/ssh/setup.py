"""Setting up a rented machine: what is there, which Python, the panel for its user alone.

Nothing needs root, and no torch is touched that an image brought: the environment made there sees
the image's packages, and a torch among them is pinned while the rest is installed.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import NamedTuple

import msgspec

from runners.host.helpers import ROOT
from runners.model.errors import FresnelError, WrongInput
from runners.model.vendors import MAKERS
from runners.places.ssh import setup_scripts
from runners.places.ssh.panel_source import source_archive, source_digest
from runners.places.ssh.registry import RemoteHost
from runners.places.ssh.ssh import Ssh

OLDEST = (3, 10)
_MINUTES = 60.0
_MOST_INSTALL_S = 30 * _MINUTES
_LONGEST_NAME, _LONGEST_VALUE, _MOST_ANSWERS = 100, 4096, 1000
"""Of what a script says: characters, and lines of one name."""


class FoundPython(msgspec.Struct, frozen=True):
    """A Python there: its torch's version and how many GPUs that sees; empty and 0 without."""

    path: str
    version: tuple[int, ...]
    is_complete: bool = False
    torch: str = ""
    gpus: int = 0
    gpu: str = ""
    """The first GPU's name as torch tells it, or why torch does not load."""


class FoundMachine(msgspec.Struct, frozen=True):
    """What a look at a machine found; `gpus` is how many the system knows, of `vendor`."""

    home: str
    user: str
    system: str
    free_bytes: int | None
    has_rsync: bool
    uv: str
    vendor: str
    gpus: int
    lingers: bool | None
    pythons: tuple[FoundPython, ...]
    has_slurm: bool = False


class InstalledPanel(NamedTuple):
    """What an installation came to: the machine as it is known now, and the Python that runs it.

    `lingers`: whether its user's programs outlive a logout; None where that is not known.
    """

    host: RemoteHost
    python: FoundPython
    lingers: bool | None


def inspect_machine(ssh: Ssh, python: str = "") -> FoundMachine:
    """Look at a machine without changing anything."""
    answers = run_script(ssh, setup_scripts.PROBE, {"CHOSEN": python}, 180.0)
    facts = {key: values[-1] for key, values in answers.items()}
    free = _number(facts.get("free_kb", ""))
    counts = {name: _number(facts.get(name, "")) or 0 for name in MAKERS}
    vendor = next((name for name, count in counts.items() if count), None)
    pythons = {found.path: found for found in map(_python, answers.get("python", []))}
    return FoundMachine(
        home=facts.get("home", ""),
        user=facts.get("user", ""),
        system=facts.get("system", ""),
        free_bytes=None if free is None else free * 1024,
        has_rsync="rsync" in facts,
        uv=facts.get("uv", ""),
        vendor=vendor or "",
        gpus=counts[vendor] if vendor else 0,
        lingers={"yes": True, "no": False}.get(facts.get("linger", "")),
        pythons=tuple(pythons.values()),
        has_slurm="slurm" in facts,
    )


def choose_python(found: FoundMachine, wanted: str = "") -> FoundPython | None:
    """The Python to use: whose torch sees most GPUs, then one with torch, then the newest.

    None where only uv can bring one. WrongInput for a `wanted` one that is too old or missing.
    """
    fitting = [python for python in found.pythons if python.version[:2] >= OLDEST]
    if wanted:
        if not found.pythons or (chosen := found.pythons[0]) not in fitting:
            raise WrongInput(f"--python {wanted}: no Python 3.10 or newer there")
        return chosen
    return max(
        fitting,
        key=lambda python: (python.gpus, bool(python.torch), python.is_complete, python.version),
        default=None,
    )


def install(
    ssh: Ssh,
    found: FoundMachine,
    python: FoundPython | None,
    folder: str,
    train: bool = False,
    torch_index: str = "",
    notify: Callable[[str], None] = lambda _: None,
) -> InstalledPanel:
    """Take our source there and install it; safe to repeat. FresnelError with the machine's own
    words when something fails.
    """
    uv = found.uv
    if python is None and not uv:
        notify("no Python 3.10 there: bringing uv, which brings one")
        uv = run_script(ssh, setup_scripts.BRING_UV, {}, 300.0).get("uv", [""])[-1]
        if not uv:
            raise FresnelError(
                f"{ssh.host.name} has no Python 3.10 or newer, and uv cannot be had there",
                "install one (its package manager, conda), then try again",
            )
    archive = source_archive()
    notify(f"sending the panel: {len(archive) / 1e6:.1f} MB")
    _send_source(ssh, archive)
    variables = {
        "DIGEST": source_digest(),
        "FOLDER": folder or f"{found.home}/fresnel",
        "PYTHON": python.path if python else "uv",
        "AS_IT_IS": "yes" if python and python.is_complete and not train else "",
        "UV": uv,
        "NEEDED": "\n".join(requirements(train)),
        "TORCH_INDEX": torch_index,
    }
    answers = run_script(ssh, setup_scripts.INSTALL, variables, _MOST_INSTALL_S)
    # Used as it is, it was looked at already; torch takes seconds to load.
    looked_at = [_python(text) for text in answers.get("python", [])]
    used = looked_at[-1] if looked_at else python
    if "launcher" not in answers or used is None:
        raise FresnelError(f"{ssh.host.name}: the panel was not installed", "try again")
    host = msgspec.structs.replace(
        ssh.host,
        command=answers["launcher"][-1],
        folder=answers["folder"][-1],
        home=found.home,
        installed=source_digest(),
        has_rsync=found.has_rsync,
        python=python.path if python else "",
    )
    return InstalledPanel(host, used, True if "linger" in answers else found.lingers)


def requirements(train: bool = False) -> list[str]:
    """What the panel needs, as pip reads it; with `train`, what the shipped trainers need too."""
    try:
        listed = metadata.requires("fresnel-tui") or []
    except metadata.PackageNotFoundError:
        listed = []
    plain = [line for line in listed if "extra ==" not in line]
    if not plain:
        return _listed("dependencies") + (_listed("train") if train else [])
    extra = [
        line.split(";")[0].strip()
        for line in listed
        if re.search(r"extra == ['\"]train['\"]", line)
    ]
    return plain + (extra if train else [])


def _listed(name: str) -> list[str]:
    """A list in our pyproject.toml, which Python 3.10 has no reader for."""
    text = (ROOT / "pyproject.toml").read_text()
    match = re.search(rf"^{name} = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    return re.findall(r'^ *"([^"]+)",', match[1], re.MULTILINE) if match else []


def run_script(
    ssh: Ssh, script: str, variables: Mapping[str, str], timeout_s: float
) -> dict[str, list[str]]:
    """Have a POSIX shell there do `script` with these variables; what it said, by name.

    FresnelError, with the end of its stderr, when it did not come to its end.
    """
    given = "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())
    # Read whole before any of it runs: what it starts may read from stdin.
    text = f"{given}main() {{\n{script}\n}}\nmain </dev/null\n"
    done = ssh.run("exec sh -s", text.encode(), timeout_s)
    answers: dict[str, list[str]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith(setup_scripts.BEGIN):
            name, _, value = line[len(setup_scripts.BEGIN) :].partition("=")
            values = answers.setdefault(name[:_LONGEST_NAME], [])
            if len(values) < _MOST_ANSWERS:
                values.append(value[:_LONGEST_VALUE])
    if "problem" in answers or "done" not in answers:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        problem = answers.get("problem") or lines[-4:] or [f"exit code {done.returncode}"]
        raise FresnelError(f"{ssh.host.name}: " + "\n  ".join(problem))
    return answers


def _send_source(ssh: Ssh, archive: bytes) -> None:
    digest = source_digest()
    line = (
        'd="$HOME/.local/share/fresnel-tui" && mkdir -p "$d" && '
        f'if [ -f "$d/source-{digest}/installed.digest" ]; then cat >/dev/null; else '
        f'rm -rf "$d/{digest}.part" && mkdir "$d/{digest}.part" && '
        f'tar xzf - -C "$d/{digest}.part" && mv "$d/{digest}.part" "$d/source-{digest}"; fi'
    )
    done = ssh.run(f"exec sh -c '{line}'", archive, 10 * _MINUTES)
    if done.returncode:
        errors = done.stderr.decode("utf-8", "replace").strip()
        raise FresnelError(f"{ssh.host.name}: the panel could not be sent: {errors[-300:]}")


def _python(text: str) -> FoundPython:
    path, version, complete, torch, gpus, name = (text.split("\t") + [""] * 6)[:6]
    numbers = tuple(int(part) for part in re.findall(r"[0-9]{1,9}", version)[:3])
    return FoundPython(path, numbers, complete == "whole", torch, _number(gpus) or 0, name)


def _number(text: str) -> int | None:
    """A count that a machine told; None for what is none, or absurd."""
    return int(text) if re.fullmatch("[0-9]{1,15}", text) else None
