"""Runs from Python: launch them, look at them, end them; see the page on scripts."""

from fresnel_tui import import_ours

import_ours()

from tui.api import *  # noqa: E402, F403
from tui.api import __all__  # noqa: E402, F401
