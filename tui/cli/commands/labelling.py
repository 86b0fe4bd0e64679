"""`rename`, `tag`, `untag`, `note`, `star`, `unstar`, `delete`, `undelete`, `prune`, `fetched`."""

from tui.cli.commands.parts import RUN, RUNS, examples
from tui.cli.parsing import CommandParser


def rename(parser: CommandParser) -> None:
    """`rename`: another name."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("name", nargs="?", metavar="NAME", help="its name from now on")
    parser.add_argument("--reset", action="store_true", help="back to the name of its launch")
    parser.set_defaults(action="labels:run_rename")
    examples(parser, "rename last baseline", "status baseline", "rename baseline --reset")


def tag(parser: CommandParser) -> None:
    """`tag`: words to find runs by."""
    parser.add_argument("run", metavar="RUN", help=RUNS)
    parser.add_argument("tags", nargs="*", metavar="TAG", help="one word each; none shows them")
    parser.set_defaults(action="labels:run_tag")
    examples(parser, "tag last good paper", "tag last")


def untag(parser: CommandParser) -> None:
    """`untag`: take them away."""
    parser.add_argument("run", metavar="RUN", help=RUNS)
    parser.add_argument("tags", nargs="*", metavar="TAG", help="which tags to take away")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.set_defaults(action="labels:run_untag")
    examples(parser, "untag last good", "untag last --all")


def note(parser: CommandParser) -> None:
    """`note`: a text of your own."""
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument(
        "text",
        nargs="*",
        metavar="TEXT",
        help="the note, in place of the older one; - reads it from stdin, none shows it",
    )
    parser.add_argument("--clear", action="store_true", help="remove it")
    parser.set_defaults(action="labels:run_note")
    examples(
        parser,
        "note last 'lower rate than planned, still fine'",
        "note last - <findings.txt",
        "note last --clear",
    )


def star(parser: CommandParser) -> None:
    """`star`: one to keep."""
    _runs(parser)
    parser.set_defaults(action="labels:run_star")
    examples(parser, "star last", "star my-sweep")


def unstar(parser: CommandParser) -> None:
    """`unstar`: no longer."""
    _runs(parser)
    parser.set_defaults(action="labels:run_star")
    examples(parser, "unstar last")


def delete(parser: CommandParser) -> None:
    """`delete`: into the trash."""
    _runs(parser)
    parser.add_argument(
        "--forever", action="store_true", help="free the disk at once: nothing brings them back"
    )
    parser.set_defaults(action="trash:run_delete")
    examples(
        parser,
        "delete last",
        "delete my-sweep --forever",
        notes="A deleted run can be brought back for 7 days. What it cost stays counted.",
    )


def undelete(parser: CommandParser) -> None:
    """`undelete`: out of the trash."""
    parser.add_argument(
        "runs", nargs="*", metavar="DELETED", help="id, its beginning, a name, or `last`"
    )
    parser.add_argument("--empty", action="store_true", help="remove all of them for good")
    parser.set_defaults(action="trash:run_undelete")
    examples(parser, "undelete", "undelete last", "undelete --empty")


def _runs(parser: CommandParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUNS)


def prune(parser: CommandParser) -> None:
    """`prune`: by age, number and ending."""
    parser.add_argument("--older-than", metavar="AGE", help="ended longer ago than this, e.g. 30d")
    parser.add_argument(
        "--keep", type=int, metavar="N", help="all but the newest N of those that ended so"
    )
    parser.add_argument("--state", metavar="STATES", help="that ended so, e.g. done,failed")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    parser.set_defaults(action="housekeeping:run_prune")
    examples(
        parser,
        "prune --older-than 30d --dry-run",
        "prune --state failed --keep 20",
        notes="All criteria given must hold. Live and starred runs stay; nothing is brought back.",
    )


def fetched(parser: CommandParser) -> None:
    """`fetched`: results that are safe."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUNS)
    parser.add_argument("--all", action="store_true", help="every ended run of this host")
    parser.add_argument("--to", default="", metavar="WHERE", help="where they were taken")
    parser.set_defaults(action="guard:run_fetched")
    examples(parser, "fetched last --to nas:/runs", "fetched --all", "fetched")
