"""Colours with a meaning, kept in one place; a sign and a word always say the same."""

from runners.model.states import State

STATE_STYLES = {
    State.QUEUED: "cyan",
    State.STARTING: "cyan",
    State.RUNNING: "green",
    State.STOPPING: "yellow",
    State.DONE: "bright_black",
    State.FAILED: "red bold",
    State.STOPPED: "bright_black",
    State.ORPHANED: "yellow bold",
    State.LOST: "red bold",
}

# Blue, orange, teal, pink …: told apart with any colour vision (Okabe and Ito, "Color Universal
# Design", 2008).
_ON_DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#0072B2")
_ON_LIGHT = ("#0072B2", "#9A5B00", "#00785A", "#A0527B", "#6E6400", "#B34A00", "#2A5DB0")
_ANSI = ("bright_blue", "yellow", "green", "magenta", "cyan", "red", "blue")
RUN_COLOURS = _ON_DARK

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def use_colours(dark: bool, ansi: bool) -> None:
    """Choose the runs' colours for a dark or light background, or from the terminal's own
    sixteen.
    """
    global RUN_COLOURS
    RUN_COLOURS = _ANSI if ansi else _ON_DARK if dark else _ON_LIGHT


def run_colour(letter: str) -> str:
    """The colour that goes with a run's letter."""
    return RUN_COLOURS[(ord(letter) - 65) % len(RUN_COLOURS)] if letter else ""


def bar(fraction: float | None, width: int) -> str:
    """A bar of `width` cells in steps of an eighth; dots where the value is unknown."""
    if fraction is None:
        return "·" * width
    eighths = round(min(1.0, max(0.0, fraction)) * width * 8)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return text.ljust(width, "░")[:width]
