"""A run that is adopted while its lease is looked for goes from one sign of life to another."""

from pathlib import Path

import msgspec
import pytest

from runners.host.identity import boot_id
from runners.host.locks import acquire
from runners.model.plan import AssignedGpu
from runners.model.run import RunRecord
from runners.model.states import State
from runners.state import leases
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import held_leases
from tests.support import make_plan


@pytest.mark.parametrize("asked", ["holds_gpus", "_is_pending", "_may_restart"])
def test_its_gpus_stay_leased_whenever_its_adopter_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    state = StateDirectory(tmp_path / "state").create()
    run = state.run("20261120-101500-demo-7f3a")
    run.path.mkdir()
    plan = make_plan(run.id, gpus=(AssignedGpu(0, "GPU-0", "H100", 0),))
    run.plan.write_bytes(msgspec.json.encode(plan))
    state.live_marker(run.id).touch()
    real, taken = getattr(leases, asked), []

    def answer(directory: RunDirectory, *given: object) -> object:
        found = real(directory, *given)
        if not taken:  # between this answer and the next question
            taken.append(acquire(run.run_lock))
            run.leader.write_text("1\n")
            record = RunRecord(State.RUNNING, boot_id=boot_id(), started=1.0)
            run.state.write_bytes(msgspec.json.encode(record))
        return found

    monkeypatch.setattr(leases, asked, answer)
    assert [lease.run for lease in held_leases(state)["GPU-0"]] == [run.id]
