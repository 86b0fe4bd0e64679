"""What is done in one place: decoding or nothing, words for lengths of time; and no stubs."""

import ast
import re
from collections.abc import Callable

from tests.support import REPOSITORY

CORE_AND_FRONTS = sorted(
    path for folder in ("runners", "tui") for path in (REPOSITORY / folder).rglob("*.py")
)
_HOURS = re.compile(r"divmod\([^)]*, ?(?:60|3600)\)|(?://|%) ?3600\b")


def places(found: Callable[[str], bool]) -> set[str]:
    """The files of core and front ends in which something is found."""
    return {
        str(path.relative_to(REPOSITORY)) for path in CORE_AND_FRONTS if found(path.read_text())
    }


def test_damaged_bytes_are_caught_in_one_place() -> None:
    # Elsewhere the text that is not UTF-8 would be forgotten: it is no DecodeError.
    assert places(lambda text: "msgspec.DecodeError" in text) == {"runners/state/decoding.py"}


def test_lengths_of_time_are_put_into_words_in_one_place_a_side() -> None:
    assert places(lambda text: _HOURS.search(text) is not None) == {
        "runners/model/quantities.py",
        "tui/views/format.py",
    }


def test_one_planner_makes_all_plans() -> None:
    planner = "runners/lifecycle/launch/planner.py"
    assert places(lambda text: "import Planned, make_plan" in text) == {planner}
    # The queue judges those that wait already; new runs are judged by the planner alone.
    judging = re.compile(r"\bjudge\(\s*(?:self\._)?state,")
    assert places(lambda text: judging.search(text) is not None) == {
        planner,
        "runners/lifecycle/launch/dispatch.py",
    }


def test_functions_are_no_stubs_and_no_longer_than_a_screen() -> None:
    found = []
    for path in CORE_AND_FRONTS:
        for node in ast.walk(ast.parse(path.read_text())):
            place = f"{path.relative_to(REPOSITORY)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Name) and node.id == "NotImplementedError":
                found.append(f"{place}: a stub")
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > 60:
                    found.append(f"{place}: {node.name} has {length} lines")
    assert not found, "\n".join(found)
