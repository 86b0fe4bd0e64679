"""The one table of checks before a launch: in order, each with the group it belongs to."""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from runners.doctor.checks import Check
from runners.model.spec import CheckGroup
from runners.verify import data_checks, host_checks, program_checks, resource_checks
from runners.verify.facts import LaunchFacts

CHECKS: dict[CheckGroup, tuple[Callable[[LaunchFacts], Iterator[Check]], ...]] = {
    "program": (
        program_checks.check_interpreter,
        program_checks.check_imports,
        program_checks.check_script,
        program_checks.check_processes,
        program_checks.check_options,
    ),
    "gpus": (
        program_checks.check_torch,
        program_checks.check_vendor,
        program_checks.check_architecture,
        program_checks.check_driver,
        program_checks.check_cudnn,
        program_checks.check_override,
    ),
    "data": (data_checks.check_paths, data_checks.check_files),
    "checkpoint": (data_checks.check_checkpoint,),
    "config": (
        program_checks.check_ordinal,
        data_checks.check_unread,
        data_checks.check_twice,
    ),
    "memory": (resource_checks.check_memory,),
    "batch": (resource_checks.check_batch,),
    "disk": (resource_checks.check_disk,),
    "network": (resource_checks.check_ports, resource_checks.check_interfaces),
    "outputs": (resource_checks.check_outputs,),
    "machine": (
        host_checks.check_open_files,
        host_checks.check_shared_memory,
        host_checks.check_host_memory,
        host_checks.check_logout,
        host_checks.check_clock,
        host_checks.check_rccl,
    ),
    "own": (data_checks.check_commands,),
}


class JudgedCheck(NamedTuple):
    """What one check found, and its group."""

    group: CheckGroup
    check: Check


def judge(facts: LaunchFacts, groups: Collection[CheckGroup] = ()) -> Iterator[JudgedCheck]:
    """Every check's findings in the table's order; only those of `groups` where some are named."""
    for group, checks in CHECKS.items():
        if not groups or group in groups:
            yield from (JudgedCheck(group, found) for check in checks for found in check(facts))
