"""Where a picture page finds pictures: in the folders of here, or on the machine of the run.

Everything here waits, and is called in the page's thread.
"""

import hashlib
from pathlib import Path

import msgspec

from runners.host.below import resolve_below
from runners.host.files import is_there, replace
from runners.model.errors import FresnelError
from runners.model.run import Run
from runners.places.place import Place
from runners.watch.pictures import PictureFinder, RunPicture
from tui.panel.places import PlaceOfRuns
from tui.snapshot.questions import Question
from tui.views.metrics.picture_file import FoundPictures, ImageBytes, UnreadablePicture


class PictureSource:
    """Finds the pictures of runs, and has their files on this machine before they are decoded."""

    def __init__(self, places: PlaceOfRuns) -> None:
        self._places = places
        self._finders: dict[str, PictureFinder] = {}
        self._remote: dict[str, tuple[Place, str, str]] = {}
        """Of files kept here of another machine's: where each is from, its run, its path there."""

    def find(self, run: Run) -> list[RunPicture]:
        """All pictures of a run, whose id is that of its row; their paths are files of here."""
        machine, _, run_id = run.id.rpartition("/")
        if not machine:
            finder = self._finders.setdefault(run.id, PictureFinder(run))
            return finder.poll(run)
        place = self._places.named(machine)
        try:
            found = self._places.wait(place, Question.PICTURES, [run_id], FoundPictures)
        except FresnelError:
            return []  # asked again in a moment
        folder = place.log_path(run_id).with_name("pictures")
        kept = (self._kept(place, run_id, folder, picture) for picture in found.pictures)
        return [picture for picture in kept if picture is not None]

    def _kept(self, place: Place, run: str, folder: Path, picture: RunPicture) -> RunPicture | None:
        """A picture of a machine under a path of here; None for a name that leads elsewhere."""
        named = f"{picture.path} {picture.modified}".encode("utf-8", "surrogatepass")
        key = hashlib.sha256(named).hexdigest()[:16]
        try:
            path = resolve_below(folder / key, Path(picture.path).name)
        except ValueError:
            return None
        self._remote[str(path)] = place, run, picture.path
        return msgspec.structs.replace(
            picture, path=str(path), modified=picture.modified - place.clock_offset
        )

    def load(self, path: str) -> str:
        """The path, once its file is here. Raises UnreadablePicture when it cannot be had."""
        if path not in self._remote or is_there(path):
            return path
        place, run, remote_path = self._remote[path]
        try:
            image = self._places.wait(place, Question.IMAGE, [run, remote_path], ImageBytes)
            # Pictures of a private run: nobody else on this machine is to see them.
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(Path(path), image.data, sync=False)
        except (FresnelError, OSError) as error:
            raise UnreadablePicture(str(error)) from None
        return path
