"""The flags `--device`, `--threads` and `--workers`: the same, with one meaning, in every program.

Nothing here loads torch before a program asks for its device: some never do.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainers.common.settings_parser import SettingsParser, whole_number

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
MOST = 1024
"""Threads, and processes; OpenMP ends a program that asks for far more without a word."""
WORKERS_HELP = "processes that load or make data; 0: this one does"


def add_device_flags(
    parser: SettingsParser,
    workers: int | str | None = 0,
    workers_help: str = WORKERS_HELP,
    also: Sequence[str] = (),
    cpu_only: str = "",
    own_threads: bool = False,
) -> None:
    """Add --device, --threads and --workers, whose default is `workers`.

    A text for `workers` is the reason why a program has no use for any: the flag is taken, and said
    to change nothing. `cpu_only` is the reason why one has no use for a GPU, with which --device
    cuda is refused, and, without `own_threads`, none for PyTorch's threads. `also` are older names
    of --workers; the first of them names the setting.
    """
    group = parser.add_argument_group("machine")
    number = whole_number(0, MOST)
    unthreaded = cpu_only and not own_threads
    # fmt: off
    group.add_argument("--device", choices=DEVICES, default="auto", action=_on_cpu(cpu_only),
        help="auto: a GPU if one was given or is seen; cpu: the CPU though there are GPUs")
    group.add_argument("--threads", type=number, default=0,
        action=idle_action(cpu_only) if unthreaded else "store",
        help="CPU threads of PyTorch; 0: as PyTorch chooses")
    name = (also[0] if also else "--workers").lstrip("-")
    without = workers if isinstance(workers, str) else ""
    group.add_argument("--workers", *also, dest=name, type=number,
        default=0 if without else workers, help=workers_help,
        action=idle_action(without) if without else "store")
    # fmt: on


def idle_action(reason: str) -> type[argparse.Action]:
    """Return an action that stores a value and says that it changes nothing, with the reason."""

    class Idle(argparse.Action):
        """Stores, and says why that changes nothing."""

        def __call__(
            self, _: argparse.ArgumentParser, space: argparse.Namespace, value: Any, *__: Any
        ) -> None:
            setattr(space, self.dest, value)
            print(f"note         {self.option_strings[0]} {value} changes nothing: {reason}")

    return Idle


def _on_cpu(reason: str) -> type[argparse.Action]:
    """Return an action that stores a device and, where there is a reason to, refuses a GPU."""

    class OnCpu(argparse.Action):
        """Stores; refuses a GPU with the reason, where there is one."""

        def __call__(
            self, parser: argparse.ArgumentParser, space: argparse.Namespace, value: Any, *_: Any
        ) -> None:
            if reason and value == "cuda":
                parser.error(f"--device cuda: {reason}")
            setattr(space, self.dest, value)

    return OnCpu


def use_threads(settings: argparse.Namespace) -> None:
    """Compute on as many CPU threads as --threads says; 0 leaves PyTorch's choice."""
    if getattr(settings, "threads", 0):
        import torch

        torch.set_num_threads(settings.threads)


def use_device(settings: argparse.Namespace) -> tuple[torch.device, str]:
    """Return the device of --device, and why that one, after --threads was put to use.

    For a program of one process. Raises SettingsError where a GPU is wanted or given and not seen.
    """
    from trainers.common.devices import choose_device

    use_threads(settings)
    return choose_device(settings.device)
