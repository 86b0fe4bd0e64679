"""The line below the run table: without a reason it is the same for runs of every state."""

from runners.model.states import State
from tests.unit.test_run_query import row
from tui.panel.widgets.run_line import cut_reason


def test_no_reason_is_the_same_in_every_state_so_that_nothing_is_laid_out_anew() -> None:
    empty = [cut_reason(row("run", state=state), ()) for state in State]
    assert {(text.plain, str(text.style)) for text in empty} == {("", "")}
