"""The keys of a log that has the focus."""

from textual.binding import Binding, BindingType

from tui.panel.hotkeys import hotkey

LOG_KEYS: list[BindingType] = [
    hotkey("down,j", "move(1)", "scroll; scrolling up stops following"),
    hotkey("up,k", "move(-1)", "scroll; scrolling up stops following"),
    hotkey("left,h", "shift(-1)", "scroll sideways"),
    hotkey("right,l", "shift(1)", "scroll sideways"),
    hotkey("pagedown,space,ctrl+f", "page(1)", "a screen down or up"),
    hotkey("pageup,ctrl+b", "page(-1)", "a screen down or up"),
    hotkey("home,g", "go_start", "the start of the log"),
    hotkey("G,end", "go_end", "follow the end again", "Follow", display="G"),
    hotkey("W", "toggle_wrap", "wrap long lines"),
    hotkey("n", "seek('match', 1)", "next and previous match"),
    hotkey("N", "seek('match', -1)", "next and previous match"),
    hotkey("e", "seek('error', 1)", "next and previous error", "Error"),
    hotkey("E", "seek('error', -1)", "next and previous error"),
    hotkey("y", "copy_lines", "copy the middle line, or the selection", "Copy"),
    hotkey("v", "select", "select lines: ↑ ↓ j k extend, Esc ends"),
    hotkey("w", "ask('write')", "write log, filter or selection to a file"),
    hotkey("R", "next_rank", "lines of all ranks, of rank 0, of rank 1 …"),
    hotkey("colon,ctrl+g", "ask('goto')", "go to a line or a percentage: 1200, 50%"),
    # The screen's: which of them are hints while a log has the keys; they fill 80 columns.
    Binding("ampersand", "screen.filter", "Filter", key_display="&"),
    Binding("3", "screen.focus_pane('log')", "Log", show=False),
    Binding("s", "screen.runs('stop')", "Stop", show=False),
    Binding("z", "screen.zoom", "Zoom", show=False),
]
