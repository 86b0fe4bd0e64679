"""The form that opens a session: what it comes to, and from when it counts, before it is opened."""

import pytest
from textual.widgets import Static

from runners.cost.sessions import begin_since_boot, end_session, start_session
from runners.host.clock import moment_now
from runners.state.layout import StateDirectory
from tests.screen_text import SESSION_SINCE
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.screens.session_form import SessionScreen
from tui.views.money.session_offer import offer_session


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_it_says_from_when_it_counts_and_what_that_costs(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since boot that may be days: of that one learnt only afterwards."""
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.snapshot is not None)
        await pilot.press("dollar_sign", "s")
        await until(pilot, lambda: isinstance(app.screen, SessionScreen))
        says = app.screen.query_one("#session-says", Static)
        await until(pilot, lambda: SESSION_SINCE in str(says.content))
        fields = app.screen.fields  # type: ignore[attr-defined]
        fields["since"].put("now")
        await until(pilot, lambda: SESSION_SINCE not in str(says.content))
        assert says.region.bottom <= app.size.height


def test_a_session_since_boot_would_begin_at_the_end_of_the_one_before() -> None:
    state = StateDirectory().create()
    offer = offer_session(state)
    now = moment_now()
    assert offer.since is not None and offer.since_s == pytest.approx(now.wall - offer.since, abs=5)
    assert begin_since_boot(state, now).boot_ns == 0
    start_session(state, "2", 1)
    ended = end_session(state)
    again = offer_session(state)
    assert again.since == ended.ended and again.since_s < offer.since_s
