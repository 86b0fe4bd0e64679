"""Remedies that resume from another checkpoint: the newest, the one before, or a mended copy."""

import glob
from pathlib import Path

from runners.diagnosis.remedy.case import Case, FileWork, Unfit
from runners.host.checkpoint_files import proof
from runners.host.newest_file import UNFINISHED, NewestFile, by_time_and_number, look_at
from runners.lifecycle.control.resume import resume_run
from runners.lifecycle.launch.interpreter import interpreter_of
from runners.lifecycle.launch.resume import resumed
from runners.model.errors import FresnelError, WrongInput
from runners.verify.checkpoint_facts import named_checkpoint
from runners.verify.data_facts import matching


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
    patterns = list(case.plan.checkpoints)
    if began is not None:
        patterns.append(f"{glob.escape(str(began.parent))}/*{began.suffix}")
    own = Path(case.run.directory)
    since = case.run.started or case.run.created
    found = {}
    for pattern in patterns:
        for name in matching(pattern):
            one = look_at(name)
            if one is None or name.endswith(UNFINISHED):
                continue
            ours = Path(name).is_relative_to(own) or one.modified >= since
            if ours or (began is not None and Path(name).parent == began.parent):
                found[str(Path(name).resolve())] = one
    # By time and not by name: `last.pt` may be newer or older than `epoch_12.pt`.
    order = sorted(found.values(), key=by_time_and_number)
    if began is not None and str(began.resolve()) in found:
        order = order[: order.index(found[str(began.resolve())])]
    else:
        # The newest may be what the run failed on.
        order = order[:-1]
    whole = [one for one in order if _is_whole(one)]
    if not whole:
        raise Unfit("there is no earlier checkpoint that is whole")
    return _from(case, Path(whole[-1].path))


def remap_checkpoint(case: Case) -> Case:
    """Resume from a copy whose tensors are on the CPU. Raises Unfit."""
    return _from_copy(case, "remap", "remapped")


def strip_checkpoint(case: Case) -> Case:
    """Resume from a copy whose keys have no wrappers. Raises Unfit."""
    return _from_copy(case, "strip", "stripped")


def _from_copy(case: Case, do: str, word: str) -> Case:
    source = named_checkpoint(case.spec, Path(case.plan.working_directory))
    if source is None:
        raise Unfit("no parameter of it names a checkpoint")
    if not source.is_file():
        raise Unfit(f"{source}: no such file")
    interpreter = interpreter_of(case.plan.argv)
    if interpreter is None:
        raise Unfit("its program is no Python that could open it")
    target = source.with_name(f"{source.stem}_{word}{source.suffix}")
    treated = _from(case, target)
    # Beside the original, never in its place: a remedy must not destroy the only checkpoint.
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return treated  # made before
    if target.exists():
        raise Unfit(f"{target} is older than {source.name}: move it away")
    work = FileWork(do, str(source), str(target), str(interpreter))
    return treated._replace(work=(*case.work, work))


def _from(case: Case, path: Path) -> Case:
    """The case resuming from `path`, by the preset's rule, else by the parameter that names one."""
    named = named_checkpoint(case.spec, Path(case.plan.working_directory))
    rule = case.spec.resume
    for parameter in case.spec.parameters:
        value = parameter.value
        is_it = rule is not None and parameter.name == rule.parameter
        if named is None or not isinstance(value, str) or is_it:
            continue
        if (Path(case.plan.working_directory) / value).resolve() == named.resolve():
            return case.with_parameter(parameter, str(path))
    try:
        return case._replace(spec=resumed(case.spec, path, case.run.id))
    except WrongInput as error:
        raise Unfit(error.message) from None


def _is_whole(file: NewestFile) -> bool:
    try:
        return proof(file.path) is not False
    except OSError:
        return False
