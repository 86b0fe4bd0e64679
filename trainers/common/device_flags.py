"""The flags `--device`, `--threads` and `--workers`: the same in every program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch

from trainers.common.devices import DEVICES, choose_device
from trainers.common.settings_parser import SettingsParser, whole_number

WORKERS_HELP = "processes that load data; 0: load in this one"


def add_device_flags(
    parser: SettingsParser,
    workers: int | str | None = 0,
    workers_help: str = WORKERS_HELP,
    also: Sequence[str] = (),
) -> None:
    """Add --device, --threads and --workers, whose default is `workers`.

    A text for `workers` is the reason why a program has no use for any: the flag is refused with
    it. `also` are older names of --workers; the first of them names the setting.
    """
    group = parser.add_argument_group("machine")
    number = whole_number(0)
    # fmt: off
    group.add_argument("--device", choices=DEVICES, default="auto",
        help="auto: a GPU if one was given or is seen; cpu: the CPU though there are GPUs")
    group.add_argument("--threads", type=number, default=0,
        help="CPU threads of PyTorch; 0: as PyTorch chooses")
    # fmt: on
    if isinstance(workers, str):
        parser.refuse("--workers", *also, reason=workers)
        return
    name = (also[0] if also else "--workers").lstrip("-")
    group.add_argument(
        "--workers", *also, dest=name, type=number, default=workers, help=workers_help
    )


def use_threads(settings: argparse.Namespace) -> None:
    """Compute on as many CPU threads as --threads says; 0 leaves PyTorch's choice."""
    if getattr(settings, "threads", 0):
        torch.set_num_threads(settings.threads)


def use_device(settings: argparse.Namespace) -> tuple[torch.device, str]:
    """Return the device of --device, and why that one, after --threads was put to use.

    For a program of one process. Raises SettingsError where a GPU is wanted or given and not seen.
    """
    use_threads(settings)
    return choose_device(settings.device)
