"""The cloud training guide's modes, folders and money, by what the shipped presets say."""

import pytest

from runners.model.spec import RunSpec
from runners.presets.catalogue import list_presets, resolve_runs

SHIPPED: dict[str, RunSpec] = {
    preset.name: specs[0]
    for preset in list_presets()
    for specs in [resolve_runs(preset.name, [], "")]
    if len(specs) == 1
}
TRAIN = {
    name: spec
    for name, spec in SHIPPED.items()
    if spec.script.endswith("gaussian/train.py") and name != "gaussian-tiny"
}
MODES = {
    "validate": (5, 2, 64),
    "fast": (100, 256, 256),
    "standard": (200, 128, 256),
    "full": (300, 64, 512),
    "custom": (100, 32, 256),
}
"""The guide's epochs, batch and size; validate's 32 is two steps an epoch of 50 images."""


def value(spec: RunSpec, name: str) -> object:
    return next(part.value for part in spec.parameters if part.name == name)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_has_the_guides_epochs_batch_and_size(mode: str) -> None:
    spec = SHIPPED[f"gaussian-{mode}"]
    assert tuple(value(spec, key) for key in ("epochs", "batch_size", "image_size")) == MODES[mode]


@pytest.mark.parametrize("name", TRAIN)
def test_what_costs_money_is_checked_before_it_is_paid_for(name: str) -> None:
    assert {"data", "checkpoint", "disk"} <= set(TRAIN[name].verify)


def test_every_preset_with_a_price_is_checked_before_it_is_launched() -> None:
    unchecked = [name for name, spec in SHIPPED.items() if spec.price and not spec.verify]
    assert unchecked == []


@pytest.mark.parametrize("name", [*TRAIN, "gaussian-preprocess", "gaussian-evaluate"])
def test_photographs_are_in_one_place(name: str) -> None:
    # validate trains on photographs of scikit-image where no folder is named.
    place = value(SHIPPED[name], "data_dir")
    assert place == (None if "validate" in name else "images/training")


@pytest.mark.parametrize("name", [name for name in TRAIN if name.endswith("-local")])
def test_the_local_variants_say_how_long_they_take_and_why(name: str) -> None:
    spec = TRAIN[name]
    assert spec.estimate.seconds and spec.estimate.doubt
    assert spec.environment["HSA_OVERRIDE_GFX_VERSION"] == "11.0.0"
    assert 2 <= int(str(value(spec, "batch_size"))) <= 4
