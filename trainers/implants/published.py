"""Figures others have published, to stand beside ours: DSC, boundary DSC at 10 mm, HD95 in mm.

Quoted, none measured here. From the README of github.com/pfriedri/pcdiff-implant (Friedrich et al.,
MICCAI 2023), on the test sets; of Wodzinski et al. 2024 and arXiv 2411.17342 what they state.
"""

from __future__ import annotations

from dataclasses import dataclass

NAN = float("nan")


@dataclass(frozen=True)
class Published:
    """A row of a published table; NaN where nothing is stated."""

    method: str
    dice: float
    bdice_10mm: float
    hd95_mm: float
    source: str = "Friedrich et al. 2023"


@dataclass(frozen=True)
class Protocol:
    """The split that a table is about: skulls to train on, skulls to judge, defects of each."""

    training_skulls: int
    test_skulls: int
    defects: int
    rows: tuple[Published, ...]


PROTOCOLS = {
    "SkullBreak": Protocol(
        114,
        20,
        5,
        (
            Published("3D U-Net", 0.87, 0.91, 2.32),
            Published("2D U-Net", 0.87, 0.89, 2.13),
            Published("PCDiff", 0.86, 0.88, 2.51),
            Published("PCDiff, 5 members", 0.87, 0.89, 2.45),
            Published("latent diffusion and augmentation", 0.94, NAN, NAN, "Wodzinski 2024 (over)"),
            Published("learnable symmetry", 0.94, 0.94, 1.31, "arXiv 2411.17342"),
        ),
    ),
    "SkullFix": Protocol(
        75,
        25,
        1,
        (
            Published("3D U-Net", 0.91, 0.95, 1.79),
            Published("2D U-Net", 0.89, 0.92, 1.98),
            Published("PCDiff", 0.90, 0.92, 1.73),
            Published("PCDiff, 5 members", 0.90, 0.93, 1.69),
            Published("latent diffusion and augmentation", 0.96, NAN, NAN, "Wodzinski 2024 (over)"),
        ),
    ),
}
"""SkullBreak: 114 skulls with five defects each, 570 samples, and 100 of 20 more skulls. SkullFix:
here as the original project splits its 100 training skulls."""
