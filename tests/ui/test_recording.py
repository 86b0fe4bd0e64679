"""The recording of the tutorial: whoever plays it sees what the tutorial says."""

import json

from tests.screens import QuickScreen, QuickStream
from tests.ui.record_tutorial import CAST, COLUMNS, ROWS, command_lines


def test_the_recording_shows_the_tutorials_first_sections() -> None:
    header, *events = map(json.loads, CAST.read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, COLUMNS, ROWS)
    moments = [moment for moment, _, _ in events]
    assert moments == sorted(moments) and {kind for _, kind, _ in events} == {"o"}
    screen = QuickScreen(COLUMNS, ROWS)
    stream, seen = QuickStream(screen), set[str]()
    for _, _, text in events:
        stream.feed(text.encode())
        seen.update(map(str.rstrip, screen.display))
    # What is longer than a line is on two of them.
    typed = {f"$ {line}"[:COLUMNS].rstrip() for line in command_lines() if line}
    assert len(typed) > 10 and typed <= seen
    for words in ("Why broken ended", "ValueError: lr=3.0 is too large", "GPUs · simulated"):
        assert any(words in line for line in seen), words
