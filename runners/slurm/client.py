"""Slurm's commands, each with a deadline: a controller that is busy or gone must not stop anybody.

Times are asked for as unix seconds (`SLURM_TIME_FORMAT`), lists of an array's tasks in full
(`SLURM_BITSTR_LEN`): they are cut off after 64 characters else.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from runners.model.errors import FresnelError

WITHIN_S = 8.0
_MOST_BYTES = 256 << 20
_SILENT = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Unexpected message received",
    "Communication connection failure",
    "authentication plugin",
    "Munge",
    "munge",
)
"""What its commands say when it is the controller, or the way to it, that does not answer."""

_SUMMARY = "Batch job submission failed"
_LONGEST = 600
_UNREACHED = ("(connect failure)", "Munge encode failed")


class SlurmSilent(FresnelError):
    """Slurm does not answer: nothing follows from that for any job."""


class SlurmUnreached(SlurmSilent):
    """What was asked has certainly not reached Slurm."""


class SlurmRefused(FresnelError):
    """Slurm answers, and refuses."""


def is_installed() -> bool:
    """Whether this machine has Slurm's commands."""
    return shutil.which("sbatch") is not None


def ask(
    *command: str, within_s: float = WITHIN_S, environment: Mapping[str, str] | None = None
) -> str:
    """What the command `command` prints. Raises SlurmSilent or SlurmRefused, which say why."""
    return ask_both(command, within_s, environment)[0]


def ask_both(
    command: Sequence[str], within_s: float = WITHIN_S, environment: Mapping[str, str] | None = None
) -> tuple[str, str]:
    """What the command `command` prints to its output and beside it; raises as `ask` does."""
    variables = {**(os.environ if environment is None else environment)}
    variables |= {
        "SLURM_TIME_FORMAT": "%s",
        "SLURM_BITSTR_LEN": "0",
        "LC_ALL": "C.UTF-8",
    }
    try:
        done = subprocess.run(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SlurmSilent(f"{command[0]} does not answer within {within_s:g} s") from None
    except OSError as error:
        raise SlurmUnreached(f"{command[0]} cannot be started: {error.strerror}") from None
    problem = done.stderr[:4096].decode("utf-8", "replace").strip()
    if done.returncode:
        text = _problem(problem) or f"{command[0]} failed with exit code {done.returncode}"
        if any(part in problem for part in _UNREACHED):
            raise SlurmUnreached(text)
        if done.returncode < 0 or any(part in problem for part in _SILENT):
            raise SlurmSilent(text)
        raise SlurmRefused(text)
    if len(done.stdout) > _MOST_BYTES:
        raise SlurmSilent(f"{command[0]} answers with more than {_MOST_BYTES >> 20} MB")
    return done.stdout.decode("utf-8", "replace"), problem


def script_name(command: str) -> str:
    """The name under which the job of this script was submitted from here."""
    return command.rpartition("/")[2].removesuffix(".sh").removesuffix(".again")


def remarks(text: str) -> str:
    """What a site's own rules print beside an answer, in a line."""
    lines = (line.partition("sbatch: ")[2] or line for line in text.splitlines())
    return "; ".join(filter(None, map(str.strip, lines)))[:_LONGEST]


def _problem(text: str) -> str:
    """The first line that says something, without the name of the command before it.

    All that a cluster's own rules say before sbatch ends with its summary of any refusal.
    """
    lines: list[str] = []
    for line in text.splitlines():
        answer = line.partition(": error: ")[2] or line.partition("error: ")[2] or line
        if answer.startswith(_SUMMARY) and lines:
            return "; ".join(lines)[:_LONGEST]
        lines += [answer.strip()] if answer.strip() else []
    return lines[0][:_LONGEST] if lines else ""
