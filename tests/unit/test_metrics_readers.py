"""Lines as programs print them, and what they mean: with the traps of each."""

import json
import math
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from runners.model.spec import MetricPattern, MetricReader, MetricRule
from runners.model.states import State
from runners.watch.metrics.live import LiveReport
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.readers import GENERAL, SPECIFIC
from runners.watch.metrics.reading import OutputReader
from runners.watch.metrics.run_metrics import RunMetrics
from runners.watch.metrics.sample import Sample, headline, higher_is_better
from runners.watch.metrics.series_set import SeriesSet
from tests.support import make_run


def read(
    text: str, *readers: MetricReader, rule: MetricRule | None = None
) -> tuple[OutputReader, list[Sample]]:
    """Every sample in a text; the reader is guessed when none is named."""
    reader = OutputReader(rule or MetricRule(readers))
    samples = [sample for line in text.splitlines() for sample in reader.read(line.encode())]
    return reader, samples + reader.finish()


def values(samples: Sequence[Sample], name: str) -> list[tuple[float | None, float]]:
    """Step and value wherever a metric is told."""
    return [(sample.step, sample.values[name]) for sample in samples if name in sample.values]


PCDIFF = """\
2026-04-06 06:38:37,001 : Batch size: 8 per GPU × 8 GPUs = 64 effective global batch
2026-04-06 06:38:37,001 : Dataset: 455 samples, 7 batches/epoch/rank
2026-04-06 06:38:40,773 : Effective LR scaled to 5.660000e-04 using factor 1.000 (baseline batch=64, current batch=64)
2026-04-06 06:38:43,991 : [  0/5000][  0/  7]    loss:     1.0364,    grad_norm:    33.6411
2026-04-06 06:38:54,243 : Epoch 0: All ranks completed 7 steps ✓
2026-04-06 06:38:56,331 : New best model saved at epoch 0 with loss 0.777654
2026-04-06 06:39:57,000 : [  1/5000][  0/  7]    loss:        nan,    grad_norm:        inf
2026-04-06 06:50:10,179 : === PROXY EVALUATION at epoch 50 ===
2026-04-06 06:50:10,202 :   Loss (last 50 ep): median=0.2721, p10=0.1803, p90=0.5305
2026-04-06 06:50:12,000 : Proxy eval complete: DSC=0.81, bDSC=0.74, HD95=3.2 (10/10 samples)
\x1b[1m[  9/5000][  0/  7]    loss:     9.9999\x1b[0m goes on without a time
"""


def test_pcdiff_counts_from_zero_and_prints_one_batch() -> None:
    reader, samples = read(PCDIFF)
    assert reader.names == ("pcdiff",)
    assert values(samples, "base_learning_rate") and not values(samples, "learning_rate")
    assert values(samples, "loss_batch")[0] == (1, 1.0364) and math.isnan(
        values(samples, "loss_batch")[1][1]
    )
    assert values(samples, "loss_batch")[1][0] == 8 and len(values(samples, "loss_batch")) == 2
    assert values(samples, "grad_norm") == [(1, 33.6411), (8, math.inf)]
    assert values(samples, "best_loss") == [(7, 0.777654)]
    assert "loss" not in {name for sample in samples for name in sample.values}
    step = next(sample for sample in samples if "loss_batch" in sample.values)
    assert (step.epoch, step.epochs, step.steps) == (1, 5000, 35_000)
    assert step.time == pytest.approx(time.mktime((2026, 4, 6, 6, 38, 43, 0, 0, -1)) + 0.991)
    assert [s.batch for s in samples if s.batch] == [64]
    assert values(samples, "bdsc") == [(None, 0.74)] and values(samples, "loss_p90_50") == [
        (None, 0.5305)
    ]


def test_pcdiff_s_older_form_has_no_norm() -> None:
    _, samples = read("2025-10-24 06:38:43,991 : [ 12/15000][ 10/ 56]    loss:     0.1870,    \n")
    assert samples[0].values == {"loss_batch": 0.187} and samples[0].step == 12 * 56 + 11


VOXELIZATION = """\
Outout dir: out/x
Number of parameters: 1085272
[Epoch 00] it=0, loss=0.0523 loss_psr=0.0523 time=9.100 / 9.10
[Epoch 07] it=1370, loss=0.0123 loss_psr=0.0123 time=1.234 / 1690.12
Validation metric (psr_l2): 0.0123
New best model (loss 0.0123), epoch 10
"""

VOXELIZATION_BARS = """\
  Total epochs:            1300
  Batch size:              2
  Iterations per epoch:    57
Epoch 001/1300: 100%|██████████| 57/57 [00:48<00:00,  1.18it/s, loss=0.0210, avg_loss=0.0157]
────────────────────────────────────────
Epoch 001/1300 Summary:
  Loss: 0.015623 (psr=0.015623)
  Time: 0:00:48 | Elapsed: 0:00:48 | ETA: 34:38:24
  Metric (psr_l2): 0.0311
  psr_l1: 0.0451
  Best psr_l2: 0.0311 (epoch 1)
"""


def test_voxelization_counts_iterations_from_zero() -> None:
    reader, samples = read(VOXELIZATION)
    assert reader.names == ("voxelization", "pairs")
    assert values(samples, "loss_batch") == [(1, 0.0523), (1371, 0.0123)]
    assert [s.epoch for s in samples if "best_loss" not in s.values] == [1, 8, 8] and samples[
        1
    ].pace == 1.234
    assert values(samples, "val/psr_l2") == [(1371, 0.0123)]


def test_voxelization_s_summary_is_the_epoch_s_mean_and_its_bar_one_batch() -> None:
    reader, samples = read(VOXELIZATION_BARS)
    assert reader.names[0] == "voxelization"
    assert values(samples, "loss") == [(57, 0.015623)] and values(samples, "loss_batch") == [
        (57, 0.021)
    ]
    assert (
        values(samples, "val/psr_l1") == [(57, 0.0451)] and len(values(samples, "val/psr_l2")) == 1
    )
    assert any(s.epochs == 1300 for s in samples) and any(s.steps == 1300 * 57 for s in samples)


FRESNEL = """\
Training Experiment 2
Batch size: 256
Epochs: 2
Learning rate: 0.0001
Model parameters: 632,257
  - Estimated total speedup: 19.2×

Epoch 1/2
  Batch 0/25 | Loss: 1.0254 | RGB: 0.4608 | SSIM: 0.8989 | LPIPS: 0.8783
  Batch 10/25 | Loss: 1.0012 | RGB: 0.4508
  Warning: NaN/Inf loss at batch 13, skipping
Epoch 1 complete | Time: 35.0s | Loss: 0.9715 | RGB: 0.4283
Saved checkpoint to checkpoints/decoder_exp2_epoch1.pt
New best loss: 0.9715
"""


def test_a_line_of_debugging_says_nothing_of_the_metrics() -> None:
    text = "step 1/9 | loss: 0.5 | ssim: 0.5\n[Debug] Loss components: ssim=0.2000, loss=0.1\n"
    _, samples = read(text * 2)
    assert {value for _, value in values(samples, "ssim")} == {0.5}
    assert {value for _, value in values(samples, "loss")} == {0.5}


def test_fresnel_s_ssim_is_one_minus_ssim_and_batches_count_from_zero() -> None:
    _, strange = read(FRESNEL)
    assert values(strange, "ssim_batch") == [(1, 0.8989)], "nothing is put right on a guess"
    assert all("ssim_batch" in one.running for one in strange if "ssim_batch" in one.values)
    reader, samples = read(FRESNEL, "fresnel")
    assert not any(found.running for found in samples)
    assert reader.names == ("fresnel",) and any("1 − SSIM" in note for note in reader.notes)
    batches = values(samples, "loss_batch")
    assert (
        batches[:2] == [(1, 1.0254), (11, 1.0012)]
        and batches[2][0] == 14
        and math.isnan(batches[2][1])
    )
    assert values(samples, "loss") == [(25, 0.9715)]
    assert values(samples, "ssim_loss_batch") == [(1, 0.8989)]
    assert values(samples, "ssim_batch") == [(1, pytest.approx(1 - 0.8989))]
    assert (
        samples[-1].steps == 50
        and samples[-1].pace == pytest.approx(35 / 25)
        and samples[-1].epochs == 2
    )


def test_fresnel_s_other_trainer() -> None:
    _, samples = read(
        "Epoch 1/150 [0/125] loss: 0.4941 (l1_w: 0.2100, perc: 0.5600, cons: 0.0100) lr: 1.00e-04\n"
        "Epoch 1 Summary\nAverage Loss: 0.1148\nTime: 61.0s\n",
        "fresnel",
    )
    assert values(samples, "loss_batch") == [(1, 0.4941)] and values(samples, "perc_batch") == [
        (1, 0.56)
    ]
    assert values(samples, "lr") == [(1, 1e-4)] and values(samples, "loss") == [(125, 0.1148)]


CASCADE_A = """\
Total parameters: 147,244,979
Training Stage 1/3: stage1
Train batches: 25
Epoch 1/100 [Train]:  48%|████▊     | 12/25 [00:58<01:03,  4.9s/it, loss=0.613, diff=0.613, phys=0]
Epoch 1/100 [Train]: 100%|██████████| 25/25 [02:03<00:00,  4.9s/it, loss=0.512, diff=0.512, phys=0]
Epoch 1/100:
  Train - Total: 0.612345, Diff: 0.612345, Phys: 0.000000
  Val   - Total: 0.601234, Diff: 0.601234, Phys: 0.000000
  Metrics - PSNR: 8.42 dB, SSIM: 0.0126, LPIPS: 0.5482
  ✓ Saved best checkpoint: checkpoints_4gpu/stage1_best.pt (PSNR: 8.42 dB)
[WARNING] Failed to calculate PSNR/SSIM: boom
  Metrics - PSNR: 0.00 dB, SSIM: 0.0000, LPIPS: 0.5482
Training Stage 2/3: stage2
Epoch 1/30 [Train]: 100%|██████████| 50/50 [02:03<00:00,  4.9s/it, loss=0.4, diff=0.4, phys=0]
Training Stage 3/3: stage3
Epoch 1/20 [Train]:  10%|█         | 5/50 [02:03<00:00,  4.9s/it, loss=0.4, diff=0.4, phys=0]
"""


def test_cascade_s_stages_follow_each_other() -> None:
    reader, samples = read(CASCADE_A, "cascade")
    assert reader.names == ("cascade",)
    assert [step for step, _ in values(samples, "loss_batch")] == [12, 25, 75, 80]
    assert values(samples, "train/total") == [(25, 0.612345)] and values(samples, "val/total") == [
        (25, 0.601234)
    ]
    assert values(samples, "psnr") == [(25, 8.42)], "0.00 means that the metric failed"
    assert [s.steps for s in samples if s.steps] == [75 + 20 * 50], (
        "only the last stage's end is the run's"
    )
    assert {s.phase for s in samples if s.step} == {"stage 1/3", "stage 2/3", "stage 3/3"}
    assert samples[1].pace == pytest.approx(4.9)


def test_cascade_regression_prints_one_minus_ssim() -> None:
    reader, samples = read(
        "Epoch 3/10\nLearning rate: 0.000100\nEpoch 3 [10/25] Loss: 0.4312 | L1: 0.2101 | SSIM: "
        "0.4422 | 6.31 samples/s\n  PSNR: "
        "13.77 dB\n"
        "  ✓ New best model saved! PSNR: 13.77 dB\n",
        "cascade",
    )
    assert reader.names == ("cascade",)
    assert values(samples, "ssim_batch") == [(61, pytest.approx(1 - 0.4422))]
    assert values(samples, "val/psnr") == [(61, 13.77)] and values(
        samples, "samples_per_second"
    ) == [(61, 6.31)]
    assert values(samples, "learning_rate") == [(None, 1e-4)]


def test_a_psnr_is_never_moved_on_a_guess_and_a_loss_of_zero_goes_where_the_preset_says() -> None:
    reader, samples = read(
        "Epoch 5 | Stage 2 | Batch 10/40 | Loss: 0.1234 | PSNR: 27.63 dB | SSIM: 0.4975 | "
        "1.25 batch/s\n"
        "Epoch 5/100 - Time: 96.0s\nTrain - Loss: 0.000000 | PSNR: 27.01 dB | SSIM: 0.4800\n"
        "Val   - Loss: 0.000000 | PSNR: 26.01 dB | SSIM: 0.4700\nLR: 4.97e-05\n",
        "cascade",
    )
    assert reader.names == ("cascade",)
    assert values(samples, "psnr_batch")[0][1] == 27.63
    assert values(samples, "val/psnr")[0][1] == 26.01
    assert values(samples, "val/ssim")[0][1] == 0.47, "SSIM is SSIM here"
    assert not values(samples, "train/loss") and not values(samples, "val/loss")


TQDM = "Epoch 0:  48%|████▊     | 12/25 [00:58<01:03,  4.9s/it, loss=0.613, acc=1.5e-3]"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([TQDM, TQDM.replace("Epoch 0", "Epoch 1")], [(12, None, 1), (37, None, 2)]),
        (["Epoch 2/3: 100%|█| 25/25 [00:10<00:00, 2.5it/s, loss=1]"], [(50, 75, 2)]),
        (["Epoch [3/10]:  40%|████      | 10/25 [00:58<01:03, 2.50it/s]"], [(60, 250, 3)]),
        ([" 20%|██        | 100/500 [00:10<00:40, 9.50it/s]"], [(100, 500, None)]),
        (["train:  20%|██  | 1.00k/5.00k [00:10<00:40, 9.50it/s, loss=nan]"], [(1000, 5000, None)]),
        (["50%|█ | 1/2 [00:01<?, ?it/s]", "100%|█| 2/2 [00:01<?, ?it/s]",
            "50%|█ | 1/2 [00:01<?, ?it/s]"],
         [(1, 2, None), (2, 2, None), (3, None, 2)]),
        (["Epochs:  30%|███       | 3/10 [00:10<00:40, 9.5s/it]", "20%|██  | 1/5 "
"[00:10<00:40, 9.5it/s]"],
         [(None, None, 4), (16, 50, 4)]),
        (["12it [00:58,  4.9s/it, loss=0.6]"], [(12, None, None)]),
    ],
)  # fmt: skip
def test_tqdm_s_bars(
    lines: list[str], expected: list[tuple[float | None, float | None, float | None]]
) -> None:
    reader, samples = read("\n".join(lines), "tqdm")
    totals = [None if s.steps is None or math.isnan(s.steps) else s.steps for s in samples]
    places = [(s.step, of, s.epoch) for s, of in zip(samples, totals, strict=True)]
    assert places == expected
    assert reader.names == ("tqdm",)


BAR = " 40%|████      | 40/100 [00:01<00:01, 38.1it/s, loss=0.193, lr=0.0082]"


@pytest.mark.parametrize(
    "behind",
    [
        "epoch 1: train_loss: 0.4001 eval accuracy: 96.72%",
        " epoch 1: [val] train_loss: 0.4001 eval accuracy: 96.72%",
        "Epoch 1 [3/5] train_loss: 0.4001 eval accuracy: 96.72%",
    ],
)
@pytest.mark.parametrize("bar", [BAR, BAR.replace(" 40%|████      | 40/100", "40it")])
def test_text_behind_a_live_bar_is_a_line_of_its_own(bar: str, behind: str) -> None:
    _, samples = read(f"{bar}\n{bar}{behind}\n")
    assert samples[-2].values == {"loss": 0.193, "lr": 0.0082} and samples[-2].step == 40
    found = {name.rpartition("/")[2]: value for name, value in samples[-1].values.items()}
    assert found == {"train_loss": 0.4001, "eval_accuracy": 96.72}


DIFFUSERS = """\
11/22/2026 10:00:00 - INFO - __main__ -   Num Epochs = 4
11/22/2026 10:00:00 - INFO - __main__ -   Total optimization steps = 160
  0%|          | 0/40 [00:00<?, ?it/s]
Epoch 0:   2%|▎         | 1/40 [00:00<00:10, 4.0it/s, loss=1.0, lr=0.001, step=1]
Epoch 0: 100%|██████████| 40/40 [00:10<00:00, 4.0it/s, loss=0.5, lr=0.001, step=40]
  0%|          | 0/40 [00:00<?, ?it/s]
Epoch 1:   2%|▎         | 1/40 [00:00<00:10, 4.0it/s, loss=0.4, lr=0.001, step=41]
Epoch 3: 100%|██████████| 40/40 [00:10<00:00, 4.0it/s, loss=0.3, lr=0.001, step=160]
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (DIFFUSERS, (160, 160, 4)),
        (DIFFUSERS.split("160\n", 1)[1], (160, None, 4)),  # as no script of theirs says the totals
        # Resumed, so that the first epoch that is printed is not the first: the step says it.
        (DIFFUSERS.split("step=40]\n", 1)[1], (160, None, 3)),
    ],
)
def test_a_bar_per_epoch_with_the_step_of_the_whole_run(
    text: str, place: tuple[float | None, ...]
) -> None:
    _, samples = read(text)
    tracker, reached = ProgressTracker(), 0
    for sample in samples:
        tracker.note(sample)
        progress = tracker.progress(0.0)
        assert progress.step is None or progress.steps is None or progress.step <= progress.steps
        assert (progress.step or 0) >= reached, "a bar that begins anew is the next epoch's"
        reached = progress.step or 0
    assert (tracker.step, tracker.steps, tracker.epoch) == place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Accuracy of the network on the 10000 test images: 70 %", {"test_accuracy": 70}),
        ("Accuracy of the model on the validation set: 0.91", {"validation_accuracy": 0.91}),
        ("Iteration 3, loss = 0.25\nValidation score: 0.885000", {"validation_score": 0.885}),
        ("120/120 - 20s - 170ms/step - accuracy: 0.82 - loss: 0.37",
            {"accuracy": 0.82, "loss": 0.37}),
        ("      Iter       Train Loss      OOB Improve   Remaining Time \n"
         "         1           1.3274           0.0484            5.91s",
         {"train_loss": 1.3274, "oob_improve": 0.0484}),
        ("E    #       LOSS TEXTCAT  CATS_SCORE  SCORE \n---  ------  ------------  ----------  "
         "------\n"
         "  0     200          4.25       50.10    0.50",
         {"loss_textcat": 4.25, "cats_score": 50.1, "score": 0.5}),
        ("  epoch    train_loss    valid_acc    valid_loss     dur\n-------  ------------  "
         "-----------  ------------  ------\n"
         "      1        \x1b[36m0.6905\x1b[0m       \x1b[32m0.5450\x1b[0m        0.6812  0.0437",
         {"train_loss": 0.6905, "valid_acc": 0.545, "valid_loss": 0.6812}),
        ("Epoch [1/5]: [2/120]   2%|▏         , loss=0.687 [00:00<00:08]", {"loss": 0.687}),
        ("[I 2026-11-22 22:18:44,256] Trial 0 finished with value: 0.81 and parameters: {'n': 56, "
         "'lr': 0.1}. "
         "Best is trial 0 with value: 0.81.", {"value": 0.81, "best_value": 0.81}),
    ],
)  # fmt: skip
def test_what_programs_print_in_forms_of_their_own(text: str, expected: dict[str, float]) -> None:
    _, samples = read(text)
    assert dict(samples[-1].values) == expected


def test_the_time_left_as_a_program_prints_it() -> None:
    _, samples = read("360:\ttest: 0.94\tbest: 0.95 (210)\ttotal: 1m 19s\tremaining: 1m 8.5s\n")
    assert samples[0].eta == 68.5
    _, samples = read("epoch 1 iter 20: loss 0.5 eta: 0:01:10")
    assert samples[0].eta == 70


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("250:\ttest: 0.94\tbest: 0.95 (210)\ttotal: 52.9s\tremaining: 31.31.4s", "test"),
        ("12/25 ━━━━━━━━━ 3s 10.1.2ms/step - loss: 0.69", "loss"),
        (" 40%|████      | 40/100 [00:04<00:06,  9.8.7it/s, loss=0.5]", "loss"),
    ],
)
def test_a_time_that_is_no_number_costs_no_value_beside_it(line: str, named: str) -> None:
    _, samples = read(line + "\n")
    assert named in samples[0].values and samples[0].eta is None and samples[0].pace is None


def test_the_reward_is_the_headline_of_reinforcement_learning() -> None:
    assert headline(["train/loss", "rollout/ep_rew_mean"]) == "rollout/ep_rew_mean"
    assert headline(["loss", "reward", "reward_std"]) == "reward"
    assert higher_is_better("rollout/ep_rew_mean") and higher_is_better("critic/rewards/mean")
    assert higher_is_better("reward_std") is None


def test_tqdm_s_values_and_pace_are_read_and_validation_moves_nothing() -> None:
    _, samples = read(
        TQDM + "\nValidation:  50%|█████     | 5/10 [00:01<00:01, 5.0it/s, loss=0.7]", "tqdm"
    )
    assert samples[0].values == {"loss": 0.613, "acc": 0.0015} and samples[0].pace == pytest.approx(
        4.9
    )
    assert samples[1].values == {"validation/loss": 0.7} and samples[1].step is None


@pytest.mark.parametrize("quote", ["0.5", "'0.5'"])
def test_hugging_face_s_dictionaries_stand_where_its_bar_is(quote: str) -> None:
    reader, samples = read(
        "  2%|▏         | 10/500 [00:01<00:52,  9.42it/s]\n"
        f"{{'loss': {quote}, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.06}}\n"
        "100%|██████████| 20/20 [00:01<00:00, 19.4it/s]\n"
        f"{{'eval_loss': {quote}, 'eval_runtime': 1.2, 'epoch': 0.06}}\n"
        "  4%|▍         | 20/500 [00:02<00:50,  9.42it/s]{'loss': 0.25, 'epoch': 0.12}\n"
    )
    assert reader.names == ("huggingface",)
    assert values(samples, "loss") == [(10, 0.5), (20, 0.25)] and values(samples, "eval_loss") == [
        (10, 0.5)
    ]
    assert [s.steps for s in samples if s.steps] and {s.steps for s in samples} == {500}


def test_the_pace_of_a_resumed_bar_is_not_its_leap_to_the_checkpoint() -> None:
    tracker, total = ProgressTracker(), 5_000
    reader = OutputReader(MetricRule())
    for seconds, done in [(0, 0), *((n, 4_000 + n) for n in range(1, 301))]:
        line = f" {100 * done // total}%|██  | {done}/{total} [00:{seconds % 60:02}<?, ?it/s]"
        for sample in reader.read(line.encode()):
            tracker.note(sample._replace(time=float(seconds), pace=None, eta=None))
        left, eta = total - done, tracker.progress(float(seconds)).eta_s
        assert eta is None or left / 2 < eta < 2 * left, (seconds, eta)
    assert eta is not None and tracker.progress(300.0).fraction == 4_300 / total


def test_lightning_counts_epochs_from_zero() -> None:
    _, samples = read(
        "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 10.0it/s]\n"
        "Epoch 3:  48%|████▊     | 12/25 [00:58<01:03,  0.20it/s, v_num=0, train_loss_step=0.613]\n"
        "Validation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 10.0it/s]\n"
        "Epoch 4/9  ━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━━━━━━ 12/25 0:00:03 • 0:00:04 3.51it/s "
        "v_num: 0.000 "
        "train_loss: 0.5\n",
        "lightning",
    )
    assert [(s.step, s.steps, s.epoch, s.epochs) for s in samples] == [
        (87, None, 4, None),
        (112, 250, 5, 10),
    ]
    assert samples[0].values == {"train_loss_step": 0.613} and samples[1].values == {
        "train_loss": 0.5
    }


def test_keras_of_both_ages() -> None:
    reader, samples = read(
        "Epoch 2/10\n"
        "\x1b[1m12/25\x1b[0m \x1b[32m━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━━\x1b[0m "
        "\x1b[1m3s\x1b[0m 10ms/step - "
        "accuracy: 0.5100 - loss: 0.6931\n"
        "25/25 [==============================] - 1s 40ms/step - loss: 0.5 - accuracy: 0.6 - "
        "val_loss: 0.7\n"
    )
    assert reader.names == ("keras",)
    assert values(samples, "loss") == [(37, 0.6931), (50, 0.5)] and values(samples, "val_loss") == [
        (50, 0.7)
    ]
    assert (samples[1].steps, samples[1].epochs, samples[1].pace) == (250, 10, 0.01)


@pytest.mark.parametrize(
    ("line", "expected", "place"),
    [
        ("step 20/100 | loss: 0.5 | lr=1e-4", {"loss": 0.5, "lr": 1e-4}, (20, 100, None)),
        ("iter 10: loss 2.3412, time "
"12.5ms, mfu 1.20%", {"loss": 2.3412, "mfu": 1.2}, (10, None, None)),
        ("step 0: train loss 4.2, "
"val loss 4.3", {"train_loss": 4.2, "val_loss": 4.3}, (0, None, None)),
        ("Epoch   10 | Loss: 0.302702 | Best: 0.302702 | LR: 2.00e-04 | 2939s",
         {"loss": 0.302702, "best_loss": 0.302702, "lr": 2e-4}, (None, None, 10)),
        ("epoch=3, step=1,200, loss=.25, acc=91.2%", {"loss": 0.25, "acc": 91.2}, (1200, None, 3)),
        ("2026-11-20 10:11:12,123 INFO epoch 2 loss: 4e-1", {"loss": 0.4}, (None, None, 2)),
        ("epoch 2/5  step 20/25  loss "
"0.2414  ssim 0.9", {"loss": 0.2414, "ssim": 0.9}, (45, 125, 2)),
        ("[rank0]: step=5 loss=1.5", {"loss": 1.5}, (5, None, None)),
    ],
)  # fmt: skip
def test_lines_of_pairs(
    line: str, expected: dict[str, float], place: tuple[float | None, ...]
) -> None:
    reader, samples = read(line)
    assert reader.names == ("pairs",)
    assert dict(samples[0].values) == expected
    assert (samples[0].step, samples[0].steps, samples[0].epoch) == place


@pytest.mark.parametrize(
    "line",
    ["Batch size: 256", "Epochs: 100", "Learning rate: 0.0001", "Found 500 images in data",
     "Train batches: 25", "World Size: 4", "Port: 29500",
     "Estimated total speedup: 19.2×", "[rank3]: step=5 loss=1.5", "listening on "
"127.0.0.1:8080 (pid=12)",
     "Downloading: 10%|█ | 1/10 [00:01<00:09, 1.0it/s]"],
)  # fmt: skip
def test_settings_and_other_ranks_are_no_metrics(line: str) -> None:
    reader, samples = read(line)
    assert not any(sample.values for sample in samples) and not any(
        sample.step for sample in samples
    )
    assert reader.names == ()


def test_a_reader_that_fits_one_line_does_not_shut_out_the_others() -> None:
    reader, samples = read(
        " 10%|█ | 1/10 [00:01<00:09, 1.0it/s, loss=3]\n"
        '2026-11-21 | INFO | train | {"epoch": 1, "train_loss": "2.5", "train_num_updates": "10"}\n'
        "step 11 | loss: 0.5\n"
    )
    assert reader.names == ("json", "tqdm", "pairs")
    assert values(samples, "loss") == [(1, 3), (11, 0.5)]
    assert values(samples, "train_loss") == [(10, 2.5)]


def test_patterns_of_a_preset() -> None:
    rule = MetricRule(
        patterns=(
            MetricPattern(r"batch (?P<step>\d+) L=(?P<l>\S+)", {"step": 1}),
            MetricPattern(r"^(?P<name>\w+) -> (?P<value>\S+)"),
        ),
        rename={"l": "loss"},
    )
    reader, samples = read("batch 0 L=0.5\nscore -> 12\nbatch 1 L=oops\nloss: 3\n", rule=rule)
    assert reader.names == ("patterns",)
    assert values(samples, "loss")[0] == (1, 0.5) and math.isnan(values(samples, "loss")[1][1])
    assert values(samples, "score") == [(None, 12)] and len(samples) == 3


def test_offsets_and_names_go_for_readers_too() -> None:
    _, samples = read(
        "step 4 loss: 2",
        rule=MetricRule(("pairs",), offset={"step": 1}, rename={"loss": "train/loss"}),
    )
    assert samples[0].step == 5 and samples[0].values == {"train/loss": 2}


def test_endless_lines_and_wild_bytes_are_passed_over() -> None:
    reader = OutputReader(MetricRule())
    for line in (
        b"a=1 " * 50_000,
        b"\xff\xfe loss: \x00 9",
        b"\x1b[" * 1000 + b"9",
        b"word " * 20_000 + b"1",
        b"9" * 5000,
    ):
        reader.read(line)
    (sample,) = reader.read(b"step 1 loss: 0.5")
    assert sample.values == {"loss": 0.5}


def test_every_reader_that_a_preset_may_name_exists() -> None:
    assert {*GENERAL, *SPECIFIC, "none"} == set(MetricReader.__args__)  # type: ignore[attr-defined]


def test_names_tell_the_headline_and_what_is_better() -> None:
    assert (
        headline(["lr", "val_loss", "loss_batch"]) == "loss_batch"
        and headline(["lr", "acc"]) is None
    )
    assert headline(["my_loss", "lr"]) == "my_loss"
    assert (
        higher_is_better("val/psnr")
        and higher_is_better("acc")
        and higher_is_better("images_per_second")
    )
    assert higher_is_better("rollout/ep_rew_mean") and higher_is_better("val/lpips") is False
    assert higher_is_better("ssim_loss") is False and higher_is_better("lr") is None


def test_a_collection_of_samples_without_steps_goes_by_epoch_or_count() -> None:
    collection = SeriesSet("output")
    for i in range(3):
        collection.note(Sample({"a": float(i)}, epoch=i + 1))
        collection.note(Sample({"b": float(i)}))
    assert list(collection.series["a"].steps) == [1, 2, 3] and list(
        collection.series["b"].steps
    ) == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        "Test: [   3/3]  Time: 0.5 (0.5)  Loss:   1.417 (1.482)",
        "Test (EMA): [   3/3]  Time: 0.5 (0.5)  Loss:   1.117 (1.182)",
        "2026-11-22 10:00:00 - Test: [   3/3]  Time: 0.5 (0.5)  Loss:   1.917 (1.482)",
        "Validate: 1 [0/3]  Loss: 0.7",
        "[Val] Epoch 1 loss: 0.3",
        "[test] loss=0.11",
        "Epoch 1 [Val] loss 0.41",
        "Epoch 1 | Val | loss 0.4",
        "Epoch 1 Test loss 0.42",
        "Epoch 1 validation: loss 0.43",
        "Epoch 1, Test, loss: 0.44",
    ],
)
def test_a_loss_of_held_out_data_never_joins_that_of_training(line: str) -> None:
    reader = OutputReader(MetricRule())
    (first,) = reader.read(b"Epoch 1 step 3 loss: 2.5")
    (sample,) = reader.read(line.encode())
    assert "loss" in first.values
    assert sample.values and not {"loss", "loss_avg"} & set(sample.values)


@pytest.mark.parametrize("line", ["Epoch 1 loss 0.5 val: 0.7", "step 3 (test: 0.3) loss 0.4"])
def test_a_held_out_value_behind_it_leaves_the_loss_with_training(line: str) -> None:
    (sample,) = OutputReader(MetricRule()).read(line.encode())
    assert "loss" in sample.values


@pytest.mark.parametrize(
    ("line", "epoch"),
    [
        ("Epoch 6/9 val_dice: 0.6 (best value: 0.7 at epoch: 2)", 6),
        ("Key metric: val_dice best value: 0.7 at epoch: 2", 5),
        ("best val_loss: 0.31 @ step 400, patience 2", 5),
        ("Epoch: 6/9 -- val_dice: 0.7, a new best", 6),
    ],
)
def test_where_the_best_was_is_not_where_the_run_is(line: str, epoch: float) -> None:
    reader = OutputReader(MetricRule())
    (first,) = reader.read(b"Epoch: 5/9 -- loss: 0.5")
    (sample,) = reader.read(line.encode())
    assert first.epoch == 5
    assert (sample.epoch, sample.step) == (epoch, None)


def test_settings_with_their_switches_are_no_metrics() -> None:
    reader = OutputReader(MetricRule())
    line = "engine/trainer: amp=True, box=7.5, cls=0.5, lr0=0.01, time=None, tracker=t.yaml"
    assert reader.read(line.encode()) == ()
    (sample,) = reader.read(b"step 3: loss=7.5, val_loss=0.5, improved=True")
    assert dict(sample.values) == {"loss": 7.5, "val_loss": 0.5}


def test_the_best_round_said_again_at_the_end_is_where_it_was(tmp_path: Path) -> None:
    lines = [f"[{at}]\tvalid's auc: 0.{at}" for at in (10, 20, 30)]
    text = "\n".join([*lines, "Early stopping, best iteration is:", "[12]\tvalid's auc: 0.31"])
    (tmp_path / "output.log").write_text(text + "\n")
    found = RunMetrics(make_run(State.DONE, directory=str(tmp_path), ended=2000.0))
    while found.poll():
        pass
    best = found.series()["best_valid/auc"]
    assert (list(best.steps), list(best.values)) == ([12], [0.31])
    live = make_run(State.RUNNING, directory=str(tmp_path))
    report = LiveReport(live)
    report.poll(live)
    assert (report.course.step, report.best(live)["best_valid/auc"]) == (30, (0.31, 12.0))


PADDED = [
    "epoch 1{}x",
    "{}: {}5%|x",
    "{}5|",
    "{}[1|",
    "{}1 [0",
    "{}: {}[0",
    "val {}1",
    "a{}5%|x: {}|",
]


@pytest.mark.parametrize("line", PADDED)
def test_a_line_padded_with_spaces_is_read_as_any_other(line: str) -> None:
    def ends_it(*_: object) -> None:
        raise AssertionError("it takes minutes")

    before = signal.signal(signal.SIGALRM, ends_it)
    signal.alarm(10)
    try:
        read(line.replace("{}", " " * (1900 // line.count("{}"))))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_no_number_is_read_that_is_not_there_as_a_whole() -> None:
    logged = ", ".join(f"'m{i:03d}': 0.1234567" for i in range(200))
    _, samples = read("{'loss': 0.5, " + logged + ", 'epoch': 1.0}", "huggingface")
    assert {*samples[0].values.values()} == {0.5, 0.1234567}
    assert not values(read("epoch 3 loss: 0,123")[1], "loss")
    assert values(read("epoch 3 loss: 1,123")[1], "loss") == [(None, 1123.0)]
    rule = MetricRule(patterns=(MetricPattern(r"loss=(?P<loss>\S+)"),))
    _, samples = read("loss=0.5,\nloss=1,5\n", rule=rule)
    assert samples[0].values["loss"] == 0.5 and math.isnan(samples[1].values["loss"])


def test_a_loss_that_is_no_number_any_more_is_told_by_json_and_without_a_digit() -> None:
    _, samples = read('{"step": 1, "loss": 0.5}\n{"step": 2, "loss": NaN, "acc": 0.25}')
    assert math.isnan(values(samples, "loss")[1][1]) and values(samples, "acc") == [(2, 0.25)]
    _, samples = read('{"step": 1, "loss": 0.5}\n{"step": 2, "loss": -Infinity}')
    assert values(samples, "loss")[1] == (2, -math.inf)
    assert values(read("step 1 loss: 0.5\nloss: inf")[1], "loss")[1] == (None, math.inf)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        ("cascade", "Training Stage 99999999999999999999/3"),
        ("fastai", "epoch     train_loss  time    \n0         0.5         1a,0:48"),
        ("baselines3", "-----\n" + "\n".join(f"| key{i} | {i} |" for i in range(20_000))),
    ],
)
def test_no_line_keeps_what_was_read_so_far_from_being_kept(
    reader: MetricReader, text: str
) -> None:
    found, _ = read(text, reader)
    assert len(msgspec.msgpack.encode(found.state())) < 20_000


def test_an_object_of_many_metrics_is_read_whole() -> None:
    logged = {"step": 10, "loss": 0.5, **{f"critic/{i:03d}/mean": 0.25 for i in range(250)}}
    _, samples = read(json.dumps(logged))
    assert values(samples, "loss") == [(10, 0.5)] and len(samples[0].values) == 251
    # Cut off, it is no object, and none of its numbers is read in half.
    assert not values(read(json.dumps(logged)[:-7])[1], "loss")


def bar(done: int, total: int) -> str:
    return f"{100 * done // total:3d}%|{'█' * (10 * done // total):10}| {done}/{total} [00:09<?, ?it/s]"


def test_processes_that_each_draw_a_bar_without_a_name_are_no_epochs() -> None:
    lines = [bar(0, 100), bar(0, 100)]
    for done in range(5, 101, 5):
        lines += [bar(done, 100), bar(done - 2, 100)]
    _, samples = read("\n".join(lines), "tqdm")
    assert {sample.epoch for sample in samples} == {None}
    places = [sample.step for sample in samples if sample.step is not None]
    assert places == sorted(places) and places[-1] == 100


def test_a_longer_bar_before_hugging_face_s_training_is_not_the_training_s() -> None:
    lines = [bar(done, 50_000) for done in (0, 25_000, 50_000)]
    for step in range(100, 1001, 100):
        loss = {"loss": 1 / step, "grad_norm": 1.0, "epoch": step / 500}
        lines += [bar(step - 100, 1000), bar(step, 1000), str(loss), bar(step, 1000)]
    _, samples = read("\n".join(lines))
    assert [step for step, _ in values(samples, "loss")] == [*range(100, 1001, 100)]
    assert {sample.steps for sample in samples if sample.values} == {1000}


def test_a_fraction_behind_it_shows_that_an_epoch_of_0_is_a_place() -> None:
    lines = [json.dumps({"step": at, "loss": 0.5, "epoch": at / 2}) for at in range(5)]
    _, samples = read("\n".join(lines))
    assert [sample.epoch for sample in samples] == [1.0, 0.5, 1.0, 1.5, 2.0]


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        (r"(?P<loss>(?:\d+)+)x", "1" * 60 + "!", {}),
        (r"(?P<name>\w+): (?P<value>\S+)", "損失: 0.5", {"損失": 0.5}),
        (r"(?<=loss )(?P<loss>\S+)", "loss 0.5", {"loss": 0.5}),
        (r"(?P<loss>\d\.\d+) (?:of (?P<best>\S+))?", "█ 0.5 …", {"loss": 0.5}),
        (r"loss:\s(?P<loss>[\d.]+)", "loss:\u00a00.5", {"loss": 0.5}),
    ],
)
def test_an_expression_of_a_preset_has_an_end_whatever_it_reads(
    pattern: str, line: str, found: dict[str, float]
) -> None:
    rule = MetricRule(patterns=(MetricPattern(pattern),))
    _, samples = read(line, rule=rule)
    assert {name: value for one in samples for name, value in one.values.items()} == found
