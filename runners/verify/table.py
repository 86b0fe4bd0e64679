"""The one table of checks before a launch: in order, each with the group it belongs to."""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from runners.doctor.checks import Check
from runners.model.spec import CheckGroup
from runners.verify import data_checks, host_checks, program_checks, resource_checks
from runners.verify.facts import LaunchFacts


class TableRow(NamedTuple):
    """A check and its group."""

    group: CheckGroup
    check: Callable[[LaunchFacts], Iterator[Check]]


CHECKS: tuple[TableRow, ...] = (
    TableRow("program", program_checks.check_interpreter),
    TableRow("program", program_checks.check_imports),
    TableRow("gpus", program_checks.check_torch),
    TableRow("gpus", program_checks.check_vendor),
    TableRow("gpus", program_checks.check_architecture),
    TableRow("gpus", program_checks.check_driver),
    TableRow("gpus", program_checks.check_override),
    TableRow("gpus", program_checks.check_ordinal),
    TableRow("data", data_checks.check_paths),
    TableRow("data", data_checks.check_files),
    TableRow("checkpoint", data_checks.check_checkpoint),
    TableRow("config", data_checks.check_unread),
    TableRow("config", data_checks.check_twice),
    TableRow("memory", resource_checks.check_memory),
    TableRow("batch", resource_checks.check_batch),
    TableRow("disk", resource_checks.check_disk),
    TableRow("network", resource_checks.check_ports),
    TableRow("network", resource_checks.check_interfaces),
    TableRow("outputs", resource_checks.check_outputs),
    TableRow("machine", host_checks.check_open_files),
    TableRow("machine", host_checks.check_shared_memory),
    TableRow("machine", host_checks.check_host_memory),
    TableRow("machine", host_checks.check_logout),
    TableRow("machine", host_checks.check_clock),
    TableRow("machine", host_checks.check_rccl),
    TableRow("own", data_checks.check_commands),
)


class JudgedCheck(NamedTuple):
    """What one check found, and its group."""

    group: CheckGroup
    check: Check


def judge(facts: LaunchFacts, groups: Collection[CheckGroup] = ()) -> Iterator[JudgedCheck]:
    """Every check's findings in the table's order; only those of `groups` where some are named."""
    for row in CHECKS:
        if not groups or row.group in groups:
            for found in row.check(facts):
                yield JudgedCheck(row.group, found)
