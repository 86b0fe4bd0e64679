"""`report`."""

import argparse
import re
from pathlib import Path

from runners.host.files import open_binary, replace
from runners.housekeeping import tended_state
from runners.model.errors import FresnelError, WrongInput
from runners.model.units import counted
from tui.cli.compare import gather
from tui.cli.output import echo, print_json
from tui.views.format import size
from tui.views.report.report import MARK, report_html
from tui.views.report.report_parts import make_report
from tui.views.runs.run_facts import RunFacts


def run_report(arguments: argparse.Namespace) -> None:
    """Write one HTML file about runs, that needs no other."""
    state = tended_state()
    facts = gather(state, arguments.runs, arguments.baseline, least=1)
    title = arguments.title or _title(arguments.runs, facts)
    path = Path(arguments.output or f"{_file_name(title)}.html")
    _refuse_other(path)
    baseline = None if arguments.baseline is None else facts[0].run.id
    report = make_report(state, facts, title, arguments.metric, baseline)
    # A file's name may hold bytes that are no UTF-8.
    content = report_html(report).encode("utf-8", "replace")
    try:
        replace(path, content)
    except OSError as error:
        raise FresnelError(f"{path}: {error.strerror}", "choose another file with -o") from None
    pictures = sum(len(part.pictures) for part in report.runs)
    if arguments.json:
        print_json(
            {
                "path": str(path.absolute()),
                "runs": [fact.run.id for fact in facts],
                "charts": len(report.charts) + len(report.devices),
                "pictures": pictures,
                "bytes": len(content),
            }
        )
    else:
        print(path)
        echo(
            f"{counted(len(facts), 'run')}, {counted(len(report.charts), 'chart')}, "
            f"{counted(pictures, 'picture')}, {size(len(content))}"
        )


def _title(names: list[str], facts: list[RunFacts]) -> str:
    if len(facts) == 1:
        return facts[0].run.name or facts[0].run.id
    plan = facts[0].run.plan
    group = plan.spec.group if plan else ""
    if group and all(fact.run.plan and fact.run.plan.spec.group == group for fact in facts):
        return group
    return " and ".join(names) if len(names) < 4 else f"{len(facts)} runs"


def _file_name(title: str) -> str:
    return re.sub(r"[^\w.+=-]+", "-", title).strip("-.")[:48] or "report"


def _refuse_other(path: Path) -> None:
    """WrongInput for a file that exists and is not a report of ours."""
    if not path.exists():
        return
    try:
        with open_binary(path) as file:
            head = file.read(200)
    except OSError as error:
        raise WrongInput(f"{path}: {error.strerror}", "choose another file with -o") from None
    # Only a report may be replaced: -o with a wrong name must not cost a person's file.
    if head and MARK.encode() not in head:
        raise WrongInput(f"{path} exists and is not a report", "choose another file with -o")
