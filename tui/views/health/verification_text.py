"""The result of checks before a launch, in words."""

import msgspec

from runners.verify.verify import Verification


class Verifications(msgspec.Struct, frozen=True):
    """What the checks of some runs found."""

    runs: list[Verification]


def counts_text(*found: Verification) -> str:
    """Return `1 failure, 2 warnings` over all that were checked."""
    failures = sum(len(result.failures) for result in found)
    warnings = sum(len(result.warnings) for result in found)
    return f"{_counted(failures, 'failure')}, {_counted(warnings, 'warning')}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
