"""Prints the least versions that pyproject.toml asks for, as pip takes them, for `make test-oldest`.

Of the core, and of what the panel can have beside it; what only tests need is as new as it comes.
"""

import re
from pathlib import Path

_PARTS = re.compile(
    r"^(?:dependencies|stacks|serve|pictures|optuna) = \[(.*?)\]$", re.MULTILINE | re.DOTALL
)
_LEAST = re.compile(r'"([\w-]+)>=([\d.]+)')


def least_versions(project: str) -> list[str]:
    """The requirements in the text of a pyproject.toml, each at its lower bound: `rich==14.2`."""
    parts = "".join(_PARTS.findall(project))
    return ["==".join(found) for found in _LEAST.findall(parts)]


if __name__ == "__main__":
    project = Path(__file__).parents[1] / "pyproject.toml"
    print(*least_versions(project.read_text(encoding="utf-8")))
