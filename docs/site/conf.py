"""How `make site` builds the pages: Sphinx, which reads Markdown by MyST."""

import re
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]

project = "fresnel-tui"
author = "the authors of fresnel-tui"
release = re.search(r'"(.+)"', (_ROOT / "runners" / "__init__.py").read_text())[1]
extensions = ["myst_parser"]
root_doc = "site/index"
myst_heading_anchors = 4
html_theme = "alabaster"
html_title = f"fresnel-tui {release}"
html_show_sourcelink = False
# Commands with flags, keys in angle brackets: no language of Sphinx's own reads them all.
highlight_language = "text"


def setup(app: Any) -> None:
    """Pages beside `docs/` are reached by those that include them here."""

    def lead_inside(_: Any, name: str, source: list[str]) -> None:
        source[0] = source[0].replace("](../SECURITY.md", "](/site/security.md")

    app.connect("source-read", lead_inside)
