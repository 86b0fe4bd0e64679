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


REFUSED = {
    WAVES: "use_wave_rendering use_physics_zones use_diffraction_placement use_multi_wavelength"
    " use_fourier_renderer use_qsr use_phase_blending wavelength wavelength_r wavelength_g"
    " wavelength_b learnable_wavelength learnable_wavelengths focal_depth wave_equation_weight",
    PHASES: "use_phase_output phase_amplitude",
    "its term, around 6000, drowns all others; use --use_frequency_loss, which is normalised":
        "use_phase_retrieval_loss phase_retrieval_weight",
    ZONES: "use_fresnel_zones num_fresnel_zones boundary_weight",
    "scale and opacity are learned for every Gaussian; leave it away":
        "use_edge_aware edge_scale_factor edge_opacity_boost",
    "upstream shows no task that it helps; leave it away": "use_tensegrity_loss tensegrity_weight",
    "belongs to upstream's train_direct_decoder.py, another model": "occ_weight occ_threshold",
    COMPILING: "compile",
    "use --checkpoint_every": "save_interval",
    "lines come by time, every two seconds at most": "log_interval",
}  # fmt: skip


def refuse_the_rest(parser: SettingsParser) -> None:
    """Answer these flags with their reasons and exit code 2."""
    for reason, names in REFUSED.items():
        parser.refuse(*(f"--{name}" for name in names.split()), reason=reason)
