"""What all readers have in common."""

from typing import ClassVar

from runners.watch.metrics.sample import Sample


class Reader:
    """Reads the lines of one attempt of a run in order; keeps what a later line needs of an
    earlier one.

    `notes` are what a person has to know to take its values for what they are.
    """

    name: ClassVar[str] = ""
    notes: ClassVar[tuple[str, ...]] = ()

    def read(self, line: str) -> Sample | None:
        """What a line says; None when it says nothing of the run's course."""
        raise NotImplementedError
