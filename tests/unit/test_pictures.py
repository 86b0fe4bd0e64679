"""A run's pictures: which files are its own, where in the run they belong, and what is refused."""

import io
import json
import os
import struct
import zlib
from pathlib import Path

import msgspec
import pytest

from runners.model.run import Run
from runners.model.states import State
from runners.watch.pictures import PictureFinder, find_pictures
from tests.support import make_plan, make_run
from tui.views.metrics.picture_album import PictureAlbum, place_text
from tui.views.metrics.picture_file import UnreadablePicture, load_picture
from tui.views.runs.run_view import view_run

PIL = pytest.importorskip("PIL.Image")
STARTED, ENDED = 1000.0, 2000.0


def image(
    path: Path, size: tuple[int, int] = (8, 4), colour: str = "red", at: float = 1500.0
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.new("RGB", size, colour).save(path)
    os.utime(path, (at, at))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder, work = tmp_path / "run", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    plan = msgspec.structs.replace(
        make_plan(),
        working_directory=str(work),
        directory=str(folder),
        # The last two are no path that a file system takes, or that may be looked at.
        argv=("python", "train.py", "--out=results", "--data", "data", "..", "p" * 300, "a\0b"),
    )
    return make_run(
        State.DONE, started=STARTED, ended=ENDED, directory=str(folder), plan=plan, created=STARTED
    )


def seen(run: Run) -> dict[str, tuple[str, int | None, int | None]]:
    return {Path(one.path).name: (one.series, one.epoch, one.step) for one in find_pictures(run)}


def test_files_are_found_where_the_run_writes_and_nowhere_else(run: Run, tmp_path: Path) -> None:
    own, work = Path(run.directory), tmp_path / "work"
    image(own / "images" / "epoch_0012.png", at=10.0)
    image(work / "results" / "deep" / "val_step_300.jpeg")
    image(work / "loss.png")
    image(work / "elsewhere" / "other.png")
    image(work / "data" / "cat.jpg", at=STARTED - 500)
    image(work / "results" / "later.png", at=ENDED + 500)
    image(tmp_path / "above.png")
    image(own / ".hidden" / "secret.png")
    (own / "notes.txt").write_text("no picture")
    (own / "link.png").symlink_to(tmp_path / "above.png")
    assert seen(run) == {
        "epoch_0012.png": ("images/epochs", 12, None),
        "val_step_300.jpeg": ("results/deep/val", None, 300),
        "loss.png": ("loss", None, None),
    }


def test_a_folder_that_the_output_speaks_of_is_looked_at(run: Run, tmp_path: Path) -> None:
    image(tmp_path / "far" / "sample_7.png")
    log = Path(run.directory) / "output.log"
    log.write_text(f"hello\nsaving samples to {tmp_path}/far\n")
    assert seen(run) == {"sample_7.png": (f"{'far'}/sample", None, 7)}


def test_events_name_pictures_and_say_where_they_belong(run: Run, tmp_path: Path) -> None:
    image(tmp_path / "work" / "sheet.png", at=5.0)
    events = Path(run.directory) / "events.jsonl"
    line = {"time": 1.0, "type": "image", "path": "sheet.png", "epoch": 4, "caption": "inputs"}
    events.write_text(json.dumps(line) + "\n" + json.dumps({**line, "path": "gone.png"}) + "\n")
    finder = PictureFinder(run)
    (found,) = finder.poll(run)
    assert (found.epoch, found.caption, found.reported) == (4, "inputs", True)
    image(tmp_path / "work" / "gone.png")
    assert len(finder.poll(run)) == 2, "what came later is found by the same finder"


@pytest.mark.parametrize(
    ("name", "series", "place"),
    [
        ("epoch_0003.png", "epochs", "epoch 3"),
        ("case_007_epoch12.png", "case_007", "epoch 12"),
        ("ep3_step1200_val.png", "_val", "epoch 3, step 1,200"),
        ("samples-000500.png", "samples", "step 500"),
        ("media_42_0123456789abcdef0123.png", "media", "step 42"),
        ("curves.png", "curves", "newest"),
        ("resnet50_confusion.png", "resnet50_confusion", "newest"),
    ],
)
def test_a_name_tells_series_and_place(run: Run, name: str, series: str, place: str) -> None:
    image(Path(run.directory) / name)
    (found,) = find_pictures(run)
    assert (found.series.strip("_"), place_text(found.place)) == (series.strip("_"), place)


def test_names_that_no_file_has_and_endless_numbers_cost_no_other_picture(run: Run) -> None:
    folder = Path(run.directory)
    image(folder / f"image_{'9' * 30}_0123456789abcdef0123.png")
    events = [{"time": 1, "type": "image", "path": path} for path in ("a\0.png", "b" * 5000)]
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    assert len(msgspec.json.decode(msgspec.json.encode(find_pictures(run)))) == 1


def test_two_runs_are_leafed_through_together(run: Run, tmp_path: Path) -> None:
    for epoch in (1, 2, 4):
        image(Path(run.directory) / "images" / f"epoch_{epoch}.png")
    image(Path(run.directory) / "curves.png")
    first = find_pictures(run)
    second = [one for one in first if one.epoch in (2, 3)]
    album = PictureAlbum([first, second])
    assert album.series == ["images/epochs", "curves"]
    places = album.places("images/epochs")
    assert [place_text(one) for one in places] == ["epoch 1", "epoch 2", "epoch 4"]
    assert album.at(1, "images/epochs", places[0]) is None
    late = album.at(1, "images/epochs", places[2])
    assert late is not None and late.epoch == 2, "the last one before stands in"
    assert album.at(1, "curves", (2, 0, 0)) is None
    assert PictureAlbum([[], []]).series == []


def chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def test_a_bomb_a_fifo_and_what_is_no_picture_are_refused(tmp_path: Path) -> None:
    bomb, wide = (tmp_path / name for name in ("bomb.png", "wide.png"))
    for path, size in ((bomb, (60_000, 50_000)), (wide, (9000, 5000))):
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 0, 0, 0, 0))
        pixels = chunk(b"IDAT", zlib.compress(bytes(100)))
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b""))
    text = tmp_path / "text.png"
    text.write_text("not an image")
    gif = tmp_path / "moving.png"
    PIL.new("P", (4, 4)).save(gif, format="GIF")
    torn = tmp_path / "torn.png"
    torn.write_bytes(image(tmp_path / "whole.png", (64, 64)).read_bytes()[:90])
    fifo = tmp_path / "fifo.png"
    os.mkfifo(fifo)
    for path, words in (
        (bomb, "pixels"),
        (wide, "9,000 × 5,000 pixels are more"),
        (text, "neither a PNG nor a JPEG"),
        (gif, "neither a PNG nor a JPEG"),
        (torn, "incomplete"),
        (fifo, "cannot be read"),
        (tmp_path / "none.png", "cannot be read"),
    ):
        with pytest.raises(UnreadablePicture, match=words):
            load_picture(path)


def test_every_kind_of_pixel_becomes_rgb(tmp_path: Path) -> None:
    for mode, colour, expected in (
        ("L", 128, (128,) * 3),
        ("1", 1, (255,) * 3),
        ("I;16", 32768, (128,) * 3),
        ("RGBA", (255, 0, 0, 0), (0, 0, 0)),
        ("LA", (200, 255), (200,) * 3),
    ):
        path = tmp_path / f"{mode.replace(';', '')}.png"
        PIL.new(mode, (3000, 2), colour).save(path)
        picture, size = load_picture(path)
        assert size == (3000, 2) and picture.mode == "RGB" and picture.width <= 2560, mode
        assert picture.getpixel((0, 0)) == expected, mode
    buffer = io.BytesIO()
    PIL.new("RGB", (40, 30), "blue").save(buffer, format="JPEG")
    (tmp_path / "photo.png").write_bytes(buffer.getvalue())
    assert load_picture(tmp_path / "photo.png")[1] == (40, 30), "by content, not by name"


def test_a_run_s_details_name_the_newest_picture_alone(tmp_path: Path) -> None:
    lines = [{"time": 1.0, "type": "image", "path": f"{name}.png"} for name in ("one", "two")]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert view_run(make_run(directory=str(tmp_path))).images == ("two.png",)
