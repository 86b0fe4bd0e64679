"""What a plan comes to, in the few lines that the launch form has for it."""

from rich.text import Text

from tui.panel.widgets.launch.plan_view import OutcomeLines

WIDTH = 76
MENDS, FREE, NOTE = "what mends it, " * 6, "GPU 0 free", "a note"


def shown(*parts: str) -> list[str]:
    """The lines in which these parts are shown."""
    lines = OutcomeLines(id="outcome")
    lines._text = Text("\n").join(map(Text, parts))
    return lines._fitting(WIDTH).plain.split("\n")


def test_a_long_reason_gives_way_to_what_mends_it() -> None:
    reason, *others = shown("refused: " + "x" * 300, MENDS, FREE, NOTE)
    assert len(reason) == WIDTH and reason.endswith("…")
    assert others == [MENDS, FREE, NOTE]


def test_what_fits_stays_as_it_is() -> None:
    parts = ["refused: " + "x" * 90, FREE, NOTE]
    assert shown(*parts) == parts
