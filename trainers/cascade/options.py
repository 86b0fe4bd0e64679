"""The command line of train.py and of the guide's four names for it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from trainers.cascade.config import Config, read_config
from trainers.common.arithmetic import add_arithmetic_flags
from trainers.common.device_flags import add_device_flags
from trainers.common.files import expanded
from trainers.common.report import run_directory
from trainers.common.settings_parser import (
    SettingsError,
    SettingsParser,
    number_between,
    output_folder,
    seed_number,
    whole_number,
)

HERE = Path(__file__).resolve().parent
OVERRIDES = {
    "epochs": "training.num_epochs_per_stage",
    "batch_size": "training.batch_size",
    "learning_rate": "training.learning_rate",
    "mixed_precision": "training.mixed_precision",
    "gradient_checkpointing": "training.gradient_checkpointing",
    "accumulation_steps": "training.accumulation_steps",
    "warmup_steps": "training.warmup_steps",
    "sampling_steps": "training.sampling_steps",
    "validation_samples": "training.validation_samples",
    "num_workers": "data.num_workers",
    "dataset_path": "data.dataset_path",
    "max_patients": "data.max_patients",
    "cache_in_memory": "data.cache_in_memory",
    "augmentation": "data.augmentation",
}
"""Flags that win over a key of the configuration file."""
EXAMPLES = """
python trainers/cascade/train.py --config tiny.json --checkpoint_dir out/tiny
torchrun --nproc_per_node=4 trainers/cascade/train_distributed.py \\
    --config config/multi_view_config.json
accelerate launch --multi_gpu --num_processes=4 --mixed_precision=fp16 \\
    trainers/cascade/train_accelerate.py --config config/multi_view_config.json --wandb
python trainers/cascade/train.py --config tiny.json --resume_from out/tiny/stage1_best.pt
"""


def make_parser() -> SettingsParser:
    """Return the command line of train.py."""
    parser = SettingsParser(
        "Train the Hybrid-ViT cascade: frontal and lateral X-ray in, CT volume out, in stages.",
        EXAMPLES,
        complete=lambda _: None,  # --config names a file with sections, which config.py reads
    )
    some, any_number, switch = whole_number(1), whole_number(0), argparse.BooleanOptionalAction
    add = parser.add_argument_group("run").add_argument
    # fmt: off
    add("--config", type=Path, default=Path("multi_view_config.json"), metavar="FILE",
        help="configuration file, or the name of one shipped beside this program")
    add("--checkpoint_dir", type=output_folder,
        help="where checkpoints, pictures and logs go; default: the file's,"
        " else the panel's run folder, else ./checkpoints")
    add("--resume_from", "--resume", metavar="PATH|auto|auto-or-new", dest="resume_from",
        help="go on from a checkpoint, such as stage2_best.pt; auto: the newest in checkpoint_dir")
    add("--start_stage", type=some, metavar="N",
        help="begin stage N, from 1, anew; needs --resume_from for N > 1;"
        " default: the stage the checkpoint is in")
    add("--save_all_checkpoints", action="store_true", help="keep the checkpoints of all epochs")
    add("--keep", type=any_number, help="keep so many checkpoints beside stageN_best.pt; 0: all")
    add("--save_every", type=some, metavar="EPOCHS", help="write a checkpoint every so many epochs")
    add("--seed", type=seed_number, default=42,
        help="decides weights, order and noise; splits stay as they are")
    add("--tensorboard", action=switch, default=True, help="write TensorBoard's files")
    add("--log_dir", default="logs", help="their folder, in checkpoint_dir unless it is absolute")
    add("--wandb", action=switch, default=None,
        help="log to Weights & Biases; offline without a key")
    add("--wandb_project", help="its project; default: the file's, else hybrid-vit-cascade")
    add("--compile", action="store_true",
        help="compile the blocks and the head of each stage's network by torch.compile, at its"
        " first step; code for one block serves all")
    add("--cuda_graphs", action="store_true",
        help="compile it whole, replayed as CUDA graphs, which spares the host; not measured"
        " for this network")
    add("--made_up", type=any_number, default=0, metavar="N",
        help="make N patients of ellipsoids in"
        " dataset_path first, where they are missing")
    # fmt: on
    add_device_flags(
        parser, None, "loading processes per GPU; default: the file's", also=("--num_workers",)
    )  # fmt: skip
    _add_overrides(parser)
    add_arithmetic_flags(parser, benchmark=True, tf32=True)
    parser.refuse(
        "--skip_verification", reason="data are always checked; it takes one pass, which is kept"
    )
    parser.refuse(
        "--local_rank", "--local-rank", reason="start with torchrun, which sets LOCAL_RANK"
    )
    return parser


def _add_overrides(parser: SettingsParser) -> None:
    some, any_number, switch = whole_number(1), whole_number(0), argparse.BooleanOptionalAction
    add = parser.add_argument_group("over the configuration file").add_argument
    # fmt: off
    add("--epochs", type=some, help="epochs, in every stage")
    add("--batch_size", type=some, help="patients per step and GPU, in every stage")
    add("--learning_rate", type=number_between(0, 1), help="highest learning rate")
    add("--mixed_precision", choices=("no", "fp16", "bf16", "auto"),
        help="wins over the launcher's, which wins"
        " over the file's")
    add("--gradient_checkpointing", action=switch, default=None,
        help="compute activations twice to save memory")
    add("--accumulation_steps", type=some, help="batches whose gradients make one step")
    add("--warmup_steps", type=any_number,
        help="steps of a rising rate at the beginning of a stage")
    add("--sampling_steps", type=some, help="steps of the DDIM sampler that judges")
    add("--validation_samples", type=some, help="samples whose mean is judged")
    add("--dataset_path", help="folder with a folder for each patient")
    add("--max_patients", type=whole_number(3), help="use at most so many patients")
    add("--cache_in_memory", action=switch, default=None, help="keep loaded patients in memory")
    add("--augmentation", action=switch, default=None, help="mirror and expose patients at random")
    # fmt: on


def launcher_notes() -> list[str]:
    """Return what Accelerate's launcher decided, and what of the user's own files counts less."""
    if "ACCELERATE_MIXED_PRECISION" not in os.environ:
        return []
    precision = os.environ["ACCELERATE_MIXED_PRECISION"]
    notes = [f"started by accelerate launch, mixed precision {precision}"]
    home = expanded(os.environ.get("HF_HOME", "~/.cache/huggingface"))
    for name in ("default_config.yaml", "default_config.json"):
        path = home / "accelerate" / name
        if path.is_file():
            notes.append(f"{path} counts only where the launcher's flags say nothing")
    if "WORLD_SIZE" not in os.environ:
        notes.append(
            "accelerate launch started one process; two on a CPU: torchrun --nproc_per_node=2"
        )
    return notes


def find_config(path: Path) -> Path:
    """Return a configuration file as named, or the shipped one. Raises SettingsError."""
    shipped = HERE / "config" / path.name
    if path.is_file():
        return path
    if shipped.is_file() and not path.is_absolute():
        return shipped
    known = ", ".join(sorted(entry.name for entry in shipped.parent.glob("*.json")))
    raise SettingsError(f"--config: there is no file {path}; shipped are {known}")


def resolve(settings: argparse.Namespace) -> Config:
    """Return the configuration with flags put in, and complete the flags from it. Raises
    SettingsError.
    """
    given = {
        key: getattr(settings, flag)
        for flag, key in OVERRIDES.items()
        if getattr(settings, flag) is not None
    }
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    if launched in ("fp16", "bf16") and "training.mixed_precision" not in given:
        given["training.mixed_precision"] = launched
    config = read_config(find_config(settings.config), given)
    checkpointing, wandb = config.checkpointing, config.logging["wandb"]
    if settings.checkpoint_dir is None:
        named = checkpointing["checkpoint_dir"]
        settings.checkpoint_dir = Path(named or (run_directory() or Path()) / "checkpoints")
    if settings.tensorboard:
        try:
            output_folder(str(settings.checkpoint_dir / settings.log_dir))
        except argparse.ArgumentTypeError as problem:
            raise SettingsError(f"--log_dir: {problem}") from None
    if settings.keep is None:
        settings.keep = checkpointing["keep_last_n_checkpoints"]
    if settings.save_all_checkpoints:
        settings.keep = 0
    settings.save_every = settings.save_every or checkpointing["save_every_n_epochs"] or 1
    if settings.wandb is None:
        settings.wandb = wandb["enabled"]
    settings.wandb_project = settings.wandb_project or wandb["project"]
    return config


def described(settings: argparse.Namespace, config: Config) -> dict[str, Any]:
    """Return what a checkpoint says about the run that wrote it, in plain types."""
    stages = [
        {"name": s.name, "volume_size": s.sizes.size, "voxel_dim": s.sizes.dim,
         "vit_depth": s.sizes.depth, "num_heads": s.sizes.heads, "patch_size": s.sizes.patch,
         "head_channels": s.sizes.head_channels, "use_depth_lifting": s.sizes.learned_depth,
         "physics_weight": s.physics_weight, "batch_size": s.batch_size}
        for s in config.stages
    ]  # fmt: skip
    aside = {*OVERRIDES, "save_all_checkpoints"}
    flags = {name: value for name, value in vars(settings).items() if name not in aside}
    training = {
        key: value for key, value in config.training.items() if not key.startswith("batch_size")
    }
    xray = {"views": list(config.views), "img_size": config.image_size,
            "share_view_weights": config.stages[0].sizes.share_view_weights}  # fmt: skip
    if config.stated_geometry:
        xray["geometry"] = config.stated_geometry
    return {
        **flags,
        "xray": xray,
        "stages": stages,
        "training": training,
        "data": dict(config.data),
    }
