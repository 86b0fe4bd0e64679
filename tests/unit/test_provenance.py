"""What ran: interpreters and packages told from files, commits read, git asked with its traps
disarmed.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from runners.lifecycle.launch import git_snapshot as source
from runners.lifecycle.launch.git_snapshot import (
    changes_between,
    find_checkout,
    head_of,
    provenance_of,
    record_source,
)
from runners.lifecycle.launch.interpreter import (
    interpreter_in,
    interpreter_of,
    package_folders,
    package_version,
    python_version,
)
from runners.model.gpus import GpuReading
from runners.model.plan import SourceRecord
from tests.support import CEILING_S, eventually

ANNA = {
    "GIT_AUTHOR_NAME": "Anna",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "Anna",
    "GIT_COMMITTER_EMAIL": "a@b",
}


@pytest.fixture(autouse=True)
def nobodys_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git without the configuration of whoever runs the tests, and with the time it needs."""
    monkeypatch.setattr(source, "_PATIENCE_S", CEILING_S)
    for name, value in {
        **ANNA,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)


def git(folder: Path, *words: str) -> str:
    """What git says in `folder`."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit of one file."""
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "train.py").write_text("epochs = 5\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def make_python(prefix: Path, version: str = "3.11", torch: str = "", cfg: str = "") -> Path:
    """Something that looks like a Python below `prefix`, with a torch and a pyvenv.cfg if named."""
    site = prefix / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    if torch:
        (site / f"torch-{torch}.dist-info").mkdir()
    (site / "torchvision-9.9.dist-info").mkdir()
    (prefix / "bin").mkdir()
    executable = prefix / "bin" / f"python{version}"
    executable.touch()
    (prefix / "bin" / "python").symlink_to(executable.name)
    if cfg:
        (prefix / "pyvenv.cfg").write_text(cfg)
    return prefix / "bin" / "python"


def torch_of(interpreter: Path, **environment: str) -> str | None:
    return package_version(
        "torch", package_folders(interpreter, {"HOME": "/nowhere", **environment})
    )


def test_torch_of_a_plain_python_a_venv_and_the_system_s(tmp_path: Path) -> None:
    base = make_python(tmp_path / "base", torch="2.4.1+cu121")
    home = f"home = {base.parent}\nversion = 3.11.7\n"
    alone = make_python(tmp_path / "alone", cfg=home)
    sharing = make_python(tmp_path / "sharing", cfg=f"{home}include-system-site-packages = true\n")
    own = make_python(
        tmp_path / "own", torch="2.9.0", cfg=f"{home}include-system-site-packages = true\n"
    )
    assert torch_of(base) == "2.4.1+cu121"
    assert torch_of(alone) is None
    assert torch_of(sharing) == "2.4.1+cu121"
    assert torch_of(own) == "2.9.0"


def test_torch_on_the_path_and_of_the_user_comes_first(tmp_path: Path) -> None:
    base = make_python(tmp_path / "base", torch="2.4.1")
    user = make_python(tmp_path / "user" / ".local", torch="2.5.0").parents[2]
    (tmp_path / "here" / "torch-2.6.0.dist-info").mkdir(parents=True)
    assert torch_of(base, HOME=str(user)) == "2.5.0"
    assert torch_of(base, HOME=str(user), PYTHONPATH=str(tmp_path / "here")) == "2.6.0"


def test_the_version_of_a_python_is_told_from_the_files_around_it(tmp_path: Path) -> None:
    assert python_version(Path(sys.executable)) == ".".join(map(str, sys.version_info[:3]))
    assert (
        python_version(make_python(tmp_path / "venv", cfg="version_info = 3.12.4.final.0\n"))
        == "3.12.4"
    )
    assert python_version(make_python(tmp_path / "versions" / "3.11.7")) == "3.11.7"
    conda = make_python(tmp_path / "conda", "3.13")
    assert python_version(conda) == "3.13"
    (tmp_path / "conda" / "conda-meta").mkdir()
    (tmp_path / "conda" / "conda-meta" / "python-3.13.2-h1_0.json").touch()
    assert python_version(conda) == "3.13.2"


def test_the_interpreter_behind_an_argv(tmp_path: Path) -> None:
    script = tmp_path / "accelerate"
    script.write_text("#!/opt/venv/bin/python3.11 -sE\nimport accelerate\n")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF\0\0")
    assert interpreter_of(["/usr/bin/python3", "train.py"], {}, Path("/")) == Path(
        "/usr/bin/python3"
    )
    buffered = ["stdbuf", "-oL", "-eL", str(script), "launch"]
    assert interpreter_of(buffered, {}, Path("/")) == Path("/opt/venv/bin/python3.11")
    assert interpreter_of([str(binary)], {}, Path("/")) is None
    assert interpreter_of(["/nowhere/at/all"], {}, Path("/")) is None


def test_the_commit_is_read_from_loose_packed_and_detached_heads(checkout: Path) -> None:
    inside = checkout / "deep" / "down"
    inside.mkdir(parents=True)
    commit = git(checkout, "rev-parse", "HEAD")
    found = find_checkout(inside)
    assert found is not None and found.root == checkout
    assert head_of(found) == (commit, "trunk")
    git(checkout, "pack-refs", "--all")
    assert head_of(found) == (commit, "trunk")
    git(checkout, "worktree", "add", "-q", "-b", "side", str(checkout.parent / "side"))
    side = find_checkout(checkout.parent / "side")
    assert side is not None and head_of(side) == (commit, "side")
    git(checkout, "checkout", "-q", "--detach")
    assert head_of(found) == (commit, None)


def test_no_checkout_and_one_without_a_commit(tmp_path: Path) -> None:
    assert find_checkout(tmp_path) is None
    git(tmp_path, "init", "-q", "-b", "trunk")
    found = find_checkout(tmp_path)
    assert found is not None and head_of(found) == (None, "trunk")
    record, content = record_source(found)
    assert record.problem and record.dirty is None and not content


def test_a_pipe_in_place_of_a_ref_is_not_waited_for(checkout: Path) -> None:
    ref = checkout / ".git" / "refs" / "heads" / "trunk"
    ref.unlink()
    os.mkfifo(ref)
    found = find_checkout(checkout)
    assert found is not None and head_of(found) == (None, "trunk")


def test_uncommitted_changes_are_a_patch_that_applies(checkout: Path, tmp_path: Path) -> None:
    clean, nothing = record_source(_found(checkout))
    assert clean.dirty is False and clean.untracked == 0 and nothing == b""
    (checkout / "train.py").write_text("epochs = 7\n")
    (checkout / "weights.bin").write_bytes(bytes(range(256)))
    git(checkout, "add", "weights.bin")
    (checkout / "new notes.txt").touch()
    git(checkout, "config", "diff.noprefix", "true")
    git(checkout, "config", "color.ui", "always")
    record, patch = record_source(_found(checkout))
    assert (
        record.dirty
        and record.untracked == 1
        and record.diff_bytes == len(patch)
        and not record.problem
    )
    assert patch.startswith(b"# untracked: 'new notes.txt'\n")
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(checkout), str(copy))
    (tmp_path / "source.diff").write_bytes(patch)
    git(copy, "apply", str(tmp_path / "source.diff"))
    assert (copy / "train.py").read_text() == "epochs = 7\n"
    assert (copy / "weights.bin").read_bytes() == bytes(range(256))


def test_an_endless_patch_is_cut_and_says_so(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "DIFF_LIMIT", 1 << 20)
    (checkout / "train.py").write_bytes(os.urandom(2 << 20))
    record, patch = record_source(_found(checkout))
    assert record.dirty and "first 1 MB" in record.problem
    assert len(patch) < (1 << 20) + 1000 and patch.startswith(b"# source.diff holds only")


def test_a_repository_s_own_configuration_runs_nothing(checkout: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path / 'sprung'}\ncat\n")
    trap.chmod(0o700)
    (checkout / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "attributes")
    for key in (
        "core.fsmonitor", "core.pager", "diff.external", "diff.evil.command", "diff.evil.textconv",
        "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.editor",
        "core.sshCommand",
    ):  # fmt: skip
        git(checkout, "config", key, str(trap))
    git(checkout, "config", "filter.evil.required", "true")
    hook = checkout / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(trap)
    (checkout / "train.py").write_text("epochs = 9\n")
    record, patch = record_source(_found(checkout))
    assert not (tmp_path / "sprung").exists()
    assert record.dirty and b"+epochs = 9" in patch


def test_a_git_that_hangs_is_left_behind(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nsleep 600 &\nsleep 600\n")
    fake.chmod(0o700)
    monkeypatch.setenv("OF_THIS_TEST", str(tmp_path))
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(source, "_PATIENCE_S", 0.2)
    record, _ = record_source(_found(checkout))
    assert record.problem == "git took longer than 0.2 s" and record.dirty is None and record.commit
    eventually(lambda: not _alive_with(f"OF_THIS_TEST={tmp_path}"), what="nothing of git alive")


def _alive_with(word: str) -> list[Path]:
    found = []
    for surroundings in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{word}\0".encode() in surroundings.read_bytes():
                found.append(surroundings)
    return found


def test_no_git_at_all_still_knows_the_commit(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "/nowhere")
    record, _ = record_source(_found(checkout))
    assert record.commit == commit and "git cannot be run" in record.problem


def test_what_changed_while_a_run_waited() -> None:
    one = SourceRecord("/code", "a" * 40, dirty=True, diff_sha256="1")
    assert (
        not changes_between(one, one)
        and not changes_between(None, one)
        and not changes_between(one, None)
    )
    two = SourceRecord("/code", "b" * 40)
    assert changes_between(one, two) == [
        "the code changed while it waited: launched at commit aaaaaaaaaaaa, runs bbbbbbbbbbbb"
    ]
    edited = SourceRecord("/code", "a" * 40, dirty=True, diff_sha256="2")
    assert "other uncommitted changes" in changes_between(one, edited)[0]


def test_provenance_of_a_run_here(checkout: Path) -> None:
    reading = GpuReading(0.0, "here", "nvml", driver="580.65.06")
    found = provenance_of(
        interpreter_in([sys.executable, "train.py"], os.environ, checkout), checkout, reading
    )
    assert (
        found.interpreter == sys.executable
        and found.driver == "580.65.06"
        and found.branch == "trunk"
    )
    assert found.commit == found.commit_at_launch == git(checkout, "rev-parse", "HEAD")
    assert os.uname().release in found.system and found.fresnel
    nothing = provenance_of(interpreter_in(["/bin/true"], {}, Path("/")), Path("/"), None)
    assert (
        nothing.interpreter
        is nothing.python
        is nothing.torch
        is nothing.driver
        is nothing.commit
        is None
    )


def _found(folder: Path) -> source.Checkout:
    found = find_checkout(folder)
    assert found is not None
    return found


def test_the_newest_version_is_the_greatest_number_however_the_name_is_spelled(
    tmp_path: Path,
) -> None:
    for name in ("torch-2.9.0.dist-info", "torch-2.13.0+cpu.dist-info", "My_Pkg-1.0.dist-info"):
        (tmp_path / name).mkdir()
    assert package_version("torch", iter([tmp_path])) == "2.13.0+cpu"
    assert package_version("my-pkg", iter([tmp_path])) == "1.0"
