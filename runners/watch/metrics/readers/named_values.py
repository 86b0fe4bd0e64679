"""Names with numbers in a line of text: `loss: 0.5`, `lr=1e-4`, `Loss 6.9 (6.8)`, `9/10 (90%)`."""

import re
from functools import lru_cache

from runners.model.late_pattern import late_pattern
from runners.watch.metrics.numbers import WHOLE, number
from runners.watch.metrics.sample import metric_name

MEASURES = (
    r"loss|logloss|acc(?:uracy)?|acc@\d|err(?:or)?|psnr|ssim|lpips|dice|iou|miou|map|auc|f1|bleu|"
    r"perplexity|ppl|mse|mae|rmse|reward|mfu|bpb|nll|elbo|fid(?:\d+k(?:_full)?)?"
    r"|(?:validation|val|test|final|mean|average)[_ ]score"
)
_VALUE = late_pattern(
    rf"(?P<sep>[:=]\s*|\s)(?=[-+.\d\[tnNiI])(?:(?P<part>\d+)/(?P<whole>\d+)\s*\(\s*[\d.]+\s*%\s*\)"
    rf"|(?:tensor\()?(?P<value>{WHOLE})"
    rf"|\[\s*(?P<only>{WHOLE})\s*\])"
    rf"(?P<mean>(?:%|ms|s)?\s*\(\s*(?P<of_all>{WHOLE})%?s?\s*\))?"
)
_WORD = r"[A-Za-z_][\w/.%@'\-]*"
_NAME = late_pattern(rf"(?<![\w/.@'\"])(?P<name>{_WORD}(?: {_WORD})*(?: ?\([\w/%.]+\))?)\s*$")
_BARE = late_pattern(rf"(?:^|[\s_/@-])(?:\w*loss|{MEASURES}|lr)(?:@?\d+)?$", re.IGNORECASE)
_MEASURED = late_pattern(
    rf"(?:^|[^a-z])(?:\w*loss|{MEASURES})(?:@?\d+)?"
    r"(?:[ _/.-](?:\d+|avg|mean|median|value|total|train|val|valid|test|batch|epoch|step|iter"
    r"|so_far|ppl|l1|l2|db|score))*$",
    re.IGNORECASE,
)
_NOT_METRICS = {
    *("epoch", "epochs", "step", "steps", "iter", "iters", "iteration", "iterations", "it", "ep"),
    *("batch", "batches", "global_step", "micro_step", "update", "num_updates", "eta", "elapsed"),
    *(
        "remaining",
        "episode",
        "episodes",
        "epch",
        "rank",
        "local_rank",
        "pid",
        "port",
        "seed",
        "line",
        "world_size",
        "batch_size",
    ),
    *("batchsize", "size", "samples", "skipped", "train", "test", "val", "valid", "eval"),
}
_COUNTS = ("epoch", "epochs", "step", "steps", "iter", "iters", "iteration", "iterations")
_MORE_COUNTS = ("batch", "batches", "samples", "size", "interval", "updates", "workers", "pid")
_TWO_NAMES = late_pattern(r"(?P<first>.*?) ?\((?P<second>\w+)\)")
"""`time (data): 0.2 (0.1)`."""
_POSSESSIVE = late_pattern(r"'s[ _]")
_MOST_NAME = 64


def named_values(text: str, start: int = 0) -> dict[str, float]:
    """Numbers with a name: the percentage of `9/10 (90%)`, `0.5 (0.6)` with its mean (`…_avg`)."""
    values: dict[str, float] = {}
    before, last = start, ""
    for found in _VALUE.finditer(text, start):
        name = _NAME.search(text, max(before, found.start() - _MOST_NAME), found.start())
        if name is None:
            continue
        phrase = name["name"]
        # Without a sign between them, many words before a number are not its name.
        if found["sep"].isspace() and not (
            found["mean"] or _BARE.search(phrase) or _is_field(text, name.start(), found.end())
        ):
            continue
        before = found.end()
        mean = "avg"
        if found["mean"] and (two := _TWO_NAMES.fullmatch(phrase)):
            phrase, mean = two["first"], two["second"]
        called = metric_name(_POSSESSIVE.sub("/", phrase))
        if called == "best":
            called = f"best_{last}" if last else ""
        if not called or is_count(called):
            continue
        last = called
        if found["part"]:
            whole = number(found["whole"])
            if whole:
                values.setdefault(called, 100 * number(found["part"]) / whole)
            continue
        # The first of a name counts: later ones are often of the epoch or the best so far.
        values.setdefault(called, number(found["value"] or found["only"]))
        # Behind what is a mean already stands how it changed.
        if found["mean"] and not called.startswith(("avg_", "mean_")):
            values.setdefault(f"{called}_{mean}", number(found["of_all"]))
    return values


def _is_field(text: str, start: int, end: int) -> bool:
    """Whether a part of a line is between two bars: `| ms/batch 288.15 |`."""
    return text[:start].rstrip()[-1:] == "|" and text[end:].lstrip()[:1] == "|"


@lru_cache(maxsize=4096)
def is_count(name: str) -> bool:
    """Whether a name counts or sets something, and does not measure it."""
    if name in _NOT_METRICS or name.endswith((".py", ".cpp", ".cu", ".sh")):
        return True
    # `ms/batch` measures a time, although `batch` counts.
    if name.startswith(("ms/", "s/")):
        return False
    last = name.rpartition("_")[2].rpartition("/")[2]
    return (last in _COUNTS and "loss" not in name) or (
        last in _MORE_COUNTS and not name.endswith("loss_batch")
    )


@lru_cache(maxsize=4096)
def is_measure(name: str) -> bool:
    """Whether a name is that of a measure such as a loss: then a line is about a run's progress."""
    return _MEASURED.search(name) is not None
