"""The command line of PCDiff's trainer: the guides' flags, ours, and those refused with a reason.

Flags and defaults are those of pcdiff/train_completion.py in both generations of its repository,
spelled as there (some with dashes, some with underscores).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from trainers.common.device_flags import add_device_flags
from trainers.common.main_program import MOST_DECAY
from trainers.common.report import run_directory
from trainers.common.schedules import RATE_RULES
from trainers.common.settings_parser import (
    SettingsParser,
    number_between,
    output_folder,
    seed_number,
    whole_number,
)
from trainers.pcdiff.diffusion import LOSSES, MEANINGS, SCHEDULES
from trainers.pcdiff.geometry import SEARCHES
from trainers.pcdiff.model import MOST_UP
from trainers.pcdiff.samplers import METHODS

_any, _some = whole_number(0), whole_number(1)
_share = number_between(0, 1, closed=True)
COMPILING = "coordinates, and with them every shape inside the network, change from step to step"
GATES = "no gate ends a run here; --niter is how long it trains, and the panel watches the loss"
PROXY = "the proxy judged with a sampler that is wrong; use --vizIter, and trainers/voxelization"
REFUSED = (
    (
        ("--compile", "--compile-backend", "--compile-mode", "--compile-fullgraph"),
        f"not compiled: {COMPILING}",
    ),
    (("--gpu",), "choose GPUs with CUDA_VISIBLE_DEVICES, or `--gpu-ids` of the panel"),
    (("--dist-backend",), "the backend follows the device: nccl on GPUs, gloo on CPUs"),
    (("--world_size", "--dist_url", "--distribution_type", "--rank"), "start it with torchrun"),
    (
        (
            "--gating-max-epochs",
            "--gating-decision-epochs",
            "--gating-proxy-eval-freq",
            "--gating-grad-norm-threshold",
            "--gating-loss-spike-threshold",
            "--gating-plateau-delta",
            "--gating-plateau-variance",
        ),
        GATES,
    ),
    (
        (
            "--proxy-eval-subset",
            "--proxy-eval-vox-config",
            "--proxy-eval-vox-checkpoint",
            "--proxy-eval-num-ens",
            "--proxy-eval-sampling-method",
            "--proxy-eval-sampling-steps",
        ),
        PROXY,
    ),
)


def truth(text: str) -> bool:
    """Read `True` or `False`, as these flags have always been written."""
    values = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in values:
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return values[text.lower()]


def never(reason: str) -> type[argparse.Action]:
    """Return an action that accepts False and refuses True with the reason."""

    class Never(argparse.Action):
        """Accepts False only."""

        def __call__(
            self, parser: argparse.ArgumentParser, space: object, value: object, *_: object
        ) -> None:
            if value:
                parser.error(f"{self.option_strings[0]} True: {reason}")

    return Never


def make_parser(description: str, examples: str) -> SettingsParser:
    """Return the trainer's parser."""
    parser = SettingsParser(description, examples)
    add_data_flags(parser)
    add_model_flags(parser)
    add_training_flags(parser)
    add_output_flags(parser)
    add_run_flags(parser)
    add_device_flags(parser, 8, "processes that load data, of all devices together")
    for flags, reason in REFUSED:
        parser.refuse(*flags, reason=reason)
    return parser


# fmt: off
def add_data_flags(parser: SettingsParser) -> None:
    """Add what the network is shown."""
    add = parser.add_argument_group("data").add_argument
    add("--path", type=Path, metavar="CSV", help="list of complete skulls, such as train.csv")
    add("--made_up", type=whole_number(2, 500), metavar="COUNT",
        help="without --path: make so many skulls up in the output folder and train on them")
    add("--made_up_size", type=whole_number(24, 512), default=48, help="their voxels a side")
    add("--made_up_seed", type=seed_number, default=0, help="another seed, other skulls")
    add("--dataset", choices=("SkullBreak", "SkullFix"), default="SkullBreak", help="whose layout")
    add("--val_path", type=Path, metavar="CSV", help="judged by; else test.csv beside --path")
    add("--bs", type=_some, default=8, help="samples of a step, over all devices together")
    add("--accumulate", type=_some, default=1, help="parts of a device's share of --bs")
    add("--prefetch-factor", type=_some, default=4, help="batches each of them prepares ahead")
    add("--niter", type=_some, default=15_000, help="epochs")
    add("--nc", type=int, choices=(3,), default=3, help="coordinates of a point")
    add("--num_points", type=whole_number(64), default=30_720, help="points of skull and implant")
    add("--num_nn", type=_some, default=3_072, help="points of them that are the implant's")
    add("--augment", type=truth, default=False, metavar="True|False", help="rotate by up to ±10°")


def add_diffusion_flags(parser: SettingsParser) -> None:
    """Add what decides the noise; training and sampling share it."""
    add = parser.add_argument_group("diffusion").add_argument
    add("--beta_start", type=number_between(0, 1), default=1e-4, help="variance of the first step")
    add("--beta_end", type=number_between(0, 1), default=0.02, help="variance of the last step")
    add("--schedule_type", choices=SCHEDULES, default="linear", help="how the variance grows")
    add("--time_num", type=whole_number(2, 100_000), default=1000, help="steps of noise")
    add("--model_mean_type", choices=MEANINGS, default="eps",
        help="what the network says: the noise as published, or v, which few steps learn sooner")
    add("--model_var_type", choices=("fixedsmall", "fixedlarge"), default="fixedsmall",
        help="variance of DDPM's steps: the posterior's, or beta")


def add_model_flags(parser: SettingsParser) -> None:
    """Add what decides the network and its loss."""
    add_diffusion_flags(parser)
    add = parser.add_argument_group("model").add_argument
    add("--loss_type", choices=(*LOSSES, "kl"), default="mse", help="plain, or weighted by min-SNR")
    add("--min_snr_gamma", type=number_between(0, 1e6), default=5.0, help="its gamma")
    add("--attention", type=truth, default=True, metavar="True|False", help="with attention blocks")
    add("--dropout", type=_share, default=0.1, help="dropout in the voxel branch")
    add("--head_dropout", type=_share, default=0.5, help="dropout before the last layer")
    add("--embed_dim", type=whole_number(4), default=64, help="width of the time embedding")
    add("--width_mult", type=number_between(0, 8), default=1.0, help="factor on every width")
    add("--vox_res_mult", type=number_between(0, 8), default=1.0, help="factor on voxel grids")
    add("--up_convolutions", type=whole_number(1, MOST_UP), default=MOST_UP,
        help="point-voxel convolutions of an upward stage, at most so many")
    add("--neighbours", choices=SEARCHES, default="auto",
        help="how neighbours are found: numba on the CPU, torch on any device, triton on a GPU;"
        " auto: numba on a CPU, on a GPU whichever is fastest")


def add_training_flags(parser: SettingsParser) -> None:
    """Add what decides a step."""
    add = parser.add_argument_group("optimiser").add_argument
    add("--lr", type=number_between(0, 10), default=2e-4, help="learning rate, before --lr-scaling")
    add("--lr-scaling", choices=RATE_RULES, default="none",
        help="how the rate follows --bs over --lr-base-batch; none: --lr is what is used")
    add("--lr-base-batch", type=_some, default=8, help="the --bs that --lr is meant for")
    add("--lr-warmup-epochs", type=_any, default=0, help="epochs of a rising rate")
    add("--lr-warmup-start-factor", type=_share, default=0.01, help="where it begins")
    add("--lr_scheduler", choices=("exponential", "cosine"), default="exponential",
        help="how the rate falls after the warm-up, epoch by epoch")
    add("--lr_gamma", type=_share, default=1.0, help="exponential: factor an epoch")
    add("--cosine_T_max", type=_any, default=700,
        help="cosine: epochs down to the least rate; 0: all of --niter")
    add("--cosine_eta_min", type=_share, default=1e-6, help="cosine: least rate")
    add("--beta1", type=_share, default=0.5, help="Adam's first beta; the second is 0.999")
    add("--decay", type=_share, default=0.0, help="Adam's weight decay")
    add("--grad_clip", type=number_between(0, 1e9, closed=True), default=0.0,
        help="greatest norm of the gradient; 0: no clipping")
    add("--ema_decay", type=number_between(0, MOST_DECAY, closed=True), default=0.0,
        help="average the weights; 0: no")
    add("--amp", action=argparse.BooleanOptionalAction, default=False, help="mixed precision")
    add("--disable-amp", dest="amp", action="store_false", help=argparse.SUPPRESS)
    add("--amp-dtype", choices=("float16", "bfloat16"), default="float16", help="its type")
    add("--no-fused-adam", action="store_true", help="on a GPU: Adam in separate kernels")
    add("--ddp-static-graph", action="store_true", help="tell DDP that every step is alike")
    add("--nondeterministic", action="store_true", help="let cuDNN choose by speed")
    add("--disable-tf32", action="store_true", help="on a GPU: full float32 products")
    add("--matmul-precision", choices=("highest", "high", "medium"), default="high",
        help="torch.set_float32_matmul_precision; `low` does not exist")
    add("--disable-compile", action="store_true", help=f"always so here: {COMPILING}")


def add_output_flags(parser: SettingsParser) -> None:
    """Add what is written and how often."""
    add = parser.add_argument_group("output, counted in epochs").add_argument
    add("--output_dir", type=output_folder, default=run_directory(),
        help="default: the panel's run folder, or pcdiff/output/train_completion/<date>")
    add("--checkpoint_dir", type=output_folder,
        help="for what to resume from; OUTPUT_DIR/checkpoints")
    add("--checkpoint_freq", type=_some, default=25, help="write one so often, and at the end")
    add("--keep_last_n", type=_any, default=3, help="keep so many of them; 0: all")
    add("--saveIter", type=_some, default=1000, help="write epoch_N.pth so often, and at the end")
    add("--vizIter", type=_any, default=2000, help="draw samples into syn/ so often; 0: never")
    add("--viz_samples", type=_some, default=2, help="how many")
    add("--viz_method", choices=METHODS, default="ddim", help="by which sampler")
    add("--viz_steps", type=_some, default=50, help="in so many steps")
    add("--diagIter", type=_any, default=2000, help="bits per dimension so often; 0: never")
    add("--diag_steps", type=_some, default=20, help="timesteps it looks at")
    add("--val_freq", type=_any, default=50, help="loss on the held-out list so often; 0: never")
    add("--val_samples", type=_some, default=16, help="on so many of its samples")
    add("--export_half", action=argparse.BooleanOptionalAction, default=False,
        help="write pcdiff.safetensors at the end in half precision, half as large")
    add("--print_freq", type=_some, default=10, help="steps between two lines of the log")
    add("--tensorboard", action=argparse.BooleanOptionalAction, default=True,
        help="write its files")
    add("--wandb-project", help="log to Weights & Biases; offline where no key is found")
    add("--wandb-entity", help="its entity")
    add("--wandb-name", help="the run's name there")
    add("--no-wandb", action="store_true", help="do not, whatever --wandb-project says")
    add("--experiment-tag", default="", help="appended to the default output folder's name")


def add_run_flags(parser: SettingsParser) -> None:
    """Add what says where and from where on a run works."""
    add = parser.add_argument_group("run").add_argument
    add("--config", type=Path, metavar="FILE", help="YAML or JSON of these settings; flags win")
    add("--model", type=Path, metavar="FILE",
        help="go on from this epoch_N.pth or checkpoint, or begin with weights as .safetensors")
    add("--resume", metavar="PATH|auto|auto-or-new",
        help="go on from a checkpoint; auto: the newest of this run or of one like it")
    add("--manualSeed", type=seed_number, default=1234,
        help="decides weights, order and all chance")
    add("--gating-enabled", type=truth, action=never(GATES), help=argparse.SUPPRESS)
    add("--proxy-eval-enabled", type=truth, action=never(PROXY), help=argparse.SUPPRESS)
# fmt: on
