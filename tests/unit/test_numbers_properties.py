"""Numbers and places in any text: taken whole or not at all, whatever stands around them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.model.spec import MetricRule
from runners.watch.metrics.numbers import whole_number
from runners.watch.metrics.readers.line_position import find_place
from runners.watch.metrics.readers.named_values import named_values
from runners.watch.metrics.reading import OutputReader
from runners.watch.metrics.sample import Sample
from runners.watch.metrics.series_set import SeriesSet

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
FORMS = st.sampled_from(["{}", "{:.4f}", "{:.3e}", "{:g}", "{:,.2f}", "{:+.5f}"])
NOT_A_NUMBER = st.sampled_from(
    ["GB", "k", "x", "M", "×", "°", "/10", "/it", "-11", ":30", "e", "_1", ",5", "..", ".3.1", "b"]
)


@settings(max_examples=300, deadline=None)
@given(NUMBERS, FORMS)
def test_every_number_that_python_prints_is_read_as_python_reads_it(
    value: float, form: str
) -> None:
    text = form.format(value)
    assert whole_number(text) == float(text.replace(",", ""))
    assert named_values(f"step 3 | loss: {text} | lr=0.1") == {
        "loss": float(text.replace(",", "")),
        "lr": 0.1,
    }


@settings(max_examples=300, deadline=None)
@given(NUMBERS, FORMS, NOT_A_NUMBER)
def test_a_number_that_goes_on_as_something_else_is_not_taken(
    value: float, form: str, rest: str
) -> None:
    text = form.format(value) + rest
    assert "loss" not in named_values(f"step 3 | loss: {text}")
    assert whole_number(text) is None


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_the_readers(text: str) -> None:
    reader = OutputReader(MetricRule())
    for line in text.splitlines():
        assert all(isinstance(sample, Sample) for sample in reader.read(line.encode()))
    reader.finish()


EPOCHS = st.sampled_from(
    [
        "Epoch [{e}/{E}], Step [{s}/{S}], Loss: {v}",
        "Epoch: [{e}][ {s}/{S}]\tLoss {v} ({v})",
        "| epoch {e:3d} | {s:5d}/{S:5d} batches | loss {v}",
        "epoch {e}/{E} step {s}/{S} loss={v}",
        "[{e}/{E}][{s}/{S}] loss: {v}",
        "Epoch(train) [{e}][{s}/{S}]  loss: {v}",
    ]
)


@settings(max_examples=150, deadline=None)
@given(EPOCHS, st.integers(0, 1), st.integers(1, 5), st.integers(1, 7), st.integers(0, 1))
def test_epochs_from_0_and_from_1_keep_every_value(
    form: str, first: int, epochs: int, steps: int, first_step: int
) -> None:
    reader, series = OutputReader(MetricRule()), SeriesSet("output")
    printed: list[float] = []
    for e in range(epochs):
        for s in range(steps):
            value = round(3.0 - 0.01 * (e * steps + s), 4)
            printed.append(value)
            line = form.format(e=e + first, E=epochs, s=s + first_step, S=steps, v=value)
            (sample,) = reader.read(line.encode())
            assert sample.epoch == e + 1
            series.note(sample)
    assert list(series.series["loss"].values) == printed
    assert list(series.series["loss"].steps) == [
        e * steps + s + first_step for e in range(epochs) for s in range(steps)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 3 | Batchsize: 16 | Steps: 16 | Loss: 0.4",
        "number of nan iterations:   0 | loss: 2",
        "elapsed time per iteration (ms): 512.3",
        "Steps: 16",
        "skipped iterations: 3",
        "eval_steps: 500",
        "warmup steps: 100/1000",
    ],
)
def test_lengths_and_counts_are_no_steps(line: str) -> None:
    assert find_place(line).step is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Accuracy: 9300/10000 (93%)", {"accuracy": 93.0}),
        ("Accuracy: 9300/10000", {}),
        ("loss: 0.4500: mem=2.1GB", {"loss": 0.45}),
        ("lr=[0.0001]", {"lr": 0.0001}),
        ("lr=[0.0001, 0.0002]", {}),
        ("loss: tensor(0.25, device='cuda:0')", {"loss": 0.25}),
        ("loss 6.9e+00 (6.8e+00)", {"loss": 6.9, "loss_avg": 6.8}),
        ("MemAllocated=2.1GB loss=1", {"loss": 1.0}),
        ("date: 2026-11-21 loss: 2", {"loss": 2.0}),
        ("loss: 0.5.", {"loss": 0.5}),
    ],
)
def test_values_in_the_forms_that_programs_use(text: str, value: dict[str, float]) -> None:
    assert named_values(text) == pytest.approx(value)
