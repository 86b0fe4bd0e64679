"""The flags: ours, the Fresnel project's, and those of its that are refused with the reason."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from trainers.common.errors import SettingsError
from trainers.common.main_program import add_optimiser_flags, add_run_flags
from trainers.common.settings_parser import SettingsParser, number_between, whole_number
from trainers.gaussian.decoder import DecoderSettings
from trainers.gaussian.features import FEATURE_SUFFIXES
from trainers.gaussian.geometry import GEOMETRIES, GRID
from trainers.gaussian.hfts import Savings
from trainers.gaussian.losses import LossSettings
from trainers.gaussian.projection import UPSTREAM_BLUR
from trainers.gaussian.refused import refuse_the_rest
from trainers.gaussian.render import BACKENDS

EXAMPLES = """
python trainers/gaussian/train.py --epochs 5 --max_images 50
python trainers/gaussian/train_gaussian_decoder.py --data_dir images/training --fast_mode
torchrun --nproc_per_node=8 trainers/gaussian/train.py --data_dir photographs --epochs 100
"""
FAST_RESOLUTION, FAST_WINDOW, FAST_VALIDATE = 128, 8, 5
SSIM_WINDOW = 11


def make_parser(**defaults: Any) -> SettingsParser:
    """Return the parser of the trainer."""
    parser = SettingsParser("Train the Fresnel Gaussian decoder on photographs.", EXAMPLES)
    # The renderer's exponents and SSIM's variances are small differences of large products.
    add_run_flags(parser, epochs=5, tf32=False)
    add_optimiser_flags(parser, lr=1e-3, batch_size=4, base_batch=4, warmup=100)
    _add_data_flags(parser)
    _add_model_flags(parser)
    _add_drawing_flags(parser)
    _add_loss_flags(parser)
    _add_schedule_flags(parser)
    _add_pose_flags(parser)
    refuse_the_rest(parser)
    parser.set_defaults(**{"lr_floor": 0.02} | defaults)
    return parser


def _add_data_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("data").add_argument
    # fmt: off
    add("--data_dir", type=Path,
        help="folder of images and features/; without it: built-in photographs")
    add("--features", choices=("auto", "dinov2", "patch"), default="auto",
        help="DINOv2 files or descriptors of the image's pixels; auto: dinov2 with --data_dir, else"
        " patch")
    add("--feature_dim", type=int, choices=sorted(FEATURE_SUFFIXES),
        help="of DINOv2's features; without it: what the files are")
    add("--max_images", type=whole_number(2),
        help="use at most so many images, held-out ones included")
    add("--held_out", type=number_between(0, 1), default=0.2,
        help="share of the images to judge by")
    add("--image_size", type=whole_number(16, 2048), default=64,
        help="side of the square images, pixels")
    add("--pair_gap", type=whole_number(0), default=0, metavar="PLACES",
        help="learn from the view so many places on in its scene, too; see prepare_scenes.py")
    add("--unseen_weight", type=number_between(0, 1000), default=1.0, help="weight of its loss")
    add("--cache_mb", type=whole_number(0), default=512,
        help="megabytes of read images and features to keep in memory, for all workers; 0: none")
    add("--probe_batch", action="store_true",
        help="find the largest batch that fits by single steps, print it and end; nothing is"
        " trained")
    # fmt: on


def _add_model_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("model").add_argument
    some = whole_number(1)
    # fmt: off
    add("--experiment", type=_experiment, default=2, metavar="{2,4,5}",
        help="2: an MLP for every patch; 4: Fibonacci spiral; 5: neural cellular automaton")
    add("--gaussians_per_patch", type=whole_number(1, 64), default=4,
        help="Gaussians per patch, of 37 x 37")
    add("--use_depth_fusion", action="store_true",
        help="tell the decoder the depth image too (experiment 2)")
    add("--depth_feature_dim", type=some, default=64, help="channels of the encoded depth image")
    add("--n_spiral_points", type=whole_number(8, 100_000), default=377,
        help="points of experiments 4 and 5")
    add("--nca_steps", type=some, default=16, help="steps of the automaton")
    add("--nca_neighbors", type=some, default=6, help="neighbours a cell listens to")
    add("--nca_step_size", type=number_between(0, 10), default=0.1,
        help="what its learned step size begins at")
    add("--dropout", type=number_between(0, 1, closed=True), default=0.0,
        help="after each hidden layer; upstream's 0.1 makes colours greyer")
    # fmt: on


def _add_drawing_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("drawing").add_argument
    # fmt: off
    add("--geometry", choices=("auto", *GEOMETRIES), default="auto",
        help="patch: ours, right side up; upstream: row 0 at the bottom, depth inverted, as the"
        " Fresnel project's own checkpoints were trained; patch-sigmoid: ours as it was before"
        " colours were linear; auto: the checkpoint's, else patch")
    add("--renderer", choices=BACKENDS, default="auto",
        help="auto: gsplat on CUDA if installed, compiled loops on a CPU with numba, else torch")
    add("--blur", type=number_between(0, 100), default=UPSTREAM_BLUR,
        help="variance in px² added to every Gaussian; viewers of .ply files add 0.3")
    add("--export_onnx", action=argparse.BooleanOptionalAction, default=True,
        help="write gaussian_decoder_expN.onnx at the end where onnx and onnxscript are installed")
    # fmt: on


def _add_loss_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("loss").add_argument
    weight = number_between(0, 1000, closed=True)
    # fmt: off
    add("--ssim_weight", type=weight, default=0.5, help="weight of 1 - SSIM")
    add("--depth_weight", type=weight, default=0.1,
        help="weight of the depth term, where there are depth files")
    add("--lpips_weight", type=weight, default=0.1,
        help="weight of LPIPS; it is off, and says so, where its weight files are not found")
    add("--lpips_dir", type=Path, help="folder of alexnet-owt-7be5be79.pth and lpips' alex.pth")
    add("--use_frequency_loss", action="store_true", help="compare amplitude spectra too")
    add("--frequency_loss_weight", type=weight, default=0.1, help="its weight")
    add("--high_freq_weight", type=weight, default=2.0, help="how much more high frequencies count")
    add("--frequency_cutoff", type=number_between(0, 1), default=0.1,
        help="where high begins, cycles/px")
    add("--use_vlm_guidance", action="store_true", help="weigh L1 by features/*_vlm_density.npy")
    add("--vlm_weight", type=number_between(0, 1, closed=True), default=0.5,
        help="how much: pixels weigh (1-w) + w * density")
    # fmt: on


def _add_schedule_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("fast training (HFTS)").add_argument
    # fmt: off
    add("--fast_mode", action="store_true",
        help=f"--train_window {FAST_WINDOW} --train_resolution {FAST_RESOLUTION}"
        f" --validate_every {FAST_VALIDATE}, each unless given; the last --final_share of the"
        " epochs is trained in full")
    add("--train_window", type=whole_number(0, GRID), metavar="PATCHES",
        help="train on random windows of so many patches a side; 0: whole images")
    add("--train_resolution", type=whole_number(0, 2048), metavar="PX",
        help="image size of the first half of the cheap epochs; 0: as --image_size")
    add("--progressive_schedule", action=argparse.BooleanOptionalAction, default=False,
        help="begin with 1 Gaussian per patch, split into 2, 4 and all by half of the cheap epochs")
    add("--stochastic_k", type=whole_number(0), default=0, metavar="N",
        help="leave out Gaussians at random and strengthen the others so that the mean picture is"
        " the same; at least N, and at least as many as the opacities add up to, are drawn;"
        " 0: all")
    add("--final_share", type=number_between(0, 1), default=Savings.final_share,
        help="share of the epochs of the last phase; at least one epoch")
    add("--validate_every", type=whole_number(1), metavar="EPOCHS",
        help="judge on held-out images every so many epochs and after the last; without it: 1")
    # fmt: on


def _add_pose_flags(parser: SettingsParser) -> None:
    add = parser.add_argument_group("other views").add_argument
    # fmt: off
    add("--multi_pose_augmentation", action="store_true",
        help="train on turned views too, where the photograph turned by its depth files shows"
        " something")
    add("--pose_range_elevation", type=float, nargs=2, default=[-30.0, 45.0], metavar="DEG",
        help="from, to")
    add("--pose_range_azimuth", type=float, nargs=2, default=[0.0, 360.0], metavar="DEG",
        help="from, to")
    add("--frontal_prob", type=number_between(0, 1, closed=True), default=0.3,
        help="share of frontal steps")
    add("--use_pose_encoding", action="store_true", help="tell the decoder the view (experiment 2)")
    # fmt: on


def _experiment(text: str) -> int:
    reasons = {
        "1": "experiment 1 refines SAAG Gaussians that upstream never ships; use 2",
        "3": "experiment 3 is a placeholder upstream that applies two of its six outputs; use 2",
    }
    if text in reasons:
        raise argparse.ArgumentTypeError(reasons[text])
    if text not in ("2", "4", "5"):
        raise argparse.ArgumentTypeError(f"{text} is none of 2, 4 and 5")
    return int(text)


def complete(settings: argparse.Namespace) -> None:
    """Fill in what depends on other flags. Raises SettingsError where two contradict each other."""
    if settings.features == "auto":
        settings.features = "dinov2" if settings.data_dir else "patch"
    smallest = min(settings.image_size, settings.train_resolution or settings.image_size)
    least = -(-SSIM_WINDOW * GRID // smallest)
    given = {
        "train_resolution": (FAST_RESOLUTION, 0),
        "train_window": (max(FAST_WINDOW, least) if least < GRID else 0, 0),
        "validate_every": (FAST_VALIDATE, 1),
    }
    for name, (fast, full) in given.items():
        if getattr(settings, name) is None:
            setattr(settings, name, fast if settings.fast_mode else full)
    if settings.experiment != 2:
        for name in ("use_depth_fusion", "use_pose_encoding"):
            if getattr(settings, name):
                raise SettingsError(f"--{name} belongs to --experiment 2")
        if settings.gaussians_per_patch != 4:
            raise SettingsError(
                "--gaussians_per_patch belongs to --experiment 2; use --n_spiral_points"
            )
        settings.progressive_schedule, settings.train_window = False, 0
    if settings.multi_pose_augmentation and settings.pair_gap:
        raise SettingsError("--pair_gap has real views: leave --multi_pose_augmentation out")
    if settings.multi_pose_augmentation or settings.pair_gap:
        settings.train_window = 0
    if settings.use_pose_encoding and not settings.multi_pose_augmentation:
        raise SettingsError(
            "--use_pose_encoding needs --multi_pose_augmentation: there is one view else"
        )
    for name in ("pose_range_elevation", "pose_range_azimuth"):
        low, high = getattr(settings, name)
        if low > high:
            raise SettingsError(f"--{name}: {low:g} is above {high:g}")
    if 0 < settings.train_window < least:
        raise SettingsError(
            f"--train_window {settings.train_window}: at {smallest} px these are fewer than the"
            f" {SSIM_WINDOW} pixels SSIM needs; use at least {least} or 0"
        )


def decoder_settings(
    settings: argparse.Namespace, feature_dim: int, geometry: str
) -> DecoderSettings:
    """Return what decides the decoder's layers."""
    return DecoderSettings(
        experiment=settings.experiment,
        feature_dim=feature_dim,
        gaussians_per_patch=settings.gaussians_per_patch,
        depth_fusion=settings.use_depth_fusion,
        depth_feature_dim=settings.depth_feature_dim,
        pose_encoding=settings.use_pose_encoding,
        spiral_points=settings.n_spiral_points,
        nca_steps=settings.nca_steps,
        nca_neighbours=settings.nca_neighbors,
        nca_step_size=settings.nca_step_size,
        geometry=geometry,
        dropout=settings.dropout,
    )


def savings(settings: argparse.Namespace) -> Savings:
    """Return which savings of the fast schedule are in force."""
    return Savings(
        settings.train_resolution,
        settings.progressive_schedule,
        settings.stochastic_k,
        settings.train_window,
        settings.final_share,
    )


def loss_settings(settings: argparse.Namespace) -> LossSettings:
    """Return the weights of the terms."""
    return LossSettings(
        settings.ssim_weight,
        settings.depth_weight,
        settings.lpips_weight,
        settings.frequency_loss_weight if settings.use_frequency_loss else 0.0,
        settings.high_freq_weight,
        settings.frequency_cutoff,
    )
