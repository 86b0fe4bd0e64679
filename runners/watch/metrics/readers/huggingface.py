"""The Hugging Face Trainer's dictionaries: `{'loss': 0.5, 'grad_norm': 1.2, 'epoch': 1.0}`.

Quotes are single, and newer versions print the values as texts (`{'loss': '0.5', …}`). A bar over
all steps of the run is redrawn between them. A redraw follows each dictionary at once (tqdm.write)
and shows at which step it was printed, while the redraw before it may be an older one.
"""

from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE
from runners.watch.metrics.readers.bars import read_bar
from runners.watch.metrics.readers.line_reader import CLAIMED, Reader, pairs_in
from runners.watch.metrics.sample import Sample

_ENTRY = late_pattern(
    rf"""'(?P<name>[\w/.\- ]+)': *(?:np\.float\d+\()?['"]?(?P<value>{WHOLE})['"]?"""
)
_KNOWN = late_pattern(r"""'(?:loss|epoch|eval_\w+|train_\w+|learning_rate|grad_norm)':""")
_SUMMARY = late_pattern(r"""'train_runtime':""")


class HuggingFaceReader(Reader):
    """Steps from the bar, values from the dictionaries, which wait for the bar's next redraw."""

    name: ClassVar[str] = "huggingface"
    bars: tuple[str, ...] = ("%|",)
    marks: tuple[str, ...] = ("{'", "%|")
    _step: float | None = None
    _steps: float | None = None
    _known = False
    _resumed = False
    _waiting: Sample | None = None
    _shorter: Sample | None = None
    """Where the bar is that was drawn last, if it is shorter than the one over all steps."""
    _trains = False

    def read(self, line: str) -> Sample | None:
        """A dictionary, or a redraw of the bar over all steps."""
        at = line.find("{'")
        if at < 0 and not line.lstrip()[:1].isdigit():
            return None  # the bar over all steps has no name
        if at >= 0 and _KNOWN.search(line, at):
            return self._dictionary(line, at)
        bar = read_bar(line) if "|" in line else None
        if bar is None or (not bar.is_training and bar.text):
            return None
        # The Trainer's bar over all steps has no text; one with text is the program's own.
        if bar.text or bar.total is None or bar.values:
            return None
        if self._steps is not None and bar.total < self._steps:
            # An evaluation has its own bar, and a shorter one.
            self._shorter = Sample(step=bar.done, steps=bar.total)
            return CLAIMED if self._known else None
        if self._resumed and not bar.done:
            return CLAIMED
        self._step, self._steps, self._shorter = bar.done, bar.total, None
        if not self._known:
            return None  # any program's bar may have no text, before it is given its name
        sample = self._release()
        return sample or Sample(step=bar.done, steps=bar.total, pace=bar.pace)

    def finish(self) -> Sample | None:
        """The last dictionary, after which no bar was drawn."""
        return self._release()

    def _dictionary(self, line: str, at: int) -> Sample:
        if not self._trains and line.startswith("{'loss'", at):
            self._begin()
        # A dictionary with known keys leaves no doubt that this is the Trainer.
        self._known = self.sure = True
        earlier = self._release()
        bar = read_bar(line[:at]) if at and "|" in line[:at] else None
        if bar is not None and not bar.text and bar.total is not None:
            # The dictionary is printed on the bar's own line.
            self._step, self._steps = bar.done, max(bar.total, self._steps or 0)
        values = pairs_in(_ENTRY, line, at)
        epoch, step = values.pop("epoch", None), values.pop("step", None)
        sample = Sample(values, step, self._steps, epoch)
        if step is not None or self._steps is None:
            return earlier or sample
        if bar is not None or _SUMMARY.search(line):
            step = self._place(epoch, is_end="train_runtime" in values)
            return self._beside(earlier, sample._replace(step=step))
        self._waiting = sample
        return earlier or CLAIMED

    def _begin(self) -> None:
        """The first loss: a longer bar than the one drawn last was of what came before training.

        Unless that one was of an evaluation, which is over by the time it is told.
        """
        self._trains, bar = True, self._shorter
        if bar is not None and (bar.step != bar.steps or not self._known):
            self._step, self._steps = bar.step, bar.steps

    def _beside(self, earlier: Sample | None, sample: Sample) -> Sample:
        """One sample now; the other one is given with the next line."""
        if earlier is None:
            return sample
        self._waiting = sample
        return earlier

    def _release(self) -> Sample | None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        step = self._place(waiting.epoch) if waiting.step is None else waiting.step
        return waiting._replace(step=step)

    def _place(self, epoch: float | None, is_end: bool = False) -> float | None:
        """The bar's step; of a resumed training it stays at 0 until a step is done.

        One that ends without a step had none left: its checkpoint was that of the last one
        (transformers, `Trainer._inner_training_loop` and `ProgressCallback`).
        """
        if self._step or not epoch:
            return self._step
        self._resumed = True
        return self._steps if is_end else None
