"""What differs between the plan of a run and the one that would come next, line by line."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from runners.diagnosis.remedy.case import FileWork
from runners.model.plan import LaunchPlan
from runners.model.python_command import devices_in_all
from runners.model.scaling import batch_notes
from runners.scheduling.visibility import ALL_VARIABLES, GIVEN_VARIABLES


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
    asked = plan.spec.gpus
    wanted = ", ".join(asked.ids) or str(asked.count)
    none = f"{wanted}, once free" if plan.waits_for_gpus else "none: the CPU"
    rest = [f"GPUs {', '.join(str(gpu.index) for gpu in plan.gpus) or none}"]
    rest.append(f"directory {plan.working_directory}")
    if plan.spec.resumed_from:
        rest.append(f"resumes {_neutral(plan.spec.resumed_from, plan)}")
    if plan.gpus or plan.waits_for_gpus:
        rest += [f"note: {note}" for note in batch_notes(plan.spec, devices_in_all(plan))]
    return rest


def _neutral(text: str, plan: LaunchPlan) -> str:
    return text.replace(plan.directory, "${run_dir}").replace(plan.run, "${run_id}")


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for what, low, high, new_low, new_high in matcher.get_opcodes():
        if what == "equal":
            continue
        yield from (f"- {line}" for line in before[low:high])
        yield from (f"+ {line}" for line in after[new_low:new_high])
