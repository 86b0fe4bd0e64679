"""The one name under which fresnel-tui is installed.

Its packages are imported as `tui` and `runners`, by its own processes only: they alone have that
folder on `sys.path`. A program that is started, or that shares the environment, keeps these names.
"""

import os
import sys

# No pathlib: `runners` imports it, lighter.
_HERE = os.path.dirname(os.path.realpath(__file__))
_IS_INSTALLED = os.path.isdir(os.path.join(_HERE, "runners"))
ROOT = _HERE if _IS_INSTALLED else os.path.abspath(os.path.join(_HERE, *[os.pardir] * 3))
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
    if ROOT not in sys.path[:1]:
        sys.path.insert(0, ROOT)


def main() -> None:
    """Run the panel, or a headless command when one is named."""
    import_ours()
    from tui.__main__ import main as run

    run()
