"""Errors a person reads: what is wrong, where, and what to do about it."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a headless command's exit status means."""

    DONE = 0
    RUN_FAILED = 1
    WRONG_INPUT = 2
    NOT_FOUND = 3
    DENIED = 4
    INTERRUPTED = 130


class FresnelError(Exception):
    """One clear sentence for a person, a hint what to do next, and the exit code it leads to."""

    exit_code = ExitCode.RUN_FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


def sentence_of(error: Exception) -> str:
    """A problem as people read it: the system's without its number, with the file it is about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


class WrongInput(FresnelError):
    """Something a person wrote cannot be used: a preset, a flag, a value."""

    exit_code = ExitCode.WRONG_INPUT


class NotFound(FresnelError):
    """A run, preset or file that was named does not exist."""

    exit_code = ExitCode.NOT_FOUND


class UnknownPreset(NotFound):
    """No preset has the name that was given."""


class DeniedError(FresnelError):
    """What was asked is not possible here and now.

    Busy GPUs, runs of another host, folders that others may write.
    """

    exit_code = ExitCode.DENIED
