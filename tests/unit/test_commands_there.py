"""What another machine advises to type, with its name."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.places.ssh.commands_there import advised_from_here, named_from_here
from runners.places.ssh.place import SshPlace
from runners.places.ssh.protocol import LinkMessage
from tests.unit.test_older_runs import Line
from tui.cli.remote_printer import RemotePrinter

_SAID = "`fresnel-tui prune` frees some"
_NAMED = "`fresnel-tui prune --host amd` frees some"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`fresnel-tui list` shows them", "`fresnel-tui list --host amd` shows them"),
        ("a `fresnel-tui stop x --now`, b", "a `fresnel-tui stop x --now --host amd`, b"),
        ("`fresnel-tui launch -- sh -c x`", "`fresnel-tui launch --host amd -- sh -c x`"),
        ("`fresnel-tui launch --gpus 1 -- sh`", "`fresnel-tui launch --gpus 1 --host amd -- sh`"),
        *((same, same) for same in ("`fresnel-tui list --host b`", "`fresnel-tui host setup b`")),
        *((same, same) for same in ("`fresnel-tui help money`", "`fresnel-tui`", "`list`")),
    ],
)
def test_commands_are_named_with_the_machine(text: str, expected: str) -> None:
    assert named_from_here(text, "amd") == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"verdict": {"remedy": _SAID}}, {"verdict": {"remedy": _NAMED}}),
        ([{"name": "disk", "advice": _SAID}], [{"name": "disk", "advice": _NAMED}]),
        ({"notes": [_SAID, _SAID]}, {"notes": [_NAMED, _NAMED]}),
        ({"runs": [{"pairs": [["note", _SAID]]}]}, {"runs": [{"pairs": [["note", _NAMED]]}]}),
        ({"sections": [["", [["asks", _SAID]]]]}, {"sections": [["", [["asks", _NAMED]]]]}),
    ],
)
def test_what_an_answer_advises_is_named_with_the_machine(found: Any, expected: Any) -> None:
    assert advised_from_here(found, "amd") == expected


@pytest.mark.parametrize(
    "found",
    [
        {"argv": ["sh", "-c", _SAID], "labels": {"note": _SAID}, "tags": [_SAID]},
        {"sections": [["", [["your note", _SAID], ["command", _SAID]]]], "count": 3},
        {"changes": [["added", _SAID]], "text": _SAID, "line": _SAID, "exact": None},
    ],
)
def test_what_people_and_programs_wrote_stays_as_it_is(found: Any) -> None:
    assert advised_from_here(found, "amd") == found


def test_an_answer_without_end_is_no_answer() -> None:
    found: list[Any] = []
    for _ in range(5000):
        found = [found]
    with pytest.raises(ValueError, match="too deep"):
        advised_from_here(found, "amd")


def test_json_from_another_machine_advises_commands_with_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = RemotePrinter("amd", whole=False, as_json=True)
    printed.take(1, json.dumps({"diagnosis": {"remedy": _SAID}, "note": _SAID}).encode() + b"\n")
    assert json.loads(capsys.readouterr().out) == {"diagnosis": {"remedy": _NAMED}, "note": _SAID}


def test_an_answer_over_a_link_advises_commands_with_the_machine_s_name(tmp_path: Path) -> None:
    link: Any = Line()
    link.ssh = SimpleNamespace(host=SimpleNamespace(name="amd", folder=""))
    taken: list[tuple[object, str]] = []
    place = SshPlace(link, tmp_path, lambda _: None)
    place.ask("remedies", ["run"], lambda found, problem: taken.append((found, problem)))
    answer = {"found": {"verdict": {"remedy": _SAID, "line": _SAID}}}
    link.asked[0].take(LinkMessage({"answer": answer}))
    assert taken == [({"verdict": {"remedy": _NAMED, "line": _SAID}}, "")]
