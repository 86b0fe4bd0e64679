"""Which files of a folder are pushed: one list, whoever carries them.

Facts: git names an untracked repository in a folder, and a submodule, as one entry; with an empty
repository of its own it reads the .gitignore files of any folder.
"""

import fnmatch
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from runners.host.files import is_folder
from runners.places.ssh.copying import Stamp

EXCLUDES = (
    *(".git", "__pycache__", "*.pyc", ".venv", "venv", "node_modules", "wandb"),
    *(".mypy_cache", ".pytest_cache"),
)
"""Left out of a program's folder, besides what its .gitignore names."""

_SECRETS = (
    *(".env", ".env.*", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "credentials"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ecdsa*", "id_ed25519*", "*.kdbx"),
    *("*token", "*_token.*", "*.token", "secrets.*", ".ssh", ".aws", ".gnupg", ".kube"),
)
"""Names of what nobody means to take to a machine of somebody else."""

_REPOSITORY = ("-co", "--exclude-standard")
_REPOSITORY_IGNORED = ("-oi", "--exclude-standard")
_OWN_IGNORES = ("-o", "--exclude-per-directory=.gitignore")
_PLACE_OF_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


class PushList(NamedTuple):
    """The files of `root` that are pushed, each with its stamp, and what is not, in words."""

    root: Path
    files: dict[str, Stamp]
    secrets: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """How large all of them are."""
        return sum(size for size, _ in self.files.values())


def list_to_push(
    path: Path, *, is_program: bool, excludes: Sequence[str], secrets: bool
) -> PushList:
    """What of the file or folder `path` is pushed.

    Of a program's folder what git would list, so that the repository's rules hold; of another
    folder all but what .gitignore files in it name: its repository often ignores data as such.
    """
    if not is_folder(path):
        return _sorted_out(path.parent, [path.name], excludes, secrets, [])
    left_out = []
    if is_program:
        excludes = [*excludes, *EXCLUDES]
    if shutil.which("git") is None:
        names = _walk(path)
        if any(PurePath(name).name == ".gitignore" for name in names):
            left_out.append("no git here: what .gitignore names is sent too")
    else:
        names = _ask_git(path, is_program, secrets)
    return _sorted_out(path, names, excludes, secrets, left_out)


def _sorted_out(
    root: Path, names: Sequence[str], excludes: Sequence[str], secrets: bool, left_out: list[str]
) -> PushList:
    files: dict[str, Stamp] = {}
    kept_back = []
    for name in sorted(set(names)):
        if _matches(name, excludes):
            continue
        if not secrets and _matches(name, _SECRETS):
            kept_back.append(name)
            continue
        problem, found = _stamp(root / name, name)
        if found is not None:
            files[name] = found
        elif problem:
            left_out.append(f"{name!r}: {problem}")
    return PushList(root, files, tuple(kept_back), tuple(left_out))


def _stamp(path: Path, name: str) -> tuple[str, Stamp | None]:
    """Why a file cannot be pushed, or its stamp; neither for one that was deleted."""
    try:
        name.encode()
        status = path.stat()
    except UnicodeEncodeError:
        return "a name that is no UTF-8", None
    except OSError:
        return "a link that leads nowhere" if path.is_symlink() else "", None
    if stat.S_ISREG(status.st_mode):
        return "", (status.st_size, status.st_mtime_ns)
    return "a link to a folder" if path.is_symlink() else "no plain file", None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a file, or a folder on the way to it, is called so; a pattern may be a whole path."""
    parts = PurePath(name).parts
    return any(
        fnmatch.fnmatchcase(part, pattern.strip("/"))
        for pattern in patterns
        for part in (*parts, name)
    )


def _ask_git(folder: Path, is_program: bool, secrets: bool) -> list[str]:
    names = _list_files(folder, _REPOSITORY) if is_program else []
    if names and secrets:
        ignored = _list_files(folder, _REPOSITORY_IGNORED)
        names += [name for name in ignored if _matches(name, _SECRETS)]
    if not names:  # no repository, or one that ignores the whole folder
        with tempfile.TemporaryDirectory(prefix="fresnel-git-") as empty:
            command = ["git", "init", "--quiet", "--bare", "--template=", empty]
            subprocess.run(command, check=True, capture_output=True)
            names = _list_files(folder, _OWN_IGNORES, empty)
    found = []
    for name in names:
        inner = folder / name
        if is_folder(inner) and not inner.is_symlink():  # a repository of its own
            found += [f"{name.rstrip('/')}/{below}" for below in _ask_git(inner, True, secrets)]
        else:
            found.append(name)
    return found


def _list_files(folder: Path, flags: Sequence[str], repository: str = "") -> list[str]:
    """What `git ls-files` names; nothing where it finds no repository that it trusts."""
    place = [f"--git-dir={repository}", f"--work-tree={folder.absolute()}"] if repository else []
    done = subprocess.run(
        ["git", "-c", "core.fsmonitor=false", *place, "ls-files", *flags, "-z"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in _PLACE_OF_GIT},
        capture_output=True,
        check=False,
    )
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _walk(folder: Path) -> list[str]:
    found = []
    for top, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(top) / name).is_symlink()]
        found += [str((Path(top) / name).relative_to(folder)) for name in [*names, *links]]
    return found
