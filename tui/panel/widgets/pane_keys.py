"""The keys of the panes that have the focus: the run table, a log."""

from textual.binding import Binding, BindingType

from tui.panel.hotkeys import hotkey, paging_keys

_PRIORITY = "a queued run's priority; +: an hour more for a Slurm job"

_FIND = "find runs: words, state:failed loss<0.1 set:lr<1e-3; ↑: earlier"
RUN_KEYS: list[BindingType] = [
    # The screen's first, which are hints while the runs have the keys: 60 columns have room for
    # these and for help and quit, 80 for one more.
    Binding("n", "screen.launch('new')", "Launch"),
    Binding("s", "screen.runs('stop')", "Stop"),
    Binding("a", "screen.launch('again')", "Again"),
    Binding("m", "screen.page('metrics')", "Metrics"),
    hotkey("enter,i", "open", "everything about the run; a folded group unfolds", "Details", "i"),
    hotkey("slash", "filter", _FIND, "Find", display="/"),
    hotkey("greater_than_sign", "choose('sort', 1)", "sort by the next column, the previous one"),
    hotkey("less_than_sign", "choose('sort', -1)", "sort by the next column, the previous one"),
    hotkey("O", "screen.page('sort')", "columns, metrics, settings: sort by one, or show it"),
    hotkey("V", "screen.page('views')", "saved views: filter, order and columns, by a digit"),
    hotkey("o", "choose('turn')", "reverse the sort order"),
    hotkey("b", "choose('metric', 1)", "last and best of another metric"),
    hotkey("B", "choose('metric', -1)", "last and best of another metric"),
    hotkey("space", "mark", "mark or unmark the run for stop, metrics and delete", "Mark", "Space"),
    hotkey("f", "choose('fold')", "fold the group, or unfold it; F: all groups"),
    hotkey("F", "choose('fold_all')", "fold the group, or unfold it; F: all groups"),
    hotkey("y", "screen.page('copy_command')", "copy the run's command"),
    hotkey("R", "screen.runs('rename')", "rename the run"),
    hotkey("t", "screen.runs('tag')", "tags of the run"),
    hotkey("N", "screen.runs('note')", "a note on the run"),
    hotkey("asterisk", "screen.runs('star')", "star the run, or unstar it", display="*"),
    hotkey("x,delete", "screen.runs('delete')", "delete ended runs; u: bring them back"),
    hotkey("u", "screen.runs('undo')", "delete ended runs; u: bring them back"),
    hotkey("plus", "screen.runs('sooner')", _PRIORITY, display="+"),
    hotkey("minus", "screen.runs('later')", _PRIORITY, display="-"),
    hotkey("S", "screen.runs('stop_group')", "stop all runs of its group"),
    hotkey("P", "screen.runs('pause')", "pause the run, or let it go on; it keeps its GPUs"),
    hotkey("K", "screen.runs('kill')", "kill now: SIGKILL, nothing is saved"),
    hotkey("escape", "clear", "clear the filter, then the marks, then the sort order"),
    hotkey("w", "screen.runs('fetch')", "fetch the results of a rented machine's run"),
]

LOG_KEYS: list[BindingType] = [
    hotkey("down,j", "move(1)", "scroll; scrolling up stops following"),
    hotkey("up,k", "move(-1)", "scroll; scrolling up stops following"),
    hotkey("left,h", "shift(-1)", "scroll sideways"),
    hotkey("right,l", "shift(1)", "scroll sideways"),
    *paging_keys(),
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
    Binding("slash", "screen.ask('search')", "Search", key_display="/"),
    Binding("3", "screen.focus_pane('log')", "Log", show=False),
    Binding("s", "screen.runs('stop')", "Stop", show=False),
    Binding("z", "screen.zoom", "Zoom", show=False),
]
