"""`rename`, `tag`, `untag`, `note`, `star`, `best`, `delete`, `undelete`, `prune`, `fetched`."""

from tui.cli.commands.declaring import RUN, RUNS, argument, examples, flag, seconds
from tui.cli.parsing import CommandParser


def declare_rename(parser: CommandParser) -> None:
    """`rename`: another name."""
    argument(parser, "run", "RUN", RUN)
    argument(parser, "name", "NAME", "its name from now on", nargs="?")
    flag(parser, "--reset", "restore the name of its launch")
    examples(parser, "rename last baseline", "status baseline", "rename baseline --reset")


def declare_tag(parser: CommandParser) -> None:
    """`tag`: words to find runs by."""
    argument(parser, "run", "RUN", RUNS)
    argument(parser, "tags", "TAG", "one word each; without any, show them", nargs="*")
    examples(parser, "tag last good paper", "tag last")


def declare_untag(parser: CommandParser) -> None:
    """`untag`: take them away."""
    argument(parser, "run", "RUN", RUNS)
    argument(parser, "tags", "TAG", "which tags to take away", nargs="*")
    flag(parser, "--all", "all of them")
    examples(parser, "untag last good", "untag last --all")


def declare_note(parser: CommandParser) -> None:
    """`note`: a text of your own."""
    argument(parser, "run", "RUN", RUN)
    argument(
        parser,
        "text",
        "TEXT",
        "the new note; - reads it from stdin; without it, show the note",
        nargs="*",
    )
    flag(parser, "--clear", "remove it")
    examples(
        parser,
        "note last 'lower rate than planned, still fine'",
        "note last - <findings.txt",
        "note last --clear",
    )


def declare_star(parser: CommandParser) -> None:
    """`star`: one to keep."""
    _runs(parser)
    examples(parser, "star last", "star my-sweep")


def declare_unstar(parser: CommandParser) -> None:
    """`unstar`: no longer."""
    _runs(parser)
    examples(parser, "unstar last")


def declare_best(parser: CommandParser) -> None:
    """`best`: what runs are judged by."""
    argument(parser, "run", "RUN", RUNS)
    argument(parser, "metric", "METRIC", "its name; without it, show what holds", nargs="?")
    flag(parser, "--higher", "more of it is better")
    flag(parser, "--lower", "less of it is better")
    flag(parser, "--reset", "judge as the preset says, else by the loss")
    examples(parser, "best last val_psnr", "best last reward --higher", "best last --reset")


def declare_delete(parser: CommandParser) -> None:
    """`delete`: into the trash."""
    _runs(parser)
    flag(parser, "--forever", "free the disk at once; this cannot be undone")
    examples(
        parser,
        "delete last",
        "delete my-sweep --forever",
        notes="A deleted run can be brought back for 7 days. What it cost stays counted.",
    )


def declare_undelete(parser: CommandParser) -> None:
    """`undelete`: out of the trash."""
    argument(parser, "runs", "DELETED", "id, its beginning, a name, or `last`", nargs="*")
    flag(parser, "--empty", "remove all of them for good")
    examples(parser, "undelete", "undelete last", "undelete --empty")


def _runs(parser: CommandParser) -> None:
    argument(parser, "runs", "RUN", RUNS, nargs="+")


def declare_prune(parser: CommandParser) -> None:
    """`prune`: by age, number and ending."""
    argument(parser, "--older-than", "AGE", "ended longer ago than this, e.g. 30d", type=seconds)
    argument(parser, "--keep", "N", "all but the newest N of those that ended so", type=int)
    argument(parser, "--state", "STATES", "only runs in these states, e.g. done,failed")
    flag(parser, "--dry-run", "only show what would be removed")
    examples(
        parser,
        "prune --older-than 30d --dry-run",
        "prune --state failed --keep 20",
        notes="All criteria given must hold. Live and starred runs are kept. It cannot be undone.",
    )


def declare_fetched(parser: CommandParser) -> None:
    """`fetched`: results that are safe."""
    argument(parser, "runs", "RUN", RUNS, nargs="*")
    flag(parser, "--all", "every ended run of this host")
    argument(parser, "--to", "WHERE", "where they were taken", default="")
    flag(parser, "--give-up", "nobody wants their results: they hold back no end any more")
    examples(parser, "fetched last --to nas:/runs", "fetched --all", "fetched")
