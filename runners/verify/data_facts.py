"""The files and commands that a preset declares, and the paths that its parameters name."""

import csv
import glob
import io
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from runners.host.bounded_glob import acting_budget, bounded_glob
from runners.host.files import absence, expanded, is_there, open_binary
from runners.host.run_in_time import run_in_time
from runners.model.parameters import leaf_of
from runners.model.placeholders import substitute
from runners.model.spec import CommandRule, FileRule, RunSpec
from runners.presets.config_file import found_near
from runners.presets.cross_checks import FIELD, PARAMETER
from runners.verify.facts import CommandFacts, FileFacts, PathFacts

_KEPT = 5
_HEADING = re.compile(r"[A-Za-z_ ]*(?:path|file|name|image|id|defective)")
_MOST_ROWS = 1_000_000
CONFIGURATIONS = frozenset({"config", "config_path", "config_file", "cfg"})
_SOURCES = CONFIGURATIONS | frozenset(
    {"data_dir", "data_path", "data_root", "dataset_path", "dataset_dir", "data", "path"}
    | {"train_path", "eval_path", "val_path", "test_path", "train_dir", "val_dir"}
    | {"features_model", "depth_model", "image_dir", "image_folder"}
)
"""Parameters that usually name something to read, in the spelling of many programs."""


def path_facts(
    spec: RunSpec,
    folder: Path,
    placeholders: Mapping[str, str],
    directory: Path,
    script: Path | None,
    config: Mapping[str, Any],
) -> Iterator[PathFacts]:
    """What exists where parameters point, and keys of the configuration that none replaces.

    What is below the run's own folder is made by the run, and left out.
    """
    # Parameters that a declared rule uses are checked more exactly there.
    declared = {name for rule in spec.checks.files for name in PARAMETER.findall(rule.path)}
    values = {parameter.name: parameter.value for parameter in spec.parameters}
    given = {leaf_of(name) for name, value in values.items() if value is not None}
    skipped = declared | {parameter.name for parameter in spec.parameters if parameter.choices}
    named = [(name, value) for name, value in values.items() if name not in skipped]
    named += [(key, value) for key, value in config.items() if leaf_of(key) not in given]
    for name, value in named:
        if not isinstance(value, str) or not value or leaf_of(name) not in _SOURCES:
            continue
        text = filled(value, placeholders)
        is_folder = leaf_of(name).endswith(("_dir", "_root", "_folder"))
        if "${" in text or not (is_folder or "/" in text or Path(text).suffix):
            continue
        path = folder / expanded(text)
        if not path.is_relative_to(directory):
            near = leaf_of(name) in CONFIGURATIONS and found_near(text, folder, script) is not None
            why = "" if near else absence(path)
            yield PathFacts(name, str(path), why, _may_be_name(text, folder))


def file_facts(
    spec: RunSpec, folder: Path, placeholders: Mapping[str, str], directory: Path
) -> Iterator[FileFacts]:
    """The files of every rule that applies."""
    for rule in spec.checks.files:
        # An optional input that is not given: its rule says nothing about this run.
        if any(not placeholders.get(f"parameters.{name}") for name in PARAMETER.findall(rule.path)):
            continue
        literal = {name: glob.escape(value) for name, value in placeholders.items()}
        patterns = [_absolute(text, literal, folder) for text in rule.path.split("|")]
        paths = {pattern: Path(unescaped(pattern)) for pattern in patterns}
        outside = [text for text, path in paths.items() if not path.is_relative_to(directory)]
        if outside:
            yield rule_facts(rule, outside, folder)


def _absolute(text: str, literal: Mapping[str, str], folder: Path) -> str:
    """A pattern of a rule with its words filled; one that ends in a slash is of folders only."""
    named = expanded(filled(text, literal))
    return f"{Path(glob.escape(str(folder))) / named}{'/' if text.endswith('/') else ''}"


def _place_text(patterns: Sequence[str]) -> str:
    """Where was looked; a folder that the patterns share is named once."""
    folders = {Path(pattern).parent for pattern in patterns}
    is_one = len(folders) == 1 and not any(pattern.endswith("/") for pattern in patterns)
    others = [Path(pattern).name if is_one else pattern for pattern in patterns[1:]]
    return " | ".join([patterns[0], *others])


def rule_facts(rule: FileRule, patterns: Sequence[str], folder: Path) -> FileFacts:
    """Count the files that match an absolute glob pattern, and look for what belongs to them."""
    budget = acting_budget()
    found = sorted({path for pattern in patterns for path in bounded_glob(pattern, budget)})
    wrong: list[tuple[str, int]] = []
    missing: list[str] = []
    counts = {"wrong": 0, "lacking": 0}
    rows = None
    place = _place_text([unescaped(pattern) for pattern in patterns])
    try:
        for text in found:
            path = Path(text)
            if rule.size is not None:
                _note_size(path, rule.size, wrong, counts)
            for absent in _absent_pairs(path, rule.pairs):
                _note(missing, counts, absent)
            if rule.rows and path.is_dir():
                return FileFacts(rule, place, len(found), problem=_folder_problem(path))
            if rule.rows:
                rows = (rows or 0) + _row_facts(path, rule.rows, folder, missing, counts)
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        return FileFacts(rule, place, len(found), problem=f"cannot be read: {error}")
    lacking = counts["lacking"]
    return FileFacts(
        rule,
        place,
        len(found),
        tuple(wrong),
        counts["wrong"],
        tuple(missing),
        lacking,
        rows,
        cut=budget.cut,
    )


def run_check(
    rule: CommandRule, folder: Path, environment: Mapping[str, str], placeholders: Mapping[str, str]
) -> CommandFacts:
    """Run one command to its end, or end it when its time is over."""
    argv = [filled(word, placeholders) for word in rule.command]
    try:
        done = run_in_time(
            argv,
            rule.seconds,
            cwd=folder,
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        return CommandFacts(rule, None)
    except OSError as error:
        return CommandFacts(rule, 127, f"{argv[0]}: {error.strerror}")
    lines = done.stdout[-4096:].decode("utf-8", "replace").strip().splitlines()
    return CommandFacts(rule, done.returncode, lines[-1][:200] if lines else "")


def filled(text: str, placeholders: Mapping[str, str]) -> str:
    """`text` with its `${…}` filled; one that is not set stands as it is."""
    try:
        return substitute(text, placeholders, os.environ)
    except ValueError:
        return text


def _note_size(
    path: Path, wanted: tuple[int, int | None], wrong: list[tuple[str, int]], counts: dict[str, int]
) -> None:
    size, (low, high) = path.stat().st_size, wanted
    if size < low or (high is not None and size > high):
        counts["wrong"] += 1
        if len(wrong) < _KEPT:
            wrong.append((path.name, size))


def _absent_pairs(path: Path, pairs: tuple[str, ...]) -> Iterator[str]:
    for pair in pairs:
        # Any of the alternatives is enough: an image may be a .png or a .jpg.
        names = [_filled_fields(text, path, "") for text in pair.split("|")]
        if not any(is_there(path.parent / name) for name in names):
            yield os.path.relpath(path.parent / names[0], path.parent)


def _filled_fields(text: str, path: Path, row: str) -> str:
    """`text` with its {stem}, {name}, {folder} and {row}; other braces stand for themselves."""
    known = {"stem": path.stem, "name": path.name, "folder": str(path.parent), "row": row}
    return FIELD.sub(lambda found: known.get(found[1], found[0]), text)


def _folder_problem(path: Path) -> str:
    """What is wrong with a folder where a list is read, naming the lists that are in it."""
    lists = sorted(str(found) for found in path.glob("*.csv"))
    inside = f"; a list in it: {', '.join(lists[:_KEPT])}" if lists else ", and no .csv is in it"
    return f"{path} is a folder, and a list of samples is expected{inside}"


def _row_facts(
    path: Path, patterns: tuple[str, ...], folder: Path, missing: list[str], counts: dict[str, int]
) -> int:
    """Look for what each row of a list needs: beside the list, above it, or in the run's folder."""
    number = 0
    with io.TextIOWrapper(open_binary(path), "utf-8-sig", newline="") as file:
        # `utf-8-sig`: lists saved by spreadsheets begin with a byte order mark.
        for row in islice(csv.reader(file), _MOST_ROWS):
            cell = row[0].strip() if row else ""
            if not cell or cell.startswith("#") or (not number and _HEADING.fullmatch(cell)):
                continue
            number += 1
            named = Path(cell)
            for pattern in patterns:
                names = [_filled_fields(text, named, cell) for text in pattern.split("|")]
                # Lists name their files from different places, and programs try them too.
                places = (path.parent, path.parent.parent, folder)
                if not any(is_there(place / name) for place in places for name in names):
                    _note(missing, counts, names[0])
    return number


def _note(missing: list[str], counts: dict[str, int], name: str) -> None:
    counts["lacking"] += 1
    if len(missing) < _KEPT:
        missing.append(name)


def _may_be_name(value: str, folder: Path) -> bool:
    """True for two words with a slash between them whose first is no folder here."""
    owner, _, name = value.partition("/")
    is_hub_name = bool(owner and name) and "/" not in name and not Path(name).suffix
    return is_hub_name and owner[0] not in ".~" and not is_there(folder / owner)


def unescaped(pattern: str) -> str:
    """Return a pattern as people read it."""
    return pattern.replace("[[]", "[").replace("[*]", "*").replace("[?]", "?")
