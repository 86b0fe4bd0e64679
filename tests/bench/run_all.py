"""The bench: `python tests/bench/run_all.py [engine panel sampler log metrics slow diagnosis
trainer]
[--quick] [--markdown FILE]`.

Without names everything is measured, which takes about half an hour on two quiet cores,
and the README beside this file is written anew. `--quick` only shows that everything works: its
numbers mean little, and are not kept. What a run measured is added to `history.jsonl`; the tables say
beside it what the run before did, and `plots` shows all of them.
"""

import argparse
import importlib
import os
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import history
from measure import Row, Table, machine, revision, write
from place import Bench

GROUPS = {
    "engine": "engine",
    "panel": "panel",
    "sampler": "sampler",
    "log": "log_tables",
    "metrics": "metrics",
    "slow": "slow_line",
    "diagnosis": "diagnosis",
    "trainer": "trainer",
}
README = Path(__file__).with_name("README.md")
METHOD = """\
Medians of five with the range in brackets, unless a row says otherwise (launches 15, lists 7, keys 10 or 40, a hundred
runs 3, the trainer 3); one warm-up before. Whatever is compared was measured in this same run, in turns or side by
side, and ratios are those of the pairs: they are firmer than the absolute numbers, which are those of one machine on
one day. Everything goes through the command line and a real terminal (a pty), as people use it. nvitop is installed
by the bench itself. Goals are aims, not promises; a row that says **no** misses its goal. `before` is what the run of the
bench before this one said, on whatever machine that was; [history.jsonl](history.jsonl) has all of them."""


def main() -> int:
    """Measure what was asked for; 1 when a group could not be measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="GROUP",
        help=f"one of {', '.join(GROUPS)}; all when none is named",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small counts: whether it works, not how fast it is"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    os.umask(0o077)
    began, load = time.monotonic(), os.getloadavg()[0]
    commit = revision()  # before the history is added to
    tables, failed = [], False
    past = history.read()
    for name in chosen.names or GROUPS:
        table, well = _measure(name, chosen.quick)
        table = replace(table, before=history.last_said(past, table.title))
        print(table.markdown(), flush=True)
        tables.append(table)
        failed |= not well
    took_s = time.monotonic() - began
    text = _document(tables, chosen.quick, commit, load, took_s)
    if not chosen.quick:
        history.add(history.read_page(text))
        history.draw(history.read())
        text = _document(tables, chosen.quick, commit, load, took_s)  # with pictures that are new
    target = chosen.markdown or (README if not chosen.names and not chosen.quick else None)
    if target is not None:
        _, heading, by_hand = README.read_text().partition(history.BY_HAND)
        target.write_text(text + heading + by_hand if target == README else text)
        write(f"written: {target.name}")
    return int(failed)


def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder of its own, removed afterwards; a helper's last write to it is no failure."""
    return tempfile.TemporaryDirectory(prefix="fresnel-bench-", ignore_cleanup_errors=True)


def _measure(name: str, quick: bool) -> tuple[Table, bool]:
    """A group's table, or one that says why there is none; its runs and folders are gone
    afterwards.
    """
    write(f"{name} …")
    began = time.monotonic()
    with _folder() as folder, ExitStack() as stack:
        try:
            table, well = (
                importlib.import_module(GROUPS[name]).measure(Bench(Path(folder), quick, stack)),
                True,
            )
        except Exception as error:
            write(f"  {type(error).__name__}: {error}")
            words = re.sub(r"/[^\s'\"]+", "…", f"{type(error).__name__}: {error}").replace("|", "¦")
            table, well = (
                Table(
                    name.title(), [Row("the whole group", f"could not be measured: {words[:200]}")]
                ),
                False,
            )
    write(f"{name}: {time.monotonic() - began:.0f} s")
    return table, well


def _document(tables: list[Table], quick: bool, commit: str, load: float, seconds: float) -> str:
    head = [
        "# Bench",
        "",
        (
            "Written by `make bench` (`tests/bench/run_all.py`), but for the last section: do "
            "not edit."
        ),
        "",
        f"* machine: {machine()}",
        f"* date: {time.strftime('%-d %B %Y')}, commit {commit}, took {seconds / 60:.0f} min, "
        f"load average at its start {load:.2f}",
    ]
    if quick:
        head.append(
            "* **quick run: small counts, which show that it works and not how fast it is**"
        )
    shown = [f"{table.markdown()}{_picture(table.title)}" for table in tables]
    return "\n".join([*head, "", METHOD, "", *shown])


def _picture(title: str) -> str:
    """The link to a table's plot, where it has been drawn."""
    file = history.file_of(title)
    return f"\n![{title}, all runs]({file.parent.name}/{file.name})\n" if file.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
