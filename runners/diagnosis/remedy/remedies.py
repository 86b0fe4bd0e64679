"""Proposing remedies for an ended run, each with the diff of its plan, and launching one."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import msgspec

from runners.diagnosis.remedy import checkpoint_remedies, setting_remedies, surroundings
from runners.diagnosis.remedy.case import Case, FileWork, Remedy
from runners.diagnosis.remedy_names import REMEDIES
from runners.diagnosis.verdict import Diagnosis, NotKnown, remedies_for
from runners.health.store import read_health
from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.start import start_together
from runners.lifecycle.launch.planner import plan_runs
from runners.model.errors import FresnelError, NotFound, WrongInput
from runners.model.plan import LaunchPlan
from runners.model.python_command import devices_in_all
from runners.model.run import Run
from runners.model.scaling import batch_notes
from runners.model.suggestions import nearest_hint
from runners.model.units import gpus_text
from runners.scheduling.queue_order import reason_of
from runners.scheduling.visibility import ALL_VARIABLES, GIVEN_VARIABLES
from runners.state.layout import StateDirectory
from runners.verify.checkpoint_tool import CheckpointToolError, ask_checkpoint_tool

FUNCTIONS: dict[str, Remedy] = {
    "another-port": surroundings.another_port,
    "half-batch": setting_remedies.half_batch,
    "accumulate": setting_remedies.accumulate,
    "mixed-precision": setting_remedies.mixed_precision,
    "expandable-segments": surroundings.expandable_segments,
    "half-rate": setting_remedies.half_rate,
    "sqrt-rate": setting_remedies.sqrt_rate,
    "fewer-workers": setting_remedies.fewer_workers,
    "more-workers": setting_remedies.more_workers,
    "remap-checkpoint": checkpoint_remedies.remap_checkpoint,
    "strip-checkpoint": checkpoint_remedies.strip_checkpoint,
    "earlier-checkpoint": checkpoint_remedies.earlier_checkpoint,
    "resume": checkpoint_remedies.resume,
    "show-gpus": surroundings.show_gpus,
    "first-gpu-number": surroundings.first_gpu_number,
    "interface": surroundings.interface,
    "nccl-debug": surroundings.variable("NCCL_DEBUG", "INFO"),
    "no-infiniband": surroundings.variable("NCCL_IB_DISABLE", "1"),
    "no-nccl-shm": surroundings.variable("NCCL_SHM_DISABLE", "1"),
    "blocking-launches": surroundings.blocking_launches,
    "architecture-override": surroundings.architecture_override,
    "torchrun": surroundings.torchrun,
    "no-compile": surroundings.no_compile,
}


class Proposal(msgspec.Struct, frozen=True):
    """A remedy and what it would change.

    `obstacle` says why it cannot be applied, `waits` why it would not start at once.
    """

    name: str
    summary: str
    diff: tuple[str, ...] = ()
    obstacle: str = ""
    waits: str = ""


def open_case(state: StateDirectory, run: Run, verdict: Diagnosis | NotKnown | None) -> Case:
    """The case of an ended run.

    Raises WrongInput while it is live, NotFound when its plan or spec is gone.
    """
    if run.is_live:
        raise WrongInput(f"`{run.id}` is {run.state}: it has not ended", "`fresnel-tui stop RUN`")
    if run.plan is None:
        raise NotFound(f"{run.id}: its plan is missing", "launch it from its preset or command")
    return Case(state, run, relaunch_spec(state, run), verdict)


def propose(case: Case, names: Sequence[str] = ()) -> list[Proposal]:
    """What the remedies `names` would change, one by one.

    By default those the verdict names, or those for how it did last.
    """
    wanted = names or (remedies_for(case.verdict) if case.verdict is not None else ())
    return [_propose(case, name) for name in wanted or _by_health(case.run)]


def _by_health(run: Run) -> tuple[str, ...]:
    """What helps against the trouble it was last seen in, even where it ended well."""
    health = read_health(Path(run.directory))
    return () if health is None else health.condition.remedies


def _propose(case: Case, name: str) -> Proposal:
    effect = REMEDIES[name]
    try:
        treated = treat(case, [name])
        # By planning the launch for real: the diff shows what would run, not what the remedy meant.
        (run,) = plan_runs(case.state, [treated.spec])
    except FresnelError as error:
        return Proposal(name, effect, obstacle=error.message)
    diff = plan_diff(case.plan, run.plan, treated.work)
    obstacle = "" if diff else "it changes nothing"
    return Proposal(name, effect, diff, obstacle, reason_of(run.decision))


def treat(case: Case, names: Sequence[str]) -> Case:
    """The case after these remedies, in order.

    Raises Unfit when one cannot be applied, WrongInput for an unknown one.
    """
    for name in names:
        if name not in FUNCTIONS:
            hint = f"remedies: {', '.join(FUNCTIONS)}"
            raise WrongInput(f"no remedy `{name}`{nearest_hint(name, FUNCTIONS)}", hint)
        case = FUNCTIONS[name](case)
    # The plan keeps what was done, so that the next failure is read with that in mind.
    note = f"{' + '.join(names)} after {case.run.id}"
    return case.changed(warnings=(*case.spec.warnings, f"remedy: {note}"))


def combined_diff(case: Case, treated: Case) -> tuple[str, ...]:
    """What all remedies together change."""
    (run,) = plan_runs(case.state, [treated.spec])
    return plan_diff(case.plan, run.plan, treated.work)


def launch_treated(treated: Case) -> Run:
    """Write the files that are needed, then launch. Raises WrongInput when one cannot be."""
    for work in treated.work:
        write_copy(work)
    return start_together(treated.state, [treated.spec])[0]


def write_copy(work: FileWork) -> None:
    """Have the checkpoint tool write one file. Raises WrongInput with its error."""
    request = {"do": work.do, "paths": [work.source], "device": "cpu", "output": work.target}
    try:
        ask_checkpoint_tool(work.interpreter, request)
    except CheckpointToolError as error:
        if error.answered:
            raise WrongInput(error.message, "nothing was launched") from None
        problem = f"{work.interpreter} could not write {work.target}: {error.message}"
        raise WrongInput(problem) from None


def plan_diff(
    before: LaunchPlan, after: LaunchPlan, work: Sequence[FileWork] = ()
) -> tuple[str, ...]:
    """Lines that begin with `- ` or `+ `; the runs' own folders and ids do not count."""
    lines = [f"+ writes {file.target} ({file.do} of {file.source})" for file in work]
    lines += _changes(_plan_lines(before), _plan_lines(after))
    waits = before.waits_for_gpus or after.waits_for_gpus
    lines += _changes(_variables(before, waits), _variables(after, waits))
    lines += _changes(before.config_changes, after.config_changes)
    lines += _changes(_rest(before), _rest(after))
    return tuple(lines)


def _plan_lines(plan: LaunchPlan) -> list[str]:
    """Program and flags, each flag with its value."""
    lines: list[str] = []
    for word in plan.argv:
        text = _neutral(word, plan)
        value = lines and lines[-1].startswith("-") and "=" not in lines[-1]
        if value and " " not in lines[-1] and not text.startswith("--") and _is_flag(lines[-1]):
            lines[-1] = f"{lines[-1]} {text}"
        else:
            lines.append(text)
    return lines


def _is_flag(word: str) -> bool:
    return word.startswith("--") or (word.startswith("-") and len(word) == 2)


def _variables(plan: LaunchPlan, waits: bool) -> list[str]:
    """Its variables; while one of two plans waits, without those that it is told with its GPUs."""
    left_out = (*ALL_VARIABLES, *GIVEN_VARIABLES) if waits else ()
    kept = {name: value for name, value in plan.environment.items() if name not in left_out}
    return sorted(f"{name}={_neutral(value, plan)}" for name, value in kept.items())


def _rest(plan: LaunchPlan) -> list[str]:
    rest = [_gpus(plan), f"directory {plan.working_directory}"]
    if plan.spec.resumed_from:
        rest.append(f"resumes {_neutral(plan.spec.resumed_from, plan)}")
    if plan.gpus or plan.waits_for_gpus:
        rest += [f"note: {note}" for note in batch_notes(plan.spec, devices_in_all(plan))]
    return rest


def _gpus(plan: LaunchPlan) -> str:
    """Which they are, or how many where that is still open: `GPU 1` and `1 GPU`."""
    asked = plan.spec.gpus
    names = [str(gpu.index) for gpu in plan.gpus] or list(asked.ids if plan.waits_for_gpus else ())
    if names:
        which = f"{'GPU' if len(names) == 1 else 'GPUs'} {', '.join(names)}"
    elif not plan.waits_for_gpus:
        return "GPUs none: the CPU"
    else:
        which = "all GPUs" if isinstance(asked.count, str) else gpus_text(asked.count)
    return f"{which}, once free" if plan.waits_for_gpus else which


def _neutral(text: str, plan: LaunchPlan) -> str:
    return text.replace(plan.directory, "${run_dir}").replace(plan.run, "${run_id}")


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for what, low, high, new_low, new_high in matcher.get_opcodes():
        if what == "equal":
            continue
        yield from (f"- {line}" for line in before[low:high])
        yield from (f"+ {line}" for line in after[new_low:new_high])
