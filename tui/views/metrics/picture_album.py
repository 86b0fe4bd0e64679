"""The pictures of one run, or of two beside each other, by series and place in the run."""

from bisect import bisect_right
from collections.abc import Sequence

from runners.watch.pictures import NEWEST, PicturePlace, RunPicture


class PictureAlbum:
    """Pictures by series and place; `runs` are those of each run, in its order."""

    def __init__(self, runs: Sequence[Sequence[RunPicture]]) -> None:
        self._runs: list[dict[str, dict[PicturePlace, RunPicture]]] = []
        for pictures in runs:
            mine: dict[str, dict[PicturePlace, RunPicture]] = {}
            for picture in pictures:
                mine.setdefault(picture.series, {})[picture.place] = picture
            self._runs.append(mine)
        counts: dict[str, tuple[int, int]] = {}
        for mine in self._runs:
            for name, places in mine.items():
                had, most = counts.get(name, (0, 0))
                counts[name] = had + 1, max(most, len(places))
        self.series = sorted(counts, key=lambda name: (-counts[name][0], -counts[name][1], name))
        """What there is to see: first what all runs have, then what has most pictures."""

    def places(self, series: str) -> list[PicturePlace]:
        """Where in the runs there is a picture of `series`, in order."""
        return sorted({place for mine in self._runs for place in mine.get(series, ())})

    def at(self, run: int, series: str, place: PicturePlace) -> RunPicture | None:
        """The picture of a run at a place, or the last one before it; None when there is none."""
        mine = self._runs[run].get(series, {})
        if place in mine:
            return mine[place]
        before = sorted(mine)
        i = bisect_right(before, place)
        return mine[before[i - 1]] if i and before[i - 1][0] == place[0] else None


def place_text(place: PicturePlace) -> str:
    """`epoch 3`, `epoch 3, step 1,200`, `step 1,200` or `newest`."""
    kind, epoch, step = place
    if kind == NEWEST[0]:
        return "newest"
    parts = [f"epoch {epoch:,}"] if kind == 0 else []
    return ", ".join([*parts, f"step {step:,}"] if step or kind == 1 else parts)
