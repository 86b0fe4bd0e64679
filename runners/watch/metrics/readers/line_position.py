"""The place in a run that a line names: `Epoch [0/3], Step [10/100]`, `[2][ 5/17]`, `iter 40`."""

import re
from typing import NamedTuple

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import number

_COUNT = r"\d[\d,]*(?![\w%]|\.\d|:\d\d)"
_OF = r"(?:\s*(?:/|\bof\b)\s*(?P<{0}>\d[\d,]*)(?!\.?\d))?"
# What follows an epoch directly: `[10/50]`, `:   2 / 10`, `| 5/ 17 batches`, `[1280/6000 (21%)]`.
_INNER = (
    r"(?:(?:\s*[\])])?[\s:|,-]*(?:[\[(]\s*)?(?P<at>\d+)\s*/\s*(?P<all>\d+)(?![.\d])"
    r"(?P<share>\s*\(\s*[\d.]+%\))?)?"
)
_EPOCH = late_pattern(
    r"(?<![\w.])(?P<word>epochs?|ep)(?:\((?P<mode>\w+)\))?(?P<gap>[\s:=#\[(]*)"
    r"(?P<epoch>\d+(?:\.\d+)?)(?![\w%]|\.\d)"
    rf"(?:\s*(?:/|\bof\b)\s*(?P<epochs>\d+)(?![.\d]))?{_INNER}"
)
_STEP = late_pattern(
    r"(?<![\w.])(?P<word>global[_ ]steps?|train_num_updates|num_updates|steps?|iter(?:ation)?s?|it"
    r"|train(?:ing)?_(?:iter(?:ation)?|step)|updates?|rounds?|episodes?)"
    rf"(?:\((?P<mode>\w+)\))?(?P<gap>[\s:=#\[(]*)(?P<step>{_COUNT}){_OF.format('steps')}"
    r"(?!\s*(?:it|batch|step|sample|image)\w*/s)"
)
_BATCH = late_pattern(
    r"(?<![\w.])(?:batch(?:es)?[\s:=#\[(]*(?P<at>\d+)(?![\w%]|\.\d)"
    r"(?:\s*(?:/|\bof\b)\s*(?P<all>\d+))?"
    r"|(?P<at2>\d+)\s*/\s*(?P<all2>\d+)\s+(?:batches|steps|iters?|iterations|it)\b)"
)
_BRACKETS = late_pattern(
    r"^\W{0,4}?\[\s*(?P<one>\d+)(?:\s*/\s*(?P<ones>\d+))?\s*\]"
    r"(?:\s*\[\s*(?P<two>\d+)\s*/\s*(?P<twos>\d+)\s*\])?"
)
_LOOP = late_pattern(
    r"^\W{0,4}(?:train\w*|test\w*|val\w*|eval\w*)\s*(?::\s*)?(?:(?P<epoch>\d+)\s*)?"
    r"(?:\[\s*(?P<of>\d+)\s*/\s*(?P<epochs>\d+)\s*\]\s*)?"
    r"\[\s*(?P<at>\d+)\s*/\s*(?P<all>\d+)",
    re.IGNORECASE,
)
_NO_PLACE = late_pattern(
    r"(?:\b(?:nan|skipped|per|fps|warmup|every|max|total|of|number|bad|eval|each)[ _]?|\w_)$",
    re.IGNORECASE,
)
_HELD_OUT = r"(?:val(?:id(?:at(?:e|ion))?)?|dev|test(?:ing)?|eval(?:uation)?)"
_PHASE = late_pattern(
    rf"^\W{{0,4}}(?:final\s+)?(?P<head>{_HELD_OUT})"
    r"(?:\s+(?:set|results?|summary|epoch|step|batch|stage|metrics?|iter|net|loss at)\b"
    r"|\s*[:|\[(\-{]|\s+\d)"
    rf"|(?:\||^)\s*(?P<field>{_HELD_OUT})\s*\|"
    rf"|\b(?:Epoch|Iter)\((?P<mode>{_HELD_OUT})\)"
    r"|^(?P<estimator>Saving dict for global step)"
    # After nothing but numbers and the place: `Epoch 3 [Val]`, `2026-11-22 10:00 - Test:`.
    r"|^(?:[^a-z]|\b(?:epochs?|steps?|iter|iteration|of|info|evaluating)\b)*?"
    rf"\b(?P<lead>{_HELD_OUT})\s*[\]):,|](?!\s*[\d.])",
    re.IGNORECASE,
)
_STEP_UNITS = ("step", "it", "update", "round", "episode")


class StatedPlace(NamedTuple):
    """The place that a line names; counts as printed. `at` of `all` is within the epoch.

    `phase` is `val`, `test` or `eval` for lines about held-out data. `unit` is
    `samples` where `at` counts samples.
    """

    epoch: float | None = None
    epochs: float | None = None
    step: float | None = None
    steps: float | None = None
    at: float | None = None
    all: float | None = None
    phase: str = ""
    unit: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it says anything."""
        return self.epoch is not None or self.step is not None or self.at is not None


def phase_of(text: str) -> str:
    """`val`, `test` or `eval` when a line says that it is about held-out data."""
    low = text[:120].lower()
    if not any(word in low for word in ("val", "test", "dev", "saving dict")):
        return ""
    found = _PHASE.search(text, 0, 120)
    if found is None:
        return ""
    if found["estimator"]:
        return "eval"  # TensorFlow's estimators, after an evaluation
    word = (found["head"] or found["field"] or found["mode"] or found["lead"]).lower()
    if word.startswith(("val", "dev")):
        return "val"
    return "test" if word.startswith("test") else "eval"


def find_place(text: str) -> StatedPlace:
    """The place that a line names; the first of each kind counts."""
    phase = phase_of(text)
    loop = _LOOP.match(text)
    if loop is not None:
        of = loop["epoch"] or loop["of"]
        epoch, epochs = number(of) if of else None, number(loop["epochs"]) if loop["of"] else None
        return StatedPlace(
            epoch, epochs, at=number(loop["at"]), all=number(loop["all"]), phase=phase
        )
    low = text.lower()
    epoch = epochs = at = total = None
    unit = ""
    # Plain substring tests before each expression: this sees every line of the output.
    # LeRobot's `ep:` counts episodes, and its `epch:` is a part of an epoch.
    if "ep" in low and "epch" not in low:
        epoch, epochs, at, total, unit = _epoch_in(low)
    step, steps = _step_in(low) if any(word in low for word in _STEP_UNITS) else (None, None)
    if at is None and _may_have_batch(low) and (batch := _BATCH.search(low)):
        at = number(batch["at"] or batch["at2"])
        total = number(batch["all"] or batch["all2"]) if batch["all"] or batch["all2"] else None
    if epoch is None and step is None and at is None:
        return _brackets(text, phase)
    return StatedPlace(epoch, epochs, step, steps, at, total, phase, unit)


def _may_have_batch(text: str) -> bool:
    return "batch" in text or ("/" in text and ("step" in text or "it" in text))


def _epoch_in(
    text: str,
) -> tuple[float | None, float | None, float | None, float | None, str]:
    for found in _EPOCH.finditer(text):
        plural = found["word"] == "epochs"
        behind = _NO_PLACE.search(text, max(0, found.start() - 12), found.start())
        # `5 epochs` is a length, `Epochs 3/5` a place.
        if behind or (plural and not found["epochs"]):
            continue
        epochs = number(found["epochs"]) if found["epochs"] else None
        if not found["at"]:
            return number(found["epoch"]), epochs, None, None, ""
        if "(" in found[0] and not text[found.end() :].strip(" )*:-"):
            return number(found["at"]), number(found["all"]), None, None, ""  # `Epoch 3 (3/200):`
        # Only `Train Epoch: 1 [640/60000 (1%)]` counts samples, as PyTorch's first example does.
        samples = found["share"] and text[: found.start()].strip() == "train"
        unit = "samples" if samples else ""
        return number(found["epoch"]), epochs, number(found["at"]), number(found["all"]), unit
    return None, None, None, None, ""


def _step_in(text: str) -> tuple[float | None, float | None]:
    best: re.Match[str] | None = None
    for found in _STEP.finditer(text):
        word = found["word"]
        plural = word.endswith("s") and not word.endswith("updates")
        behind = _NO_PLACE.search(text, max(0, found.start() - 12), found.start())
        if behind or (plural and not found["steps"]):
            continue  # `Steps: 16` is a length, `nan iterations: 0` a count of something else
        if best is None or word.startswith(("global", "num_up", "train_num")):
            # `global_step` and the like count over the whole run, and win over an epoch's step.
            best = found
    if best is None:
        return None, None
    return number(best["step"]), number(best["steps"]) if best["steps"] else None


def _brackets(text: str, phase: str) -> StatedPlace:
    found = _BRACKETS.match(text)
    if found is None:
        return StatedPlace(phase=phase)
    first, total = number(found["one"]), number(found["ones"]) if found["ones"] else None
    if found["two"]:
        return StatedPlace(
            first, total, at=number(found["two"]), all=number(found["twos"]), phase=phase
        )
    if total is None:
        return StatedPlace(step=first, phase=phase)
    return StatedPlace(at=first, all=total, phase=phase)
