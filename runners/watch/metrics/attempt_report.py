"""Whether a failed attempt finished a step: printed as JSON for the supervisor that retries."""

import json
import re
import sys
from pathlib import Path

from runners.host.files import read_tail
from runners.model.spec import MetricRule
from runners.state.layout import RunDirectory
from runners.state.runs import read_run
from runners.watch.metrics.event_reader import EventReader
from runners.watch.metrics.reading import OutputReader

_MOST = 4 << 20


def report(folder: Path) -> dict[str, object]:
    """Read the newest attempt of the run in this folder."""
    run = read_run(RunDirectory.at(folder).home, folder.name)
    reader = EventReader(folder / "events.jsonl")
    stepped = False
    for event in reader.all_new():
        # A `start` begins an attempt, so only the steps after the last one count.
        stepped = event.type in ("metrics", "epoch") or (stepped and event.type != "start")
    rule = run.plan.spec.metrics if run.plan else MetricRule()
    lines = re.split(rb"[\r\n]+", read_tail(folder / "output.log", _MOST))
    output = OutputReader(rule)
    for line in lines:
        stepped = stepped or any(found.step or found.values for found in output.read(line))
    return {"stepped": stepped}


def main() -> None:
    """Print the report of the run in the folder `argv[1]`."""
    print(json.dumps(report(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
