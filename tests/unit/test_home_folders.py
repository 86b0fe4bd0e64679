"""`~` in paths of users and of programs: of an unknown user it stays as it is written."""

import pwd
from pathlib import Path

import pytest

from runners.host.files import expanded, home_folder
from runners.host.printed_paths import PrintedPaths
from trainers.common import files as trainer_files
from tui.panel.widgets.launch.command_input import PathCompletion, complete_path
from tui.panel.widgets.launch.common_fields import absolute_folder

NOBODY = "~no-such-user/x.pt"


def test_one_s_own_and_another_s_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/people/me")
    root = Path(pwd.getpwuid(0).pw_dir)
    for expand in (expanded, trainer_files.expanded):
        assert expand("~/x") == Path("/people/me/x")
        assert expand("~root/x") == root / "x"
        assert expand(NOBODY) == Path(NOBODY)
        assert expand("a/~/x") == Path("a/~/x")


def test_a_user_whom_no_database_knows_is_at_home_in_the_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert home_folder() == Path("/")


def test_a_program_that_prints_an_unknown_user_s_folder() -> None:
    paths = PrintedPaths("/where")
    paths.note(f"Saving checkpoint to {NOBODY}".encode())
    assert paths.all == (f"/where/{NOBODY}",)


def test_a_path_of_nobody_that_is_typed_in_the_form(tmp_path: Path) -> None:
    assert complete_path(f"python {NOBODY}", tmp_path) == PathCompletion("", ())
    assert absolute_folder(NOBODY) == str(Path.cwd() / NOBODY)
