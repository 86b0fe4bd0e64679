"""The stages together: sampling through them in turn, and what a checkpoint keeps of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainers.cascade.config import Config
from trainers.cascade.diffusion import VolumeDiffusion, seeded_noise
from trainers.cascade.model import CascadeStage
from trainers.common.stopping import Watched


@dataclass
class Cascade:
    """The stages made so far, with the measured error of each on held-out patients.

    Errors are deviations in [-1, 1] units.
    """

    config: Config
    diffusion: VolumeDiffusion
    stages: list[CascadeStage] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)
    watched: Watched = iter
    """What the steps of sampling go through."""

    @classmethod
    def of(cls, config: Config) -> Cascade:
        """Return a cascade of this configuration without any stage yet."""
        return cls(
            config,
            VolumeDiffusion(
                config.training["num_timesteps"], config.training["v_parameterization"]
            ),
        )

    def add_stage(self, device: torch.device) -> CascadeStage:
        """Make the next stage with new weights and return it."""
        stage = CascadeStage(self.config.stages[len(self.stages)].sizes).to(device)
        stage.gradient_checkpointing = self.config.training["gradient_checkpointing"]
        self.stages.append(stage)
        return stage

    def state_dict(self) -> dict[str, Tensor]:
        """Return all stages' weights as `stages.NAME.…`."""
        return {
            f"stages.{stage.sizes.name}.{name}": tensor
            for stage in self.stages
            for name, tensor in stage.state_dict().items()
        }

    def load(self, weights: dict[str, Tensor], count: int, device: torch.device) -> None:
        """Make the first count stages and give them the weights of a state_dict."""
        self.stages.clear()
        for _ in range(count):
            stage = self.add_stage(device)
            beginning = f"stages.{stage.sizes.name}."
            own = {
                name.removeprefix(beginning): w
                for name, w in weights.items()
                if name.startswith(beginning)
            }
            stage.load_state_dict(own)

    def level(self, number: int, count: int, device: torch.device) -> Tensor:
        """Return the stated error (count,) of stage `number`, from 1, within the next one's range.

        The range is that of the levels the next stage was trained on.
        """
        most = float(self.config.training["conditioning_noise"])
        return torch.full((count,), min(self.levels[number - 1], most), device=device)

    @torch.no_grad()
    def sample_stage(
        self,
        number: int,
        xrays: Tensor,
        before: Tensor | None,
        seeds: Sequence[tuple[int, ...]],
        steps: int,
        eta: float = 0.0,
    ) -> Tensor:
        """Return volumes (B, 1, D, D, D) of stage `number`, from 1, for X-rays (B, V, S, S).

        There is a seed for each item. before is what the stage before said, (B, 1, d, d, d). The
        same seeds give the same volumes, whatever the batch.
        """
        stage = self.stages[number - 1]
        size, device = stage.sizes.size, xrays.device
        shape = (1, size, size, size)
        noise = torch.stack([seeded_noise(shape, device, *seed, number, 0) for seed in seeds])
        level = None if number == 1 else self.level(number - 1, len(xrays), device)

        def fresh() -> Iterator[Tensor]:
            turn = 1
            while True:
                yield torch.stack(
                    [seeded_noise(shape, device, *seed, number, turn) for seed in seeds]
                )
                turn += 1

        def denoise(x: Tensor, t: Tensor) -> Tensor:
            return stage(x, t, xrays, before, level).float()

        was_training = stage.training
        stage.eval()
        limits = tuple(stage.standardise(torch.full((), end, device=device)) for end in (-1.0, 1.0))
        drawn = self.diffusion.sample(denoise, noise, steps, eta, fresh(), limits, self.watched)
        stage.train(was_training)
        return stage.volume_of(drawn)

    def mean_sample(
        self,
        number: int,
        xrays: Tensor,
        before: Tensor | None,
        seeds: Sequence[tuple[int, ...]],
        steps: int,
        count: int,
        eta: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """Return mean and deviation over count samples of one stage, both (B, 1, D, D, D)."""
        mean = squares = torch.zeros((), device=xrays.device)
        for turn in range(count):
            drawn = self.sample_stage(
                number, xrays, before, [(*seed, turn) for seed in seeds], steps, eta
            )
            # Welford's: the difference of two means would lose the digits of a small deviation.
            away = drawn - mean
            mean = mean + away / (turn + 1)
            squares = squares + away * (drawn - mean)
        return mean, (squares / count).clamp(min=0).sqrt()

    def run(
        self,
        xrays: Tensor,
        seeds: Sequence[tuple[int, ...]],
        steps: int,
        count: int,
        upto: int,
        eta: float = 0.0,
    ) -> list[tuple[Tensor, Tensor]]:
        """Return mean and deviation of each stage up to a number, each given the mean before it."""
        found: list[tuple[Tensor, Tensor]] = []
        for number in range(1, upto + 1):
            before = found[-1][0] if found else None
            found.append(self.mean_sample(number, xrays, before, seeds, steps, count, eta))
        return found
