"""Asking git about a checkout that may be slow, broken or malicious."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_OFF = (
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
)
_THEIRS = frozenset({"local", "worktree"})
"""Scopes of configuration that came with the repository, or could have."""
_DROPPED = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_EXTERNAL_DIFF", "GIT_PAGER"}
)
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}


class GitTrouble(Exception):
    """Git gave no answer; the message says why."""


class Git:
    """Git in one checkout; all its answers together must come within `patience_s` seconds."""

    def __init__(self, root: Path, patience_s: float) -> None:
        self.root = root
        self.patience_s = patience_s
        self.deadline = time.monotonic() + patience_s
        self.environment = {
            name: value for name, value in os.environ.items() if name not in _DROPPED
        } | _QUIET

    def disarm_filters(self) -> None:
        """Switch off the filter programs that the repository itself configures.

        The user's own (LFS) stay. Raises GitTrouble.
        """
        # A repository can name any program as a filter, and `git diff` would run it.
        listed, _ = self.ask(
            ["config", "--show-scope", "-z", "--get-regexp", r"^filter\."], 1 << 16, fails=True
        )
        fields = listed.decode("utf-8", "surrogateescape").split("\0")
        keys = [
            key.partition("\n")[0]
            for scope, key in zip(fields[::2], fields[1::2], strict=False)
            if scope in _THEIRS
        ]
        names = sorted({key.rpartition(".")[0] for key in keys})
        settings = [
            (f"{name}.{what}", "") for name in names for what in ("clean", "smudge", "process")
        ]
        settings += [(f"{name}.required", "false") for name in names]
        # By the environment, not by `-c`: names of filters may contain what `-c` cannot express.
        self.environment["GIT_CONFIG_COUNT"] = str(len(settings))
        for i, (key, value) in enumerate(settings):
            self.environment |= {f"GIT_CONFIG_KEY_{i}": key, f"GIT_CONFIG_VALUE_{i}": value}

    def ask(self, arguments: Sequence[str], limit: int, fails: bool = False) -> tuple[bytes, bool]:
        """At most `limit` bytes of git's answer, and whether there was more.

        Raises GitTrouble when git is late or fails.
        """
        off = [word for setting in _OFF for word in ("-c", setting)]
        try:
            child = subprocess.Popen(
                ["git", "--no-pager", *off, "-C", str(self.root), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self.environment,
                # So that git's own children end with it.
                start_new_session=True,
            )
        except OSError as error:
            raise GitTrouble(f"git cannot be run: {error.strerror}") from None
        try:
            answer = self._read(child, limit)
            if (
                # One that was cut off at the limit is killed below, so its exit code says nothing.
                len(answer) <= limit
                and child.wait(max(0.0, self.deadline - time.monotonic()))
                and not fails
            ):
                raise GitTrouble(f"git {arguments[0]} failed with exit code {child.returncode}")
        except (TimeoutError, subprocess.TimeoutExpired):
            raise GitTrouble(f"git took longer than {self.patience_s:g} s") from None
        finally:
            _end(child)
        return answer[:limit], len(answer) > limit

    def _read(self, child: "subprocess.Popen[bytes]", limit: int) -> bytes:
        assert child.stdout is not None
        descriptor = child.stdout.fileno()
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        answer = bytearray()
        while len(answer) <= limit:
            if not poller.poll(max(0.0, self.deadline - time.monotonic()) * 1000):
                raise TimeoutError
            block = os.read(descriptor, 1 << 16)
            if not block:
                break
            answer += block
        return bytes(answer)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of git running, its own children included."""
    if child.stdout is not None:
        child.stdout.close()
    if child.poll() is None:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
