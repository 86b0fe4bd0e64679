"""What a log pane shows, as text."""

from tui.panel.widgets.log.pane import LogPane


def shown(pane: LogPane) -> list[str]:
    """The rows on the screen."""
    return [row.line.safe.text[row.start : row.end] for row in pane.reader.view.rows]


def line_here(pane: LogPane) -> str:
    """The whole line that keys act on."""
    line = pane.reader.line
    return line.safe.text if line is not None else ""
