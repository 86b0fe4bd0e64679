"""The result of checks before a launch, in words."""

import msgspec

from runners.model.units import counted
from runners.verify.verify import Verification


class Verifications(msgspec.Struct, frozen=True):
    """What the checks of some runs found."""

    runs: list[Verification]


def counts_text(*found: Verification) -> str:
    """Return `1 failure, 2 warnings` over all that were checked."""
    failures = sum(len(result.failures) for result in found)
    warnings = sum(len(result.warnings) for result in found)
    return f"{counted(failures, 'failure')}, {counted(warnings, 'warning')}"
