"""A model card: what a trained model learnt from, how well it does, and what made it."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from trainers.common.checkpoint import versions
from trainers.common.config_file import flat_keys
from trainers.common.files import write_text_whole
from trainers.common.settings_parser import plain
from trainers.common.weights import SUFFIX, write_weights

ROOT = Path(__file__).resolve().parents[2]
MADE_UP_LICENCE = "mit"
"""Of what was learnt from data that this repository makes up: nobody else's rights are in it."""


@dataclass(frozen=True)
class ModelCard:
    """What a card says. `data` and `figures` are shown in their order, settings by name.

    `licence` is an SPDX name in lower case; empty where only the data's owner can say it.
    """

    title: str
    trainer: str
    about: str
    data: Mapping[str, Any]
    figures: Mapping[str, float]
    settings: Mapping[str, Any]
    licence: str = ""
    notes: Sequence[str] = field(default=())


def export_model(
    path: Path, weights: Mapping[str, Tensor], card: ModelCard, description: Any = None
) -> list[Path]:
    """Write weights as safetensors and their card beside them; return both files."""
    weights_path = path.with_suffix(SUFFIX)
    write_weights(weights_path, weights, description)
    return [weights_path, write_card(weights_path, card)]


def write_card(model: Path, card: ModelCard) -> Path:
    """Write the card of a model file beside it, under its name and .md; return the card's path."""
    path = model.with_suffix(".md")
    write_text_whole(path, card_text(card, model.name))
    return path


def card_text(card: ModelCard, file_name: str) -> str:
    """Return a card as Markdown, headed as Hugging Face's cards are (their docs, model cards)."""
    licence = card.licence or "other"
    allowed = (
        f"`{card.licence}`"
        if card.licence
        else "Not said: it depends on the licence of the data above. Say it before you pass it on."
    )
    code = {"program": f"trainers/{card.trainer} of fresnel-tui", "code": code_version()}
    parts = [
        f"---\nlicense: {licence}\nlibrary_name: pytorch\ntags: [fresnel-tui, {card.trainer}]\n---",
        f"# {card.title}",
        card.about,
        f"Weights: `{file_name}`.",
        *card.notes,
        "## Data\n\n" + _table(("", ""), card.data),
        "## Figures\n\n" + (_table(("measure", "value"), card.figures) or "None were measured."),
        "## Licence\n\n" + allowed,
        "## Made by\n\n" + _table(("", ""), {**code, **versions()}),
        "## Settings\n\n" + _table(("key", "value"), dict(flat_keys(plain(card.settings)))),
    ]
    return "\n\n".join(parts) + "\n"


def _table(heading: tuple[str, str], rows: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"| {heading[0]} | {heading[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {_cell(value)} |" for name, value in rows.items())])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    text = value if isinstance(value, str) else json.dumps(plain(value))
    return text.replace("|", "\\|").replace("\n", " ")


def code_version() -> str:
    """Return the commit of this checkout, else the version that is installed."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*"]
    command += ["--dirty=, with changes"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        if found.returncode == 0 and (ROOT / ".git").exists():
            return f"commit {found.stdout.strip()}"
        return f"version {importlib.metadata.version('fresnel-tui')}"
    except (OSError, subprocess.TimeoutExpired, importlib.metadata.PackageNotFoundError):
        return "unknown"
