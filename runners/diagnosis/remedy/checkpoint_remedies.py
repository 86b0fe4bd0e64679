"""Remedies that resume from another checkpoint: the newest, the one before, or a mended copy."""

import glob
import os
from pathlib import Path

from runners.diagnosis.remedy.case import Case, FileWork, Unfit
from runners.host.files import is_file, modified_at
from runners.host.newest_file import by_time_and_number, first_whole, matching_files
from runners.lifecycle.control.resume import as_told_before, resume_run
from runners.lifecycle.launch.interpreter import interpreter_of
from runners.lifecycle.launch.resumed_spec import resumed
from runners.model.errors import FresnelError, WrongInput
from runners.verify.checkpoint_facts import named_checkpoint
from runners.watch.metrics.checkpoints import checkpoint_files


def resume(case: Case) -> Case:
    """Resume from the newest whole checkpoint of the run. Raises Unfit."""
    try:
        return case._replace(spec=resume_run(case.state, case.run, case.spec).spec)
    except FresnelError as error:
        raise Unfit(error.message) from None


def earlier_checkpoint(case: Case) -> Case:
    """Resume from the checkpoint before the one it began from, else before its newest.

    Raises Unfit when there is none.
    """
    began = named_checkpoint(case.spec, Path(case.plan.working_directory))
    files = checkpoint_files(case.run)
    if began is not None:
        files += matching_files([f"{glob.escape(str(began.parent))}/*{began.suffix}"])
    found = {str(Path(file.path).resolve()): file for file in files}
    # By time and not by name: `last.pt` may be newer or older than `epoch_12.pt`.
    order = sorted(found.values(), key=by_time_and_number)
    place = "" if began is None else str(began.resolve())
    # Where it began from none of them, the newest may be what it failed on.
    end = order.index(found[place]) if place in found else max(0, len(order) - 1)
    whole = first_whole(reversed(order[:end]))
    if whole is None:
        raise Unfit("there is no earlier complete checkpoint")
    return _from(case, Path(whole.path))


def remap_checkpoint(case: Case) -> Case:
    """Resume from a copy whose tensors are on the CPU. Raises Unfit."""
    return _from_copy(case, "remap", "remapped")


def strip_checkpoint(case: Case) -> Case:
    """Resume from a copy whose keys have no wrappers. Raises Unfit."""
    return _from_copy(case, "strip", "stripped")


def _from_copy(case: Case, do: str, word: str) -> Case:
    folder = Path(case.plan.working_directory)
    source = named_checkpoint(case.spec, folder)
    if source is None:
        raise Unfit("no parameter of it names a checkpoint")
    if not is_file(source):
        raise Unfit(f"{source}: no such file")
    environment = {**os.environ, **case.plan.environment}
    interpreter = interpreter_of(case.plan.argv, environment, folder)
    if interpreter is None:
        raise Unfit("no Python of the run is known that could open it")
    target = source.with_name(f"{source.stem}_{word}{source.suffix}")
    treated = _from(case, target)
    # Beside the original, never in its place: a remedy must not destroy the only checkpoint.
    made = modified_at(target)
    if made and made >= modified_at(source):
        return treated  # made before
    if made:
        raise Unfit(f"{target} is older than {source.name}: move it away")
    work = FileWork(do, str(source), str(target), str(interpreter))
    return treated._replace(work=(*case.work, work))


def _from(case: Case, path: Path) -> Case:
    """The case resuming from `path`, by the preset's rule, else by the parameter that names one."""
    folder = Path(case.plan.working_directory)
    named = named_checkpoint(case.spec, folder)
    rule = case.spec.resume
    for parameter in case.spec.parameters:
        value = parameter.value
        is_it = rule is not None and parameter.name == rule.parameter
        if named is None or not isinstance(value, str) or is_it:
            continue
        if (folder / value).resolve() == named.resolve():
            return case.with_parameter(parameter, str(path))
    try:
        spec = as_told_before(case.state, case.spec, folder)
        return case._replace(spec=resumed(spec, path, case.run.id, folder))
    except WrongInput as error:
        raise Unfit(error.message) from None
