"""The charts that were pinned, kept for every later panel."""

from runners.host.files import read_json, write_json
from runners.state.layout import StateDirectory

_KEY = "pinned_charts"
_MOST = 200


def pinned_charts(state: StateDirectory) -> tuple[str, ...]:
    """The metrics whose charts stand first, in their order; none when nothing readable is kept."""
    kept = (read_json(state.charts) or {}).get(_KEY)
    names = kept if isinstance(kept, list) else []
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))[:_MOST]


def keep_pinned_charts(state: StateDirectory, names: tuple[str, ...]) -> None:
    """Keep the order; a folder that cannot be written forgets it."""
    try:
        write_json(state.charts, {_KEY: list(names[:_MOST])})
    except OSError:
        pass
