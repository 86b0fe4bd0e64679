"""What real programs and print forms printed (tests/samples), value by value against what is read.

Each expected list is taken from the sample by an expression of its own, which knows nothing of the
readers. A value that is drawn again and again (a bar's redraws) counts once.
"""

import json
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

from runners.model.run import Progress
from runners.model.spec import MetricRule
from runners.watch.metrics.output_source import OutputEvent, OutputSource
from runners.watch.metrics.progress import ProgressTracker
from runners.watch.metrics.series_set import SeriesSet

SAMPLES = Path(__file__).parents[1] / "samples"
N = r"([-+]?\d[\d.]*(?:[eE][-+]?\d+)?)"
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x08")


class Case(NamedTuple):
    """One sample: for each metric the expression that finds its values in the text, and the place
    at the end: epoch, epochs, step, steps.
    """

    file: str
    metrics: dict[str, str]
    place: tuple[int | None, int | None, int | None, int | None]


B3 = {
    **{f"rollout/{n}": rf"{n} +\| {N}" for n in ("ep_len_mean", "ep_rew_mean")},
    **{f"time/{n}": rf"\b{n} +\| {N}" for n in ("fps", "iterations", "time_elapsed")},
    **{f"train/{n}": rf"\|    {n} +\| {N}" for n in (
        "approx_kl", "clip_fraction", "clip_range", "entropy_loss", "explained_variance",
        "learning_rate", "loss", "n_updates", "policy_gradient_loss", "value_loss")},
}  # fmt: skip
HF = {
    n: rf"'{n}': '?{N}"
    for n in (
        "loss", "grad_norm", "learning_rate", "eval_loss", "eval_runtime",
        "eval_samples_per_second", "eval_steps_per_second", "train_runtime",
        "train_samples_per_second", "train_steps_per_second", "train_loss")
}  # fmt: skip
METERS = {
    f"{test}{name}{avg}": rf"(?m)^{head}.*?{word} +{first}{second}"
    for test, head in (("", "Epoch"), ("test/", "Test"))
    for name, word in (("time", "Time"), ("data", "Data"), ("loss", "Loss"),
                       ("acc@1", "Acc@1"), ("acc@5", "Acc@5"))
    for avg, first, second in (("", N, ""), ("_avg", rf"[-\d.e+]+ \( *{N}", ""))
    if (test, name) != ("test/", "data")
}  # fmt: skip
for _top in ("1", "5"):
    METERS[f"test/acc@{_top}"] = rf"(?m)^(?:Test.*?| \* .*?)Acc@{_top} +{N}"
BLOCKS = {
    "learning_rate": rf"Learning rate: {N}",
    "samples_per_second": rf"{N} samples/s",
    **{f"{n}_batch": rf"\] (?:.*\| )?{w}: {N}" for n, w in
       (("loss", "Loss"), ("l1", "L1"), ("ssim", "SSIM"))},
    **{f"{k}/{n}": rf"{h}:\n(?:  .*\n)*?  {w}: {N}"
       for k, h in (("train", "Summary"), ("val", "Results"))
       for n, w in (("total_loss", "Total Loss"), ("l1_loss", "L1 Loss"),
           ("ssim_loss", "SSIM Loss"))},
    "val/psnr": rf"(?m)^  PSNR: {N}",
    "best_psnr": rf"(?i)best.*PSNR: {N}",
}  # fmt: skip
BOOST = {
    f"{best}{data}/{name}": rf"{head}\t.*{data}'s {name}: {N}"
    for best, head in (("", r"(?<!is:\n)\[\d+\]"), ("best_", r"is:\n\[\d+\]"))
    for data in ("train", "valid")
    for name in ("binary_logloss", "auc")
}
MEGATRON = {
    "elapsed_time_per_iteration_ms": rf"\(ms\): {N}",
    "throughput_per_gpu_tflop/s/gpu": rf"/GPU\): {N}",
    "learning_rate": rf"learning rate: {N}", "lm_loss": rf"lm loss: {N}",
    "loss_scale": rf"loss scale: {N}", "grad_norm": rf"grad norm: {N}",
    "val/lm_loss_value": rf"lm loss value: {N}", "val/lm_loss_ppl": rf"PPL: {N}",
}  # fmt: skip
DETECTRON = {
    **{n: rf"  {n}: {N}" for n in ("total_loss", "loss_cls", "loss_box_reg", "time", "last_time",
                                  "data_time", "last_data_time", "lr")},
    **{f"bbox/{n}": r"(?m)^\| " + r"[\d.]+ \| " * i + N for i, n in
       enumerate(("ap", "ap50", "ap75", "aps", "apm", "apl"))},
}  # fmt: skip
GRPO = {n: rf"'{n}': {N}" for n in (
    "loss", "grad_norm", "learning_rate", "num_tokens", "completions/mean_length",
    "rewards/reward_len/mean", "rewards/reward_len/std", "reward", "reward_std", "kl")}  # fmt: skip
GRPO_RUN = (
    "loss",
    "grad_norm",
    "learning_rate",
    "num_tokens",
    "completions/mean_length",
    "completions/min_length",
    "completions/max_length",
    "completions/clipped_ratio",
    "completions/mean_terminated_length",
    "completions/min_terminated_length",
    "completions/max_terminated_length",
    "rewards/reward_len/mean",
    "rewards/reward_len/std",
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "entropy",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    "clip_ratio/region_mean",
    "clip_ratio/low_min",
    "clip_ratio/high_max",
    "step_time",
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "train_loss",
)
MMENGINE = {
    **{n: rf"\(train\).*  {n}: {N}" for n in ("lr", "time", "data_time", "memory", "loss")},
    **{f"val/{n}": rf"\(val\).*  {n}: {N}" for n in ("accuracy/top1", "data_time", "time")},
}
VERL = {n: rf"{n}:{N}" for n in (
    "global_seqlen/mean", "actor/entropy", "actor/kl_loss", "actor/pg_loss", "actor/grad_norm",
    "critic/score/mean", "critic/score/max", "critic/score/min", "critic/rewards/mean",
    "response_length/mean", "perf/throughput")}  # fmt: skip
WLM = {"lr": rf"lr {N}", "ms/batch": rf"ms/batch {N}", "loss": rf"\| loss +{N}",
    "ppl": rf"\| ppl +{N}",
        "time": rf"time: +{N}", "valid_loss": rf"valid loss +{N}", "valid_ppl": rf"valid ppl +{N}",
        "test_loss": rf"test loss +{N}", "test_ppl": rf"test ppl +{N}"}  # fmt: skip
IGNITE = {
    "loss": rf"loss={N}", "val/avg_accuracy": rf"Avg accuracy: {N}",
    "val/avg_loss": rf"Avg loss: {N}",
}  # fmt: skip
FASTAI = {"smooth_loss": rf"<[\d:]*(?:\.\.\.)? {N}\]", "train_loss": rf"(?m)^\d +{N}",
        "valid_loss": rf"(?m)^\d +[\d.]+ +{N}", "accuracy": rf"(?m)^\d +[\d.]+ +[\d.]+ +{N}",
        "epoch_seconds": r"(?m)^\d .* 00:(\d\d) *$"}  # fmt: skip
BOOSTED = {
    f"{d}/{n}": rf"{d}'s {n}: {N}" for d in ("train", "valid") for n in ("auc", "binary_logloss")
}
ROUNDS = {f"{d}-{n}": rf"{d}-{n}:{N}" for d in ("train", "valid") for n in ("logloss", "auc")}
KERAS = {n: rf"- {n}: {N}" for n in ("accuracy", "loss", "val_accuracy", "val_loss")}
GB = {"train_loss": rf"(?m)^ +\d+ +{N}", "oob_improve": rf"(?m)^ +\d+ +[\d.]+ +{N}"}
TIMM = {
    "loss": rf"(?m)^Train.*Loss: {N}", "loss_avg": rf"(?m)^Train.*Loss: [\d.]+ \({N}\)",
    "time": rf"(?m)^Train.*Time: {N}", "lr": rf"LR: {N}", "data": rf"Data: {N}",
    "data_avg": rf"Data: [\d.]+ \({N}\)", "best_metric": rf"Best metric: {N}",
    **{f"test/{name.lower()}{avg}": rf"(?m)^Test.* {name}: +{first}{N}"
       for name in ("Time", "Loss", "Acc@1", "Acc@5") for avg, first in
       (("", ""), ("_avg", r"[\d.]+ \( *"))},
}  # fmt: skip
# Those that begin with `r-`, and those in `timed`, were run: torch 2.13, transformers, accelerate,
# diffusers, lightning, keras 3, fastai, ignite, MONAI, stable-baselines3, optuna, CatBoost,
# XGBoost, LightGBM, scikit-learn and gensim of November 2026; some were ended before they were
# done. Redraws of bars are thinned out.
RUN = [
    Case("r-cat", {"test": rf"test: {N}", "best": rf"best: {N}"}, (None, None, 399, None)),
    Case("r-diff", {"loss": rf"loss={N}", "lr": rf"lr={N}"}, (2, 4, 24, 80)),
    Case("r-epochs", {"loss": rf"loss={N}", "val_mse": rf"val_mse = {N}"}, (25, 25, None, None)),
    Case("r-fai", FASTAI, (2, 5, 108, 375)),
    Case("r-gen", {}, (None, None, None, None)),
    Case("r-hf", {n: e for n, e in HF.items() if not n.startswith("train_")}
        | {"eval_accuracy": rf"'eval_accuracy': '?{N}"}, (4, None, 109, 125)),
    # Resumed from steps 100 and 150 of 150: the bar leaps, and stays at 0.
    Case("r-hf100", {n: e for n, e in HF.items() if not n.startswith("eval_")},
        (3, None, 150, 150)),
    Case("r-hf150", {n: e for n, e in HF.items() if re.match("train_", n)}, (3, None, 150, 150)),
    Case("r-ign", IGNITE, (3, 5, 207, 500)),
    Case("r-kb2", KERAS, (6, 6, 480, 480)),
    Case("r-monai", {"train_loss": rf"train_loss: {N}"}, (1, 5, 46, 320)),
    Case("r-nano", {"train_loss": rf"train loss {N}", "val_loss": rf"val loss {N}",
        "loss": rf"(?m)^iter \d+: loss {N}", "mfu": rf"mfu {N}"}, (None, None, 20, None)),
    Case("r-opt", {"value": rf"finished with value: {N}",
        "best_value": r"Best is .* with value: (\d\.\d+)"},
        (None, None, 3, None)),
    Case("r-plain0", {"train_loss": rf"train loss: {N}", "val_loss": rf"val loss: {N}"},
        (20, 20, None, None)),
    Case("r-pltqdm", {"train_loss": rf"train_loss={N}", "val_loss": rf"val_loss={N}"},
        (2, None, 150, None)),
    Case("r-sb3", B3, (None, None, 4096, None)),
    Case("r-skgb2", GB, (None, None, 40, None)),
    Case("r-skmlp", {"loss": rf"loss = {N}", "validation_score": rf"Validation score: {N}"},
        (None, None, 20, None)),
    Case("r-tune", {"loss": rf"(?:Loss: |loss:){N}", "lr": rf"lr:{N}", "grad_norm": rf"norm:{N}",
        "tokens_per_second_per_gpu": rf"gpu:{N}"}, (3, None, 60, None)),
    # timm's model, loader, meters and saver in a loop with the print forms of its train.py.
    Case("r-timm", TIMM, (3, 3, 59, 60)),
    Case("r-wlm", WLM, (4, None, 220, None)),
    Case("timed/acc", {"loss": rf"\bloss={N}", "lr": rf"\blr={N}",
        "train_loss": rf"train_loss: {N}",
        "eval_accuracy": rf"eval accuracy: {N}"}, (5, None, 500, 500)),
    Case("timed/fai", FASTAI, (4, 4, 248, 248)),
    Case("timed/ign", IGNITE, (4, 4, 240, 240)),
    Case("timed/diff", {"loss": rf"loss={N}", "lr": rf"lr={N}"}, (4, 4, 48, 48)),
    Case("timed/kb2", KERAS, (6, 6, 240, 240)),
    Case("timed/sb3", B3, (None, None, 10240, None)),
    Case("timed/kb1", KERAS, (5, 5, 400, 400)),
    Case("timed/epochs", {"loss": rf"loss={N}", "val_mse": rf"val_mse = {N}"},
        (25, 25, None, None)),
    Case("timed/lgb2", BOOSTED, (None, None, 100, None)),
    Case("timed/monai", {"train_loss": rf"train_loss: {N}",
        "val_mean_dice": rf"Metrics -- val_mean_dice: {N}",
        "val_mean_dice_best_value": rf"best value: {N}",
        "got_new_best_metric_of_val_mean_dice": rf"best metric of val_mean_dice: {N}"},
        (4, 4, 128, 128)),
    Case("timed/pltqdm", {"train_loss": rf"train_loss={N}", "val_loss": rf"val_loss={N}"},
        (4, None, 200, None)),
    Case("timed/mnist", {"loss": rf"Loss: {N}", "test/average_loss": rf"Average loss: {N}",
        "test/accuracy": r"Accuracy: (?P<part>\d+)/(?P<whole>\d+)"}, (5, None, 14560, None)),
    Case("timed/nano", {"train_loss": rf"train loss {N}", "val_loss": rf"val loss {N}",
        "loss": rf"(?m)^iter \d+: loss {N}", "mfu": rf"mfu {N}"}, (None, None, 120, None)),
    Case("timed/sko", {"train_loss": rf"(?m)^ +\d+ +{N}", "valid_acc": rf"(?m)^ +\d+ +[\d.]+ +{N}",
        "valid_loss": rf"(?m)^ +\d+ +[\d.]+ +[\d.]+ +{N}"}, (10, None, None, None)),
    Case("timed/wlm", WLM, (4, None, 163, None)),
    Case("timed/opt", {"value": rf"finished with value: {N}",
        "best_value": r"Best is .* with value: (\d\.\d+)"},
        (None, None, 20, None)),
    Case("timed/plain0", {"train_loss": rf"train loss: {N}", "val_loss": rf"val loss: {N}"},
        (15, 15, None, None)),
    Case("timed/skmlp", {"loss": rf"loss = {N}", "validation_score": rf"Validation score: {N}"},
        (None, None, 20, None)),
    Case("timed/lgb", BOOSTED, (None, None, 150, None)),
    Case("timed/xgb", ROUNDS, (None, None, 99, None)),
    Case("r-w2v", {}, (None, None, None, None)),
    Case("r-yolo", {f"{n}_loss": r"\dG +" + r"[\d.]+ +" * i + N for i, n in enumerate(("box", "cls", "dfl"))}
        | {f"val/{n}": r" all +32 +32 +" + r"[\d.]+ +" * i + N
           for i, n in enumerate(("precision", "recall", "map50", "map50-95"))}, (6, 6, None, None)),
    Case("timed/ign6", IGNITE, (6, 6, 1200, 1200)),
    Case("timed/lgb600", {f"{best}{name}": rf"(?m)^\[{rounds}\d+\].*?{found}" for name, found in BOOSTED.items()
        for best, rounds in (("", "(?!495)"), ("best_", "(?=495)"))}, (None, None, 600, None)),
    Case("timed/xgb1200", ROUNDS, (None, None, 1199, None)),
    Case("timed/nano900", {"train_loss": rf"train loss {N}", "val_loss": rf"val loss {N}",
        "loss": rf"(?m)^iter \d+: loss {N}", "mfu": rf"mfu {N}"}, (None, None, 900, None)),
    Case("timed/ppo20", B3, (None, None, 40960, None)),
    Case("timed/kb2jax", KERAS, (12, 12, 3000, 3000)),
    Case("timed/pl6", {"train_loss": rf"train_loss={N}", "val_loss": rf"val_loss={N}"}, (6, None, 3000, None)),
    Case("timed/monai6", {"train_loss": rf"train_loss: {N}", "val_mean_dice": rf"Metrics -- val_mean_dice: {N}",
        "val_mean_dice_best_value": rf"best value: {N}",
        "got_new_best_metric_of_val_mean_dice": rf"best metric of val_mean_dice: {N}"}, (6, 6, 480, 480)),
    Case("timed/lgb400", BOOSTED, (None, None, 400, None)),
    Case("timed/xgb400", ROUNDS, (None, None, 399, None)),
    Case("timed/skmlp40", {"loss": rf"loss = {N}", "validation_score": rf"Validation score: {N}"},
        (None, None, 40, None)),
    Case("timed/skgb150", GB, (None, None, 150, None)),
    Case("timed/cat500", {n: rf"\t{n}: {N}" for n in ("learn", "test", "best")},
        (None, None, 499, None)),
    Case("timed/plain35", {n: rf" {n}: {N}" for n in ("train_loss", "val_loss")},
        (35, 35, None, None)),
    Case("timed/wlm6", {n: e for n, e in WLM.items() if not n.startswith("test_")}, (6, None, 890, None)),
    Case("timed/ign15", IGNITE, (15, 15, 2820, 2820)),
    Case("timed/diff5", {"loss": rf"loss={N}", "lr": rf"lr={N}"}, (5, None, 300, None)),
    Case("timed/mnist6", {"loss": rf"\tLoss: {N}", "test/average_loss": rf"Average loss: {N}",
        "test/accuracy": r"Accuracy: (?P<part>\d+)/(?P<whole>\d+)"}, (6, None, 35760, None)),
    Case("timed/pl8", {"train_loss": rf"train_loss={N}", "val_loss": rf"val_loss={N}"},
        (8, None, 1200, None)),
    Case("timed/acc10", {"loss": rf"\bloss={N}", "train_loss": rf"train_loss: {N}",
        "eval_accuracy": rf"accuracy: {N}"}, (10, None, 1500, 1500)),
    Case("timed/epochs40", {"loss": rf"loss={N}", "val_acc": rf"val_acc = {N}"},
        (None, None, 40, 40)),
    Case("timed/sko25", {"train_loss": rf"(?m)^ +\d+ +{N}", "valid_acc": rf"(?m)^ +\d+ +[\d.]+ +{N}",
        "valid_loss": rf"(?m)^ +\d+ +[\d.]+ +[\d.]+ +{N}"}, (25, None, None, None)),
    Case("r-spacy", {"loss_textcat": rf"(?m)^ +\d+ +\d+ +{N}",
        "cats_score": rf"(?m)^ +\d+ +\d+ +[\d.]+ +{N}",
        "score": rf"(?m)^ +\d+ +\d+ +[\d.]+ +[\d.]+ +{N}"}, (33, None, 600, None)),
    Case("r-tabnet", {"loss": rf"loss: {N}", "val_0_auc": rf"val_0_auc: {N}"}, (8, None, None, None)),
    Case("r-tutorial", {"loss": rf"loss: {N}", "test_accuracy": r"images: (\d+) %"},
        (None, None, None, None)),
    Case("r-hyperopt", {"best_loss": rf"best loss: {N}"}, (None, None, 40, 40)),
    Case("r-mmengine", {
        **{n: rf"\(train\).*  {n}: {N}" for n in ("lr", "time", "data_time", "loss")},
        **{f"val/{n}": rf"\(val\).*  {n}: {N}" for n in ("accuracy", "data_time", "time")}},
        (3, None, 150, None)),
    Case("r-sft", {n: rf"'{n}': '{N}" for n in ("loss", "grad_norm", "learning_rate", "entropy",
        "mean_token_accuracy", "num_tokens", "train_runtime", "train_samples_per_second",
        "train_steps_per_second", "train_loss")}, (2, None, 40, 40)),
    Case("r-grpo", {n: rf"'{n}': '{N}" for n in GRPO_RUN}, (1, None, 8, 8)),
    Case("r-reinforce", {"last_reward": rf"Last reward: {N}",
        "average_reward": rf"Average reward: {N}"}, (None, None, 200, None)),
    Case("timed/later/lgbr", {"valid_0/l2": rf"l2: {N}"}, (None, None, 500, None)),
    Case("timed/later/lgbv", {f"valid_0/{n}": rf"'s {n}: {N}" for n in ("auc", "binary_logloss")},
        (None, None, 300, None)),
    Case("timed/later/xgbm", {f"{n}-mlogloss": rf"{n}-mlogloss:{N}" for n in ("train", "valid")},
        (None, None, 149, None)),
    Case("timed/later/catm", {n: rf"\t{n}: {N}" for n in ("learn", "test", "best")},
        (None, None, 299, None)),
    Case("timed/later/evalloop", {n: rf"\b{n} {N}" for n in ("loss", "lr", "val_acc")},
        (None, None, 1600, 1600)),
    Case("timed/later/slowfirst", {"loss": rf"loss={N}"}, (12, 12, 1200, 1200)),
    Case("timed/later/slowlines", {"loss": rf"loss {N}"}, (12, 12, 1200, 1200)),
    Case("timed/later/kerasval", KERAS, (8, 8, 600, 600)),
    Case("timed/later/skocnn", {"train_loss": rf"(?m)^ +\d+ +{N}",
        "valid_acc": rf"(?m)^ +\d+ +[\d.]+ +{N}",
        "valid_loss": rf"(?m)^ +\d+ +[\d.]+ +[\d.]+ +{N}"}, (12, None, None, None)),
    Case("timed/later/grow", {"train_loss": rf"train_loss={N}"}, (16, 16, None, None)),
    Case("timed/later/sgb", {"train_loss": rf"(?m)^ +\d+ +{N}",
        "oob_improve": rf"(?m)^ +\d+ +[\d.]+ +{N}"}, (None, None, 200, None)),
    Case("timed/later/valepoch", {"loss": rf"Loss {N}", "val_loss": rf"val_loss {N}"},
        (10, None, 980, None)),
]  # fmt: skip
# Those that begin with `d-` could not be run: they are written by the format their sources
# document (detectron2's CommonMetricPrinter, torchtitan's MetricsProcessor, verl's console logger,
# TRL's GRPOTrainer and SFTTrainer, accelerate's nlp_example, spaCy's console logger, skorch's
# PrintLog, Ultralytics' trainer, PyTorch's classifier tutorial, mmengine's LoggerHook,
# DeepSpeed's timer, pytorch-tabnet's History, hyperopt's tqdm, CleanRL's and PyTorch's reinforce
# loops, and the print forms of those at the end, from their sources and from logs in issues).
DOCUMENTED = [
    Case("d-accelerate", {"accuracy": rf"'accuracy': {N}", "f1": rf"'f1': {N}"}, (3, None, 60, 60)),
    Case("d-cleanrl", {"episodic_return": rf"episodic_return=\[{N}\]"}, (None, None, 130, None)),
    Case("d-deepspeed", {"runningavgsamplespersec": rf"Running\w+={N}",
        "currsamplespersec": rf"Curr\w+={N}"}, (1, None, 10, None)),
    Case("d-detectron2", DETECTRON, (None, None, 79, None)),
    Case("d-grpo", GRPO, (1, None, 4, 10)),
    Case("d-hyperopt", {"best_loss": rf"best loss: {N}"}, (None, None, 20, 20)),
    Case("d-mmengine", MMENGINE, (2, None, 40, None)),
    Case("d-reinforce", {"last_reward": rf"Last reward: {N}",
        "average_reward": rf"Average reward: {N}"},
        (None, None, 40, None)),
    Case("d-sft", {n: rf"'{n}': {N}" for n in ("loss", "grad_norm", "learning_rate", "entropy",
        "num_tokens", "mean_token_accuracy")}, (1, None, 4, 4)),
    Case("d-skorch", {"train_loss": rf"(?m)^ +\d +{N}", "valid_acc": rf"(?m)^ +\d +[\d.]+ +{N}",
        "valid_loss": rf"(?m)^ +\d +[\d.]+ +[\d.]+ +{N}"}, (3, None, None, None)),
    Case("d-spacy", {"loss_textcat": rf"(?m)^ +\d +\d+ +{N}",
        "cats_score": rf"(?m)^ +\d +\d+ +[\d.]+ +{N}",
        "score": rf"(?m)^ +\d +\d+ +[\d.]+ +[\d.]+ +{N}"}, (4, None, 400, None)),
    Case("d-tutorial", {"loss": rf"loss: {N}", "test_accuracy": r"images: (\d+) %"},
        (None, None, None, None)),
    Case("d-yolo", {f"{n}_loss": r"\dG +" + r"[\d.]+ +" * i + N for i, n in enumerate(("box",
        "cls", "dfl"))}
        | {f"val/{n}": r" all +16 +16 +" + r"[\d.]+ +" * i + N
           for i, n in enumerate(("precision", "recall", "map50", "map50-95"))}, (2, 3, 8, 12)),
    Case("d-tabnet", {"loss": rf"loss: {N}",
        "val_0_auc": rf"(?:\| val_0_auc: |best_val_0_auc = ){N}",
        "and_best_val_0_auc": rf"best_val_0_auc = {N}"}, (3, None, None, None)),
    Case("d-torchtitan", {n: rf"{n}: +{N}" for n in ("loss", "grad_norm", "tflops", "mfu")}
        | {"tps": r"tps: (\d+),(\d+)"}, (None, None, 30, 50)),
    Case("d-verl", VERL, (None, None, 3, 45)),
    Case("d-3dgs", {"loss": rf"Loss={N}", "test/psnr": rf"test: .*PSNR {N}",
        "psnr": rf"train: .*PSNR {N}"}, (None, None, 30000, 30000)),
    Case("d-bar-over-epochs", {"loss": rf"loss={N}"}, (2, 3, 45, 90)),
    Case("d-basicsr", {"time": rf"time \(data\): {N}", "time_data": rf"time \(data\): \S+ \({N}",
        "l_pix": rf"l_pix: {N}", "l_g_gan": rf"l_g_gan: {N}",
        **{f"{best}{n}": rf"# {n}: {where}{N}" for n in ("psnr", "ssim")
            for best, where in (("", ""), ("best_", r"\S+\tBest: "))}}, (1, None, 1100, None)),
    Case("d-caffe", {"loss": rf"iters\), loss = {N}", "test/accuracy": rf"accuracy = {N}",
        "test/loss": rf"Test.*: loss = {N}"}, (None, None, 300, None)),
    Case("d-composer", {"train_loss/train/total": rf"total: {N}"}, (1, None, 3, None)),
    Case("d-detr", {f"{test}{name.replace(' ', '_')}{avg}": rf"{line}(?:.*  | ?)(?<!Total ){name}: {before}{N}"
        for test, line in (("", r"(?m)^(?:Epoch.*?|Averaged stats: lr.*?)"),
            ("test/", r"(?m)^(?:Test:.*?|Averaged stats:(?! lr).*?)"))
        for name in ("lr", "class_error", "loss", "loss_ce", "time", "data", "max mem")
        for avg, before in (("", ""), ("_avg", r"\S+ \("))
        if (name not in ("lr", "loss_ce") or not test) and (not avg or name.startswith("loss"))},
        (2, None, 759, None)),
    Case("d-epochs-from-0", {"train_loss": rf"train Loss: {N}", "acc": rf"train .*Acc: {N}",
        "val_loss": rf"val Loss: {N}", "val_acc": rf"val .*Acc: {N}"}, (3, 9, None, None)),
    Case("d-flair", {"loss": rf"(?m)(?:iter.*|EPOCH.*)loss {N}", "time_sec": rf"\(sec\): {N}",
        "samples/sec": rf"samples/sec: {N}", "lr": rf"lr:? {N}", "val/loss": rf"DEV : loss {N}"},
        (1, None, 30, None)),
    Case("d-guided-diffusion", {n: rf"\| {n} +\| {N}"
        for n in ("grad_norm", "loss", "loss_q0", "mse", "samples")}, (None, None, 30, None)),
    Case("d-kohya", {"avr_loss": rf"avr_loss={N}"}, (2, 4, 43, 160)),
    Case("d-lerobot", {n: rf" {n}:{N}" for n in ("loss", "grdn", "lr", "updt_s", "data_s")},
        (None, None, 800, None)),
    Case("d-loguru", {"loss": rf"\bloss:? {N}", "lr": rf"lr {N}",
        **{n: rf"{n}: {N}" for n in ("iter_time", "total_loss")}}, (3, 10, 388, 1840)),
    Case("d-markdown", {"train_loss": rf"(?m)^\| \d \| {N}",
        "val_acc": rf"(?m)^\| \d \| \S+ \| {N}"}, (3, None, None, None)),
    Case("d-nerfstudio", {}, (None, None, 300, None)),
    Case("d-nnunet", {"current_learning_rate": rf"rate: {N}", "train_loss": rf"train_loss {N}",
        "val_loss": rf"val_loss {N}", "new_best_ema_pseudo_dice": rf"EMA pseudo Dice: {N}",
        "mean_validation_dice": rf"Validation Dice: +{N}"}, (4, None, None, None)),
    Case("d-olmo", {"train/crossentropyloss": rf"CrossEntropyLoss={N}",
        "train/perplexity": r"Perplexity=(\d+),(\d+)"}, (None, None, 3, 739328)),
    Case("d-rl-games", {n.replace(" ", "_"): rf"{n}: {N}"
        for n in ("fps step and policy inference", "fps total", "frames")}, (4, 500, None, None)),
    Case("d-rsl-rl", {n.lower().replace(" ", "_"): rf"{n}: {N}"
        for n in ("Value function loss", "Surrogate loss", "Mean reward")}, (None, None, 2, 1500)),
    Case("d-spinning-up", {n.lower(): rf" {n} \| +{N}" for n in ("AverageEpRet", "StdEpRet",
        "EpLen", "AverageVVals", "TotalEnvInteracts", "LossPi", "Time")}, (3, None, None, None)),
    Case("d-stylegan", {**{n: rf" {n} {N}" for n in ("sec/tick", "sec/kimg", "maintenance",
        "cpumem", "gpumem", "reserved", "augment")}, "results/fid50k_full": rf"_full\": {N}"},
        (None, None, 12, 25000)),
    Case("d-swin", {**{f"{test}{n.lower()}{avg}": rf"{line}.*[\t ]{n} {before}{N}"
        for test, line, names in (("", "Train", ("lr", "time", "loss", "grad_norm")),
            ("test/", "Test", ("Time", "Loss", "Acc@1", "Acc@5")))
        for n in names for avg, before in (("", ""), ("_avg", r"\S+ \(")) if n + avg != "lr_avg"},
        **{f"test/acc@{n}": rf"(?:INFO  \*|\tAcc@1.*|Test.*).*?Acc@{n} {N}" for n in "15"},
        "test_accuracy": rf"images: {N}", "max_accuracy": rf"Max accuracy: {N}"},
        (2, 300, 1271, 375300)),
    Case("d-tf-estimator", {"loss": rf"tensorflow:loss = {N}", "eval/accuracy": rf"accuracy = {N}",
        "eval/loss": rf"Saving.* loss = {N}"}, (None, None, 201, None)),
    Case("d-coqui", {"loss": rf"> loss: {N}", "loss_avg": rf"> loss: \S+ +\({N}",
        "avg_loss": rf"avg_loss: {N}"}, (None, None, 30, None)),
    Case("d-dinov2", {**{n.replace(" ", "_"): rf"{n}: {N}"
        for n in ("lr", "total_loss", "time", "data", "max mem")},
        **{f"{n}_avg": rf"{n}: \S+ \({N}" for n in ("lr", "total_loss")}},
        (None, None, 30, 125000)),
    Case("d-pointnet2", {"train_instance_accuracy": rf"Train Instance Accuracy: {N}",
        "test_instance_accuracy": rf"Test Instance Accuracy: {N}",
        "class_accuracy": rf"Test.*Class Accuracy: {N}",
        "best_instance_accuracy": rf"Best Instance Accuracy: {N}",
        "best_class_accuracy": rf"Best.*Class Accuracy: {N}"}, (2, 200, None, None)),
    Case("d-pytorch-unet", {"loss_batch": rf"\(batch\)={N}",
        "validation_dice_score": rf"Dice score: {N}"}, (2, 5, 400, 1000)),
    Case("d-so-vits", {"lr": rf"lr: {N}", "reference_loss": rf"reference_loss: {N}"},
        (2, None, 400, None)),
    Case("d-swin-unetr", {"loss": rf"loss: {N}", "val/acc": rf"4999 acc {N}"},
        (1, 5000, 3, 120000)),
    Case("d-transunet", {"loss": rf"loss : {N}", "loss_ce": rf"loss_ce: {N}"},
        (None, None, 7, None)),
    Case("d-yolov5", {**{n: r"1\.2G +" + r"[\d.]+ +" * i + N
            for i, n in enumerate(("box", "obj", "cls"))},
        **{f"val/{n}": r" all +128 +929 +" + r"[\d.]+ +" * i + N
            for i, n in enumerate(("precision", "recall", "map@.5", "map@.5:.95"))}},
        (2, 3, 40, 60)),
]  # fmt: skip
CASES = [
    *RUN,
    *DOCUMENTED,
    Case("casc-direct", BLOCKS, (4, 4, 84, 84)),
    Case("casc-coord", {"loss": rf"\bloss={N}", "l1": rf"\bl1={N}|\| L1: {N}",
        "grad": rf"(?:grad=|Grad: ){N}",
        "train_loss": rf"Train Loss: {N}", "val_loss": rf"  Val Loss: {N}",
        "val_psnr": rf"PSNR: {N}",
        "val_ssim": rf"SSIM: {N}", "learning_rate": rf"LR: {N}",
        "best_val_loss": rf"best.*Val Loss: {N}"},
        (4, 4, 84, 84)),
    Case("casc-tdirect", {"loss": rf"\bloss={N}", "l1": rf"\bl1={N}",
        **{f"train/{n}": rf"Train - .*{w}: {N}" for n,
            w in (("loss", "Loss"), ("l1", "L1"), ("ssim", "SSIM"))},
        "val/loss": rf"Val   - Loss: {N}", "val/psnr": rf"Val .*PSNR: {N}",
        "best_psnr": rf"(?i)best.*PSNR: {N}"},
        (4, 4, 84, 84)),
    Case("ddp", {"loss": rf"GPU0\].*Loss: {N}"}, (4, None, None, None)),
    Case("e-oom", {"loss": rf"loss: {N}"}, (1, None, None, None)),
    Case("e-pct", {"accuracy": rf"\({N}%", "val_loss": rf"val loss {N}"}, (3, None, None, None)),
    Case("e-trunc", {"loss": rf"loss: {N}", "lr": rf"lr={N}"}, (5, 5, None, None)),
    Case("f-cls0", {"loss": rf"Loss: {N}", "val_acc": rf"val_acc: {N}"}, (3, 3, 290, 300)),
    Case("f-lr_dict", {"train/loss": rf'train/loss": {N}', "lr": rf'"lr": {N}',
        "val/acc": rf'"acc": {N}'},
        (2, None, 96, None)),
    Case("f-megatron", MEGATRON, (None, None, 200, 5000)),
    Case("f-nested", {"loss": rf"loss={N}"}, (4, 4, 100, 100)),
    Case("f-torchtune", {"loss": rf"Loss: {N}:"}, (2, None, 80, None)),
    Case("f-tqdm_epoch1", {"loss": rf"\bloss={N}", **{n: rf"{n}={N}" for n in ("train_loss",
        "val_loss", "val_acc")}},
        (4, None, 100, None)),
    Case("fastai", {"smooth_loss": rf"<[\d:]*\.\.\. {N}\]", "train_loss": rf"(?m)^\d +{N}",
        "valid_loss": rf"(?m)^\d +[\d.]+ +{N}", "accuracy": rf"(?m)^\d +[\d.]+ +[\d.]+ +{N}",
        "epoch_seconds": r"(?m)^\d .* 00:(\d\d) *$"}, (4, 4, 148, 148)),
    Case("hf-tb", HF, (3, None, 150, 150)),
    Case("imagenet", METERS, (3, None, 35, None)),
    Case("keras1", {"accuracy": rf"- accuracy: {N}", "loss": rf"- loss: {N}",
        "val_accuracy": rf"val_accuracy: {N}", "val_loss": rf"val_loss: {N}"}, (3, 3, 150, 150)),
    Case("lgbm", BOOST, (None, None, 60, None)),
    Case("nanogpt", {"train_loss": rf"train loss {N}", "val_loss": rf"val loss {N}",
        "loss": rf"(?m)^iter \d+: loss {N}", "mfu": rf"mfu {N}"}, (None, None, 400, 400)),
    Case("pl-csv", {"train_loss": rf"train_loss: {N}", "val_loss": rf"val_loss: {N}"},
        (4, 4, 160, 160)),
    Case("pl-tqdm", {"train_loss": rf"train_loss={N}", "val_loss": rf"val_loss={N}"},
        (4, None, 160, None)),
    Case("pl-term", {"train_loss": rf"[1-9]\d*/40 .*train_loss: {N}",
        "val_loss": rf"val_loss: (?!5\.466){N}"},
        (3, 4, 87, 160)),
    Case("sb3", B3, (None, None, 2048, None)),
    Case("wandb", {"loss": rf"loss {N}", "val/acc": rf"val/acc {N}"}, (None, None, None, None)),
    Case("wlm", WLM, (3, None, 49, None)),
]  # fmt: skip


def printed(text: str, expression: str) -> list[float]:
    """The values that an expression finds in a text."""
    found = re.finditer(expression, text)
    return [
        100 * float(one["part"]) / float(one["whole"])
        if "part" in one.groupdict()
        else float("".join(group for group in one.groups() if group))
        for one in found
    ]


def printed_by(name: str) -> bytes:
    """A sample as it was printed; of those with times all pieces."""
    timed = SAMPLES / f"{name}.jsonl"
    if not timed.exists():
        return (SAMPLES / f"{name}.txt").read_bytes()
    return "".join(json.loads(line)[1] for line in timed.read_text().splitlines()[1:]).encode()


def once(values: Sequence[float]) -> list[float]:
    """Values without repetitions one after the other."""
    return [value for value, _ in groupby(values)]


def read(folder: Path, content: bytes) -> tuple[SeriesSet, Progress]:
    """All that the readers find in an output."""
    (folder / "output.log").write_bytes(content)
    source, series, tracker = (
        OutputSource(folder, MetricRule(), False),
        SeriesSet("output"),
        ProgressTracker(),
    )
    more = True
    while more:
        told = [*source.poll(1 << 20)]
        more = source.more
        told += [] if more else source.finish()
        for one in told:
            if not isinstance(one, OutputEvent):
                series.note(one)
                tracker.note(one)
    return series, tracker.progress(0)


@pytest.mark.parametrize("case", CASES, ids=[case.file for case in CASES])
def test_every_value_printed_is_read_and_none_other(case: Case, tmp_path: Path) -> None:
    content = printed_by(case.file)
    text = re.sub(r"[\r\n]+", "\n", _ESCAPE.sub("", content.decode()))
    series, progress = read(tmp_path, content)
    found = {name: once(one.values) for name, one in series.filled().items()}
    assert found == {name: once(printed(text, expr)) for name, expr in case.metrics.items()}
    assert (progress.epoch, progress.epochs, progress.step, progress.steps) == case.place


def test_every_sample_is_in_the_table() -> None:
    timed = {
        str(path.relative_to(SAMPLES).with_suffix("")) for path in SAMPLES.glob("timed/**/*.jsonl")
    }
    plain = {path.stem for path in SAMPLES.glob("*.txt")}
    assert {case.file for case in CASES} == plain | timed
