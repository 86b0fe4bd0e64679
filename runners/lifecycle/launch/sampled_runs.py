"""Runs of a sweep that get their values when their turn comes, from a sampler of optuna.

The folder `sweeps/GROUP` has optuna's own journal, which is what counts, and `trials.json`, from
which everybody else learns what was suggested to whom. Results are told to the sampler when a run
ends, and again, where that was missed, before the next values are asked for. So nothing has to
stay alive for a search but the queue.
"""

import shutil

import msgspec

from runners.lifecycle.launch.variation import varied
from runners.model.errors import FresnelError
from runners.model.sampler_search import Search, SearchRecord
from runners.model.spec import RunSpec
from runners.state.decoding import read
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import read_run

_LONGEST_NAME = 60


def suggested(directory: RunDirectory, spec: RunSpec) -> RunSpec:
    """`spec` with the values that its sampler suggests to this run; unchanged without a search.

    The values are kept in the run's folder: a second call gives the same. `spec` is as it is on
    disk, without secrets. Raises FresnelError when there is no answer.
    """
    search = spec.search
    if search is None:
        return spec
    from runners.lifecycle.launch import sampler_study  # optuna: a second, and an extra

    answer = sampler_study.ask(directory.home, spec.group, search, directory.id)
    chosen = answer.trial.values
    label = "-".join(f"{key.rpartition('.')[2]}{_short(text)}" for key, text in chosen.items())
    values = " ".join(f"{key}={text}" for key, text in chosen.items())
    note = f"{search.sampler} suggested {values} (trial {answer.trial.number + 1}; {answer.known})"
    return msgspec.structs.replace(
        with_values(spec, chosen),
        name=f"{spec.name}-{label}"[:_LONGEST_NAME],
        search=None,
        swept=chosen,
        warnings=(*(warning for warning in spec.warnings if warning != waiting_note(search)), note),
    )


def waiting_note(search: Search) -> str:
    """What is said of a run whose values are not known yet."""
    keys = ", ".join(axis.key for axis in search.axes)
    return f"{keys}: {search.sampler} suggests values when its turn comes"


def with_values(spec: RunSpec, values: dict[str, str]) -> RunSpec:
    """`spec` with the values of a trial: for `{KEY}` in a command, else as parameters and flags."""
    for key, text in values.items():
        mark = f"{{{key}}}"
        if any(mark in word for word in spec.command):
            filled = tuple(word.replace(mark, text.replace("${", "$${")) for word in spec.command)
            spec = msgspec.structs.replace(spec, command=filled)
        else:
            spec = varied(spec, [f"{key}={text}"], spec.name)
    return spec


def read_search(state: StateDirectory, group: str) -> SearchRecord | None:
    """What is known of the search of a sweep; None where there is none yet."""
    return read(state.sweeps / group / "trials.json", SearchRecord)


def report_endings(state: StateDirectory) -> None:
    """Tell the samplers of all searches how the runs came out that have ended since."""
    for path in state.sweeps.glob("*/trials.json"):
        record = read_search(state, path.parent.name)
        if record is None:
            continue
        open_runs = (run_id for run_id, trial in record.trials.items() if not trial.reported)
        if not any(_has_ended(state, run_id) for run_id in open_runs):
            continue
        try:
            from runners.lifecycle.launch import sampler_study

            sampler_study.report_results(state, path.parent.name, record.search)
        except (ImportError, FresnelError):
            continue  # told before the next values are asked for, which says what is wrong


def forget_searches(state: StateDirectory) -> None:
    """Remove what was kept of searches none of whose runs exists any more."""
    for path in state.sweeps.glob("*/trials.json"):
        record = read(path, SearchRecord)
        if record is not None and not any(
            state.run(run_id).path.exists() or (state.trash / run_id).exists()
            for run_id in record.trials
        ):
            shutil.rmtree(path.parent, ignore_errors=True)


def _has_ended(state: StateDirectory, run_id: str) -> bool:
    return not state.run(run_id).path.is_dir() or not read_run(state, run_id).is_live


def _short(text: str) -> str:
    try:
        return f"{float(text):.3g}"
    except ValueError:
        return text
