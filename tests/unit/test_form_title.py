"""The launch form's title and keys where there are several machines."""

from tui.panel.screens.launch_plan_text import form_keys, form_title


def test_any_is_said_in_words_and_the_keys_fit_80_columns() -> None:
    assert form_title(None, "any", True).endswith("on any machine")
    assert all(len(form_keys(name, True)) <= 74 for name in ("", "any", "a"))
