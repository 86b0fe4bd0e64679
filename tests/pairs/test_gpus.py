"""Which run has which GPU: `gpus --json`, leases, rows, texts and the link agree."""

from hypothesis import given, settings

from runners.gpus.client import latest
from runners.model.units import indices
from runners.state.leases import held_leases
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tests.pairs.surfaces import ask_all
from tui.cli.gpus import reading_json


@settings(max_examples=80, deadline=None)
@given(host=hosts())
def test_gpus_of_a_run_are_the_same_everywhere(worlds: Worlds, host: DrawnHost) -> None:
    with worlds(host) as world:
        reading, leases = latest(world.state), held_leases(world.state)
        assert reading is not None
        rows = reading_json(reading, leases)["gpus"]
        for run in world.runs():
            found = ask_all(world, run)
            for surface, row in found.rows.items():
                assert list(row.gpus) == found.json["gpus"], surface
            shown = indices(found.json["gpus"])
            assert found.status["GPUs"] == found.details["GPUs"]
            assert found.details["GPUs"].startswith(shown or ("not given", "none"))
            held = {
                uuid for uuid, kept in leases.items() if run.id in {lease.run for lease in kept}
            }
            by_json = {row["uuid"] for row in rows if run.id in {one["run"] for one in row["runs"]}}
            assert held == by_json
            assert held == (set(found.json["gpu_uuids"]) if run.is_live else set())
