"""Live runs that are meant by names, or found by the words of the panel's filter, and asked for."""

import time
from collections.abc import Sequence

from runners.model.errors import FresnelError, NotFound
from runners.model.run import Run
from runners.state.layout import StateDirectory
from runners.state.runs import NamedRuns, find_runs, list_runs
from tui.cli.output import agreed, echo
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_query import checked_query, is_term, unknown_names
from tui.views.runs.run_view import view_run


def find_live(state: StateDirectory, terms: Sequence[str], verb: str, yes: bool) -> NamedRuns:
    """The runs of these names; where a word is one of a filter, the live runs that match them all.

    Found ones are listed, and nothing is done to them before somebody has said so. NotFound when
    none matches, DeniedError where there is nobody to ask.
    """
    if not any(map(is_term, terms)):
        return find_runs(state, terms)
    try:
        # A run may be called `lr=3`.
        return find_runs(state, terms)
    except FresnelError:
        pass
    found = _matching(state, terms)
    if not found:
        raise NotFound(f"no live run matches {' '.join(terms)}", "`fresnel-tui list is:live`")
    if not yes and not _confirmed(found, verb):
        return NamedRuns()
    return found


def _matching(state: StateDirectory, terms: Sequence[str]) -> NamedRuns:
    query = checked_query(" ".join(terms), time.time())
    live = [run for run in list_runs(state, 0) if run.is_live]
    rows = {run.id: row_of_view(view_run(run)) for run in live}
    for problem in unknown_names(query, list(rows.values())):
        echo(problem)
    return NamedRuns(run for run in live if query(rows[run.id]))


def _confirmed(runs: Sequence[Run], verb: str) -> bool:
    for run in runs:
        echo(f"  {run.name}  {run.state}  {run.id}")
    what = "this run" if len(runs) == 1 else f"these {len(runs):,} runs"
    question, hint = f"{verb} {what}?", "--yes does it without asking"
    return agreed(question, False, f"this would {verb} {what}", hint)
