"""`pictures`: the image files of a run, by what they show and where in the run they belong."""

import argparse

from runners.host.mounts import no_answer, silent_server
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from runners.watch.pictures import RunPicture, find_pictures
from tui.cli.output import echo, print_json, print_table
from tui.views.format import size
from tui.views.json_values import fields_json, iso
from tui.views.metrics.picture_album import place_text

_HEADINGS = ("picture", "place", "size", "written", "file", "caption")


def run_pictures(arguments: argparse.Namespace) -> None:
    """List a run's pictures."""
    run = find_run(StateDirectory(), arguments.run)
    pictures = find_pictures(run)
    if arguments.json:
        print_json({"run": run.id, "pictures": [_to_json(picture) for picture in pictures]})
    elif pictures:
        print_table(_HEADINGS, [_row(picture) for picture in pictures])
    else:
        server = silent_server(run.plan.working_directory) if run.plan else ""
        why = f": {no_answer(server)}" if server else ""
        echo(f"no PNG or JPEG file of {run.name or run.id} was found{why}")


def _to_json(picture: RunPicture) -> dict[str, object]:
    return {
        **fields_json(picture, "path", "series", "epoch", "step", "bytes", "caption"),
        "modified": iso(picture.modified),
        "told_by_events": picture.reported,
    }


def _row(picture: RunPicture) -> tuple[str, ...]:
    written = (iso(picture.modified) or "")[:19].replace("T", " ")
    return (
        picture.series,
        place_text(picture.place),
        size(picture.bytes),
        written,
        picture.path,
        picture.caption,
    )
