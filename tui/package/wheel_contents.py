"""What a wheel has beside the four folders: hatchling asks this hook when it builds one.

An editable installation has none of it, only the way to this folder.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BESIDE = {
    "tui/package/fresnel_tui": "fresnel_tui",
    "pyproject.toml": "fresnel_tui/pyproject.toml",
    "constraints.txt": "fresnel_tui/constraints.txt",
}


class WheelContents(BuildHookInterface[Any]):
    """Puts the one package that is imported around the folders."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; `version` is `standard` or `editable`."""
        if version == "standard":
            build_data["force_include"].update(_BESIDE)
