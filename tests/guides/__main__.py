"""Run the tests of the guides' rows, and print each row with what they said."""

import sys

import pytest

from tests.guides.rows import read_rows


class Outcomes:
    """What became of each test function: failed where one of its cases did."""

    def __init__(self) -> None:
        self.by_test: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's outcome."""
        name = report.nodeid.partition("[")[0]
        if report.when == "call" or report.outcome != "passed":
            worst = {self.by_test.get(name, report.outcome), report.outcome}
            kinds = ("failed", "skipped", "passed")
            self.by_test[name] = next(kind for kind in kinds if kind in worst)


def main() -> int:
    """Run them all; 1 when one failed."""
    rows, outcomes = read_rows(), Outcomes()
    pytest.main(["-n", "0", *dict.fromkeys(test for row in rows for test in row.tests)], [outcomes])
    for row in rows:
        found = {outcomes.by_test.get(test, "not run") for test in row.tests}
        needs = f" (needs {row.needs})" if row.needs else ""
        print(f"{row.number}  {row.state:2}  {', '.join(sorted(found)):8}  {row.heading}{needs}")
    return int(any(found != "passed" for found in outcomes.by_test.values()))


if __name__ == "__main__":
    sys.exit(main())
