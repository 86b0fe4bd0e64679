"""A process of ours whose source is replaced begins again from the new one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners.host import replaced_code
from tests.support import CEILING_S

TELLS = """
import json, os, sys
sys.path.insert(0, {place!r})
from runners.host import replaced_code
times = int(os.environ["TIMES"])
os.environ["TIMES"] = str(times + 1)
kept = int(os.environ.setdefault("KEPT", str(os.dup(0))))
replaced_code.begin_anew_when_replaced(kept=[kept])

def install():
    while os.stat({late!r}).st_ctime <= replaced_code._BEGUN:  # a clock of a few milliseconds
        with open({late!r}, "w") as late:
            late.write("VALUE = 2")

{does}
from runners.late import VALUE
os.fstat(kept)
print(json.dumps([os.getpid(), times, VALUE, replaced_code.is_replaced()]))
"""


@pytest.fixture
def told(tmp_path: Path) -> Callable[[str], list[Any]]:
    """What a process says that `does` something before its late import, whose value was 1: its pid,
    how often it had begun anew, the value, and whether what it has imported is replaced.
    """
    host = tmp_path / "runners" / "host"
    host.mkdir(parents=True)
    for folder in (host.parent, host):
        (folder / "__init__.py").touch()
    shutil.copy(replaced_code.__file__, host)
    late = host.parent / "late.py"
    late.write_text("VALUE = 1")

    def run(does: str) -> list[Any]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-S",
                "-c",
                TELLS.format(place=str(tmp_path), late=str(late), does=does),
            ],
            env={**os.environ, "TIMES": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        out, _ = process.communicate(timeout=CEILING_S)
        found = json.loads(out)
        assert found.pop(0) == process.pid
        return list(found)

    return run


def test_nothing_happens_where_nothing_is_replaced(told: Callable[[str], list[Any]]) -> None:
    assert told("") == [0, 1, False]


def test_it_begins_anew_with_the_descriptors_it_is_to_keep(
    told: Callable[[str], list[Any]],
) -> None:
    assert told("if not times: install()") == [1, 2, False]


def test_what_was_there_before_fits_though_its_time_is_still_to_come(
    told: Callable[[str], list[Any]],
) -> None:
    """The clock was set back since it was installed: each launch would begin anew."""
    past = "replaced_code._BEGUN -= 3600; replaced_code.begin_anew_when_replaced(kept=[kept])"
    assert told(past) == [0, 1, True]


def test_a_file_that_never_fits_is_taken_in_the_end(told: Callable[[str], list[Any]]) -> None:
    """As where the clock was wrong when it was installed."""
    assert told("install()") == [3, 2, True]


def test_a_fork_that_is_no_process_of_its_kind_goes_on(told: Callable[[str], list[Any]]) -> None:
    assert told("install(); replaced_code.stop_looking()") == [0, 2, True]


WHILE_REMOVED = """
if not times:
    import time, types
    folder, pauses = replaced_code._ROOT + "/runners", []
    os.rename(folder, folder + ".away")
    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 5:
            os.rename(folder + ".away", folder)
    replaced_code.time = types.SimpleNamespace(
        sleep=sleep, monotonic=time.monotonic, time=time.time
    )
"""


@pytest.mark.parametrize("then", ["", "if not times: replaced_code.leave_when_removed()"])
def test_what_was_removed_is_waited_for(told: Callable[[str], list[Any]], then: str) -> None:
    """An environment that is made again: its packages come back a while later."""
    assert told(WHILE_REMOVED + then) == [1, 1, False]


def test_nobody_leaves_whose_source_is_there(told: Callable[[str], list[Any]]) -> None:
    assert told("install(); replaced_code.leave_when_removed()") == [3, 2, True]
