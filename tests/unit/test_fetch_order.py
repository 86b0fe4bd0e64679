"""What of a run is fetched first: its newest whole checkpoint."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from runners.places.ssh.copying import Copied, Copier
from runners.places.ssh.fetch import _copy
from runners.places.ssh.manifest import FileEntry, Manifest


class _Recorder(Copier):
    """Copies nothing, and knows in which order it was asked to."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def send(self, local: Path, names: Iterable[str], remote: str) -> None:
        """Nobody sends."""
        raise AssertionError

    def bring(
        self, remote: str, sizes: Mapping[str, int], local: Path, anew: bool = False
    ) -> Copied:
        """Note the names."""
        self.asked.append(",".join(sizes))
        return Copied(len(sizes), sum(sizes.values()))


def test_the_newest_checkpoint_is_fetched_first(tmp_path: Path) -> None:
    def entry(name: str, root: str = "/run", checkpoint: str = "") -> FileEntry:
        return FileEntry(root, name, 1, "0" * 64, checkpoint)

    files = (
        entry("a.log"),
        entry("best.pt", checkpoint="best.pt"),
        entry("out/step_9/rank_0", "/", "step_9"),
        entry("z.csv"),
    )
    manifest = Manifest("run", "far", "/run", "done", False, ("step_9", "best.pt"), files)
    copier = _Recorder()
    assert _copy(copier, manifest, tmp_path, None, False) == Copied(4, 4)
    assert copier.asked == ["out/step_9/rank_0", "best.pt", "a.log,z.csv"]
