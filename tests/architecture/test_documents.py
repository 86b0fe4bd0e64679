"""The documentation against the program: paths, rooms, commands, flags, keys, files on disk."""

import argparse
import re
import runpy
from importlib import metadata
from pathlib import Path

import pytest

from runners import __version__
from runners.presets.load import load_preset
from runners.state.layout import RunDirectory, StateDirectory, _File
from tests.support import REPOSITORY
from tui.cli.arguments import command_parser, overall_help
from tui.cli.command_table import ALIASES, COMMANDS

README = (REPOSITORY / "README.md").read_text()
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text()
DOCS = {path.stem: path.read_text() for path in sorted((REPOSITORY / "docs").glob("*.md"))}
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])
INTERNALS = DOCS["internals"]
PROJECT = (REPOSITORY / "pyproject.toml").read_text()
DEPENDENCIES = PROJECT[PROJECT.index("dependencies = [") : PROJECT.index("[project.scripts]")]
USER_TEXT = "\n".join([README, *(text for name, text in DOCS.items() if name != "commands")])
"""What people read who use it; the page of commands is made from the program itself."""
_TOPS = ("docs", "presets", "runners", "tests", "trainers", "tui")
_PATH = re.compile(rf"(?:{'|'.join(_TOPS)})/[\w./-]*")
_COMMAND = re.compile(r"fresnel-tui ((?!-)[^`\n]*)")


def named_paths(text: str, folder: Path) -> set[Path]:
    """Paths of ours between backticks, and where links lead from a page of `folder`."""
    quoted = {word for words in re.findall(r"`([^`\n]+)`", text) for word in words.split()}
    links = set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text))
    return {REPOSITORY / word for word in quoted if _PATH.fullmatch(word)} | {
        folder / link for link in links
    }


def rooms() -> list[str]:
    """Every package of core and front ends, and every module beside them."""
    found = []
    for top in ("runners", "tui"):
        folder = REPOSITORY / top
        found += [path.parent for path in folder.rglob("__init__.py") if path.parent != folder]
        found += [path for path in folder.glob("*.py") if not path.name.startswith("__")]
    return sorted(str(path.relative_to(REPOSITORY)) for path in found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_and_link_that_is_named_leads_somewhere(page: Path) -> None:
    # The changelog speaks of what was, too.
    named = named_paths(page.read_text(), page.parent) if page.stem != "CHANGELOG" else set()
    assert not {str(path) for path in named if not path.exists()}


def test_the_readme_is_short_and_names_every_page() -> None:
    assert len(README.splitlines()) <= 150
    assert {name for name in DOCS if f"(docs/{name}.md)" not in README} == set()


def test_the_version_has_its_part_of_the_changelog_and_its_kept_state_folder() -> None:
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    released = re.findall(
        r"^## (\d+\.\d+\.\d+) \(\d{1,2} [A-Z][a-z]+ \d{4}\)$", changes, re.MULTILINE
    )
    assert released[0] == __version__
    assert released == sorted(released, key=_numbers, reverse=True)
    kept = {path.name for path in (REPOSITORY / "tests" / "kept").glob("state-*")}
    assert kept == {f"state-{major}.{minor}" for major, minor, _ in map(_numbers, released)}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_every_dependency_has_its_licence_on_the_page() -> None:
    """As the package itself states it, where it is installed and states one."""
    rows = re.findall(r"^\| (?:[^|]*\| )?([^|]+) \| ([^|]+) \|$", DOCS["licences"], re.MULTILINE)
    licences = {name.strip(): text for names, text in rows for name in names.split(",")}
    lists = re.findall(r"^\w+ = \[(.*?)\]$", PROJECT, re.MULTILINE | re.DOTALL)
    words = {word for text in lists for word in re.findall(r'"([\w-]+)(?:[<>=][^"]*)?"', text)}
    needed = {word for word in words if f'"{word}' in DEPENDENCIES}
    assert needed and not needed - licences.keys()
    wrong = {
        name: text
        for name in needed
        if (text := _stated_licence(name))
        and "by its text" not in licences[name]
        and licences[name].split("-")[0].split()[0] not in text
    }
    assert not wrong


def _stated_licence(name: str) -> str:
    """What a package's metadata say, in all the places where they may; empty when not installed."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    kinds = [text for text in found.get_all("Classifier") or [] if text.startswith("License ::")]
    return " ".join([*kinds, found.get("License-Expression") or "", found.get("License") or ""])


def test_the_reference_pages_are_what_the_program_says() -> None:
    made = runpy.run_path(str(REPOSITORY / "docs" / "make_reference.py"))["pages"]()
    assert len(made) == 4
    assert {page.name for page, text in made.items() if page.read_text() != text} == set()


def test_a_type_checker_is_told_of_the_api_as_it_is() -> None:
    made = runpy.run_path(str(REPOSITORY / "docs" / "make_stub.py"))
    assert made["STUB"].read_text() == made["stub"](), "`make docs` writes it anew"


def test_contributing_says_where_every_room_is() -> None:
    named = {str(path.relative_to(REPOSITORY)) for path in named_paths(CONTRIBUTING, REPOSITORY)}
    # A widget's own folder is found below the widgets.
    widgets = "tui/panel/widgets/"
    inside = {name for name in named for name in (name, str(Path(name).parent))}
    assert not [room for room in rooms() if room not in inside and not room.startswith(widgets)]


def test_the_internals_draw_every_room_of_the_core() -> None:
    drawn = INTERNALS[
        INTERNALS.index("runners/    the core") : INTERNALS.index("trainers/   separate")
    ]
    words = set(re.findall(r"\w+", drawn))
    top = {room.removesuffix(".py").split("/")[1] for room in rooms() if room.startswith("runners")}
    assert top <= words
    assert {
        path.parent.name for path in (REPOSITORY / "runners/lifecycle").glob("*/__init__.py")
    } <= words
    front = INTERNALS[
        INTERNALS.index("tui/        front ends") : INTERNALS.index("runners/    the core")
    ]
    ends = {room.removesuffix(".py").split("/")[1] for room in rooms() if room.startswith("tui/")}
    assert ends <= set(re.findall(r"\w+", front))


def test_the_internals_list_every_file_of_a_run_and_of_the_state_folder(tmp_path: Path) -> None:
    begin, middle = "| file in a run's directory", "| in the state folder"
    runs = INTERNALS[INTERNALS.index(begin) : INTERNALS.index(middle)]
    names = {file._name for file in vars(RunDirectory).values() if isinstance(file, _File)}
    assert {name for name in names if f"`{name}`" not in runs} == set()
    state = StateDirectory(tmp_path)
    tops = {
        path.relative_to(tmp_path).parts[0]
        for path in vars(state).values()
        if isinstance(path, Path) and path != tmp_path
    }
    table = INTERNALS[INTERNALS.index(middle) :]
    assert {top for top in tops if f"`{top}" not in table} == set()


def spoken_commands() -> list[list[str]]:
    """The words of each command line that people read, cut at what a shell would end it by."""
    found = []
    for line in _COMMAND.findall(USER_TEXT):
        words = re.sub(r"'[^']*'", "TEXT", re.split(r"\s+#", line)[0]).split()
        # `plan X | verify X` in a list of commands means one or the other.
        parts: list[list[str]] = [[]]
        for word in words:
            if word == "|":
                parts.append([])
            else:
                parts[-1].append(word.strip('[](),.;:…"'))
        found += [part for part in parts if part]
    return found


def flags_of(parser: argparse.ArgumentParser) -> set[str]:
    """The flags of a command and of all its actions."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                found |= flags_of(one)
    return found


def test_every_command_and_flag_that_is_shown_exists() -> None:
    wrong = []
    known = {**{name: name for name in COMMANDS}, **ALIASES}
    command = ""
    for words in spoken_commands():
        # Behind a `|` the command may be left out: `service install | status | remove`.
        command = known.get(words[0], command)
        flags = flags_of(command_parser(command)) if command else set()
        own = words[: words.index("--")] if "--" in words else words
        wrong += [
            f"{command} {word}"
            for word in (one.partition("=")[0] for one in own)
            if re.fullmatch(r"--?[a-z][\w-]*", word) and word not in flags
        ]
    assert not wrong


def test_every_flag_and_target_that_is_spoken_of_exists() -> None:
    known = set(re.findall(r"--[\w-]+", overall_help()))
    for name in COMMANDS:
        known |= flags_of(command_parser(name))
    foreign = {"--bs", "--model", "--master_port", "--nproc_per_node"}
    foreign |= {"--dependency", "--licenses", "--signal", "--test-only"}  # of sbatch
    foreign |= {"--lr", "--seed", "--epochs", "--pause"}  # of the tutorial's program
    foreign |= {"--init", "--ipc", "--shm-size", "--hostname"}  # of docker
    assert set(re.findall(r"--[a-z][\w-]+", USER_TEXT)) <= known | foreign
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z][\w-]*)", USER_TEXT, re.MULTILINE)) <= targets


def test_the_preset_that_is_shown_is_one(tmp_path: Path) -> None:
    page = DOCS["presets"]
    text = page[page.index("```yaml\nlauncher:") + len("```yaml\n") :]
    path = tmp_path / "shown.yaml"
    path.write_text(text[: text.index("```")])
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "train.yaml").write_text("train: {batch_size: 8, lr: 0.001}\n")
    spec = load_preset(path)
    assert spec.launcher == "torchrun" and len(spec.parameters) == 6
