"""The Fresnel project's decoders, as plainly as its published architecture says them.

Layer sizes, formulas and the names in a state dict are those of experiments 2, 4 and 5 at 6f190d2.
Each answers positions, scales, rotation columns as quaternions' matrices, colours and opacities.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIDE = 37
POINTS = 377


def layers(width: int, *sizes: int) -> nn.Module:
    """A module called `net`: linear layers, between them ReLU and dropout."""
    shell = nn.Module()
    parts: list[nn.Module] = []
    for size in sizes[:-1]:
        parts += [nn.Linear(width, size), nn.ReLU(), nn.Dropout(0.1)]
        width = size
    shell.net = nn.Sequential(*parts, nn.Linear(width, sizes[-1]))
    return shell


def attributes(raw: Tensor) -> tuple[Tensor, ...]:
    """Scales, rotations, colours and opacities of raw numbers (..., 16)."""
    scales = torch.clamp(F.softplus(torch.clamp(raw[..., 3:6], -10, 20) + 1) * 0.15, 1e-6, 2.0)
    first = raw[..., 6:9] / raw[..., 6:9].norm(dim=-1, keepdim=True)
    second = raw[..., 9:12] - (first * raw[..., 9:12]).sum(-1, keepdim=True) * first
    second = second / second.norm(dim=-1, keepdim=True)
    third = torch.stack(
        (
            first[..., 1] * second[..., 2] - first[..., 2] * second[..., 1],
            first[..., 2] * second[..., 0] - first[..., 0] * second[..., 2],
            first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0],
        ),
        dim=-1,
    )
    rotations = torch.stack((first, second, third), dim=-1)
    return scales, rotations, torch.sigmoid(raw[..., 12:15]), torch.sigmoid(raw[..., 15])


class Patches(nn.Module):
    """Experiment 2: K Gaussians for each of 37 x 37 patches."""

    def __init__(self, channels: int, k: int, fusion: bool, pose: bool) -> None:
        super().__init__()
        self.k = k
        self.depth_offset = nn.Parameter(torch.tensor(-2.0))
        if fusion:
            self.depth_encoder = nn.Module()
            self.depth_encoder.encoder = nn.Sequential(
                *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU()),
                *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()),
                *(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()),
            )
        if pose:
            self.pose_encoder = nn.Module()
            self.pose_encoder.mlp = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64))
            self.opacity_modulator = nn.Sequential(
                nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid()
            )
        self.mlp = layers(channels + 64 * fusion, 512, 512, 256, 128, 16 * k)

    def forward(
        self, features: Tensor, depth: Tensor | None, pose: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        if hasattr(self, "depth_encoder"):
            encoded = F.adaptive_avg_pool2d(self.depth_encoder.encoder(depth), SIDE)
            features = torch.cat((features, encoded), dim=1)
        raw = self.mlp.net(features.permute(0, 2, 3, 1)).view(len(features), SIDE, SIDE, self.k, 16)
        places = torch.linspace(-1, 1, SIDE)
        x = places.view(1, 1, SIDE, 1) + 0.25 * raw[..., 0]
        y = places.view(1, SIDE, 1, 1) + 0.25 * raw[..., 1]
        z = self.depth_offset.expand_as(x)
        if depth is not None:
            small = F.interpolate(depth, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
            z = z - 2 * small[:, 0].unsqueeze(-1)
        found = (torch.stack((x, y, z), dim=-1), *attributes(raw))
        positions, scales, rotations, colours, opacities = (part.flatten(1, 3) for part in found)
        if pose is not None:
            octaves = [2.0**octave for octave in range(8)]
            columns = []
            for angle in (pose[:, 0], pose[:, 1]):
                columns += [torch.sin(angle * octave) for octave in octaves]
                columns += [torch.cos(angle * octave) for octave in octaves]
            encoded = self.pose_encoder.mlp(torch.stack(columns, dim=1))
            opacities = torch.clamp(opacities * (0.5 + self.opacity_modulator(encoded)), 0, 1)
        return positions, scales, rotations, colours, opacities


class Spiral(nn.Module):
    """What experiments 4 and 5 share: 377 points of a spiral."""

    def __init__(self) -> None:
        super().__init__()
        self.depth_offset = nn.Parameter(torch.tensor(-2.0))
        index = torch.arange(POINTS, dtype=torch.float32)
        angle, radius = index * (math.pi * (3 - math.sqrt(5))), torch.sqrt(index / POINTS)
        self.register_buffer("spiral_x", radius * torch.cos(angle))
        self.register_buffer("spiral_y", radius * torch.sin(angle))

    def sampled(self, grid: Tensor) -> Tensor:
        places = torch.stack((self.spiral_x, self.spiral_y), dim=-1)[None, None]
        places = places.expand(len(grid), -1, -1, -1)
        found = F.grid_sample(grid, places, align_corners=True, padding_mode="border")
        return found[:, :, 0].transpose(1, 2)

    def positions(self, raw: Tensor, depth: Tensor | None) -> Tensor:
        x, y = self.spiral_x + 0.15 * raw[..., 0], self.spiral_y + 0.15 * raw[..., 1]
        z = self.depth_offset.expand_as(x)
        z = z if depth is None else z - 2 * self.sampled(depth)[..., 0]
        return torch.stack((x, y, z), dim=-1)


class Fibonacci(Spiral):
    """Experiment 4: an MLP at each point."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mlp = layers(channels, 512, 256, 128, 16)

    def forward(self, features: Tensor, depth: Tensor | None) -> tuple[Tensor, ...]:
        raw = self.mlp.net(self.sampled(features))
        return self.positions(raw, depth), *attributes(raw)


class Automaton(Spiral):
    """Experiment 5: cells whose state holds places; each sees itself and its six nearest."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.step_size = nn.Parameter(torch.tensor(0.1))
        self.init_state_net = nn.Sequential(
            *(nn.Linear(channels, 256), nn.ReLU()),
            *(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 16)),
        )
        self.perception = nn.Sequential(nn.Linear(7 * 16, 256), nn.ReLU(), nn.Linear(256, 128))
        self.update_rule = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 16))

    def forward(self, features: Tensor, depth: Tensor | None) -> tuple[Tensor, ...]:
        state = self.init_state_net(self.sampled(features))
        state = torch.cat((self.positions(state, depth), state[..., 3:]), dim=-1)
        for _ in range(16):
            near = torch.cdist(state[..., :3], state[..., :3]).topk(7, largest=False).indices
            seen = torch.stack([cells[index] for cells, index in zip(state, near, strict=True)])
            seen = F.relu(self.perception(seen.flatten(2)))
            state = state + self.step_size * self.update_rule(seen)
        return state[..., :3], *attributes(state)
