"""The Fresnel project's flags that are refused, each with the reason and what to use instead."""

from __future__ import annotations

from trainers.common.settings_parser import SettingsParser

WAVES = (
    "the wave-optics renderers are left out: upstream's crash at the first batch or draw isotropic"
    " blobs; the tile renderer is used"
)
PHASES = "phases only serve the wave-optics renderers, which are left out; leave the flag away"
ZONES = "it snaps measured depth to 8 planes; depth files are used as they are, leave the flag away"
COMPILING = (
    "most of a step is the renderer, whose loops are compiled by numba or are gsplat's, and whose"
    " lists have another length in every step; leave it away"
)


def refuse_the_rest(parser: SettingsParser) -> None:
    """Answer these flags with their reasons and exit code 2."""
    waves = (
        "wave_rendering",
        "physics_zones",
        "diffraction_placement",
        "multi_wavelength",
        "fourier_renderer",
        "qsr",
        "phase_blending",
    )
    for name in waves:
        parser.refuse(f"--use_{name}", reason=WAVES)
    for name in (
        "wavelength",
        "wavelength_r",
        "wavelength_g",
        "wavelength_b",
        "learnable_wavelength",
        "learnable_wavelengths",
        "focal_depth",
        "wave_equation_weight",
    ):
        parser.refuse(f"--{name}", reason=WAVES)
    for name in ("use_phase_output", "phase_amplitude"):
        parser.refuse(f"--{name}", reason=PHASES)
    for name in ("use_phase_retrieval_loss", "phase_retrieval_weight"):
        parser.refuse(
            f"--{name}",
            reason=(
                "its term, around 6000, drowns all others; use --use_frequency_loss, which is"
                " normalised"
            ),
        )
    for name in ("use_fresnel_zones", "num_fresnel_zones", "boundary_weight"):
        parser.refuse(f"--{name}", reason=ZONES)
    for name in ("use_edge_aware", "edge_scale_factor", "edge_opacity_boost"):
        parser.refuse(
            f"--{name}", reason="scale and opacity are learned for every Gaussian; leave it away"
        )
    for name in ("use_tensegrity_loss", "tensegrity_weight"):
        parser.refuse(f"--{name}", reason="upstream shows no task that it helps; leave it away")
    for name in ("occ_weight", "occ_threshold"):
        parser.refuse(
            f"--{name}", reason="belongs to upstream's train_direct_decoder.py, another model"
        )
    parser.refuse("--compile", reason=COMPILING)
    parser.refuse("--save_interval", reason="use --checkpoint_every")
    parser.refuse("--log_interval", reason="lines come by time, every two seconds at most")
