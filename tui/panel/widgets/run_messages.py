"""What the run pane announces."""

from textual.message import Message


class RunSelected(Message):
    """The cursor moved to another run, or the first run appeared."""


class TableShown(Message):
    """Other lines, another filter or other values are shown."""


class RunOpened(Message):
    """Enter was pressed on a run."""


class CostsWanted(Message):
    """Runs are on the screen whose cost nobody has looked up yet."""


class OlderRunsWanted(Message):
    """The end of the list is on the screen, and other machines have older runs."""
