"""Every mistake in a preset is told with its file, its line, its key, what was expected, and the
key meant.
"""

from pathlib import Path

import pytest

from runners.model.errors import WrongInput
from runners.presets.catalogue import list_presets
from runners.presets.load import load_preset
from tests.mistakes import MISTAKES, Mistake


@pytest.mark.parametrize(
    "mistake", [pytest.param(mistake, id=name) for name, mistake in MISTAKES.items()]
)
def test_a_mistake_names_file_line_key_and_what_was_expected(
    mistake: Mistake, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(mistake.text)
    with pytest.raises(WrongInput) as caught:
        load_preset(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:" if mistake.line is None else f"{path}:{mistake.line}: ")
    assert mistake.key in message
    assert mistake.expected in message
    meant = (f"did you mean `{mistake.nearest}`?", f"did you mean {mistake.nearest}?")
    assert not mistake.nearest or any(words in message for words in meant)
    assert (
        "Traceback" not in message and "msgspec" not in message and "Object contains" not in message
    )


def test_there_are_enough_kinds_of_mistakes() -> None:
    assert len(MISTAKES) >= 25
    assert len({mistake.text for mistake in MISTAKES.values()}) == len(MISTAKES)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_bytes(b"launcher: command\ncommand: \xff\xfe\n")
    with pytest.raises(WrongInput, match=r"wrong\.yaml: not UTF-8 text \(byte 27\)"):
        load_preset(path)


def test_one_wrong_preset_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "presets").mkdir()
    for number, mistake in enumerate(MISTAKES.values()):
        (tmp_path / "presets" / f"wrong{number}.yaml").write_text(mistake.text)
    (tmp_path / "presets" / "right.yaml").write_text("launcher: command\ncommand: 'true'\n")
    monkeypatch.chdir(tmp_path)
    entries = {entry.name: entry for entry in list_presets()}
    assert entries["right"].spec is not None and entries["right"].problem is None
    assert entries["gaussian-validate"].spec is not None
    wrong = [entries[f"wrong{number}"] for number in range(len(MISTAKES))]
    assert all(entry.spec is None and entry.problem for entry in wrong)
