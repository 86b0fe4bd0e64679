"""The keys of the metrics page, and the line that names the most needed of them."""

from rich.text import Text
from textual.binding import Binding, BindingType

from tui.panel.hotkeys import hotkey

_PAGE = "the page of charts before or after"
_ENDS = "the first page of charts, the last"
_PART = "a smaller or larger part of the x axis"
_PAN = "an earlier or later part of the x axis"
_MOVE = "a pinned chart before or after its neighbour"
_WRITE = "write this chart as SVG and CSV; W: all that match"

PAGE_KEYS: list[BindingType] = [
    hotkey("escape,q,m", "back", "close what was opened last, then the page", "Close"),
    hotkey("enter,z", "alone", "one chart alone; Esc: back", "One chart"),
    hotkey("pageup,left_square_bracket", "page(-1)", _PAGE, "Page", display="[ ]"),
    hotkey("pagedown,right_square_bracket", "page(1)", _PAGE),
    hotkey("home", "page(-100000)", _ENDS),
    hotkey("end", "page(100000)", _ENDS),
    hotkey("slash", "filter", "filter the metrics by name", "Filter", display="/"),
    hotkey("r", "runs", "to the list of runs, and back", "Runs"),
    hotkey("a", "mark_more", "draw live runs too; again: ended ones of the preset; only one"),
    hotkey("p", "pin", "the run under the cursor on top"),
    hotkey("P", "pin_chart", "this chart before others, behind validation and loss; again: not"),
    hotkey("b", "judge", "judge the drawn runs by this metric: more, less, then by default"),
    hotkey("shift+up", "move_chart(-1)", _MOVE),
    hotkey("shift+down", "move_chart(1)", _MOVE),
    hotkey("J", "turn('joined')", "resumed runs as one curve with what they go on from, or apart"),
    hotkey("x", "turn('axis')", "steps, epochs, time, GPU-hours or dollars", "X axis"),
    hotkey("L", "turn('log')", "logarithmic, and back", "Log"),
    hotkey("s", "turn('smoothing')", "more smoothing, then none", "Smooth"),
    hotkey("c", "turn('cursor')", "values under a cursor, moved by ← →", "Cursor"),
    hotkey("plus,equals_sign", "turn('closer')", _PART, "Zoom", display="+ -"),
    hotkey("minus", "turn('wider')", _PART),
    hotkey("comma,less_than_sign,ctrl+left", "turn('earlier')", _PAN),
    hotkey("full_stop,greater_than_sign,ctrl+right", "turn('later')", _PAN),
    hotkey("0", "turn('whole')", "all of the x axis"),
    hotkey("g", "turn('columns')", "how many charts side by side"),
    hotkey("o", "settings", "settings and environment of the run", "Settings"),
    hotkey("w", "write(False)", _WRITE),
    hotkey("W", "write(True)", _WRITE),
    Binding("question_mark", "app.help", "Help", key_display="?", show=False),
]
_KEYS = (
    ("Esc", "close"),
    ("Enter", "one chart"),
    ("[ ]", "page"),
    ("/", "filter"),
    ("r", "runs"),
    ("a", "more runs"),
    ("x", "axis"),
    ("L", "log"),
    ("s", "smooth"),
    ("c", "cursor"),
    ("+ -", "zoom"),
    ("o", "settings"),
    ("P", "pin chart"),
    ("b", "best by"),
    ("w", "save"),
    ("?", "all keys"),
)


def key_line() -> Text:
    """What keys do, the most needed first: a narrow terminal shows as many as it has room for."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for key, meaning in _KEYS:
        text.append(f" {key} ", style="bold").append(meaning, style="dim").append(" ")
    return text
