"""Which of the stacks that were saved of a run are the newest."""

import os
from pathlib import Path

import msgspec
import pytest

from runners.diagnosis.stacks import StackDump, newest_stacks


@pytest.mark.parametrize("hour", ["013000", "033000"])
def test_the_newest_stacks_are_those_written_last_whatever_the_local_time(
    tmp_path: Path, hour: str
) -> None:
    # The clocks go back at three: half past two comes twice, and later hours before it.
    for at, name in enumerate(("20261025-023000", f"20261025-{hour}"), 1):
        path = tmp_path / "stacks" / name / "stacks.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(msgspec.json.encode(StackDump(float(at), "a stall", name, ())))
        os.utime(path, (at, at))
    dump = newest_stacks(tmp_path)
    assert dump is not None and dump.time == 2.0
