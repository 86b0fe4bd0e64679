"""README and CONTRIBUTING against the program: paths, rooms, commands, flags, preset keys."""

import argparse
import re
from pathlib import Path

import pytest

from runners.presets.load import load_preset
from runners.state.layout import RunDirectory, _File
from tests.support import REPOSITORY
from tui.cli.arguments import command_parser, overall_help
from tui.cli.command_table import ALIASES, COMMANDS

README = (REPOSITORY / "README.md").read_text()
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text()
_TOPS = ("presets", "runners", "tests", "trainers", "tui")
_PATH = re.compile(rf"(?:{'|'.join(_TOPS)})/[\w./-]*")
_COMMAND = re.compile(r"fresnel-tui ((?!-)[^`\n]*)")


def named_paths(text: str) -> set[str]:
    """Paths of ours between backticks, and where links lead."""
    quoted = {word for words in re.findall(r"`([^`\n]+)`", text) for word in words.split()}
    links = set(re.findall(r"\]\(([^)#:]+)\)", text))
    return {word for word in quoted if _PATH.fullmatch(word)} | links


def rooms() -> list[str]:
    """Every package of core and front ends, and every module beside them."""
    found = []
    for top in ("runners", "tui"):
        folder = REPOSITORY / top
        found += [path.parent for path in folder.rglob("__init__.py") if path.parent != folder]
        found += [path for path in folder.glob("*.py") if not path.name.startswith("__")]
    return sorted(str(path.relative_to(REPOSITORY)) for path in found)


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_path_that_is_named_exists(text: str) -> None:
    named = named_paths(text)
    assert len(named) > 10
    assert not {name for name in named if not (REPOSITORY / name).exists()}


def test_contributing_says_where_every_room_is() -> None:
    named = {name.rstrip("/") for name in named_paths(CONTRIBUTING)}
    # A widget's own folder is found below the widgets.
    widgets = "tui/panel/widgets/"
    inside = {name for name in named for name in (name, str(Path(name).parent))}
    assert not [room for room in rooms() if room not in inside and not room.startswith(widgets)]


def test_the_readme_draws_every_room_of_the_core() -> None:
    drawn = README[README.index("runners/    the core") : README.index("trainers/   separate")]
    words = set(re.findall(r"\w+", drawn))
    top = {room.removesuffix(".py").split("/")[1] for room in rooms() if room.startswith("runners")}
    assert top <= words
    assert {
        path.parent.name for path in (REPOSITORY / "runners/lifecycle").glob("*/__init__.py")
    } <= words
    front = README[README.index("tui/        front ends") : README.index("runners/    the core")]
    ends = {room.removesuffix(".py").split("/")[1] for room in rooms() if room.startswith("tui/")}
    assert ends <= set(re.findall(r"\w+", front))


def test_the_readme_lists_every_file_of_a_run() -> None:
    table = README[README.index("| file in a run's directory") :]
    names = {one._name for one in vars(RunDirectory).values() if isinstance(one, _File)}
    assert {name for name in names if f"`{name}`" not in table} == set()


def spoken_commands() -> list[list[str]]:
    """The words of each command line in the README, cut at what a shell would end it by."""
    found = []
    for line in _COMMAND.findall(README):
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


def test_every_command_and_flag_of_the_readme_exists() -> None:
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


def test_every_flag_and_target_that_the_readme_speaks_of_exists() -> None:
    known = set(re.findall(r"--[\w-]+", overall_help()))
    for name in COMMANDS:
        known |= flags_of(command_parser(name))
    foreign = {"--bs", "--model", "--master_port", "--nproc_per_node"}
    assert set(re.findall(r"--[a-z][\w-]+", README)) <= known | foreign
    targets = set(re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z][\w-]*)", README, re.MULTILINE)) <= targets


def test_the_readme_s_preset_is_one(tmp_path: Path) -> None:
    text = README[README.index("```yaml\nlauncher:") + len("```yaml\n") :]
    path = tmp_path / "shown.yaml"
    path.write_text(text[: text.index("```")])
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "train.yaml").write_text("train: {batch_size: 8, lr: 0.001}\n")
    spec = load_preset(path)
    assert spec.launcher == "torchrun" and len(spec.parameters) == 6
