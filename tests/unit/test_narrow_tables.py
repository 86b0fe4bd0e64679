"""Tables of commands on a terminal that is narrower than they are: aligned, nothing cut off."""

import pytest

from tui.cli import output

HEADINGS = ("run", "state", "eta", "reason")
LONG = "out of GPU memory after step 812 of its third attempt"
ROWS = [
    ("20261126-162650-trian-18f3", "failed", "—", LONG),
    ("20261126-162647-first-1771", "done", "—", ""),
]


def lines(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    monkeypatch.setattr(output, "terminal_width", lambda: width)
    output.print_table(HEADINGS, ROWS)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", [60, 48, 40])
def test_the_widest_columns_are_folded_each_within_itself(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = lines(width, monkeypatch, capsys)
    assert max(map(len, shown)) <= width
    assert "eta" not in shown[0].split(), "a column that says nothing gives way"
    at = shown[0].index("reason")
    assert " ".join(line[at:].strip() for line in shown[1:]).split() == LONG.split()
    state = shown[0].index("state")
    assert "".join(line[:state].strip() for line in shown[1:]) == "".join(row[0] for row in ROWS)


@pytest.mark.parametrize("width", [0, 200, 10])
def test_elsewhere_a_row_is_a_line(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe, where there is room, and where folding would be of no use."""
    shown = lines(width, monkeypatch, capsys)
    assert len(shown) == 3 and shown[1].endswith(LONG) and shown[1].startswith(ROWS[0][0])
