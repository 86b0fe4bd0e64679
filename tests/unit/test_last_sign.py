"""When a run was alive last whose end nobody saw, though the clock was set meanwhile."""

from pathlib import Path

import pytest

from runners.host.clock import Moment, moment_now
from runners.host.exit_status import read_exit_status, spell_exit_status
from runners.lifecycle.supervisor.record_keeper import last_sign, place_signs
from runners.state.layout import RunDirectory, StateDirectory

SECOND = 10**9
BEGAN = Moment(1000.0, "boot", 100 * SECOND)
HOUR = 3600.0


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = StateDirectory(tmp_path).run("20261120-101500-a-0001")
    run.path.mkdir(parents=True)
    return run


def test_the_waiter_s_word_is_exact_whatever_the_clock_was_set_to(run: RunDirectory) -> None:
    run.exit.write_text("137 1000.5 boot 4711250000000\n")
    run.output.write_text("x")  # by a clock that is far ahead
    found = last_sign(run, {"started": 1000.0, "began": tuple(BEGAN)}, moment_now())
    assert isinstance(found, Moment) and (found.boot, found.boot_ns) == ("boot", 4711_250_000_000)
    status = read_exit_status(run.exit)
    assert status is not None and status.code == 137


@pytest.mark.parametrize("content", ["", "x\n", "1 2\n", "1 2 boot x\n", "1 nan boot 3\n"])
def test_a_torn_exit_status_has_no_moment(run: RunDirectory, content: str) -> None:
    run.exit.write_text(content)
    status = read_exit_status(run.exit)
    assert status is None or status.moment is None


def test_an_exit_status_is_read_as_it_was_written(run: RunDirectory) -> None:
    now = moment_now()
    run.exit.write_bytes(spell_exit_status(3, now))
    status = read_exit_status(run.exit)
    assert status is not None and status.moment is not None and status.code == 3
    assert (status.moment.boot, status.moment.boot_ns) == (now.boot, now.boot_ns)
    assert status.moment.wall == pytest.approx(now.wall, abs=1e-6)


@pytest.mark.parametrize(
    ("line", "signs", "now", "seconds"),
    [
        # A line with both clocks, and a little output after it: cut off by a power cut.
        (Moment(1000 + HOUR, "boot", 3700 * SECOND), [1004 + HOUR], None, 3604.0),
        # The clock was three hours fast until shortly before the line was written.
        (Moment(1000 + HOUR, "boot", 3700 * SECOND), [1000 + 4 * HOUR - 60], None, None),
        # It was set back before the line: older files have later times, but within the line's.
        (Moment(1000 - HOUR, "boot", 3700 * SECOND), [900 - HOUR], None, 3600.0),
        # No GPU, and found dead in the same boot, whose clock nobody set.
        (None, [1000 + 60.0], Moment(1000 + HOUR, "boot", 3700 * SECOND), 60.0),
        # The same, but somebody set it: nobody knows before or after.
        (None, [1000 + 60.0], Moment(1000 + 2 * HOUR, "boot", 3700 * SECOND), None),
        # Another boot says nothing of this one's clock.
        (None, [1000 + 60.0], Moment(1000 + HOUR, "another", 60 * SECOND), None),
    ],
)
def test_files_have_the_wall_clock_only(
    line: Moment | None, signs: list[float], now: Moment | None, seconds: float | None
) -> None:
    found = place_signs(BEGAN, line, signs, now or Moment(9e9, "another", 0))
    if seconds is None:
        assert isinstance(found, float) and not isinstance(found, Moment)
        return
    assert isinstance(found, Moment) and found.boot_ns is not None
    assert found.boot_ns - (BEGAN.boot_ns or 0) == seconds * SECOND
