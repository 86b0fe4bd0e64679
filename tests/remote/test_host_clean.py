"""`host clean`: what is left on a machine that stays is shown, and removed; nothing else is."""

from pathlib import Path

from runners.places.ssh.leftovers import MADE_BY_US
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine


def _use(line: CommandLine, rented: RentedMachine) -> str:
    """Install, push, launch: everything that a use leaves there; the run's id."""
    base = rented.write(".local/share/fresnel-tui/bin/fresnel-tui", "").parent.parent
    (base / "source-1").mkdir()
    command = rented.write(".local/bin/other", "").with_name("fresnel-tui")
    command.symlink_to(base / "bin" / "fresnel-tui")
    rented.write(".config/systemd/user/fresnel-tui.service", "")
    rented.write(".config/systemd/user/other.service", "")
    (line.folder / "notes.txt").write_text("pushed")
    (line.folder / "edited.txt").write_text("pushed")
    also = ("--also", "notes.txt", "--also", "edited.txt")
    line.run("push", "gaussian-tiny", "--host", "rented", *also)
    words = ("launch", "--gpus", "0", "--wait", "--host", "rented", "--", "true")
    return line.run(*words).stdout.strip()


def _clean(line: CommandLine, *words: str) -> None:
    line.run("host", "clean", "rented", "--yes", *words)


def _left(folder: Path) -> set[str]:
    """Every file of the machine but those that its login and this test's launcher need."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return {name for name in found if not name.startswith((".ssh/", "bin/"))}


def test_what_a_use_left_is_removed_and_nothing_else(
    line: CommandLine, rented: RentedMachine
) -> None:
    (rented.home / "fresnel").mkdir()
    (rented.home / "fresnel" / MADE_BY_US).touch()
    run = _use(line, rented)
    assert run in line.run("host", "clean", "rented", "--yes", exits=4).stderr
    assert rented.state.exists()
    line.run("fetch", "--all", "--host", "rented", "--to", "got")
    shown = line.run("host", "clean", "rented", exits=4).stdout
    assert str(rented.state) in shown and str(rented.home / "fresnel") in shown
    assert rented.state.exists()
    _clean(line)
    assert _left(rented.home) == {".local/bin/other", ".config/systemd/user/other.service"}
    assert not rented.state.exists()
    assert not line.json("host")[0]["set_up"]


def test_in_a_folder_of_somebody_else_only_pushed_files_go(
    line: CommandLine, rented: RentedMachine
) -> None:
    rented.write("fresnel/theirs.txt", "not ours")
    _use(line, rented)
    rented.write("fresnel/edited.txt", "changed there")
    (rented.state / "hosts" / "beside").mkdir()  # another machine with the same home
    _clean(line, "--anyway")
    folder = rented.home / "fresnel"
    assert _left(folder) == {"theirs.txt", "edited.txt"}
    assert (rented.state / "ledger.jsonl").exists()
