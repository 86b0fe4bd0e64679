"""What all readers have in common."""

from typing import ClassVar

from runners.watch.metrics.sample import Sample

CLAIMED = Sample()
"""A reader's answer to a line that is of its kind and says nothing: no other reader is asked."""


class Reader:
    """Reads the lines of one attempt of a run in order; keeps what a later line needs of an
    earlier one.

    `notes` are what a person has to know to take its values for what they are, `corrections` what
    it puts right when a preset names it. A line in which none of its `marks` stands is not for it.
    """

    name: ClassVar[str] = ""
    notes: ClassVar[tuple[str, ...]] = ()
    corrections: ClassVar[tuple[str, ...]] = ()
    marks: tuple[str, ...] = ("",)
    bars: tuple[str, ...] = ()
    """The `marks` of lines that draw a progress bar; none: such lines are not for it."""
    told: bool = False
    """Whether a preset names this reader: only then does it put right what is misprinted."""
    sure: bool = False
    """Whether the output is certainly of this reader's kind, though no value was found yet."""
    epoch: float | None = None
    epochs: float | None = None
    """What any reader of this output told last."""
    from_zero: bool = False
    """Whether the program counts its epochs from 0."""

    def read(self, line: str) -> Sample | None:
        """What a line says; None when it says nothing of the run's course."""
        raise NotImplementedError

    def finish(self) -> Sample | None:
        """What was still waited for when the output ended."""
        return None
