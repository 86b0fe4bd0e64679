"""How many epochs are over, by the lines that name them."""


class EpochCount:
    """An epoch is over with as many lines of values as the one before had, or when the next begins.

    Of the first, nobody knows how many lines come: it is over when the second begins.
    """

    def __init__(self) -> None:
        self.over: int | None = None
        self.changed: list[tuple[float, int]] = []
        """When (unix seconds) epochs were over that were not before the last call."""
        self._epoch: int | None = None
        self._lines = 0
        self._usual: int | None = None
        self._at: float | None = None

    def state(self) -> tuple[int | None, int | None, int, int | None, float | None]:
        """All that another count needs to go on."""
        return self.over, self._epoch, self._lines, self._usual, self._at

    def go_on_from(
        self, state: tuple[int | None, int | None, int, int | None, float | None]
    ) -> None:
        """Go on as the count whose state it is."""
        self.over, self._epoch, self._lines, self._usual, self._at = state

    def note(
        self, epoch: int, has_values: bool, time: float | None, over: int | None = None
    ) -> None:
        """A line in `epoch`, from 1; `over` is how many are over where the line says that."""
        self.changed = []
        if self._epoch is None or epoch < self._epoch:
            self.over, self._lines, self._usual = None, 0, None
        elif epoch > self._epoch:
            self._usual, self._lines = self._lines or self._usual, 0
            self._pass(epoch - 1, self._at)
        self._epoch = epoch
        self._lines += has_values
        self._at = time if has_values else self._at
        if over is not None:
            self._pass(over, time)
        elif has_values and self._usual is not None and self._lines >= self._usual:
            self._pass(epoch, time)

    def _pass(self, over: int, time: float | None) -> None:
        if self.over is not None and over <= self.over:
            return
        self.over = over
        if time is not None:
            self.changed.append((time, over))
