"""Whether the command line can start at all: its script, its module, its processes, its options."""

from collections.abc import Iterator

from runners.doctor.checks import Check
from runners.model.units import gpus_text
from runners.verify.facts import LaunchFacts


def check_script(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the script or module that is to run is there."""
    start, interpreter = facts.start, facts.interpreter
    if start is None:
        return
    if not start.exists:
        folder = facts.plan.working_directory
        yield Check("script", "FAIL", f"no file {start.script}", f"the run starts in {folder}")
    if start.module and interpreter is not None and interpreter.module:
        advice = f"{interpreter.path} does not find it from {facts.plan.working_directory}"
        yield Check("module", "FAIL", interpreter.module, advice)


def check_processes(facts: LaunchFacts) -> Iterator[Check]:
    """Whether there is a GPU for every process that the launcher starts here."""
    start, given = facts.start, len(facts.plan.gpus)
    if start is None or start.processes is None or not start.launcher or not given:
        return
    if start.processes > given:
        text = f"{start.launcher} starts {start.processes} processes on {gpus_text(given)}"
        advice = f"--gpus {start.processes}, or {given} processes"
        yield Check("processes", "FAIL", text, advice)


def check_options(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the script knows the options that it is given."""
    if facts.start is None:
        return
    for flag, near in facts.start.unknown:
        advice = f"did you mean {near}?" if near else "its --help lists those it knows"
        yield Check("options", "FAIL", f"{facts.start.script} has no option {flag}", advice)
