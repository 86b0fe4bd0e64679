"""Lines of names and numbers: `step 20 | loss: 0.5`, `epoch 3/10 iter 40: train loss 0.4`."""

import re
from functools import lru_cache
from typing import ClassVar

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import number, seconds
from runners.watch.metrics.readers.line_position import StatedPlace, find_place, phase_of
from runners.watch.metrics.readers.line_reader import Reader
from runners.watch.metrics.readers.line_shapes import LineShapes
from runners.watch.metrics.readers.named_values import is_measure, named_values
from runners.watch.metrics.sample import Sample

_PREFIXES = late_pattern(
    r"^(?:[IWEF](?:\d{4}){1,2} \d\d:\d\d:\d\d(?:\.\d+)? +\d+ (?:\w+ )?[\w./-]+:\d+\] ?"
    r"|\[\d\d/\d\d \d\d:\d\d:\d\d [\w.]+\]:? *"
    r"|\[NeMo [IWED] [^\]]+\] *"
    # Loggers add whose message it is (`INFO:root:`), or where in the program it is from.
    r"|.{0,80}?\b(?:INFO|DEBUG|WARNING|\[Info\])\b(?::(?:root|tensorflow|__main__):)?"
    r"[\s:|\]\-]*(?:(?:[\w.<>]+:[\w<>]+|\w+(?:\.\w+)+):\d+ - )?"
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?: +)"
)
_HINT = late_pattern(
    r"loss|epoch|step|iter|batch|acc|err|psnr|ssim|lpips|dice|iou|map|auc|f1|bleu|perplexity|ppl"
    r"|mse|mae|reward|score|mfu|bpb|nll|elbo|fid|\b(?:it|ep|lr|learning)\b"
)
"""A line with none of these, in lower case, names neither a place nor a measure."""
_DEBUG = late_pattern(r"\s*\[debug\]", re.IGNORECASE)
_ASSIGNED = late_pattern(r"^(?:[\w ]*: )?[\w.]+\s*=\s*\S+(?:\s+#.*)?$")
_ECHO = late_pattern(
    r"\W*(?:(?:args|arguments|config\w*|settings|options|h-?params|hyper-?param\w*|overriding"
    r"|resum\w+)\b"
    r"|\w+\.(?:py|yaml|json)\b(?!:))",
    re.IGNORECASE,
)
_CALL = late_pattern(r"(?:Namespace|Config|Args|Arguments|Params|Parameters|Settings|Options)\(")
_TOTAL = late_pattern(
    r"(?:^|[\s(,])(?:(?:max_iters|max_steps|train_iters|total_steps|num_train_steps)"
    r"\s*[:=]\s*(?P<total>[1-9]\d*)"
    r"|(?:max_|num_|n_|total_)?epochs\s*[:=]\s*(?P<epochs>[1-9]\d*))(?![\w.])"
)
_STATED = late_pattern(
    r"(?:^|[-:])\s*(?:Num|Number of) [Ee]pochs\s*[=:]\s*(?P<epochs>[1-9][\d,]*)\s*$"
    r"|(?:^|[-:])\s*Scheduled epochs: (?P<scheduled>[1-9][\d,]*)(?:\.(?!\d)|\s*$)"
    r"|(?:^|[-:])\s*[Tt]otal (?:optimization|training|train) steps(?: / [^:=]+)?\s*[=:]"
    r"\s*(?P<steps>[1-9][\d,]*)\s*$"
    r"|\btotal steps (?P<all>[1-9]\d*) \(warmup"
)
"""Totals as the Hugging Face scripts, timm's and torchtitan log them before the first step."""
_WHOSE = late_pattern(
    r"\b(?P<measure>accuracy|error|loss) (?:of|on) (?P<whose>[^:=]{3,80}):(?=\s)", re.IGNORECASE
)
"""`Accuracy of the network on the 10000 test images: 70 %`."""
_RATE = late_pattern(
    r"^\s*(?:LR|(?:Current )?[Ll]earning [Rr]ate|learning_rate|lr)\s*[:=]\s*\S+\s*$"
)
_PLACE_ALONE = late_pattern(
    r"^[\s=*#>-]*Epoch #?\d+[\s=*#<.:-]*$"
    r"|^\[(?:epoch=\d+\]\[)?(?:batch|step)=\d+(?:/\d+)?\]:?$"
    r"|^\s*Learning iteration \d+/\d+$"
    r"|^\s*-->.* STEP: \d+/\d+ -- GLOBAL_STEP: \d+$"
    r"|^(?:\w+:)?Train Epoch: \d+ \[\d+%\]$"
)
"""The heading of what follows, as nnU-Net, Composer, OLMo, rsl_rl, Coqui and so-vits print it."""
_SECTION = late_pattern(r"^\s*\**\s*(?P<title>[A-Za-z][\w ().-]{0,50}?)\s*:\s*$")
_TRAIN = late_pattern(r"\btrain", re.IGNORECASE)
_HELD_OUT = late_pattern(r"\b(?:val|dev\b|test|eval)", re.IGNORECASE)
_HELD_OUT_WORD = late_pattern(r"\b(?:val\w*|dev|test|eval\w*)\b", re.IGNORECASE)
_OUT_NAME = late_pattern(r"(?:^|[_/])(?:val|valid|validation|dev|test|eval)(?:[_/]|$)|^best_")
_QUALITY = late_pattern(
    r"^(?:psnr|ssim|lpips|acc\w*(?:@\d)?(?:_avg)?|dice|iou|miou|map|auc|f1|bleu)$"
)
_BEST = late_pattern(r"\bbest\b", re.IGNORECASE)
_ETA = late_pattern(r"\beta\s*[:=]\s*(?P<eta>(?:\d+ days?, )?\d+(?::\d\d){1,2})(?![\d:])")
_SWITCHES = late_pattern(r"\b\w+=(?:True|False|None),.*\b\w+=(?:True|False|None)(?:,|$)")
"""What is on, off or unset is no metric, and neither is what is listed with it."""
_OF_BEST = late_pattern(
    r"\bbest\b.*(?:\b(?:at|in|from|on)|@|\()\s*(?:epoch|step|iter|iteration|round)\b", re.IGNORECASE
)
"""The place that such a line names is where the best was, not where the run is."""
_TEST_SUMMARY = late_pattern(r"^ ?\*\s+|^Averaged stats: ")


def _values_and_place(text: str) -> tuple[dict[str, float], StatedPlace]:
    return named_values(text), find_place(text)


_SHAPES = LineShapes(_values_and_place)


class PairsReader(Reader):
    """Lines with numbers and a place (epoch, step, batch of so many) or a measure such as loss.

    `batch 3/10` within an epoch is a step of it. Epochs that begin at 0 are counted from 1; other
    counts are taken as printed. Lines about held-out data get the place where training is.
    """

    name: ClassVar[str] = "pairs"
    _begun = False
    _last = 0.0
    _epoch: float | None = None
    _epochs: float | None = None
    _at: float | None = None
    _all_of: float | None = None
    _over_all = False
    _section = ""
    _test = False

    def read(self, line: str) -> Sample | None:
        """Every number that has a name; a line of settings says nothing."""
        if self.epoch is not None:
            self._epoch, self._epochs = self.epoch, self.epochs or self._epochs
        # A section's lines are indented; the first that is not ends it.
        if self._section and line[:1] not in " \t":
            self._section = ""
        if line.endswith(":") and (title := _SECTION.match(line)):
            self._section = _section_of(title["title"])
        low = line.lower()
        if _DEBUG.match(line):
            return None  # parts and weights of what another line gives as it counts
        # Most lines end here: the expressions below are slow.
        if not self._section and line[:1] not in " [" and not _HINT.search(low):
            return None
        text = _without_prefix(line)
        if _are_settings(text) or ("=" in text and _ASSIGNED.match(text)):
            if total := _TOTAL.search(text):
                return _totals(total["epochs"], total["total"])
            if _are_settings(text):
                return None
        if " on " in text and (whose := _WHOSE.search(text)):
            out = _HELD_OUT_WORD.search(whose["whose"])
            named = f"{out[0]} {whose['measure']}" if out else whose["measure"]
            text = f"{text[: whose.start()]}{named}:{text[whose.end() :]}"
        if "{'" in text and find_place(text[: text.index("{'")]).is_known:
            # Accelerate's examples print their metrics as a dictionary behind the epoch.
            text = text.replace("'", "")
        if ("pochs" in text or "steps" in text) and (stated := _STATED.search(text)):
            # timm's scripts count epochs from 0, also where they go on from a later one.
            self.from_zero = self.from_zero or stated["scheduled"] is not None
            epochs = stated["epochs"] or stated["scheduled"]
            return _totals(epochs, stated["steps"] or stated["all"])
        values, place = _SHAPES.read(text)
        is_placed = place.is_known
        if "best" in low and (best := _OF_BEST.search(text)):
            place = find_place(text[: best.start()])._replace(phase=place.phase)
        if is_placed:
            # Until the next place: summaries of a test come on lines without one.
            self._test = bool(place.phase)
        measured = any(is_measure(name) for name in values)
        if not values or not (measured or is_placed or self._section):
            # A learning rate alone, after training has begun.
            if values and self._begun and _RATE.match(text):
                return self._sample(values, place, text)
            return self._heading(text, place)
        # An assignment alone is mostly a setting that is printed at the start.
        if not is_placed and _ASSIGNED.match(text) and not _is_plain_measure(values):
            return None
        return self._sample(values, place, text)

    def _heading(self, text: str, place: StatedPlace) -> Sample | None:
        is_short = place.epoch is not None and place.epochs is not None and len(text) <= 60
        if is_short or (place.is_known and _PLACE_ALONE.match(text)):
            return self._sample({}, place, text)
        return None

    def _sample(self, values: dict[str, float], place: StatedPlace, text: str) -> Sample:
        phase = place.phase or phase_of(text)
        if self._test and _TEST_SUMMARY.match(text):
            phase = "test"
        values = _put_in_phase(values, phase or self._section, text)
        found = _ETA.search(text) if "eta" in text else None
        eta = seconds(found["eta"]) if found else None
        epoch = self._count_epoch(place)
        if phase and place.step is not None and place.steps is None and place.step >= self._last:
            # Held-out data at a step of the whole run, as fairseq prints it.
            return Sample(values, place.step, None, epoch, place.epochs, eta=eta)
        # Held-out values have no step of their own: a count in the line is over the held-out data.
        if values and ((phase and place.step is None) or all(map(_is_held_out, values))):
            return Sample(values, None, None, epoch, place.epochs, eta=eta)
        self._begun = self._begun or place.is_known
        step, steps = self._count_step(place)
        self._last = self._last if step is None else step
        epochs = self._epochs if place.epochs else None
        return Sample(values, step, steps, epoch, epochs, eta=eta, unit=place.unit)

    def _count_epoch(self, place: StatedPlace) -> float | None:
        if place.epoch is None:
            return None
        self.from_zero = self.from_zero or (place.epoch == 0 and not self._begun)
        epoch = place.epoch + self.from_zero
        at = place.at if place.at is not None else place.step
        if at is not None and None not in (self._epoch, self._at) and epoch > (self._epoch or 0):
            # A count that continues over an epoch's end is that of the whole run.
            total = place.all if place.at is not None else place.steps
            self._over_all = at > (self._at or 0) and total == self._all_of
        self._epoch = epoch
        if place.epochs:
            # `Epoch 10/10` counted from 0 would otherwise end beyond its total.
            self._epochs = max(place.epochs, epoch)
        return epoch

    def _count_step(self, place: StatedPlace) -> tuple[float | None, float | None]:
        at, total = place.at, place.all
        if at is None and place.epoch is not None and place.steps:
            at, total = place.step, place.steps
        elif place.step is not None:
            return place.step, place.steps
        if at is None:
            return None, None
        self._at, self._all_of = at, total
        if not total or self._epoch is None or self._over_all:
            return at, total
        before = max(0.0, self._epoch - 1) * total
        return before + at, total * self._epochs if self._epochs else None


def _without_prefix(line: str) -> str:
    """A line without what a logger put before its message."""
    if (
        line[:1] in "IWEF["
        or line[:2] == "20"
        or "INFO" in line
        or "WARNING" in line
        or "DEBUG" in line
    ):
        return _PREFIXES.sub("", line, 1)
    return line


def _are_settings(text: str) -> bool:
    """Whether a line echoes arguments or a configuration."""
    return (
        _ECHO.match(text) is not None
        or ("(" in text and _CALL.search(text) is not None)
        or ("=" in text and _SWITCHES.search(text) is not None)
    )


def _totals(epochs: str | None, steps: str | None) -> Sample:
    return Sample(epochs=number(epochs)) if epochs else Sample(steps=number(steps or ""))


@lru_cache(maxsize=4096)
def _is_held_out(name: str) -> bool:
    return _OUT_NAME.search(name) is not None


def _section_of(title: str) -> str:
    if _HELD_OUT.search(title):
        return "test" if "test" in title.lower() else "val"
    return "train" if _TRAIN.search(title) else ""


def _put_in_phase(values: dict[str, float], phase: str, text: str) -> dict[str, float]:
    """The values by names that say which data they are of, and which are the best so far."""
    names = list(values)
    low = text.lower()
    if names and names[0].startswith("best"):
        return {name if "best" in name else f"best_{name}": v for name, v in values.items()}
    if "best" in low and (best := _BEST.search(text)) and not any("best" in name for name in names):
        after = named_values(text, best.end())
        return {f"best_{name}" if name in after else name: v for name, v in values.items()}
    if not phase and names and _is_held_out(names[0]) and not _TRAIN.search(text):
        # `Val Loss: 0.09 | PSNR: 22.0`: the rest of the line is about the same data.
        word = names[0].partition("_")[0]
        return {
            f"{word}_{name}" if _QUALITY.match(name) else name: value
            for name, value in values.items()
        }
    return {_phased(name, phase): value for name, value in values.items()} if phase else values


def _phased(name: str, phase: str) -> str:
    if not phase or _is_held_out(name) or name in ("lr", "learning_rate"):
        return name
    if phase == "train" and name.startswith("train"):
        return name
    return f"{phase}/{name}"


def _is_plain_measure(values: dict[str, float]) -> bool:
    return any(is_measure(name) and not name.endswith("lr") for name in values)
