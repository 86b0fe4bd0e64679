"""Ask and tell: a study of optuna over its file journal, one process at a time.

Every process makes the study anew from the journal. The journal's own lock is not needed: ours is
held around each use, and unlike that one it ends with its holder.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from runners.host.files import replace
from runners.host.locks import locked
from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.model.sampler_search import Search, SearchAxis, SearchRecord, SearchTrial
from runners.model.units import counted
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from runners.watch.metrics.final import read_final
from runners.watch.metrics.final_maker import keep_final

_RUN = "run"


class Answer(NamedTuple):
    """The values for one run, and in words what they rest on."""

    trial: SearchTrial
    known: str


class _OurLock(JournalFileOpenLock):
    """Taken already: see the module."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def ask(state: StateDirectory, group: str, search: Search, run_id: str) -> Answer:
    """The values for `run_id`, the same at every call, after the results of all ended runs.

    Raises FresnelError when the journal cannot be read or written.
    """
    with _study(state, group, search) as study:
        _report_ended(study, state, search)
        mine = next(
            (trial for trial in _trials(study) if trial.user_attrs.get(_RUN) == run_id), None
        )
        if mine is None:
            study.sampler = _sampler(search, len(_trials(study)))
            new = study.ask({axis.key: _distribution(axis) for axis in search.axes})
            new.set_user_attr(_RUN, run_id)
            mine = next(trial for trial in _trials(study) if trial.number == new.number)
        kept = _keep(state, group, search, study)
        return Answer(kept[run_id], _known(study, search))


def report_results(state: StateDirectory, group: str, search: Search) -> None:
    """Tell how the runs of a search came out that have ended since. Raises FresnelError."""
    with _study(state, group, search) as study:
        _report_ended(study, state, search)
        _keep(state, group, search, study)


@contextmanager
def _study(state: StateDirectory, group: str, search: Search) -> Iterator[optuna.Study]:
    folder = state.sweeps / group
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Which of its features optuna calls experimental is nothing that a run's log is read for.
    warnings.simplefilter("ignore")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(folder / "lock"):
            journal = folder / "journal.log"
            _cut_torn_line(journal)
            backend = JournalFileBackend(str(journal), lock_obj=_OurLock(str(journal)))
            yield optuna.create_study(
                study_name=group,
                storage=JournalStorage(backend),
                direction="maximize" if search.higher else "minimize",
                load_if_exists=True,
            )
    except OSError as error:
        raise FresnelError(
            f"{search.sampler} cannot be asked: {folder}: {error.strerror or error}"
        ) from None
    except (ValueError, KeyError, ImportError, RuntimeError, AssertionError) as error:
        raise FresnelError(f"{search.sampler} cannot be asked: {folder}: {error}") from None


def _cut_torn_line(journal: Path) -> None:
    """Remove the part of a line that a killed writer left: appended to, it spoils the journal."""
    with suppress(FileNotFoundError), journal.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)


def _report_ended(study: optuna.Study, state: StateDirectory, search: Search) -> None:
    for trial in _trials(study):
        if trial.state is not TrialState.RUNNING:
            continue
        run_id = trial.user_attrs.get(_RUN)
        # Without a run: who asked was killed before it could say for whom.
        if run_id is None or not state.run(run_id).path.is_dir():
            study.tell(trial.number, state=TrialState.FAIL)
            continue
        run = read_run(state, run_id)
        if run.is_live:
            continue
        value = _result(run, search)
        if value is None:
            study.tell(trial.number, state=TrialState.FAIL)
        else:
            study.tell(trial.number, value)


def _result(run: Run, search: Search) -> float | None:
    """The best value of the metric in an ended run; None where it failed or has none."""
    if run.state.has_failed:
        return None
    report = read_final(run) or keep_final(run)
    found = report.metrics.get(search.metric or report.headline or "")
    if found is None:
        return None
    value = found.maximum if search.higher else found.minimum
    return value if value is not None and math.isfinite(value) else None


def _keep(
    state: StateDirectory, group: str, search: Search, study: optuna.Study
) -> dict[str, SearchTrial]:
    trials = {
        trial.user_attrs[_RUN]: SearchTrial(
            trial.number,
            {axis.key: _text(axis, trial.params[axis.key]) for axis in search.axes},
            trial.state.is_finished(),
        )
        for trial in _trials(study)
        if _RUN in trial.user_attrs
    }
    record = SearchRecord(search, trials)
    replace(state.sweeps / group / "trials.json", msgspec.json.encode(record))
    return trials


def _known(study: optuna.Study, search: Search) -> str:
    """What the values rest on, in words."""
    states = [trial.state for trial in _trials(study)]
    done, failed = states.count(TrialState.COMPLETE), states.count(TrialState.FAIL)
    text = f"from {counted(done, 'result')}"
    named = f" of {search.metric}" if search.metric else ""
    return f"{text}{named}, {failed} without" if failed else f"{text}{named}"


def _trials(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False)


def _distribution(axis: SearchAxis) -> BaseDistribution:
    if axis.values:
        return CategoricalDistribution(axis.values)
    if axis.whole:
        return IntDistribution(round(axis.low), round(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _text(axis: SearchAxis, value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _sampler(search: Search, asked: int) -> BaseSampler:
    # A process has a sampler of its own, which with the same seed would draw the same values again.
    seed = (search.seed * 1_000_003 + asked) % (1 << 32)
    first = min(10, max(3, search.samples // 4))
    if search.sampler == "gp":
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=first)
    if search.sampler == "cmaes":
        return optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=first)
    if search.sampler == "qmc":
        # One sequence for all: its place in it is in the journal. Before its version 5, optuna left
        # choices to the other sampler, which with this seed would choose the same for every run.
        chance = optuna.samplers.RandomSampler(seed=seed)
        return optuna.samplers.QMCSampler(
            seed=search.seed, scramble=True, independent_sampler=chance
        )
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=first, constant_liar=True)
