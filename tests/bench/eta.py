"""The time left of real programs, as their output is read, beside what it was.

`python tests/bench/eta.py` prints the table. Each `tests/samples/timed/*.jsonl` is the output of a
program that was run, piece by piece with its time; the first line says which it was. The clock is
the program's own processor time, as the machine was busy with other work, stretched to ten minutes.
"""

import json
import math
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from runners.model.run import Progress  # noqa: E402
from runners.model.spec import MetricRule  # noqa: E402
from runners.watch.metrics.progress import ProgressTracker  # noqa: E402
from runners.watch.metrics.reading import OutputReader  # noqa: E402

TIMED = REPOSITORY / "tests" / "samples" / "timed"
LASTS_S = 600.0
_LOOK_S = 1.0
_LONG_S = 30.0
_NEAR_END = 0.03
"""Of its training: so near to the end, only what the last step does is left."""


@dataclass(frozen=True)
class TimedOutput:
    """What a program printed: times in seconds from its start, and its totals in its preset."""

    program: str
    pieces: list[tuple[float, str]]
    epochs: int | None
    steps: int | None
    ended: float
    """When it first said the last thing that was new: a bar may be drawn again at the exit."""
    lasted: float
    """Seconds of processor time that it took."""


@dataclass(frozen=True)
class EtaErrors:
    """Of one program: looks after its first tenth, those without an ETA, and the errors."""

    program: str
    looks: int
    unknown: int
    errors: list[float]
    factors: list[float]


def load(path: Path) -> TimedOutput:
    """A recording, stretched to ten minutes."""
    head, *pieces = map(json.loads, path.read_text().splitlines())
    scale = LASTS_S / pieces[-1][0]
    times = [(at * scale, text) for at, text in pieces]
    tracker, reader, news, ended = ProgressTracker(), OutputReader(MetricRule()), None, 0.0
    for at, text in times:
        for line in re.split(r"[\r\n]", text):
            for sample in reader.read(line.encode()):
                tracker.note(sample)
        state = tracker.step, tracker.epoch, dict(tracker.metrics)
        news, ended = state, ended if state == news else at
    totals = head.get("epochs"), head.get("steps")
    return TimedOutput(head["program"], times, *totals, ended, pieces[-1][0])


def looks(output: TimedOutput) -> Iterator[tuple[float, Progress]]:
    """What is known at each look, a second apart, as a run's watcher has it."""
    reader, tracker = OutputReader(MetricRule()), ProgressTracker()
    pieces, rest, now = iter(output.pieces), "", 0.0
    at, piece = next(pieces)
    while now < output.ended:
        now = min(now + _LOOK_S, output.ended)
        while at <= now:
            # A bar's redraw ends with the next, which soon came and is mostly left out here.
            rest += f"{piece}\r" if piece.startswith("\r") else piece
            at, piece = next(pieces, (math.inf, ""))
        *lines, rest = re.split(r"[\r\n]", rest)
        for line in lines:
            for sample in reader.read(line.encode()):
                # What a program prints of its own pace is of another clock than this one.
                tracker.note(sample._replace(time=now, pace=None, eta=None))
        yield now, tracker.progress(now, output.epochs, output.steps)


def errors_of(output: TimedOutput) -> EtaErrors:
    """The errors after the first tenth of its training, relative to what was left."""
    errors: list[float] = []
    factors: list[float] = []
    began, unknown = None, 0
    for now, progress in looks(output):
        if began is None and (progress.step is not None or progress.epoch is not None):
            began = now
        left = output.ended - now
        lasts = output.ended - (began or 0.0)
        if began is None or not _NEAR_END * lasts < left < 0.9 * lasts:
            continue
        if progress.eta_s is None:
            unknown += 1
            continue
        errors.append(abs(progress.eta_s - left) / left)
        factors.append(progress.eta_s / left)
    return EtaErrors(output.program, len(errors) + unknown, unknown, errors, factors)


def main() -> None:
    """Print the table, and apart that of the programs recorded when the rules were made."""
    for folder in (TIMED, TIMED / "later"):
        _print_table(folder)


def _print_table(folder: Path) -> None:
    print(
        "| program | recorded | looks | without an ETA | median error | ETA / truth |\n"
        "|---|---|---|---|---|---|"
    )
    found = [(output, errors_of(output)) for output in map(load, sorted(folder.glob("*.jsonl")))]
    for output, errors in sorted(found, key=lambda pair: pair[0].lasted):
        text = "—", "—"
        if errors.errors:
            low, high = min(errors.factors), max(errors.factors)
            text = f"{statistics.median(errors.errors):.1%}", f"{low:.2f}–{high:.2f}"
        print(
            f"| {errors.program} | {output.lasted:.0f} s | {errors.looks} | {errors.unknown} "
            f"| {text[0]} | {text[1]} |"
        )
    print()
    _print_sum("all", [errors for _, errors in found])
    long = [errors for output, errors in found if output.lasted >= _LONG_S]
    _print_sum(f"recorded for {_LONG_S:.0f} s or longer", long)
    print()


def _print_sum(what: str, found: list[EtaErrors]) -> None:
    every = [error for errors in found for error in errors.errors]
    factors = [factor for errors in found for factor in errors.factors]
    looks, unknown = sum(e.looks for e in found), sum(e.unknown for e in found)
    print(
        f"{what}: {len(found)} recordings, an ETA at {1 - unknown / looks:.0%} of the looks, "
        f"median error {statistics.median(every):.1%}, "
        f"ETA / truth {min(factors):.2f}–{max(factors):.2f}, "
        f"beyond twice {sum(not 0.5 <= factor <= 2 for factor in factors):,} of {len(factors):,}"
    )


if __name__ == "__main__":
    main()
