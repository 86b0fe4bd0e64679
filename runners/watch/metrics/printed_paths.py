"""Folders and files that a program says it writes: checkpoints, TensorBoard and CSV folders."""

import os
import re
from pathlib import Path

_WORDS = re.compile(
    rb"sav(?:e|ed|ing)|checkpoint|writ(?:e|ing|ten)|logg(?:ing|ed)|tensorboard|logs? (?:to|in|dir)"
    rb"|output|stored|ckpt|wandb sync",
    re.IGNORECASE,
)
_SLASH = re.compile(rb"/[A-Za-z_]")
_SUFFIX = re.compile(rb"\.(?:pt|ckpt|safe|h5|keras|npz|bin)")
_PATH = re.compile(
    rb"""(?:^|[\s'"`(=:])(?P<path>~?[\w./@+-]*(?:/[\w.@+=-]+|\.(?:pt|pth|ckpt|safetensors|h5|keras|npz|bin|csv)|checkpoint-\d+))(?=$|[\s'"`),;:!.](?:\s|$)?)"""
)
_MOST = 200
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
        if not _WORDS.search(line, 0, 400):
            return
        for found in _PATH.finditer(line[:1000]):
            text = found["path"].decode("utf-8", "replace").rstrip(".")
            if text.startswith("//") or not text.strip("./"):
                continue
            path = os.path.normpath(self._folder / Path(text).expanduser())
            # Again at the end: the newest is last, and the first is
            # forgotten when there are too many.
            self._found.pop(path, None)
            self._found[path] = None
        while len(self._found) > _MOST:
            del self._found[next(iter(self._found))]

    @property
    def all(self) -> tuple[str, ...]:
        """Every path, oldest first."""
        return tuple(self._found)

    @property
    def folders(self) -> tuple[str, ...]:
        """Those that are folders, for logs in them."""
        return tuple(path for path in self._found if Path(path).is_dir())
