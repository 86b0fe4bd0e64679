"""What is shown of a log, where, and what is chosen: without a screen."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from runners.watch.logs.expressions import BadExpression
from runners.watch.logs.index import Change
from tui.panel.widgets.log.document import LogDocument
from tui.panel.widgets.log.title import describe, describe_filter, title_of
from tui.panel.widgets.log.viewport import Viewport
from tui.panel.widgets.log.window_reader import LogReader, LogSelection


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "output.log"
    path.write_bytes(
        b"".join(b"%s %d\n" % (b"loss" if at % 10 == 0 else b"step", at) for at in range(100))
    )
    return path


def texts(view: Viewport) -> list[str]:
    return [row.line.safe.text[row.start : row.end] for row in view.rows]


def reader_of(path: Path, height: int = 5) -> LogReader:
    reader = LogReader(path)
    reader.view.resize(20, height)
    reader.fill(force=True)
    reader.document.index_on()
    return reader


def test_a_long_name_does_not_hide_what_a_log_is_filtered_by(log: Path) -> None:
    document = LogDocument(log)
    name = "실험-" * 40 + " · output.log"
    assert title_of(name, document, 76) == name
    document.set_filter("loss")
    document.filter_on(near=0)
    title = title_of(name, document, 76)
    assert title.endswith(describe_filter(document)) and cell_len(title) <= 76
    assert title_of("short · output.log", document, 76).startswith("short · output.log · ")


# ---- the document


def test_a_document_without_a_file_is_empty_until_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    document = LogDocument(path)
    document.set_filter("loss")
    assert document.size == 0 and document.refresh() is Change.NONE
    path.write_bytes(b"step\nloss 1\n")
    assert document.refresh() is Change.GROWN
    document.filter_on(near=0)
    assert [line.data for line in document.shown.read_forward(0, 9)] == [b"loss 1\n"]
    assert LogDocument().refresh() is Change.NONE


def test_a_search_is_narrowed_by_the_filter_and_widened_again(log: Path) -> None:
    document = LogDocument(log)
    search = document.set_search("5")
    assert search is not None
    assert search.matches.step(1 << 20) and search.matches.count == 19
    assert document.set_filter("loss")
    assert document.search is not None and document.search is not search
    assert document.search.matches.step(1 << 20) and document.search.matches.count == 1
    assert document.set_filter("") and not document.set_filter("")
    assert document.search.matches.step(1 << 20) and document.search.matches.count == 19
    assert document.set_search("") is None and document.search is None


def test_a_bad_expression_leaves_the_filter_as_it_was(log: Path) -> None:
    document = LogDocument(log)
    document.set_filter("loss")
    before = document.filter
    with pytest.raises(BadExpression):
        document.set_filter("(", regex=True)
    assert document.filter is before


def test_ranks_come_one_after_the_other_and_then_all(log: Path) -> None:
    document = LogDocument(log)
    seen = []
    for _ in range(4):
        rank = document.rank_after([0, 3])
        document.set_filter("", rank=rank)
        seen.append(rank)
    assert seen == [0, 3, None, 0]


# ---- the selection


def test_a_selection_grows_both_ways_over_the_lines_that_are_shown(log: Path) -> None:
    document, selection = LogDocument(log), LogSelection()
    assert not selection.active and selection.range is None and not selection.contains(0)
    selection.begin(14)
    assert selection.extend(document.source, 2) == 28
    assert selection.range == (14, 28) and selection.contains(21) and not selection.contains(35)
    assert selection.extend(document.source, -4) == 0
    assert selection.range == (0, 14)
    assert selection.extend(document.source, -1) is None, "there is nothing above the first line"
    document.set_filter("loss")
    assert selection.extend(document.shown, 1) == 70
    last = document.shown.read_backward(document.size, 1)
    assert selection.extend_to(last) == log.read_bytes().rindex(b"l")
    assert selection.extend_to(document.shown.read_forward(0, 1)) == 0
    assert selection.clear() and not selection.clear()


# ---- the viewport


def test_what_moves_the_view_says_whether_it_moved(log: Path) -> None:
    view = Viewport(LogDocument(log))
    view.resize(20, 3)
    assert view.show_end() and not view.show_end()
    assert texts(view) == ["step 97", "step 98", "step 99"]
    assert not view.move(1)
    assert view.move(-2) and texts(view) == ["step 95", "step 96", "step 97"]
    assert view.show(0) and not view.show(0) and not view.move(-1)
    assert not view.reveal(7, above=2), "it is on the screen"
    assert view.reveal(35, above=2) and texts(view) == ["step 3", "step 4", "step 5"]
    assert view.row_of(35) == 2 and view.row_of(0) is None
    near = view.line_near(None)
    assert near is not None and near.safe.text == "step 4"


def test_long_lines_are_shifted_or_wrapped(tmp_path: Path) -> None:
    path = tmp_path / "wide.log"
    path.write_bytes(b"0123456789" * 5 + b"\nshort\n")
    view = Viewport(LogDocument(path))
    view.resize(20, 4)
    view.show(0)
    assert not view.shift(-1)
    assert view.shift(1) and view.left == 10
    view.toggle_wrap()
    view.fill()
    assert view.left == 0 and texts(view) == ["01234567890123456789"] * 2 + ["0123456789", "short"]
    assert not view.shift(1), "nothing is beside the screen"
    view.resize(20, 2)
    assert view.move(1) and (view.top, view.top_row) == (0, 1)


# ---- the reader


def test_a_reader_follows_until_it_is_moved_up(log: Path) -> None:
    reader = reader_of(log)
    assert describe(reader, 80) == "following · 100 lines"
    assert not reader.move(1) and reader.following
    assert reader.move(-1) and not reader.following
    with log.open("ab") as out:
        out.write(b"more\n" * 3)
    assert reader.refresh() is Change.GROWN
    reader.document.index_on()
    before = texts(reader.view)
    assert reader.news_is_below and not reader.fill(force=False)
    assert texts(reader.view) == before
    assert describe(reader, 80) == "paused · 3 new lines · G follows · line 95 of 103 lines"
    assert describe(reader, 50) == "paused · 3 new lines · line 95 of 103 lines"
    assert reader.go_end() and reader.fill(force=False)
    assert texts(reader.view)[-1] == "more"


def test_a_line_that_is_not_counted_yet_is_waited_for(log: Path) -> None:
    reader = LogReader(log)
    reader.view.resize(20, 5)
    assert not reader.go_line(50) and reader.wanted_line == 50
    reader.document.index_on()
    assert reader.go_line(50) and reader.wanted_line is None
    assert texts(reader.view)[0] == "step 49"
    assert reader.go_line(10**9) and texts(reader.view)[-1] == "step 99"
    assert reader.go_percent(0) and texts(reader.view)[0] == "loss 0"


def test_the_filter_and_its_end_keep_the_line_in_view(log: Path) -> None:
    reader = reader_of(log)
    reader.go_line(50)
    assert reader.filter("loss")
    reader.fill(force=True)
    assert texts(reader.view)[0] == "loss 50"
    assert describe_filter(reader.document) == " · filter: loss · 10 of 100 lines"
    assert reader.end_filter() and not reader.end_filter()
    assert texts(reader.view)[:2] == ["loss 50", "step 51"]
    reader.filter("no such thing")
    reader.fill(force=True)
    assert texts(reader.view) == []
    assert reader.end_filter() and texts(reader.view)[0] == "loss 50"


def test_another_file_ends_what_was_chosen(log: Path) -> None:
    reader = reader_of(log)
    reader.toggle_selection()
    assert reader.selection.active and not reader.following
    assert describe(reader, 80).startswith("1 line selected")
    reader.go_to_found(0)
    assert reader.found_at == 0 and reader.seek_from(backward=True) == 0
    log.write_bytes(b"anew\n")
    assert reader.refresh() is Change.TRUNCATED
    assert not reader.selection.active and reader.found_at is None
    reader.fill(force=True)
    assert texts(reader.view) == ["anew"]


def test_a_log_is_found_as_it_was_left(log: Path) -> None:
    reader = reader_of(log)
    reader.go_line(30)
    reader.view.toggle_wrap()
    again = LogReader(log, reader.place)
    again.view.resize(20, 5)
    again.fill(force=True)
    assert texts(again.view) == ["step 29", "loss 30", "step 31", "step 32", "step 33"]
    assert again.view.wrap and not again.following
