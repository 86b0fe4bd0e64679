"""What people add to a run: another name, tags, a note, a star."""

import msgspec


class Labels(msgspec.Struct, frozen=True):
    """labels.json: `name` replaces the one of the launch unless it is empty."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    starred: bool = False


NO_LABELS = Labels()
