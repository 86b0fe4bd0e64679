"""The result of checks before a launch, in words."""

from runners.verify.verify import Verification


def counts_text(*found: Verification) -> str:
    """Return `1 failure, 2 warnings` over all that were checked."""
    failures = sum(len(one.failures) for one in found)
    warnings = sum(len(one.warnings) for one in found)
    return f"{_counted(failures, 'failure')}, {_counted(warnings, 'warning')}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
