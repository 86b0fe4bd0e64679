"""The keys of screens that open later: the help page names them without importing those screens."""

from textual.binding import Binding, BindingType

from tui.panel.hotkeys import hotkey

_PLACE = "the picture of the epoch or step before or after"
_SERIES = "other pictures of the run: samples, curves …"
_ANOTHER = "another run beside this one; after the last, none"
_ENDS = "the first picture, the last"
_BESIDE = "the chart beside; with a cursor: moves it"
_TEN = "ten charts, or steps of the cursor, on"
_ABOVE = "the chart above or below"

LAUNCH_KEYS: list[BindingType] = [
    hotkey("escape", "leave", "close the form; what was typed is kept, and asked for"),
    hotkey("f2,ctrl+s", "launch", "launch with these settings"),
    hotkey("f3", "next_rule", "how the learning rate follows the batch: the next rule"),
    hotkey("f4", "fold", "more fields: name, folder, queue, price, sweep"),
    hotkey("f5", "save", "save these settings as a preset"),
    hotkey("f6", "edit", "open the preset's file in $EDITOR; checked on return"),
    hotkey("f7", "verify", "check these settings: programs, GPUs, data"),
    hotkey("f8", "choose_machine", "launch on another machine, or on any: a list"),
    hotkey("f9", "begin_anew", "forget what was typed"),
]
MONEY_KEYS: list[BindingType] = [
    hotkey("escape,q,dollar_sign", "dismiss(None)", "close"),
    hotkey("s", "start", "start a session: price, budget", "start a session"),
    hotkey("b", "budget", "change the budget of the session", "budget"),
    hotkey("e", "end", "end the session; asks, and shows the total", "end the session"),
    hotkey("g", "guard", "set the guard, or change it", "set the guard"),
    hotkey("p", "postpone", "postpone the guard; asks for how long", "postpone it"),
    hotkey("u", "resume_guard", "end the postponement", "end the postponement"),
    hotkey("o", "lift", "guard off; asks", "guard off"),
]
SETTINGS_KEYS: list[BindingType] = [
    hotkey("escape", "dismiss(None)", "close the settings"),
    hotkey("f2,ctrl+s", "save", "save the settings"),
    hotkey("f6", "edit", "open settings.yaml in $EDITOR; checked on return"),
    hotkey("down", "app.focus_next", "the next field"),
    hotkey("up", "app.focus_previous", "the previous field"),
]
PICTURES_KEYS: list[BindingType] = [
    hotkey("escape,q,I", "dismiss", "close", "close"),
    hotkey("left,h", "leaf(-1)", _PLACE, "epoch", display="← →"),
    hotkey("right,l", "leaf(1)", _PLACE),
    hotkey("up,k", "series(-1)", _SERIES, "other pictures", display="↑ ↓"),
    hotkey("down,j", "series(1)", _SERIES),
    hotkey("b", "beside", _ANOTHER, "a run beside"),
    hotkey("home", "leaf(-100000)", _ENDS, "first, last", display="Home End"),
    hotkey("end", "leaf(100000)", _ENDS),
    Binding("question_mark", "app.help", "all keys", key_display="?"),
]
CHART_KEYS: list[BindingType] = [
    hotkey("left,h", "screen.sideways(-1)", _BESIDE),
    hotkey("right,l", "screen.sideways(1)", _BESIDE),
    hotkey("shift+left,H", "screen.sideways(-10)", _TEN),
    hotkey("shift+right", "screen.sideways(10)", _TEN),
    hotkey("up,k", "screen.vertically(-1)", _ABOVE),
    hotkey("down,j", "screen.vertically(1)", _ABOVE),
]
HELP_KEYS: list[BindingType] = [hotkey("escape,q,question_mark", "dismiss", "close this page")]
COMMAND_KEYS: list[BindingType] = [
    hotkey("y", "copy", "copy the command under the cursor"),
    hotkey("w", "write", "write all to a script where the panel was started"),
    hotkey("escape,q,c", "dismiss", "close"),
]
CURVE_KEYS: list[BindingType] = [hotkey("space", "mark", "draw the run, or hide it")]
