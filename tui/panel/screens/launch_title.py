"""What stands in the border of the launch form: what is launched where, and its keys."""

from __future__ import annotations

from tui.views.runs.launch_choices import LaunchChoice


def form_title(choice: LaunchChoice | None, machine: str, several: bool) -> str:
    """What is launched, and on which machine where there are several."""
    where = machine or ("this machine" if several else "")
    title = f"Launch a run on {where}" if where else "Launch a run"
    return f"{title} · {choice.entry.name}" if choice is not None else title


def form_keys(machine: str, several: bool) -> str:
    """The keys of the form; presets of another machine are kept there."""
    keys = ["F2 launch", "F4 more", *([] if machine else ["F5 save", "F6 edit"]), "F7 check"]
    return " · ".join([*keys, *(["F8 machine"] if several else []), "Esc close"])
