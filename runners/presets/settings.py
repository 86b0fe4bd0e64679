"""The user's own settings: `settings.yaml` in the configuration folder, one Struct per section.

A section is a field of `Settings`: what is declared there is checked, explained in errors, and has a default, so
the file may be missing, and any part of it.
"""

from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from runners.model.paths import config_dir


class CostKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Money."""

    metadata: Annotated[
        bool, Meta(description="Ask the cloud's metadata service (169.254.169.254) which machine this is.")
    ] = False


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything that settings.yaml can say."""

    cost: Annotated[CostKeys, Meta(description="Prices, sessions and guards.")] = CostKeys()


def settings_file() -> Path:
    """Where the settings are looked for."""
    return config_dir() / "settings.yaml"


def read_settings() -> Settings:
    """The settings as the file has them now; defaults where it is missing; WrongInput names file, line and key."""
    path = settings_file()
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return Settings()
    return _read(path, changed)


@cache
def _read(path: Path, changed: int) -> Settings:
    # Most people have no such file: they need not wait for the YAML reader.
    from runners.presets.source import Source
    from runners.presets.yaml_source import read_yaml

    values, lines = read_yaml(path)
    source = Source(path, lines)
    if values is not None and not isinstance(values, dict):
        raise source.error((), f"expected sections: {', '.join(Settings.__struct_fields__)}")
    settings: Settings = source.convert(values or {}, Settings, ())
    return settings
