"""What the run pane announces."""

from textual.message import Message

from runners.places.run_row import RunRow


class RunSelected(Message):
    """The cursor moved to another run, or the first run appeared."""

    def __init__(self, row: RunRow) -> None:
        super().__init__()
        self.row = row


class TableShown(Message):
    """Other lines, another filter or other values are shown."""


class RunOpened(Message):
    """Enter was pressed on a run."""


class CostsWanted(Message):
    """Runs are on the screen whose cost nobody has looked up yet."""


class OlderRunsWanted(Message):
    """The end of the list is on the screen, and other machines have older runs."""
