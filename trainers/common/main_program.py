"""A trainer's main program: flags that all have, and errors as one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

import trainers
from trainers.common.arithmetic import add_arithmetic_flags, set_arithmetic
from trainers.common.device_flags import add_device_flags, use_threads
from trainers.common.errors import SettingsError, StoppedError
from trainers.common.failures import failure, output_may_be_lost, rank_of, told_by_leader
from trainers.common.holding import release_folders
from trainers.common.precision import PRECISIONS
from trainers.common.ranks import leave_ranks
from trainers.common.report import EventLog, run_directory
from trainers.common.schedules import RATE_RULES, SCHEDULES
from trainers.common.settings_parser import (
    SettingsParser,
    number_between,
    output_folder,
    seed_number,
    whole_number,
)
from trainers.common.stacks import answer_with_stacks
from trainers.common.stopping import StopRequest, stop_watching_workers

_any, _some = whole_number(0), whole_number(1)
MOST_DECAY = 0.999999
"""Of averaged weights: by 1 they would stay what they begin with, and be judged so."""


def add_run_flags(
    parser: SettingsParser,
    epochs: int,
    keep: int = 3,
    fixed_shapes: bool = False,
    tf32: bool = True,
) -> None:
    """Add what says where, how long, from where on and how a run works."""
    add = parser.add_argument_group("run").add_argument
    # fmt: off
    add("--config", type=Path, metavar="FILE", help="YAML or JSON file of settings; flags win")
    add("--output_dir", type=output_folder, default=run_directory() or Path("output"),
        help="where results go")
    add("--epochs", type=_some, default=epochs, help="times to go through the training set")
    add("--seed", type=seed_number, default=0,
        help="decides weights, order of samples and all chance")
    add("--resume", metavar="PATH|auto|auto-or-new",
        help="go on from a checkpoint; auto: the newest of this run or of one with the same"
        " settings; auto-or-new: the same, or begin anew where there is none")
    add("--checkpoint_every", type=_some, default=1, metavar="EPOCHS",
        help="save every so many epochs")
    add("--keep", type=_any, default=keep,
        help="keep so many checkpoints, the newest, beside best.pt; 0: all")
    add("--tensorboard", action=argparse.BooleanOptionalAction, default=True,
        help="write TensorBoard files where tensorboardX is installed")
    add("--wandb", metavar="PROJECT", help="log to Weights & Biases; offline where no key is found")
    # fmt: on
    add_device_flags(parser)
    add_arithmetic_flags(parser, fixed_shapes, tf32)


def add_optimiser_flags(
    parser: SettingsParser,
    lr: float,
    batch_size: int,
    base_batch: int,
    schedule: str = "cosine",
    rule: str = "none",
    warmup: int = 0,
    clip: float = 1.0,
    ema: float = 0.0,
) -> None:
    """Add what decides a step: batch, rate and its schedule, precision, clipping, averaging."""
    add = parser.add_argument_group("optimiser").add_argument
    # fmt: off
    add("--batch_size", type=_some, default=batch_size, help="samples per step and device")
    add("--accumulate", type=_some, default=1, help="batches whose gradients make one step")
    add("--lr", type=number_between(0, 10), default=lr, help="highest rate, before the rule")
    add("--lr_rule", choices=RATE_RULES, default=rule,
        help="how the rate follows the effective batch")
    add("--base_batch", type=_some, default=base_batch, help="effective batch --lr is meant for")
    add("--schedule", choices=SCHEDULES, default=schedule,
        help="how the rate falls after the warm-up")
    add("--warmup", type=_any, default=warmup, metavar="STEPS", help="steps of a rising rate")
    add("--lr_floor", type=number_between(0, 1, closed=True), default=0.0,
        help="share of the highest rate that is left at the end")
    add("--clip", type=number_between(0, 1e9, closed=True), default=clip,
        help="greatest norm of the gradient; 0: no clipping")
    add("--ema", type=number_between(0, MOST_DECAY, closed=True), default=ema,
        help="decay of the averaged weights that are judged and kept; 0: none")
    add("--precision", choices=PRECISIONS, default="auto",
        help="auto: bf16 on GPUs that have it, fp16 on others, fp32 on a CPU")
    # fmt: on


def run_main(
    train: Callable[[argparse.Namespace], int],
    parser: SettingsParser,
    arguments: list[str] | None = None,
) -> int:
    """Read settings, train, and return the exit code for sys.exit.

    0 done or stopped, 1 failed, 2 a setting that cannot be, 130 interrupted twice. torchrun's error
    file is written. A rank other than 0 prints only what rank 0 does not know. Rank 0 announces the
    code as its last event, for a panel whose processes were killed before they could see it.
    """
    settings = parser.read(arguments)
    with output_may_be_lost():
        code = _run(train, settings)
    if rank_of() == 0:
        events = EventLog(run_directory())
        events.emit("end", code=code, pid=os.getpid())
        events.close()
    return code


def run_making(
    make: Callable[[argparse.Namespace, StopRequest], int],
    parser: SettingsParser,
    arguments: list[str] | None = None,
) -> int:
    """Do what run_main does, for a program of a trained model that makes something of it.

    Where it raises StoppedError the code is as of the signal, as make_data's: whoever waits for
    what it makes must not take it for made.
    """
    stop = StopRequest()

    def work(settings: argparse.Namespace) -> int:
        stop.listen()
        try:
            return make(settings, stop)
        except StoppedError:
            if rank_of() == 0:
                print("stopped: what is made stays, and is not made again", file=sys.stderr)
            return stop.code

    return run_main(work, parser, arguments)


def _run(train: Callable[[argparse.Namespace], int], settings: argparse.Namespace) -> int:
    use_threads(settings)
    if hasattr(settings, "tf32"):
        set_arithmetic(settings.tf32, settings.cudnn_benchmark)
    # Before any other thread is there, which inherit it. Squares of small gradients in Adam's
    # averages fall below 1e-38 soon, and a processor takes twenty times as long for these.
    torch.set_flush_denormal(True)
    answer_with_stacks()
    try:
        code = record(train)(settings)
        leave_ranks()
        return int(code or 0)
    except StoppedError:
        if rank_of() == 0:
            print("stopped on request before the first step: nothing is to be saved")
        return 0
    except KeyboardInterrupt:
        trainers.leave()
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as problem:
        stop_watching_workers()
        text, rank = failure(problem, settings), rank_of()
        if not text:
            raise
        if rank == 0 or not told_by_leader(problem):
            where = f" on rank {rank}" if rank else ""
            print(f"error{where}: {text}", file=sys.stderr)
        return 2 if isinstance(problem, SettingsError) else 1
    finally:
        trainers.leave()
        release_folders()
        torch.set_flush_denormal(False)
