"""What a log pane says to whoever it stands in."""

from textual.message import Message


class SearchChanged(Message):
    """`count` lines match so far; `current` is looked at (from 1; 0: none or not known yet)."""

    def __init__(self, count: int, current: int, done: bool, error: str = "") -> None:
        super().__init__()
        self.count = count
        self.current = current
        self.done = done
        self.error = error


class NothingFound(Message):
    """There is no such line in the whole log; `text` says so."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class LogNotice(Message):
    """Something to tell the reader of the log."""

    def __init__(self, text: str, severe: bool = False, seconds: float = 4) -> None:
        super().__init__()
        self.text = text
        self.severe = severe
        self.seconds = seconds


class LinesCopied(Message):
    """Text for the clipboard; `what` it is in words; whether it was cut."""

    def __init__(self, text: bytes, what: str, cut: bool) -> None:
        super().__init__()
        self.text = text
        self.what = what
        self.cut = cut


class InputWanted(Message):
    """The reader wants to type something: a key of `search_bar.PROMPTS`."""

    def __init__(self, purpose: str) -> None:
        super().__init__()
        self.purpose = purpose
