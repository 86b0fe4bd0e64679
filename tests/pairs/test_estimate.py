"""What a run should take and cost, and what it will have cost at its end: `cost`, `status`, the
details and the tables of money agree.
"""

from decimal import Decimal

from hypothesis import given, settings

from runners.cost.run_costs import ProjectionBasis
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all
from tui.cli.cost import report_json
from tui.views.format import dollars, duration
from tui.views.money.cost_report import cost_tables, read_report
from tui.views.runs.plan_text import estimate_text
from tui.views.runs.run_text import projection_text


@settings(max_examples=60, deadline=None)
@given(host=hosts(adoptable=False))
def test_estimate_and_projection_are_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        report = read_report(world.state)
        rows = {row["id"]: row for row in report_json(report)["runs"]}
        shown = {row[0]: row[-1] for table in cost_tables(report)[:1] for row in table.rows}
        for run in world.runs():
            found, told = ask_all(world, run), rows[run.id]
            drawn = world.drawn(run.id, host)
            assert (told["estimate"] is None) == (drawn.estimate_s is None)
            if told["estimate"] is not None:
                assert run.plan is not None and run.plan.forecast is not None
                estimate = told["estimate"]
                assert estimate["seconds"] == drawn.estimate_s
                paid = run.plan.price is not None and run.plan.price.basis == "session"
                usd = dollars(Decimal(str(estimate["usd"])))
                text = f"{duration(estimate['seconds'])}, {'' if paid else 'would cost '}{usd}"
                assert estimate_text(run.plan).startswith(text)
            basis = found.view.money.basis
            assert told["projection_basis"] == found.json["projection_basis"]
            assert found.json["projection_basis"] == (None if basis is None else basis.value)
            assert (basis is None) == (found.json["projected_usd"] is None)
            assert found.status["cost"] == found.details["cost"]
            paid, _, _ = found.status["cost"].partition("; outside of sessions")
            assert paid.endswith(projection_text(found.view.money))
            by_estimate = basis is ProjectionBasis.ESTIMATE
            assert shown.get(run.id, "").endswith(" est.") == (by_estimate and run.id in shown)
            if by_estimate:
                assert run.is_live
                usd = told["estimate"]["usd"]
                assert (told["projected_usd"], found.json["projected_usd"]) == (usd, usd)
