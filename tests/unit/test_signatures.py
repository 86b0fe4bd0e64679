"""The texts of failures as data: the shipped ones hold, a user adds one, mistakes are named."""

from pathlib import Path

import pytest
import yaml

from runners.diagnosis import signatures
from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import Evidence, LogPart
from runners.diagnosis.signatures import SHIPPED, load_signatures, read_signatures
from runners.model.errors import WrongInput

OWN = {
    "id": "teapot",
    "class": "teapot_empty",
    "cause": "The teapot {which} is empty.",
    "remedy": "Fill it.",
    "patterns": [r"teapot (?P<which>\d+) is empty"],
    "samples": ["TeaError: teapot 3 is empty"],
    "non_matches": ["teapot 3 is full"],
}


def write(path: Path, *entries: dict[str, object]) -> Path:
    path.write_text(yaml.safe_dump(list(entries)))
    return path


def test_the_shipped_signatures_hold_all_they_promise() -> None:
    shipped = read_signatures(SHIPPED)
    assert len(shipped) >= 50
    kinds = {one.kind for one in shipped}
    assert all(named in kinds for one in shipped for named in one.explains)


def test_a_user_adds_a_signature_without_code(tmp_path: Path) -> None:
    signatures = load_signatures(write(tmp_path / "signatures.yaml", OWN))
    logs = (LogPart("output.log", b"TeaError: teapot 3 is empty\n"),)
    found = diagnose(Evidence(exit_code=1, logs=logs), signatures)
    assert (found.kind, found.cause) == ("teapot_empty", "The teapot 3 is empty.")  # type: ignore[union-attr]


def test_a_user_s_signature_takes_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    mine = OWN | {"id": "gpu_out_of_memory"}
    signatures = load_signatures(write(tmp_path / "signatures.yaml", mine))
    assert [one.kind for one in signatures if one.id == "gpu_out_of_memory"] == ["teapot_empty"]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"patterns": ["("]}, "no regular expression"),
        ({"patterns": [r"\Qteapot"]}, "no regular expression"),
        ({"patterns": [".*"]}, "matches every line"),
        ({"samples": ["nothing of it"]}, "no pattern matches the sample"),
        ({"non_matches": ["teapot 3 is empty"]}, "matches the non-match"),
        ({"tier": "loud"}, "tier `loud` is none of"),
        ({"colour": "red"}, "colour"),
        ({"remedy": 3}, "remedy"),
        ({"samples": []}, "at least one line"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_entry(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    path = write(tmp_path / "signatures.yaml", OWN | change)
    with pytest.raises(WrongInput) as caught:
        load_signatures(path)
    assert words in str(caught.value) and str(path) in str(caught.value)
    assert "teapot" in str(caught.value)


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "signatures.yaml"
    for text in ("id: x", "- [", "", "- !!int x", "- !!timestamp x", "- id: !!bool maybe"):
        path.write_text(text)
        with pytest.raises(WrongInput):
            load_signatures(path)


def test_a_date_is_a_text_as_good_as_any(tmp_path: Path) -> None:
    (tmp_path / "signatures.yaml").write_text(
        yaml.safe_dump([OWN]).replace("teapot\n", "2026-13-45\n")
    )
    assert read_signatures(tmp_path / "signatures.yaml")[0].id == "2026-13-45"


@pytest.mark.parametrize("group", ["absent", "sequence"])
def test_a_group_that_finds_no_number_names_no_rank(tmp_path: Path, group: str) -> None:
    own = OWN | {"patterns": [rf"teapot (?P<{group}>\w+) is empty"], "tier": "collective"}
    signatures = load_signatures(write(tmp_path / "signatures.yaml", own))
    lines = b"".join(b"[rank%d]: teapot two is empty\n" % rank for rank in range(2))
    found = diagnose(Evidence(exit_code=1, logs=(LogPart("output.log", lines),)), signatures)
    assert (found.kind, found.rank) == ("teapot_empty", 0)


def test_two_entries_may_not_share_an_id(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="same id"):
        load_signatures(write(tmp_path / "signatures.yaml", OWN, OWN))


def test_what_a_process_kept_of_the_signatures_is_used_and_distrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    kept = tmp_path / "signatures.json"
    fresh = signatures._shipped.__wrapped__
    read = fresh()
    assert kept.exists() and fresh() == read
    monkeypatch.setattr(signatures, "_entries", lambda _path: pytest.fail("YAML was read"))
    assert fresh() == read
    monkeypatch.undo()
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path))
    for damaged in (b"", b"{}", kept.read_bytes().replace(b'"stamp":"', b'"stamp":"old', 1)):
        kept.write_bytes(damaged)
        assert fresh() == read
