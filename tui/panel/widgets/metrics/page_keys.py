"""The keys of the metrics page; its line of hints has those with words, in this order."""

from textual.binding import Binding, BindingType

from tui.panel.hotkeys import hotkey

_PAGE = "the page of charts before or after"
_ENDS = "the first page of charts, the last"
_PART = "a smaller or larger part of the x axis"
_MORE = "draw live runs too, ended ones, or only one"
_PIN = "pin this chart before others; again: unpin"
_BEST = "judge by this metric: more, less, by default"
_PAN = "an earlier or later part of the x axis"
_MOVE = "a pinned chart before or after its neighbour"
_WRITE = "write as SVG and CSV; W: all that match"

PAGE_KEYS: list[BindingType] = [
    hotkey("escape,q,m", "back", "close what was opened last, then the page", "close"),
    hotkey("enter,z", "alone", "one chart alone; Esc: back", "one chart"),
    hotkey("pageup,left_square_bracket", "page(-1)", _PAGE, "page", display="[ ]"),
    hotkey("pagedown,right_square_bracket", "page(1)", _PAGE),
    hotkey("home", "page(-100000)", _ENDS),
    hotkey("end", "page(100000)", _ENDS),
    hotkey("slash", "filter", "filter the metrics by name", "filter", display="/"),
    hotkey("r", "runs", "to the list of runs, and back", "runs"),
    hotkey("a", "mark_more", _MORE, "more runs"),
    hotkey("J", "turn('joined')", "a resumed run and its past: one curve, or two"),
    hotkey("x", "turn('axis')", "steps, epochs, time, GPU-hours or dollars", "axis"),
    hotkey("L", "turn('log')", "logarithmic, and back", "log"),
    hotkey("s", "turn('smoothing')", "more smoothing, then none", "smooth"),
    hotkey("c", "turn('cursor')", "values under a cursor, moved by ← →", "cursor"),
    hotkey("plus,equals_sign", "turn('closer')", _PART, "zoom", display="+ -"),
    hotkey("minus", "turn('wider')", _PART),
    hotkey("comma,less_than_sign,ctrl+left", "turn('earlier')", _PAN),
    hotkey("full_stop,greater_than_sign,ctrl+right", "turn('later')", _PAN),
    hotkey("0", "turn('whole')", "all of the x axis"),
    hotkey("g", "turn('columns')", "how many charts side by side"),
    hotkey("o", "settings", "settings and environment of the run", "settings"),
    hotkey("p", "pin", "the run under the cursor on top"),
    hotkey("P", "pin_chart", _PIN, "pin chart"),
    hotkey("b", "judge", _BEST, "best by"),
    hotkey("shift+up", "move_chart(-1)", _MOVE),
    hotkey("shift+down", "move_chart(1)", _MOVE),
    hotkey("w", "write(False)", _WRITE, "save"),
    hotkey("W", "write(True)", _WRITE),
    Binding("question_mark", "app.help", "all keys", key_display="?"),
]
