"""Pictures of another machine: what it names is written nowhere but in the folder of its run."""

from collections.abc import Callable, Sequence
from pathlib import Path

from textual.app import App

from runners.watch.pictures import RunPicture
from tests.support import make_run
from tests.ui.fake_place import FakePlace
from tui.panel.places import PlaceOfRuns
from tui.panel.widgets.picture.picture_source import PictureSource
from tui.views.metrics.picture_file import FoundPictures, ImageBytes


class _Gallery(FakePlace):
    """A machine whose pictures have these names."""

    paths: Sequence[str] = ()

    def ask(
        self, question: str, arguments: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        pictures = [RunPicture(path, "sample", 1, 1, 4, 1.0) for path in self.paths]
        done(FoundPictures(pictures) if question == "pictures" else ImageBytes(b"data"), "")


def test_a_picture_whose_name_is_no_file_name_is_not_shown(tmp_path: Path) -> None:
    folder = tmp_path / "mirror"
    folder.mkdir()
    gallery = _Gallery(folder, lambda: None)
    gallery.paths = ["/run/a\0b.png", "/run/..", "", "/run/" + 300 * "x", "/run/good.png"]
    places = PlaceOfRuns(App(), gallery, lambda name: gallery, lambda run: None)
    source = PictureSource(places)
    (picture,) = source.find(make_run(id="cluster/20261120-101500-demo-7f3a"))
    assert Path(picture.path).name == "good.png"
    assert Path(source.load(picture.path)).read_bytes() == b"data"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [Path(picture.path)]
