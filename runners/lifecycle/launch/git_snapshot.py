"""What ran: the code in a run's working directory, interpreter, packages, driver and system.

The commit and the rest are read from files: they are part of every plan, which may cost about a
millisecond. Uncommitted changes are asked of git, with a deadline, in its own session, and without
everything by which a repository's configuration could make it run programs: hooks, monitors,
external diffs, filters, submodules, fetching.
"""

import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from runners import __version__
from runners.host.files import is_file, read_text, replace
from runners.lifecycle.launch.git import Git, GitTrouble
from runners.lifecycle.launch.interpreter import Interpreter, python_version
from runners.model.gpus import GpuReading
from runners.model.masking import mask_private_keys, mask_text
from runners.model.plan import Provenance, SourceRecord
from runners.state.decoding import read
from runners.state.layout import RunDirectory

DIFF_LIMIT = 10 << 20
_NAMES_LIMIT = 256 << 10
_PATIENCE_S = 2.0
_PLAIN_DIFF = (
    "--binary",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
    "--",
)
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Checkout(NamedTuple):
    """A git working tree: its top folder, its own git folder, and the one its worktrees share."""

    root: Path
    git: Path
    common: Path


def find_checkout(folder: Path) -> Checkout | None:
    """The checkout that contains `folder`; None outside of one."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        if is_file(git):  # a worktree or a submodule
            git = place / read_text(git).partition("gitdir:")[2].strip()
        if is_file(git / "HEAD"):
            shared = read_text(git / "commondir").strip()
            return Checkout(place, git, git / shared if shared else git)
    return None


def head_of(checkout: Checkout) -> tuple[str | None, str | None]:
    """The commit and the branch checked out; None for what the files do not tell."""
    head = read_text(checkout.git / "HEAD").strip()
    if not head.startswith("ref:"):
        return _commit(head), None
    ref = head.partition(":")[2].strip()
    branch = ref.removeprefix("refs/heads/")
    loose = _commit(read_text(checkout.git / ref).strip()) or _commit(
        read_text(checkout.common / ref).strip()
    )
    if loose:
        return loose, branch
    for line in read_text(checkout.common / "packed-refs").splitlines():
        if line.endswith(f" {ref}"):
            return _commit(line.partition(" ")[0]), branch
    # Repositories of newer kinds keep their refs elsewhere, and write `.invalid` here.
    return None, None if branch == ".invalid" else branch


def start_recording(folders: Mapping[RunDirectory, Path]) -> threading.Thread:
    """Write source.json and source.diff of these runs' working directories, in a thread.

    The caller joins it.
    """
    found = {run: find_checkout(folder) for run, folder in folders.items()}
    wanted = {run: checkout for run, checkout in found.items() if checkout}
    thread = threading.Thread(target=_record_all, args=(wanted,), name="source", daemon=True)
    thread.start()
    return thread


def record_source(checkout: Checkout) -> tuple[SourceRecord, bytes]:
    """What git says of `checkout` within two seconds, and its changes for `git apply`."""
    commit, branch = head_of(checkout)
    record = SourceRecord(str(checkout.root), commit, branch)
    git = Git(checkout.root, _PATIENCE_S)
    try:
        git.disarm_filters()
        if commit is None:
            commit = _commit(git.ask(["rev-parse", "HEAD"], 128)[0].decode().strip())
        names, _ = git.ask(
            ["ls-files", "--others", "--exclude-standard", "--directory", "-z"], _NAMES_LIMIT
        )
        patch, cut = git.ask(["diff", "HEAD", *_PLAIN_DIFF], DIFF_LIMIT)
    except GitTrouble as trouble:
        return msgspec.structs.replace(record, commit=commit, problem=str(trouble)), b""
    # Their names only: they may be data sets.
    untracked = [name for name in names.decode("utf-8", "replace").split("\0") if name]
    problem = (
        f"source.diff holds only the first {DIFF_LIMIT >> 20} MB of the changes" if cut else ""
    )
    # `git apply` skips what comes before the first `diff --git`.
    notes = [*([problem] if problem else []), *(f"untracked: {name!r}" for name in untracked)]
    patch, lines = _masked(patch)
    notes += [f"secrets are masked in {lines} lines: where they are, it cannot be applied"] * bool(
        lines
    )
    content = "".join(f"# {note}\n" for note in notes).encode() + patch
    import hashlib  # OpenSSL: only where there is a checkout

    record = msgspec.structs.replace(
        record,
        commit=commit,
        dirty=bool(patch),
        untracked=len(untracked),
        diff_bytes=len(content),
        diff_sha256=hashlib.sha256(content).hexdigest() if content else "",
        problem=problem,
    )
    return record, content


def _masked(patch: bytes) -> tuple[bytes, int]:
    """The patch with its secrets masked, and how many lines have one."""
    before = patch.decode("utf-8", "surrogateescape")
    # A private key has many lines; anything else stands on one.
    lines = mask_private_keys(before).split("\n")
    masked = list(map(mask_text, lines))
    after = "\n".join(masked)
    changed = sum(old != new for old, new in zip(lines, masked, strict=True))
    return after.encode("utf-8", "surrogateescape"), changed + (len(lines) < before.count("\n") + 1)


def _record_all(wanted: Mapping[RunDirectory, Checkout]) -> None:
    known: dict[Checkout, tuple[SourceRecord, bytes]] = {}
    for run, checkout in wanted.items():
        # Runs of one launch mostly share a checkout: git is asked once.
        try:
            if checkout not in known:
                known[checkout] = record_source(checkout)
            record, content = known[checkout]
            if content:
                replace(run.source_diff, content)
            replace(run.source, msgspec.json.encode(record))
        except OSError:
            continue  # a full disk loses the record, never the run


def read_source(run: RunDirectory) -> SourceRecord | None:
    """What was recorded of the run's code; None when nothing was."""
    return read(run.source, SourceRecord)


def record_again(run: RunDirectory, folder: Path) -> threading.Thread:
    """Record the code again when a queued run starts.

    What was recorded at its launch is kept as `source.launch.*`.
    """
    for path in (run.source, run.source_diff):
        if path.exists():
            path.rename(path.with_suffix(f".launch{path.suffix}"))
    return start_recording({run: folder})


def changes_between(launch: SourceRecord | None, start: SourceRecord | None) -> list[str]:
    """What happened to the code while a queued run waited, in words.

    Empty when it is the same, or nobody knows.
    """
    if launch is None or start is None or launch == start:
        return []
    if launch.commit != start.commit:
        before, after = ((record.commit or "no commit")[:12] for record in (launch, start))
        return [f"the code changed while it waited: launched at commit {before}, runs {after}"]
    if launch.diff_sha256 != start.diff_sha256 and not (launch.problem or start.problem):
        return ["the code changed while it waited: other uncommitted changes than at launch"]
    return []


def _commit(text: str) -> str | None:
    return text if _COMMIT.fullmatch(text) else None


def provenance_of(
    interpreter: Interpreter | None, folder: Path, reading: GpuReading | None
) -> Provenance:
    """What a run in `folder` would use; the driver is known where GPUs were read."""
    checkout = find_checkout(folder)
    commit, branch = head_of(checkout) if checkout else (None, None)
    return Provenance(
        fresnel=__version__,
        system=_system(),
        interpreter=str(interpreter.path) if interpreter else None,
        python=python_version(interpreter.path) if interpreter else None,
        torch=interpreter.version_of("torch") if interpreter else None,
        driver=reading.driver if reading else None,
        commit=commit,
        branch=branch,
        commit_at_launch=commit,
    )


def _system() -> str:
    kernel = os.uname()
    text = f"{kernel.sysname} {kernel.release} {kernel.machine}"
    lines = read_text("/etc/os-release").splitlines()
    names = [
        line.partition("=")[2].strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")
    ]
    return f"{names[0]}, {text}" if names else text
