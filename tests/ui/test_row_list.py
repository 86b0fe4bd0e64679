"""The row under the cursor is on the screen: what a key acts on is seen."""

from rich.text import Text
from textual.app import App, ComposeResult

from tests.ui.waiting import until
from tui.panel.widgets.row_list import RowList

KEYS = [f"run {number}" for number in range(40)]


class _List(App[None]):
    def compose(self) -> ComposeResult:
        yield RowList()

    def fill(self, keys: list[str]) -> RowList:
        rows = self.query_one(RowList)
        rows.set_rows(keys, [Text(key) for key in keys], (), Text("name"))
        return rows


async def test_a_run_that_is_sorted_elsewhere_is_followed() -> None:
    app = _List()
    async with app.run_test(size=(40, 12)) as pilot:
        rows = app.fill(KEYS)
        rows.focus()
        await pilot.press("end")
        await until(pilot, lambda: rows.cursor in rows.seen)
        app.fill([KEYS[-1], *KEYS[:-1]])
        await pilot.pause()
        assert (rows.key, rows.cursor) == (KEYS[-1], 0) and 0 in rows.seen
        app.fill([*KEYS[:20], KEYS[-1], *KEYS[20:-1]])
        await pilot.pause()
        assert rows.cursor == 20 and 20 in rows.seen


async def test_who_has_scrolled_away_stays_there() -> None:
    app = _List()
    async with app.run_test(size=(40, 12)) as pilot:
        rows = app.fill(KEYS)
        await pilot.pause()
        rows.scroll_to(y=25, animate=False, force=True)
        await until(pilot, lambda: 30 in rows.seen)
        app.fill([*KEYS[1:], KEYS[0]])
        await pilot.pause()
        assert 30 in rows.seen


async def test_a_terminal_that_gets_smaller_keeps_it() -> None:
    app = _List()
    async with app.run_test(size=(40, 30)) as pilot:
        rows = app.fill(KEYS)
        rows.select(KEYS[25])
        await pilot.pause()
        await pilot.resize_terminal(40, 10)
        await until(pilot, lambda: rows.size.height <= 10)
        await pilot.pause()
        assert rows.cursor in rows.seen


async def test_half_a_screen_and_whole_ones_by_the_keys_of_less_and_vim() -> None:
    app = _List()
    async with app.run_test(size=(40, 13)) as pilot:
        rows = app.fill(KEYS)
        rows.focus()
        places = []
        for key in ("ctrl+d", "ctrl+d", "ctrl+f", "ctrl+u", "ctrl+b"):
            await pilot.press(key)
            places.append(rows.cursor)
        assert places == [6, 12, 24, 18, 6]
