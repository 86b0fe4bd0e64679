"""The documented print forms of training libraries, with made-up numbers: what is read of them."""

from pathlib import Path

import pytest

from tests.unit.test_metrics_samples import read

MNIST = """\
Train Epoch: 1 [0/6000 (0%)]\tLoss: 2.3
Train Epoch: 1 [1280/6000 (21%)]\tLoss: 0.012000
\nTest set: Average loss: 0.4123, Accuracy: 9300/10000 (93%)\n
Train Epoch: 2 [1280/6000 (21%)]\tLoss: 0.009
"""
TIMM = """\
Train: 0 [   0/1250 (  0%)]  Loss: 6.97 (6.97)  Time: 1.234s,  207.42/s  (1.234s,  207.42/s)  LR: 1.000e-05
Train: 0 [  50/1250 (  4%)]  Loss: 6.90 (6.95)  Time: 0.234s,  907.42/s  (0.334s,  707.42/s)  LR: 1.000e-05
Test: [   0/78]  Time: 0.812 (0.812)  Loss:  6.7 ( 6.7)  Acc@1:  1.562 ( 1.562)
Train: 1 [   0/1250 (  0%)]  Loss: 6.80 (6.80)  Time: 1.2s,  207.42/s  (1.234s,  207.42/s)  LR: 2.000e-05
"""
TIMM_RESUMED = f"""\
2026-11-21 13:00:10 INFO: Scheduled epochs: 300. LR stepped per update.
{TIMM.replace("Train: 0", "Train: 5").partition("Test")[0]}"""
FAIRSEQ = """\
2026-11-21 13:00:10 | INFO | train_inner | epoch 001:      2 / 10 loss=5.3, ppl=39.4, num_updates=2, lr=1e-05
2026-11-21 13:00:12 | INFO | train_inner | {"epoch": 1, "update": 0.4, "loss": "5.1", "num_updates": "4"}
2026-11-21 13:00:14 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 5.0 | ppl 32.0 | num_updates 10
2026-11-21 13:00:15 | INFO | train | {"epoch": 1, "train_loss": "5.2", "train_num_updates": "10"}
2026-11-21 13:00:16 | INFO | train_inner | epoch 002:      2 / 10 loss=4.9, ppl=30, num_updates=12, lr=3e-05
"""
DETECTRON = """\
[11/21 13:00:10 d2.utils.events]:  eta: 0:01:20  iter: 19  total_loss: 2.1  loss_cls: 0.9  lr: 0.001  max_mem: 1000M
[11/21 13:00:20 d2.utils.events]:  eta: 0:01:10  iter: 39  total_loss: 1.9  loss_cls: 0.8  lr: 0.002  max_mem: 1001M
"""
MMENGINE = """\
11/21 13:00:10 - mmengine - INFO - Epoch(train) [1][10/50]  lr: 1.0000e-02  eta: 0:00:30  loss: 1.2345
11/21 13:00:11 - mmengine - INFO - Epoch(train) [1][50/50]  lr: 1.0000e-02  eta: 0:00:20  loss: 1.0345
11/21 13:00:12 - mmengine - INFO - Epoch(val) [1][5/5]    accuracy/top1: 80.5000
11/21 13:00:13 - mmengine - INFO - Epoch(train) [2][10/50]  lr: 1.0000e-03  eta: 0:00:10  loss: 0.9345
"""
DEEPSPEED = """\
[2026-11-21 13:00:10,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.0001], mom=[(0.9, 0.999)]
[2026-11-21 13:00:10,124] [INFO] [timer.py:260:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=123.4, MemAllocated=2.1GB
[2026-11-21 13:00:20,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=0, lr=[0.0002], mom=[(0.9, 0.999)]
"""
YOLO = """\
      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size
        1/3      0.5G      1.234      2.345         16        640: 100%|██████████| 10/10 [00:01<00:00,  5.0it/s]
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 4/4 [00:00<00:00, 10.0it/s]
                   all        128        929      0.669       0.66      0.698      0.523
      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size
        2/3      0.5G      1.134      2.245         16        640: 100%|██████████| 10/10 [00:01<00:00,  5.0it/s]
"""
CATBOOST = "0:\tlearn: 0.6841\ttest: 0.6850\tbest: 0.6850 (0)\ttotal: 50ms\tremaining: 5s\n"
ABSL = """\
I1121 13:04:14.068000 21093 train.py:145] epoch: 1, loss: 0.5000, accuracy: 91.20
Namespace(lr=0.1, loss_weight=1.0, epochs=10, batch_size=4)
args: lr=0.1 loss=3 epochs=3
lr_decay_iters = 5000 # make equal to max_iters usually
`Trainer.fit` stopped: `max_epochs=4` reached.
"""
EPOCH_OF = """\
Epoch 1/4:  48%|███       | 12/25 [00:01<00:01, 9.5it/s, loss=0.35]
Epoch 1/4 - train loss: 0.56, val loss: 0.62, val acc: 80%
Epoch 4/4: 100%|██████████| 25/25 [00:01<00:00, 9.5it/s, loss=0.25]
Epoch 4/4 - train loss: 0.36, val loss: 0.42, val acc: 90%
"""


RAY = """\
training_iteration=1 episode_reward_mean=21.5
training_iteration=2 episode_reward_mean=43.25
"""


@pytest.mark.parametrize(
    ("text", "values", "place"),
    [
        (RAY, {"episode_reward_mean": [21.5, 43.25]}, (None, None, 2, None)),
        (MNIST, {"loss": [2.3, 0.012, 0.009], "test/average_loss": [0.4123],
            "test/accuracy": [93]}, (2, None, 7280, None)),
        (TIMM, {"loss": [6.97, 6.9, 6.8], "loss_avg": [6.97, 6.95, 6.8], "lr": [1e-5, 1e-5, 2e-5],
                "time": [1.234, 0.234, 1.2], "test/time": [0.812], "test/time_avg": [0.812],
                "test/loss": [6.7],
                "test/loss_avg": [6.7], "test/acc@1": [1.562], "test/acc@1_avg": [1.562]},
                (2, None, 1250, None)),
        (TIMM_RESUMED, {"loss": [6.97, 6.9], "loss_avg": [6.97, 6.95], "lr": [1e-5, 1e-5],
            "time": [1.234, 0.234]}, (6, 300, 6300, 375000)),
        (FAIRSEQ, {"loss": [5.3, 5.1, 4.9], "ppl": [39.4, 30], "lr": [1e-5, 3e-5],
            "val/loss": [5.0],
                   "val/ppl": [32.0], "train_loss": [5.2]}, (2, None, 12, None)),
        (DETECTRON, {"total_loss": [2.1, 1.9], "loss_cls": [0.9, 0.8], "lr": [0.001, 0.002]},
            (None, None, 39, None)),
        (MMENGINE, {"lr": [0.01, 0.01, 0.001], "loss": [1.2345, 1.0345, 0.9345],
            "val/accuracy/top1": [80.5]},
         (2, None, 60, None)),
        (DEEPSPEED, {"lr": [0.0001, 0.0002], "runningavgsamplespersec": [123.4]},
            (1, None, 20, None)),
        (YOLO, {"box_loss": [1.234, 1.134], "cls_loss": [2.345, 2.245], "val/precision": [0.669],
            "val/recall": [0.66],
                "val/map50": [0.698], "val/map50-95": [0.523]}, (2, 3, 20, 30)),
        (CATBOOST, {"learn": [0.6841], "test": [0.685], "best": [0.685]}, (None, None, 0, None)),
        (ABSL, {"loss": [0.5], "accuracy": [91.2]}, (1, 3, None, None)),
        (EPOCH_OF, {"loss": [0.35, 0.25], "train_loss": [0.56, 0.36], "val_loss": [0.62, 0.42],
            "val_acc": [80, 90]},
         (4, 4, 100, 100)),
    ],
    ids=["ray", "mnist", "timm", "timm resumed", "fairseq", "detectron2", "mmengine", "deepspeed", "yolo",
        "catboost", "absl", "epoch of"],
)  # fmt: skip
def test_every_value_of_a_print_form_is_read_and_none_other(
    text: str,
    values: dict[str, list[float]],
    place: tuple[int | None, ...],
    tmp_path: Path,
) -> None:
    series, progress = read(tmp_path, text.encode())
    assert {name: list(one.values) for name, one in series.filled().items()} == values
    assert (progress.epoch, progress.epochs, progress.step, progress.steps) == place


def test_a_printed_eta_is_used_where_no_other_is_known(tmp_path: Path) -> None:
    _, progress = read(tmp_path, DETECTRON.encode())
    assert progress.eta_s == 70
    assert read(tmp_path, MNIST.encode())[1].counted == "samples"
