"""The one name under which fresnel-tui is installed.

Its packages are imported as `tui` and `runners`, by its own processes only: they alone have that
folder on `sys.path`. A program that is started, or that shares the environment, keeps these names.
"""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
ROOT = _HERE if (_HERE / "runners").is_dir() else _HERE.parents[2]
"""The folder of `tui`, `runners`, `trainers` and `presets`: this one, or that of a checkout."""


def import_ours() -> None:
    """Let `tui` and `runners` be imported, before any others of these names.

    Raises ImportError when this process has imported others already.
    """
    for name in ("tui", "runners"):
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None) or ""
        if module is not None and not file.startswith(f"{ROOT}/"):
            raise ImportError(
                f"a package named `{name}` is imported already, from {file or 'a folder'}: "
                "import fresnel_tui before it, or use the commands with --json"
            )
    if str(ROOT) not in sys.path[:1]:
        sys.path.insert(0, str(ROOT))


def main() -> None:
    """Run the panel, or a headless command when one is named."""
    import_ours()
    from tui.__main__ import main as run

    run()
