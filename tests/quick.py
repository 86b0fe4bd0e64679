"""The test files to run after a change of a few rooms, as many as fit into a minute.

`python -m tests.quick [ROOM …]` prints them: those of the rooms named (`runners/cost`, `trainers`),
or of what differs from the branch `main`. Files that name a changed module come before those that
name its room, and of each kind the short ones come first.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.dealing import SECONDS, read_seconds

ROOT = SECONDS.parents[1]
BUDGET_S = 120.0
"""Recorded seconds, of four workers that share two cores: half a minute beside starting them."""
UNRECORDED_S = 0.3
"""What a test takes that is too short to be recorded, roughly."""
_TEST = re.compile(r"^(?:async )?def test_", re.MULTILINE)


def changed_files(base: str = "main") -> list[str]:
    """What differs from where this branch left `base`, and what git does not know yet."""
    begin = _git("merge-base", base, "HEAD")
    if not begin:
        raise SystemExit(f"no branch {base} to compare with: name rooms, as in ROOM=runners/cost")
    untracked = _git("ls-files", "--others", "--exclude-standard")
    return sorted({*_git("diff", "--name-only", *begin), *untracked})


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def module_names(files: Iterable[str]) -> tuple[set[str], set[str]]:
    """The modules that some files or folders are, and the rooms these modules lie in."""
    names, rooms = set(), set()
    for file in files:
        path = Path(file)
        if path.parts[:1] not in (("tui",), ("runners",), ("trainers",)):
            continue
        if path.suffix not in ("", ".py"):
            continue
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        names.add(name)
        rooms.add(name.rpartition(".")[0] if path.suffix else name)
    return names, rooms - {"tui", "runners", "trainers", ""}


def choose_tests(
    changed: Iterable[str],
    sources: Mapping[str, str],
    seconds: Mapping[str, float],
    budget_s: float = BUDGET_S,
) -> tuple[list[str], list[str]]:
    """The test files to run for some changed files or folders, and those left out for their time.

    `sources` are the texts of all test files; `seconds` what was recorded of files and tests.
    """
    changed = set(changed)
    names, rooms = module_names(changed)
    kinds = (
        [file for file in sources if file in changed],
        [file for file, text in sources.items() if _names_any(text, names)],
        [file for file, text in sources.items() if _names_any(text, rooms)],
    )
    chosen: list[str] = []
    left_out: list[str] = []
    left_s = budget_s
    for kind in kinds:
        lengths = {file: file_seconds(file, sources[file], seconds) for file in kind}
        for file in sorted(set(kind) - {*chosen, *left_out}, key=lambda file: lengths[file]):
            fits = lengths[file] <= left_s or file in changed
            (chosen if fits else left_out).append(file)
            left_s -= lengths[file] if fits else 0.0
    return chosen, left_out


def _names_any(text: str, modules: Iterable[str]) -> bool:
    """Whether a test imports one of some modules, or something that lies in it."""
    for module in modules:
        room, _, last = module.rpartition(".")
        named = rf"\b{re.escape(module)}\b"
        imported = rf"^\s*from {re.escape(room)} import [^\n]*\b{re.escape(last)}\b"
        if re.search(named, text) or (room and re.search(imported, text, re.MULTILINE)):
            return True
    return False


def file_seconds(file: str, text: str, seconds: Mapping[str, float]) -> float:
    """What a test file takes, as recorded; of short tests an estimate."""
    if file in seconds:
        return seconds[file]
    recorded = [value for unit, value in seconds.items() if unit.startswith(f"{file}::")]
    return sum(recorded) + UNRECORDED_S * max(0, len(_TEST.findall(text)) - len(recorded))


def main() -> None:
    """Print the chosen files; how many were left out goes to stderr."""
    changed = sys.argv[1:] or changed_files()
    sources = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    chosen, left_out = choose_tests(changed, sources, read_seconds())
    print("\n".join(chosen))
    if left_out:
        print(f"left to make test: {', '.join(left_out)}", file=sys.stderr)


if __name__ == "__main__":
    main()
