"""Where the run table's cursor is to go, once the run is in the table."""

from collections.abc import Sequence


class CursorTarget:
    """What decides where the cursor goes when the table has other lines."""

    def __init__(self) -> None:
        self.wanted: str | None = None
        """A run that may not be in the table yet."""
        self.to_the_end = False
        """Stay on the last line while older runs are still being read."""
        self._before_filter: str | None = None

    def follow_filter(self, is_typed: bool, text: str, key: str | None) -> None:
        """The filter changed while the cursor was on `key`.

        What was found stays chosen; a filter that was given up leads back to where it began.
        """
        if is_typed:
            self._before_filter = self._before_filter or key
        elif text:
            self._before_filter = self.wanted = None
        else:
            self.wanted, self._before_filter = self._before_filter, None

    def find(self, keys: Sequence[str], current: str | None, is_whole: bool) -> str | None:
        """The key to go to among these; None: the cursor stays on the `current` one."""
        if not keys:
            return None
        if self.wanted in keys:
            wanted, self.wanted, self.to_the_end = self.wanted, None, False
            return wanted
        if self.to_the_end:
            self.to_the_end = not is_whole
            return keys[-1]
        if current in keys:
            return None
        return self._before_filter if self._before_filter in keys else keys[0]
