"""JSON objects, one per line, alone or after a logger's prefix: `{"step": 10, "loss": 0.5}`."""

from typing import Any, ClassVar

from runners.state.decoding import decode, python_json
from runners.watch.metrics.numbers import whole_number
from runners.watch.metrics.readers.line_position import phase_of
from runners.watch.metrics.readers.line_reader import Reader
from runners.watch.metrics.readers.named_values import is_measure
from runners.watch.metrics.sample import Sample, metric_name

_STEPS = (
    *("global_step", "num_updates", "step", "_step", "iteration", "iter", "update", "train/step"),
    *("iterations", "steps", "n_iter", "trainer/global_step", "train/global_step", "it"),
)
_FRACTIONS = ("update",)
_EPOCHS = ("epoch", "train/epoch", "epoch_num")
_TOTALS = ("max_steps", "total_steps", "num_steps", "epochs", "max_epochs", "num_train_epochs")
_NOT_METRICS = {"time", "timestamp", "_timestamp", "_runtime", "_step", "seed", "rank", "pid"}
_DEPTH = 4


class ObjectReader(Reader):
    """An object with a step, an epoch or a measure in it; nested names are joined by `/`."""

    name: ClassVar[str] = "json"
    marks: tuple[str, ...] = ('{"', '{ "')
    _begun = False

    def read(self, line: str) -> Sample | None:
        """The numbers of an object; a dump of settings has neither place nor measure."""
        # A logger may have put words before the object, and a colour after it.
        at = line.find("{")
        end = line.rfind("}")
        if at < 0 or end < at:
            return None
        entry = decode(line[at : end + 1], python_json)
        if not isinstance(entry, dict):
            return None
        return self.sample_of(entry, phase_of(line[:at].rpartition("INFO |")[2].strip()))

    def sample_of(self, entry: dict[str, Any], phase: str = "") -> Sample | None:
        """What a dictionary of names and values says."""
        flat = dict(_flat(entry))
        step = next((flat[name] for name in _step_names(flat) if name in flat), None)
        epoch = next((flat[name] for name in _EPOCHS if name in flat), None)
        # Places are not metrics: as curves they would all be straight lines.
        places = {*_step_names(flat), *_EPOCHS, *_TOTALS, *_FRACTIONS, *_NOT_METRICS}
        values = {metric_name(name): value for name, value in flat.items() if name not in places}
        values.pop("", None)
        if not values or not (
            any(is_measure(name) for name in values) or (step is not None or epoch is not None)
        ):
            return None
        # Only a first epoch of 0 shows that they count from 0, and no fraction after it: those are
        # places inside an epoch, and not moved.
        is_whole = epoch is None or epoch.is_integer()
        self.from_zero = is_whole and (self.from_zero or (epoch == 0 and not self._begun))
        self._begun = self._begun or epoch is not None
        if epoch is not None:
            epoch += self.from_zero
        if phase:
            values = {_in_phase(name, phase): value for name, value in values.items()}
        return Sample(values, step, None, epoch)


def _step_names(flat: dict[str, float]) -> list[str]:
    return [*(name for name in flat if name.endswith("num_updates")), *_STEPS]


def _in_phase(name: str, phase: str) -> str:
    return name if name.startswith(("val", "test", "eval")) else f"{phase}/{name}"


def _flat(entry: dict[str, Any], before: str = "", depth: int = 0) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in entry.items():
        if isinstance(value, dict) and depth < _DEPTH:
            found += _flat(value, f"{before}{name}/", depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # Larger whole numbers are ids or bytes, and a float could not hold them exactly.
            if isinstance(value, float) or abs(value) < 1 << 53:
                found.append((before + name, float(value)))
        elif isinstance(value, str) and value[:1] in "-+.0123456789nNiI":
            number = whole_number(value)
            if number is not None:
                found.append((before + name, number))
    return found
