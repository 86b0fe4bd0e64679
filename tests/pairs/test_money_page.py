"""The money page of a machine over a link has the tables that the machine itself shows."""

import json
from decimal import Decimal

import msgspec
from hypothesis import Phase, given, settings

from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tui.snapshot.questions import Question, answer
from tui.views.money.cost_report import (
    CostPage,
    CostRow,
    cost_notes,
    cost_tables,
    costly_rows,
    read_page,
    read_report,
)
from tui.views.money.session_offer import SessionOffer

CENT = Decimal("0.01")


def cost_of(row: CostRow) -> Decimal:
    return row.view.money.cost or Decimal(0)


@settings(max_examples=15, deadline=None, phases=[Phase.generate], derandomize=True)
@given(host=hosts(adoptable=False))
def test_tables_and_notes_are_the_machine_s_own(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        sent = json.dumps(msgspec.to_builtins(answer(world.state, Question.COSTS, ())))
        page = msgspec.convert(json.loads(sent), CostPage)
        mine = read_page(world.state)
        report = read_report(world.state)
        tables = cost_tables(report, by_name=True)
        assert [table.headings for table in page.tables] == [table.headings for table in tables]
        for table, own in zip(page.tables, mine.tables, strict=True):
            names = [row[0] for row in table.rows]
            assert names == [row[0] for row in own.rows]
            assert {len(row) for row in table.rows} == {len(table.headings)}
        days = [[row[0] for row in table.rows] for table in tables if table.headings[0] == "day"]
        assert all(column == sorted(column, reverse=True) for column in days), "today on top"
        dear = sorted(costly_rows(report), key=cost_of, reverse=True)
        shown = [row.view.run.name for row in dear if row.view.run.is_live or cost_of(row) >= CENT]
        runs = [[row[0] for row in table.rows] for table in tables if table.headings[0] == "run"]
        assert all(column[: len(shown)] == shown for column in runs), "the dearest first"
        assert len(page.notes) == len(cost_notes(report))


@settings(max_examples=5, deadline=None, phases=[Phase.generate], derandomize=True)
@given(host=hosts(adoptable=False))
def test_prices_and_gpus_of_a_session_come_over_as_they_are(
    worlds: Worlds, host: DrawnHost
) -> None:
    with worlds(host) as world:
        offer = answer(world.state, Question.PRICES, ())
        sent = json.loads(json.dumps(msgspec.to_builtins(offer)))
        found = msgspec.convert(sent, SessionOffer)
        assert isinstance(offer, SessionOffer)
        assert (found.prices, found.fitting) == (offer.prices, offer.fitting)
        assert [gpu.uuid for gpu in found.reading.gpus] == [gpu.uuid for gpu in offer.reading.gpus]
