"""The line below the run table: without a reason it is the same for runs of every state."""

import msgspec

from runners.model.states import State
from tests.unit.test_run_query import row
from tui.panel.widgets.run_line import NamesNow, cut_reason
from tui.views.runs.ended_index import EndedRows
from tui.views.runs.run_columns import TableContext, fit_columns, table_text


def test_no_reason_is_the_same_in_every_state_so_that_nothing_is_laid_out_anew() -> None:
    empty = [cut_reason(row("run", state=state), ()) for state in State]
    assert {(text.plain, str(text.style)) for text in empty} == {("", "")}


def test_reasons_name_runs_as_they_are_called_now_of_ended_runs_too() -> None:
    """One that was refused for another's end; the other was renamed since."""
    other = "20261120-101500-demo-7f3a"
    refused = row("b", state=State.CANCELLED, remark=f"{other} ended as failed, not in success")
    lives = row("c", state=State.RUNNING, is_live=True)
    ended = EndedRows((msgspec.structs.replace(row("baseline"), id=other), refused), 1)
    names = NamesNow().of(ended, {lives.id: lives})
    said = refused.remark.replace(other, "baseline")
    assert cut_reason(refused, fit_columns(20), names).plain == said
    context = TableContext(0.0, None, names)
    assert table_text("reason", context)(refused) == said
    assert not NamesNow().of(EndedRows(ended.rows[:1], 1), {lives.id: lives})
