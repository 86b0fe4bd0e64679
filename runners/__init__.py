"""The core of fresnel-tui: everything about runs. Knows no screen and no tensor."""

import runners.host.quick_pathlib  # noqa: F401 - before anything imports pathlib

__version__ = "0.3.0"
