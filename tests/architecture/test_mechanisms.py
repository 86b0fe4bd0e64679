"""What is done in one place: decoding or nothing, words for lengths of time; and no stubs."""

import ast
import re
from collections.abc import Callable

from tests.architecture.sources import modules, name_of, nodes, place, text_of

CORE_AND_FRONTS = ("runners", "tui")
_HOURS = re.compile(r"divmod\([^)]*, ?(?:60|3600)\)|(?://|%) ?3600\b")


def places(found: Callable[[str], bool]) -> set[str]:
    """The files of core and front ends in which something is found."""
    return {name_of(path) for path in modules(*CORE_AND_FRONTS) if found(text_of(path))}


def test_damaged_bytes_are_caught_in_one_place() -> None:
    # Elsewhere the text that is not UTF-8 would be forgotten: it is no DecodeError.
    assert places(lambda text: "msgspec.DecodeError" in text) == {"runners/state/decoding.py"}


def test_lengths_of_time_are_put_into_words_in_one_place_a_side() -> None:
    assert places(lambda text: _HOURS.search(text) is not None) == {
        "runners/model/units.py",
        "tui/views/format.py",
    }


def test_home_folders_are_put_into_paths_in_one_place_a_side() -> None:
    # pathlib's own raise RuntimeError for a user whom nobody knows: of a path that a run printed.
    asking = re.compile(r"\bexpanduser\(|\bPath\.home\(")
    assert places(lambda text: asking.search(text) is not None) == {"runners/host/files.py"}
    trainers = {name_of(path) for path in modules("trainers") if asking.search(text_of(path))}
    assert trainers == {"trainers/common/files.py"}


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
    for path, node in nodes(*CORE_AND_FRONTS):
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            found.append(f"{place(path, node)}: a stub")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > 60:
                found.append(f"{place(path, node)}: {node.name} has {length} lines")
    assert not found, "\n".join(found)


_TITLES = ("border_title", "border_subtitle")


def _is_literal(value: ast.expr) -> bool:
    """Whether a title is our own words, or is taken as it stands."""
    if isinstance(value, ast.IfExp):
        return _is_literal(value.body) and _is_literal(value.orelse)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("Content", "form_keys")
    return not isinstance(value, (ast.JoinedStr, ast.Attribute))


def test_titles_that_name_something_of_outside_are_no_markup() -> None:
    """A text is markup to Textual: a run called `[@click=app.quit]x` would be a link in a title."""
    found = [
        place(path, node)
        for path, node in nodes("tui")
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        and target.attr in _TITLES
        and not _is_literal(node.value)
    ]
    assert not found, "\n".join(found)


_OTHER_CLOCKS = {
    "runners/cost/accounting.py": "dates of spans whose times were checked when they were read",
    "tui/views/runs/run_query.py": "today's midnight",
    "tui/views/json_values.py": "UTC for programs, and None for what no calendar has",
}
"""Modules that turn moments into dates themselves, and why they may."""


def _calls_a_calendar(call: ast.Call) -> bool:
    """Whether a call turns a moment, not the present one, into a date or its text."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name in ("localtime", "gmtime", "ctime", "fromtimestamp", "utcfromtimestamp"):
        # `date.fromtimestamp(time.time())` is today.
        return not (call.args and ast.unparse(call.args[0]) == "time.time()")
    return name == "strftime" and (len(call.args) != 1 or not _is_of_module_time(call.func))


def _is_of_module_time(function: ast.expr) -> bool:
    of = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(of, ast.Name) and of.id == "time"


def test_moments_from_outside_become_dates_in_one_place() -> None:
    # Elsewhere a year that no calendar has would end whoever shows the others.
    found = {
        name_of(path): node.lineno
        for path, node in nodes(*CORE_AND_FRONTS)
        if isinstance(node, ast.Call) and _calls_a_calendar(node)
    }
    assert found.pop("runners/host/clock.py")
    assert found.keys() == _OTHER_CLOCKS.keys(), found


_SEARCH = re.compile(r"\bi?glob\.i?glob\(|\.rglob\(")


def test_searches_by_patterns_have_an_end() -> None:
    # `**` from / takes minutes; the second searches the files of this program alone.
    assert places(lambda text: _SEARCH.search(text) is not None) == {
        "runners/places/ssh/panel_source.py"
    }


_KERNEL = "below /proc and /sys, which the kernel writes"
_PROGRAM = "files of this program, as they were installed"
_READ_WITHOUT_THE_DOOR = {
    "runners/host/locks.py": "opened without blocking, never read",
    "runners/diagnosis/evidence.py": "/dev/kmsg, opened without blocking",
    "runners/lifecycle/supervisor/program_start.py": "/dev/null",
    "runners/lifecycle/supervisor/pty.py": "its working folder, and /proc",
    "runners/places/ssh/setup.py": _PROGRAM,
    "runners/places/ssh/panel_source.py": _PROGRAM,
    "tui/cli/schema.py": _PROGRAM,
    "tui/cli/topics.py": _PROGRAM,
    "runners/doctor/machine_checks.py": _KERNEL,
    "runners/host/mounts.py": _KERNEL,
    "runners/gpus/backends/amd_details.py": _KERNEL,
    "runners/gpus/backends/amd_processes.py": _KERNEL,
    "runners/gpus/backends/amd_topology.py": _KERNEL,
    "runners/host/procfs.py": _KERNEL,
}
"""Modules that open files for reading by themselves, and why they may."""


def _opens_to_read(call: ast.Call) -> bool:
    """Whether a call opens a file by name for reading, other than by `runners/host/files.py`."""
    modes = [one.value for one in call.args if isinstance(one, ast.Constant)]
    writes = any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
    if isinstance(call.func, ast.Name):
        return call.func.id == "open" and not writes
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in ("read_text", "read_bytes"):
        return True
    if call.func.attr != "open":
        return False
    of = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    if of == "os":
        flags = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
        return "O_RDONLY" in flags
    modes_of_path = any(mode in ("r", "rb") for mode in modes)
    return modes_of_path or any(key.arg in ("encoding", "newline") for key in call.keywords)


def test_files_are_opened_for_reading_by_one_door() -> None:
    found = {
        name_of(path): node.lineno
        for path, node in nodes(*CORE_AND_FRONTS)
        if isinstance(node, ast.Call) and _opens_to_read(node)
    }
    beside = {
        f"{path}:{line}" for path, line in found.items() if path not in _READ_WITHOUT_THE_DOOR
    }
    assert not beside, "a FIFO there blocks for ever: use runners/host/files.py, or say why not"
    assert not _READ_WITHOUT_THE_DOOR.keys() - found.keys()
