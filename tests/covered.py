"""Which lines of `tui` and `runners` the tests run, in whatever process: `make coverage`.

`python -m tests.covered run [pytest's words]` runs tests with every process of this environment
measured (helpers and supervisors, panels, far ends of links, jobs of a cluster); what was measured
before is kept, so that folders can be taken one after another. `report` joins all of it and prints
the table by room; `clean` forgets it.

The environment is one of its own (`.venv-coverage`, Python 3.13, whose `sys.monitoring` tells of each
line once): its interpreters begin to measure by themselves, whatever environment variables and flags
they are started with. What is started by another Python (far ends that were set up, users of tests)
is not seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "build" / "coverage"
SETTINGS = MEASURED / "settings.ini"
BEGINS = MEASURED / "begins.json"
"""Where in the map the lines of each source file begin."""
HITS = MEASURED / "hits"
"""The map: a byte a line, 1 where it was run. No process has to end well to be counted."""
FOLDERS = ("unit", "pairs", "fuzz", "guides", "process", "ui", "remote", "slurm")
"""What runs the panel and the core; the trainers' tests run only `trainers`."""

_SETTINGS = """\
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
    assert_never
    ^\\s*\\.\\.\\.$
    if __name__ == .__main__.:
"""
_BEGIN = """\
# Notes each line of tui and runners that is run, in a map that all processes share.
import json
import mmap
import sys


def begin():
    try:
        with open({begins!r}) as table, open({hits!r}, "r+b") as file:
            begins, hits = json.load(table), mmap.mmap(file.fileno(), 0, trackfd=False)
    except OSError:
        return
    watch = sys.monitoring

    def enter(code, _at):
        if code.co_filename in begins:
            watch.set_local_events(watch.COVERAGE_ID, code, watch.events.LINE)
        return watch.DISABLE

    def run(code, line):
        hits[begins[code.co_filename] + line] = 1
        return watch.DISABLE

    watch.use_tool_id(watch.COVERAGE_ID, "fresnel-tui's tests")
    watch.register_callback(watch.COVERAGE_ID, watch.events.PY_START, enter)
    watch.register_callback(watch.COVERAGE_ID, watch.events.LINE, run)
    watch.set_events(watch.COVERAGE_ID, watch.events.PY_START)


begin()
"""
_INTERPRETER = """\
#!/bin/bash
# A helper of ours is started without site-packages (-S), where the measuring begins.
if [ "$1 $2" = "-I -S" ] && [[ "$3" == {root}/* ]]; then shift 2; set -- -I "$@"; fi
exec -a "$0" {python} "$@"
"""


class Room(NamedTuple):
    """A folder of sources: how many of its lines can run, and how many the tests ran."""

    name: str
    lines: int
    run: int

    @property
    def share(self) -> float:
        """The part of its lines that was run, 1 where it has none."""
        return self.run / self.lines if self.lines else 1.0


def prepare() -> None:
    """Have each interpreter of this environment note what it runs, from its start."""
    site = Path(sysconfig.get_path("purelib"))
    if sys.version_info < (3, 13) or ROOT not in site.parents:
        raise SystemExit("this takes an environment of its own, of Python 3.13: make coverage")
    MEASURED.mkdir(parents=True, exist_ok=True)
    begins, size = lay_out()
    table = json.dumps(begins)
    if not HITS.is_file() or BEGINS.read_text(encoding="utf-8") != table:
        BEGINS.write_text(table, encoding="utf-8")
        HITS.write_bytes(bytes(size))
        HITS.chmod(0o666)
    begin = _BEGIN.format(begins=str(BEGINS), hits=str(HITS))
    (site / "begin_coverage.py").write_text(begin, encoding="utf-8")
    (site / "begin_coverage.pth").write_text("import begin_coverage\n", encoding="utf-8")
    python = Path(sys.prefix) / "bin" / "python"
    if python.is_symlink():
        real = python.resolve()
        python.unlink()
        python.write_text(_INTERPRETER.format(root=ROOT, python=real), encoding="utf-8")
        python.chmod(0o755)


def lay_out() -> tuple[dict[str, int], int]:
    """Where each source file begins in the map, by its path, and the size of the map."""
    begins, size = {}, 0
    for package in ("tui", "runners"):
        for file in sorted((ROOT / package).rglob("*.py")):
            begins[str(file)] = size
            size += len(file.read_bytes().splitlines()) + 1
    return begins, size


def run(words: list[str]) -> int:
    """Run tests, measured; returns pytest's exit code."""
    prepare()
    folders = [f"tests/{folder}" for folder in FOLDERS]
    python = str(Path(sys.prefix) / "bin" / "python")
    # What waits for processes waits longer: each begins and ends by measuring.
    chosen = [] if any(word.startswith("tests/") for word in words) else folders
    command = [python, "-m", "pytest", "--timeout=400", *words, *chosen]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def report() -> None:
    """Print the table by room and what nothing has run; statements are coverage.py's."""
    from coverage import Coverage

    begins, hits = json.loads(BEGINS.read_text(encoding="utf-8")), HITS.read_bytes()
    SETTINGS.write_text(_SETTINGS, encoding="utf-8")
    coverage = Coverage(data_file=str(MEASURED / "data"), config_file=str(SETTINGS))
    coverage.erase()
    ends = [*list(begins.values())[1:], len(hits)]
    coverage.get_data().add_lines(
        {
            file: [line for line in range(end - begin) if hits[begin + line]]
            for (file, begin), end in zip(begins.items(), ends, strict=True)
        }
    )
    written = MEASURED / "report.json"
    coverage.json_report(outfile=str(written))
    print("\n".join(table(json.loads(written.read_text(encoding="utf-8"))["files"])))


def rooms_of(files: Mapping[str, Any]) -> list[Room]:
    """Sum coverage's report by folder, the least covered first."""
    lines: dict[str, int] = defaultdict(int)
    ran: dict[str, int] = defaultdict(int)
    for name, file in files.items():
        room = str(Path(name).parent)
        lines[room] += file["summary"]["num_statements"]
        ran[room] += file["summary"]["covered_lines"]
    rooms = [Room(name, lines[name], ran[name]) for name in lines]
    return sorted(rooms, key=lambda room: (room.share, room.name))


def table(files: Mapping[str, Any]) -> Iterable[str]:
    """The lines of the page: together, by room, and the lines of each file that nothing has run."""
    rooms = rooms_of(files)
    yield "| room | lines | run | |"
    yield "|---|---|---|---|"
    for package in ("tui", "runners"):
        inside = [room for room in rooms if Path(room.name).parts[0] == package]
        lines, ran = sum(room.lines for room in inside), sum(room.run for room in inside)
        whole = Room(package, lines, ran)
        yield f"| **{package}** | {lines:,} | {ran:,} | **{whole.share:.1%}** |"
    for room in rooms:
        yield f"| `{room.name}` | {room.lines:,} | {room.run:,} | {room.share:.1%} |"
    yield ""
    for name, file in sorted(files.items()):
        if file["missing_lines"]:
            yield f"* `{name}`: {spans(file['missing_lines'])}"


def spans(numbers: Iterable[int]) -> str:
    """Line numbers as `3, 7–9`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in found)


def main() -> int:
    """`run`, `report` or `clean`."""
    word, *more = sys.argv[1:] or ["run"]
    if word == "run":
        return run(more)
    if word == "report":
        report()
    elif word == "clean":
        HITS.unlink(missing_ok=True)
    else:
        raise SystemExit(f"{word}: run, report or clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
