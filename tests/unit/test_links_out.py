"""What a link in a run's folder leads to outside of it is neither given on nor deleted."""

from pathlib import Path

from runners.host.below import leads_out
from runners.host.bounded_glob import SearchBudget
from runners.lifecycle.supervisor.checkpoint_retention import written_since
from runners.watch.pictures import find_pictures
from tests.support import make_plan, make_run

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 64


def test_a_name_leads_out_only_by_a_link_in_the_folder(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir(), outside.mkdir()
    (run / "a.png").write_bytes(PNG)
    (run / "same.png").symlink_to("a.png")
    (run / "out.png").symlink_to(outside / "b.png")
    (run / "data").symlink_to(outside)
    (tmp_path / "also").symlink_to(run)
    found = {
        name: leads_out(str(tmp_path / name), str(run))
        for name in ("run/a.png", "run/same.png", "run/out.png", "run/data/b.png", "outside/b.png")
    }
    assert [name for name, leads in found.items() if leads] == ["run/out.png", "run/data/b.png"]
    assert not leads_out(str(tmp_path / "also" / "a.png"), str(tmp_path / "also"))


def test_pictures_that_only_links_lead_to_are_none_of_the_run_s(tmp_path: Path) -> None:
    run, outside, work = tmp_path / "run", tmp_path / "outside", tmp_path / "work"
    for folder in (run, outside, work):
        folder.mkdir()
    (outside / "private.png").write_bytes(PNG)
    (run / "own.png").write_bytes(PNG)
    (run / "media").symlink_to(outside)
    (run / "link.png").symlink_to(outside / "private.png")
    lines = [f'{{"time": 1.0, "type": "image", "path": "{run}/{name}"}}\n' for name in
             ("own.png", "link.png", "media/private.png")]  # fmt: skip
    (run / "events.jsonl").write_text("".join(lines))
    plan = make_plan(working_directory=str(work))
    found = find_pictures(make_run(plan=plan, directory=str(run)))
    assert [Path(picture.path).name for picture in found] == ["own.png"]


def test_checkpoints_that_only_links_lead_to_are_not_deleted(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    run.mkdir(), outside.mkdir()
    (run / "own.pt").write_bytes(b"x")
    (outside / "other.pt").write_bytes(b"x")
    (run / "models").symlink_to(outside)
    patterns = [f"{run}/*.pt", f"{run}/models/*.pt"]
    found = written_since(patterns, 0.0, str(run), SearchBudget())
    assert [Path(file.path).name for file in found] == ["own.pt"]
    elsewhere = written_since([f"{outside}/*.pt"], 0.0, str(run), SearchBudget())
    assert [Path(file.path).name for file in elsewhere] == ["other.pt"]
