"""Whose a run is where locks of other nodes say nothing: the last body that began."""

import json
from pathlib import Path
from threading import Thread

import pytest

from runners.lifecycle.supervisor.job_owner import JobOwner, Superseded
from runners.lifecycle.supervisor.record_keeper import RecordKeeper
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.records import record_fields
from tests.support import eventually


def _run(path: Path, **owner: str) -> RunDirectory:
    run = StateDirectory(path).run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    if owner:
        run.owner.write_text(json.dumps(owner))
    return run


def test_a_new_owner_waits_until_the_one_of_another_node_has_left(tmp_path: Path) -> None:
    run = _run(tmp_path, name="old", host="elsewhere", boot_id="x")
    owner = JobOwner(run)
    thread = Thread(target=owner.take)
    thread.start()
    eventually(lambda: json.loads(run.owner.read_text())["name"] != "old", what="its claim")
    assert thread.is_alive()
    run.owner_left.write_text("old")
    thread.join()
    owner.check()


def test_a_dead_owner_of_another_node_is_not_waited_for_beyond_its_time(tmp_path: Path) -> None:
    JobOwner(_run(tmp_path, name="old", host="elsewhere")).take(0.01)


def test_the_one_that_began_last_owns_it(tmp_path: Path) -> None:
    """Nothing is recorded by the other; on one machine the lock was proof enough."""
    run = _run(tmp_path)
    first = JobOwner(run)
    first.take()
    keeper = RecordKeeper(run, record_fields({}))
    keeper.check = first.check
    looker = JobOwner(run)
    assert keeper.write({"attempt": 1})
    JobOwner(run).take()
    for refused in (lambda: keeper.write({"attempt": 2}), first.check, looker.check):
        with pytest.raises(Superseded):
            refused()
    assert json.loads(run.state.read_text())["attempt"] == 1


def test_one_that_is_superseded_while_it_waits_does_not_begin(tmp_path: Path) -> None:
    run = _run(tmp_path, name="old", host="elsewhere")
    found: list[str] = []

    def take() -> None:
        try:
            JobOwner(run).take()
        except Superseded as other:
            found.append(str(other))

    thread = Thread(target=take)
    thread.start()
    eventually(lambda: json.loads(run.owner.read_text())["name"] != "old", what="its claim")
    run.owner.write_text(json.dumps({"name": "third", "host": "n3"}))
    thread.join()
    assert found == ["n3"]
    assert not run.owner_left.exists(), "the third has still to wait for the first"
