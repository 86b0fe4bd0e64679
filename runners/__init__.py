"""The core of fresnel-tui: everything about runs. Knows no screen and no tensor."""

__version__ = "0.2.0"
