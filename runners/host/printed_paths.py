"""Folders and files that a program says it writes. Standard library only."""

import glob
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from runners.host.files import (
    expanded,
    identity_of,
    is_folder,
    modified_at,
    names_in,
    read_json,
    read_tail,
    replace,
)
from runners.host.tail import Follower

_WRITING = re.compile(
    rb"sav(?:e|ed|ing)|checkpoint|writ(?:e|ing|ten)|logg(?:ing|ed)|tensorboard|logs? (?:to|in|dir)"
    rb"|output|stored|ckpt|wandb sync",
    re.IGNORECASE,
)
_SLASH = re.compile(rb"/[A-Za-z_]")
_SUFFIX = re.compile(rb"\.(?:pt|ckpt|safe|h5|keras|npz|bin)")
_PATH = re.compile(
    rb"""(?:^|[\s'"`(=:])"""
    rb"(?P<path>~?[\w./@+-]*"
    rb"(?:/[\w.@+=-]+|\.(?:pt|pth|ckpt|safetensors|h5|keras|npz|bin|csv)|checkpoint-\d+))"
    rb"""(?=$|[\s'"`),;:!.](?:\s|$)?)"""
)
_ATTEMPT = re.compile(r"output(?:\.(\d+))?\.log")
_FILE = "printed.json"
_MOST = 200
_HEAD_BYTES = 64 << 10
_TAIL_BYTES = 256 << 10
_ACCELERATE = "random_states_0.pkl"
"""In each folder that Accelerate's `save_state` makes: the folder is the checkpoint."""
_POLICY, _LONGEST_LIST = b"_stable_baselines3_version", 4096
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".safetensors", ".h5", ".hdf5", ".keras", ".npz", ".bin")


class PrintedPaths:
    """The paths in a run's output, newest last; relative ones are from `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._found: dict[str, None] = {}

    def note(self, line: bytes) -> None:
        """Look for paths in one line."""
        # Cheap tests first: this sees every line that a run prints.
        if not (_SLASH.search(line) or _SUFFIX.search(line) or b"checkpoint-" in line):
            return
        # A path alone says nothing: tracebacks and argument lists are full of them.
        if not _WRITING.search(line, 0, 400):
            return
        for found in _PATH.finditer(line[:1000]):
            text = found["path"].decode("utf-8", "replace").rstrip(".")
            if text.startswith("//") or not text.strip("./"):
                continue
            path = os.path.normpath(self._folder / expanded(text))
            self.add(path)

    def add(self, path: str) -> None:
        """Note a path as the newest; the oldest is forgotten when there are too many.

        What no file can be called is left out.
        """
        try:
            if b"\0" in os.fsencode(path):
                return
        except UnicodeEncodeError:
            return
        self._found.pop(path, None)
        self._found[path] = None
        if len(self._found) > _MOST:
            del self._found[next(iter(self._found))]

    @property
    def all(self) -> tuple[str, ...]:
        """Every path, oldest first."""
        return tuple(self._found)

    @property
    def folders(self) -> tuple[str, ...]:
        """Those that are folders, for logs in them."""
        return tuple(filter(is_folder, self._found))


class PrintedScan:
    """A run's printed paths: of each output head, end and what is new, and `printed.json`."""

    def __init__(self, run: str | Path, folder: str) -> None:
        """`run` is the run's own folder; relative paths are from `folder`, its program's."""
        self._run = Path(run)
        self._paths = PrintedPaths(folder or str(run))
        self._followers: dict[tuple[int, int], Follower] = {}
        self._noted: list[str] | None = None
        self._stamp = 0.0

    def add(self, paths: Iterable[str]) -> None:
        """Note paths that are the program's though it does not print them."""
        for path in paths:
            self._paths.add(path)

    def poll(self, is_live: bool = True) -> PrintedPaths:
        """The paths so far; of a run that is not live, the last line may lack its end."""
        self._read_noted()
        for path in self._outputs():
            # The supervisor renames the output of an attempt that failed: it stays the same file.
            identity = identity_of(path)
            if identity is None:
                continue
            follower = self._followers.setdefault(identity, Follower(path))
            follower.path = path
            lines = follower.poll(_TAIL_BYTES, jump=True, head=_HEAD_BYTES).lines
            for line in lines if is_live else [*lines, *follower.flush()]:
                self._paths.note(line)
        return self._paths

    def _read_noted(self) -> None:
        """Take in what its watcher noted, and notes on."""
        stamp = modified_at(self._run / _FILE)
        if self._noted is not None and stamp == self._stamp:
            return
        self._stamp = stamp
        self._noted = noted_paths(self._run)
        for text in self._noted:
            self._paths.add(text)

    def save(self) -> None:
        """Note the paths beside the run, for those who look once; only its watcher does."""
        paths = list(self.poll().all)
        if paths != self._noted:
            replace(self._run / _FILE, json.dumps({"paths": paths}).encode(), sync=False)
            self._noted, self._stamp = paths, modified_at(self._run / _FILE)

    def _outputs(self) -> list[Path]:
        """The output of each attempt, oldest first."""
        names = names_in(self._run)
        numbers = {name: found[1] for name in names if (found := _ATTEMPT.fullmatch(name))}
        # Without a number is the attempt that came last.
        order = sorted(numbers, key=lambda name: int(numbers[name] or 1 << 30))
        return [self._run / name for name in order]


def noted_paths(run: str | Path) -> list[str]:
    """What a run's watcher has noted in the run's folder, newest last."""
    noted = (read_json(Path(run) / _FILE) or {}).get("paths")
    return [str(path) for path in noted] if isinstance(noted, list) else []


def is_policy(path: str) -> bool:
    """Whether it is a zip file of stable-baselines3's, by the list of contents at its end."""
    return path.endswith(".zip") and _POLICY in read_tail(Path(path), _LONGEST_LIST)


def checkpoint_patterns(printed: Iterable[str]) -> list[str]:
    """Glob patterns for the checkpoints among printed paths, and for those in printed folders."""
    patterns: list[str] = []
    for text in printed:
        path = Path(text)
        named = path.suffix in CHECKPOINTS or path.name.startswith(("checkpoint-", "checkpoint_"))
        if named or os.path.isfile(os.path.join(text, _ACCELERATE)) or is_policy(text):
            patterns.append(glob.escape(text))
        elif os.path.isdir(text):  # not Path.is_dir, which raises where a name is too long
            folder = glob.escape(text)
            patterns += [f"{folder}/*{suffix}" for suffix in CHECKPOINTS]
            patterns.append(f"{folder}/checkpoint-*")
    return patterns
