"""Names that come from outside: what is a run, and what may be written below a folder."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.host.below import resolve_below
from runners.model.run_ids import is_run_id, new_run_id


@given(st.text())
def test_every_run_made_here_has_an_id_that_is_one(name: str) -> None:
    assert is_run_id(new_run_id(name))


@given(st.text())
def test_an_id_is_one_part_of_a_path_and_safe_to_show(text: str) -> None:
    if is_run_id(text):
        assert Path(text).name == text and text.isascii() and text.isprintable()


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", ".ssh", "/etc", "20261122-100000-a/../b-0001", "20261122-100000-a-0001\n"],
)
def test_what_is_no_run(text: str) -> None:
    assert not is_run_id(text)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc/passwd", "a/../../b", "out/x", "out", "a\0b", "x" * 300, "\ud800"]
)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(ValueError, match=r"."):
        resolve_below(folder, name)


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert resolve_below(tmp_path, "link/x") == tmp_path / "link" / "x"
