"""What a log pane says to whoever it stands in."""

from textual.message import Message


class SearchChanged(Message):
    """More lines match, another one of them is looked at, or nothing is searched for any more."""


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
