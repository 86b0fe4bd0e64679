"""Checkpoints of the trainers: kept, found again, whole whatever happens, saying who wrote them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from trainers.common import checkpoint as checkpoints  # noqa: E402
from trainers.common.checkpoint import CheckpointFolder  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.common.files import remove_drafts  # noqa: E402
from trainers.common.ranks import Ranks  # noqa: E402
from trainers.common.resuming import changes_on_resume, find_checkpoint  # noqa: E402

pytestmark = pytest.mark.trainers
ROOT = Path(__file__).resolve().parents[2]
ALONE = Ranks(0, 1, torch.device("cpu"))


def make_folder(
    run: Path, keep: int = 3, trainer: str = "toy", **settings: Any
) -> CheckpointFolder:
    return CheckpointFolder(run / "checkpoints", trainer, {"width": 8} | settings, ALONE, keep)


def save(folder: CheckpointFolder, epoch: int, best: bool = False) -> Path:
    saved = folder.save(
        {"value": torch.full((2,), float(epoch))}, epoch=epoch, step=epoch, best=best
    )
    assert saved is not None and saved[1] == saved[0].stat().st_size
    # Files of the same moment are told apart by this, not by luck.
    os.utime(saved[0], (1e9 + epoch, 1e9 + epoch))
    return saved[0]


def names(folder: CheckpointFolder) -> set[str]:
    return {path.name for path in folder.folder.iterdir()}


def test_the_newest_few_stay_and_the_best_one_always(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, keep=2)
    save(folder, 1, best=True)
    for epoch in (1, 2, 3, 4):
        save(folder, epoch)
    assert names(folder) == {
        "best.pt",
        "last.pt",
        "epoch_0003.pt",
        "epoch_0004.pt",
        "settings.json",
    }
    for name, value in (("best.pt", 1.0), ("last.pt", 4.0)):
        assert checkpoints.load_checkpoint(folder.folder / name)["value"].tolist() == [value, value]
    # The same folder after a resume: what an earlier attempt left counts too.
    again = make_folder(tmp_path, keep=1)
    save(again, 5)
    assert {"epoch_0005.pt", "best.pt"} <= names(again) and "epoch_0004.pt" not in names(again)


def test_keep_0_keeps_all(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, keep=0)
    for epoch in range(1, 8):
        save(folder, epoch)
    assert len(checkpoints.numbered_checkpoints(folder.folder)) == 7


def test_a_checkpoint_says_who_wrote_it(tmp_path: Path) -> None:
    content = checkpoints.load_checkpoint(save(make_folder(tmp_path, data=Path("/d")), 3))
    by = content["written_by"]
    assert (by["trainer"], by["epoch"], by["step"], by["world_size"]) == ("toy", 3, 3, 1)
    assert by["versions"]["torch"] == torch.__version__
    assert content["settings"] == {"width": 8, "data": "/d"}


def test_what_weights_only_refuses_is_refused_before_writing(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    with pytest.raises(TypeError, match=r"best\[0\]\.loss \(float64\)"):
        folder.save({"best": [{"loss": np.float64(1.0)}]}, epoch=1, step=1)
    assert not folder.folder.exists()


def test_a_run_that_is_refused_changes_nothing_in_the_folder_of_another(tmp_path: Path) -> None:
    """Its settings say which runs `--resume auto` goes on from."""
    save(make_folder(tmp_path), 1)
    before = {path.name: path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()}
    later = make_folder(tmp_path, width=9)
    after = {path.name: path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()}
    assert after == before
    save(later, 2)
    assert b'"width": 9' in (tmp_path / "checkpoints" / "settings.json").read_bytes()
    nowhere = tmp_path / "a file"
    nowhere.write_text("")
    with pytest.raises(SettingsError, match="cannot be written: Not a directory"):
        make_folder(nowhere / "within")


def test_a_folder_of_another_trainer_is_refused(tmp_path: Path) -> None:
    save(make_folder(tmp_path), 1)
    with pytest.raises(SettingsError, match="checkpoints of the trainer toy"):
        make_folder(tmp_path, trainer="other")
    other = make_folder(tmp_path / "elsewhere", trainer="other")
    with pytest.raises(SettingsError, match="was written by toy, and this is other"):
        path = tmp_path / "checkpoints" / "epoch_0001.pt"
        find_checkpoint(str(path), other, ALONE, ())


HALF = """
import sys, time
from pathlib import Path
from trainers.common.files import write_whole

def write(file):
    file.write(b"half a checkpoint")
    file.flush()
    print("half", flush=True)
    time.sleep(600)

write_whole(Path(sys.argv[1]), write)
"""


def test_killed_while_saving_the_file_before_stays_and_the_draft_goes(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    path = save(folder, 1)
    writer = subprocess.Popen(
        [sys.executable, "-c", HALF, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert writer.stdout is not None and writer.stdout.readline() == "half\n"
        assert remove_drafts(folder.folder) == []
    finally:
        writer.kill()
        writer.wait()
    drafts = [name for name in names(folder) if name.endswith(".part")]
    assert len(drafts) == 1
    found = find_checkpoint("auto", make_folder(tmp_path), ALONE, ("width",))
    assert found is not None and found[1] == path and found[0]["value"].tolist() == [1.0, 1.0]
    assert not [name for name in names(folder) if name.endswith(".part")]


def test_auto_passes_over_a_newest_file_that_is_broken_and_says_so(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    whole, broken = save(folder, 1), save(folder, 2)
    broken.write_bytes(broken.read_bytes()[:-200])
    found = find_checkpoint("auto", folder, ALONE, ())
    assert found is not None and found[1] == whole
    assert "epoch_0002.pt cannot be read as a checkpoint (it is damaged or cut" in found[2][0]
    with pytest.raises(SettingsError, match=r"epoch_0002\.pt cannot be read"):
        find_checkpoint(str(broken), folder, ALONE, ())


def test_a_file_that_is_damaged_inside_is_passed_over_too(tmp_path: Path) -> None:
    """As a disk or a copy that was broken off leaves it: PyTorch looks at no checksum."""
    folder = make_folder(tmp_path)
    whole, broken = save(folder, 1), save(folder, 2)
    written = torch.full((2,), 2.0).numpy().tobytes()
    content = broken.read_bytes()
    assert content.count(written) == 1
    broken.write_bytes(content.replace(written, bytes(len(written))))
    assert torch.load(broken, weights_only=True)["value"].tolist() == [0, 0]
    found = find_checkpoint("auto", folder, ALONE, ())
    assert found is not None and found[1] == whole
    assert "epoch_0002.pt cannot be read as a checkpoint (it is damaged: " in found[2][0]


def test_auto_finds_the_one_written_last_in_a_folder_that_was_copied_without_times(
    tmp_path: Path,
) -> None:
    folder = make_folder(tmp_path / "run")
    for epoch in (1, 2, 3):
        save(folder, epoch)
    copied = make_folder(tmp_path / "copied")
    copied.folder.mkdir(parents=True)
    for age, name in enumerate(("epoch_0003.pt", "last.pt", "epoch_0002.pt", "epoch_0001.pt")):
        copy = copied.folder / name
        copy.write_bytes((folder.folder / name).read_bytes())
        os.utime(copy, (2e9 + age, 2e9 + age))
    found = find_checkpoint("auto", copied, ALONE, ())
    assert found is not None and found[1] == copied.folder / "epoch_0003.pt"
    (copied.folder / "last.pt").write_bytes(b"damaged")
    assert find_checkpoint("auto", copied, ALONE, ()) is not None


def test_auto_finds_a_sibling_run_with_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(make_folder(tmp_path / "run-1", epochs=5), 1)
    wanted = save(make_folder(tmp_path / "run-2", epochs=5), 2)
    save(make_folder(tmp_path / "run-3", width=16), 3)
    save(make_folder(tmp_path / "run-4", trainer="other"), 4)
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path / "run-5"))
    mine = make_folder(tmp_path / "run-5", epochs=9)
    found = find_checkpoint("auto", mine, ALONE, ("width",))
    assert found is not None and found[1] == wanted
    assert changes_on_resume(found[0], mine) == ["epochs is 5 there and 9 here"]
    own = save(mine, 1)
    found = find_checkpoint("auto", mine, ALONE, ("width",))
    assert found is not None and found[1] == own


def test_auto_that_finds_nothing_is_an_error_and_auto_or_new_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(make_folder(tmp_path / "run-1", width=16), 1)
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path / "run-2"))
    mine = make_folder(tmp_path / "run-2")
    with pytest.raises(SettingsError, match=r"run-1 width is 16 there and 8 here.*auto-or-new"):
        find_checkpoint("auto", mine, ALONE, ("width",))
    assert find_checkpoint("auto-or-new", mine, ALONE, ("width",)) is None
    assert find_checkpoint(None, mine, ALONE, ("width",)) is None
    # Outside a panel's run folder, folders beside it are somebody else's.
    monkeypatch.delenv("FRESNEL_RUN_DIR")
    with pytest.raises(SettingsError, match=r"there is no checkpoint of toy in [^;]*$"):
        find_checkpoint("auto", mine, ALONE, ("width",))


def test_another_world_size_is_told(tmp_path: Path) -> None:
    content = checkpoints.load_checkpoint(save(make_folder(tmp_path), 1))
    two = CheckpointFolder(tmp_path / "two", "toy", {"width": 8}, Ranks(0, 2, torch.device("cpu")))
    assert changes_on_resume(content, two) == ["1 process(es) wrote the checkpoint and 2 go on"]


def test_the_oldest_torch_allowed_takes_pairs_of_class_and_name() -> None:
    """safe_globals came with 2.5, its pairs, which checkpoints of others need, with 2.6."""
    found = re.search(r'"torch>=(\d+)\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert found and (int(found[1]), int(found[2])) >= (2, 6)
