"""Run the tests of the guides' rows, and print each row with what they said.

With `--walk` the steps that train are taken too, which takes minutes; with `--list` nothing is
run: it is only looked whether every test that is named exists.
"""

import argparse
import os
import sys
from collections import Counter

import pytest

from tests.guides.rows import Row, is_there, node_of, read_rows
from tests.guides.walks.steps import ALL_STEPS


class Outcomes:
    """What became of each test, and of each function: failed where one of its cases did."""

    def __init__(self) -> None:
        self.by_test: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's outcome."""
        if report.when == "call" or report.outcome != "passed":
            for name in {report.nodeid, report.nodeid.partition("[")[0]}:
                worst = {self.by_test.get(name, report.outcome), report.outcome}
                kinds = ("failed", "skipped", "passed")
                self.by_test[name] = next(kind for kind in kinds if kind in worst)


def print_rows(rows: list[Row], said: dict[str, str]) -> None:
    """A line for each row, and how many rows are in which state."""
    for row in rows:
        found = {said.get(node_of(test), "not run") for test in row.tests}
        needs = f" (needs {row.needs})" if row.needs else ""
        print(f"{row.number}  {row.state:2}  {', '.join(sorted(found)):8}  {row.heading}{needs}")
    counts = Counter(row.state for row in rows)
    print(f"{len(rows)} rows: " + ", ".join(f"{n} {state}" for state, n in counts.items()))


def main() -> int:
    """Run them all; 1 when one failed, or is not there."""
    parser = argparse.ArgumentParser(prog="python -m tests.guides", description=__doc__)
    parser.add_argument("--walk", action="store_true", help="take the steps that train too")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--workers", type=int, default=0, help="how many at once (0: in here)")
    parser.add_argument("rows", nargs="*", help="rows by the beginning of their number: 0-32, 3-")
    chosen = parser.parse_args()
    rows = [row for row in read_rows() if row.number.startswith(tuple(chosen.rows or [""]))]
    outcomes = Outcomes()
    every = list(dict.fromkeys(test for row in rows for test in row.tests))
    missing = [test for test in every if not is_there(test)]
    for test in missing:
        print(f"not there: {test}")
    if chosen.list or missing:
        print_rows(rows, {node_of(test): "there" for test in every if test not in missing})
        return int(bool(missing))
    if chosen.walk:
        os.environ[ALL_STEPS] = "1"
    pytest.main(["-n", str(chosen.workers), *map(node_of, every)], [outcomes])
    print_rows(rows, outcomes.by_test)
    return int("failed" in outcomes.by_test.values())


if __name__ == "__main__":
    sys.exit(main())
