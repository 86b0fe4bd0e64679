"""Lines of names and numbers: `step 20 | loss: 0.5 | lr=1e-4`, `epoch 3/10 iter 40: train loss
0.4, time 12ms`.
"""

import re
from typing import ClassVar

from runners.watch.metrics.readers.reader import Reader
from runners.watch.metrics.sample import NUMBER, Sample, metric_name, number

# Bounded: a long line of words would else be gone through again from each of them.
_NAME = r"(?<![\w/.])(?P<name>[A-Za-z_](?:[\w/.%]| (?=\S)|-(?=\w)){0,40}?)\s*[:=]\s*"
_PAIR = re.compile(rf"{_NAME}(?P<value>{NUMBER})(?P<unit>%?)(?![\w:])")
_WITH_UNIT = re.compile(rf"{_NAME}(?P<value>{NUMBER})\s?(?P<unit>%|ms|s|dB)(?![\w:])")
_MEASURES = (
    r"loss|acc(?:uracy)?|err(?:or)?|psnr|ssim|lpips|dice|iou|miou|map|auc|f1|bleu|perplexity|ppl|mse|mae|rmse|reward"
    r"|mfu|lr"
)
_OF = r"(?:(?:train|val|valid|validation|test|eval|avg|mean|best)[ _/-])?(?:\w+_)?"
_BARE = re.compile(
    rf"(?:^|(?<=[\s,;|:(\[]))(?P<name>{_OF}(?:{_MEASURES})\d?)\s+"
    rf"(?P<value>{NUMBER})(?![\w:])",
    re.IGNORECASE,
)
_MEASURE = re.compile(rf"(?:^|[^a-z])(?:\w*loss|{_MEASURES})(?:$|[^a-z])", re.IGNORECASE)
_HINT = re.compile(rf"loss|{_MEASURES}|epoch|step|iter|batch|\bit\b|\bep\b", re.IGNORECASE)
_LEVEL = re.compile(r"^.{0,80}?\b(?:INFO|DEBUG|WARNING)\b[\s:|\]\-]*")
_PLACE = re.compile(
    r"\b(?P<what>epochs?|steps?|global[_ "
    r"]step|iter(?:ation)?s?|it|batch(?:es)?|ep)\b[\s:=#\[(]*(?P<at>\d[\d,]*)"
    r"(?:\s*(?:/|of)\s*(?P<of>\d[\d,]*))?(?!\.?\d)(?!\s*(?:it|batch|step|sample|image)\w*/s)",
    re.IGNORECASE,
)
_KINDS = {"e": "epoch", "s": "step", "g": "step", "i": "step", "b": "batch"}
_COUNTS = {
    "epoch",
    "epochs",
    "step",
    "steps",
    "iter",
    "iteration",
    "batch",
    "batches",
    "samples",
    "size",
}
_NOT_METRICS = {
    "epoch",
    "epochs",
    "step",
    "steps",
    "iter",
    "iters",
    "iteration",
    "it",
    "batch",
    "global_step",
    "ep",
    "eta",
    "elapsed",
    "rank",
    "pid",
    "port",
    "seed",
    "line",
    "world_size",
    "batch_size",
}


class PairsReader(Reader):
    """Lines that have a place (epoch, step, batch of so many) or a measure such as a loss beside
    numbers.

    `batch 3/10` within an epoch is a step of it. Counts are taken as printed; a preset's `offset`
    corrects them.
    """

    name: ClassVar[str] = "pairs"

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._epochs: float | None = None

    def read(self, line: str) -> Sample | None:
        """Every number that has a name; a line of settings says nothing."""
        if not _HINT.search(line):
            return None
        line = _LEVEL.sub("", line)
        values: dict[str, float] = {}
        for pattern in (_PAIR, _WITH_UNIT, _BARE):
            for pair in pattern.finditer(line):
                name = metric_name(_without_place(pair["name"]))
                if name and name not in _NOT_METRICS and name.rpartition("_")[2] not in _COUNTS:
                    values.setdefault(name, number(pair["value"]))
        places = {_KINDS[at["what"][0].lower()]: at for at in _PLACE.finditer(line)}
        measured = any(_MEASURE.search(name) for name in values)
        if not values or not (
            measured or ("step" in places or "batch" in places or "epoch" in places)
        ):
            return self._heading(line, places)
        if not measured and not places:
            return None
        return self._sample(values, places)

    def _heading(self, line: str, places: "dict[str, re.Match[str]]") -> Sample | None:
        epoch = places.get("epoch")
        if epoch is None or not epoch["of"] or len(line) > 60:
            return None
        return self._sample({}, places)

    def _sample(self, values: dict[str, float], places: "dict[str, re.Match[str]]") -> Sample:
        epoch, step, batch = places.get("epoch"), places.get("step"), places.get("batch")
        if epoch is not None:
            self._epoch = number(epoch["at"])
            self._epochs = number(epoch["of"]) if epoch["of"] else self._epochs
        inner = (
            batch
            if batch is not None
            else step
            if step is not None and step["of"] and epoch is not None
            else None
        )
        done = number(step["at"]) if step is not None else None
        steps = number(step["of"]) if step is not None and step["of"] else None
        if inner is not None and inner["of"] and self._epoch is not None:
            total = number(inner["of"])
            done = max(0.0, self._epoch - 1) * total + number(inner["at"])
            steps = total * self._epochs if self._epochs else None
        elif inner is not None and done is None:
            done = number(inner["at"])
        return Sample(values, done, steps, self._epoch, self._epochs)


def _without_place(name: str) -> str:
    """A name without what stood before it: of `iter 40 train loss` only `train loss`."""
    return _PLACE.sub("", name).strip(" -:|")
