"""A line of a known shape says what the expressions say of it; no line is read by another's."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.watch.metrics.readers.line_position import StatedPlace, find_place
from runners.watch.metrics.readers.line_shapes import LineShapes
from runners.watch.metrics.readers.named_values import named_values

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
MADE_UP = """\
epoch: 17/2000 | step: 321/1000 | loss: 0.512345 | lr: 1e-04 | 1236.5 samples/s
loss_1: 0.5 loss_2: 0.25 acc@1: 70.5 (69.1) acc@5: 90
Train Epoch: 1 [640/60000 (1%)] Loss: 2.30 correct: 9/10 (90%)
step 1,234/10,000 loss -0.5 nan iterations: 0 loss (10): 3.5
Epoch [0/3], Step [10/100] loss=nan psnr= 7 7 7 t: 00:58 2026-11-23
[2][ 5/17] loss: 5 loss: 5 err: 5.5.5 x12 1.5x loss: 1e400
""".splitlines()


def _values_and_place(text: str) -> tuple[dict[str, float], StatedPlace]:
    return named_values(text), find_place(text)


def _renumbered(line: str, chance: random.Random) -> Iterator[str]:
    """The line, and more with other digits in it, some of them with another number of digits."""
    yield line
    for _ in range(4):
        yield re.sub(r"\d", lambda _: chance.choice("0123456789"), line)
        yield re.sub(r"\d+", lambda _: str(chance.randrange(10 ** chance.randint(1, 5))), line)


@pytest.mark.parametrize("chance", range(3))
def test_every_line_says_what_it_says_when_it_is_read_by_itself(chance: int) -> None:
    """All lines of all recorded programs, each with other digits besides; twice in one order."""
    assert list(SAMPLES.rglob("*.txt"))
    texts = [path.read_text("utf-8", "replace") for path in sorted(SAMPLES.rglob("*.txt"))]
    lines = list({line[:300] for text in texts for line in re.split(r"[\r\n]+", text)})
    drawn = random.Random(chance)
    drawn.shuffle(lines)
    shapes = LineShapes(_values_and_place)
    for line in (*MADE_UP, *lines[:1500]):
        for variant in [*_renumbered(line, drawn), line]:
            expected = _values_and_place(variant)
            # By their text: NaN is not itself.
            assert repr(shapes.read(variant)) == repr(expected), variant


def test_lines_of_a_shape_that_came_before_are_not_parsed_anew() -> None:
    parsed: list[str] = []

    def read(text: str) -> tuple[dict[str, float], StatedPlace]:
        parsed.append(text)
        return _values_and_place(text)

    shapes = LineShapes(read)
    for step in range(100, 1000):
        loss = 1 / step
        values, place = shapes.read(f"step: {step}/1000 | loss: {loss:.4f} | {10 * loss:.3f}s")
        assert (values["loss"], place.step, place.steps) == (float(f"{loss:.4f}"), step, 1000)
    assert len(parsed) < 10
