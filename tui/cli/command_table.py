"""Every headless command by name: what it is for, where its flags are declared, what does it."""

from typing import NamedTuple


class Command(NamedTuple):
    """One command: its file in `tui.cli`, its help, and its flags' file in `tui.cli.commands`.

    The functions there are called by its name: `declare_stop` has its flags, `run_stop` does it and
    returns the exit code, None for 0.
    """

    done: str
    summary: str
    aliases: tuple[str, ...] = ()
    json: bool = True
    """False for what is a conversation with a person, which no program reads."""
    section: str = ""
    declared: str = ""


_LAUNCHING = {
    "launch": Command("launch", "start a run: a preset, or any command after --", ("run",)),
    "plan": Command("launch", "print exactly what launch would run, and start nothing"),
    "verify": Command("verify", "check what launch would run, and start nothing; exit 1 on a FAIL"),
    "probe": Command("probe", "find the largest batch that fits, by short real runs"),
    "remedy": Command("remedy", "show remedies for an ended run, and relaunch it with them"),
}
_ENDING = {
    "stop": Command("stop", "stop runs step by step; asked again, take the next step now"),
    "kill": Command("stop", "end runs at once by SIGKILL: no checkpoint is written"),
    "pause": Command("pause", "stop runs where they are (SIGSTOP); their GPUs stay theirs"),
    "continue": Command("pause", "let paused runs go on, whoever paused them"),
    "wait": Command("stop", "wait until runs have ended; the worst ending is the exit code"),
    "cancel": Command("queue", "take queued runs out of the queue"),
    "priority": Command("queue", "change or show the priority of a queued run"),
    "extend": Command("queue", "raise the time limit of a run's Slurm job, where that is allowed"),
    "drain": Command("stop", "let running jobs finish and no new ones start"),
}
_LOOKING = {
    "list": Command(
        "run_list", "show the runs: all live ones and the newest ended ones", ("ls", "ps")
    ),
    "status": Command("inspect", "show one run, or a group", ("show", "describe")),
    "logs": Command("logs", "print a run's output", ("log",)),
    "metrics": Command("metrics", "show a run's metrics: last, min, max and trend"),
    "compare": Command("compare", "runs side by side: what differs, and which is best", ("diff",)),
    "pictures": Command("pictures", "list a run's images (PNG, JPEG) by epoch"),
    "report": Command("report", "write one HTML file: curves, settings, pictures, cost, ending"),
    "diagnose": Command("diagnose", "explain why a run ended: cause, evidence, what to do"),
    "stacks": Command("stacks", "show and save the current stack of every rank of a run"),
    "monitor": Command("monitor", "everything at a glance: session, GPUs, host, live runs, disks"),
    "gpus": Command("gpus", "show the GPUs, who holds them, and their readings"),
    "adopt": Command("foreign", "your Slurm jobs submitted by other means: list, follow, cancel"),
    "attach": Command("attach", "join the terminal of a run launched with --tty", json=False),
    "shell": Command(
        "attach", "open a shell with a run's environment, folder and GPUs", json=False
    ),
}
_LABELLING = {
    "rename": Command("labels", "give a run another name", ("mv",)),
    "tag": Command("labels", "add tags to a run or group, or show them"),
    "untag": Command("labels", "remove tags from a run or group"),
    "note": Command("labels", "write a note on a run, or show it"),
    "star": Command("labels", "star runs: prune never removes them"),
    "unstar": Command("labels", "remove the star from runs"),
    "best": Command("labels", "say by which metric runs are judged, or show it"),
    "delete": Command("trash", "delete ended runs; undelete brings them back", ("rm",)),
    "undelete": Command("trash", "bring deleted runs back, or list them"),
    "prune": Command("prune", "remove ended runs by age, number and ending, for good"),
    "fetched": Command("guard", "record that results are stored elsewhere"),
}
_MONEY = {
    "cost": Command("cost", "show what is being spent, and on what; plan; export"),
    "session": Command("session", "a rented machine's billing period"),
    "prices": Command("prices", "show the known prices of GPU time; update them"),
    "guard": Command("guard", "stop runs at a budget, an age or idleness, without the panel"),
}
_UP = {
    "up": Command("up", "a machine added, set up, pushed to, and a run started: once asked"),
}
_HOSTS = {
    "host": Command("host", "rented machines: add, set up, test, end"),
    "push": Command("push", "copy what a preset needs to a rented machine"),
    "fetch": Command("fetch", "copy results from a rented machine, verified by hash"),
    "fetches": Command("fetches", "fetches that are repeated: list, stop"),
    "nodes": Command("nodes", "launches over several rented machines"),
}
_MACHINE = {
    "presets": Command("presets", "list the presets, save one from a run, or print their schema"),
    "secret": Command("secret", "values for programs that no preset and no command line holds"),
    "checkpoint": Command("checkpoint", "inspect checkpoint files, or write modified copies"),
    "doctor": Command("doctor", "check everything runs depend on; exit 1 on a FAIL"),
    "service": Command("service", "restore runs, queue, guard and session after a boot"),
    "serve": Command("serve", "show the panel in a browser"),
    "demo": Command(
        "demo",
        "look around: simulated GPUs and ten tiny runs, gone when the panel is left",
        json=False,
    ),
    "reset-terminal": Command(
        "reset_terminal", "mend a terminal whose panel was killed", json=False
    ),
    "completion": Command("completion", "print the script that completes commands in a shell"),
    "schema": Command("schema", "print the JSON Schema of what commands print with --json"),
}
_GROUPS = (
    ("launch and end", "launching", _LAUNCHING),
    ("launch and end", "ending", _ENDING),
    ("look", "looking", _LOOKING),
    ("label and clean up", "labelling", _LABELLING),
    ("money", "money", _MONEY),
    ("rented machines", "launching", _UP),
    ("rented machines", "hosts", _HOSTS),
    ("machine and set-up", "machine", _MACHINE),
)
"""Sections of the help over all, each with the file that declares its commands' flags."""

COMMANDS = {
    name: command._replace(section=section, declared=declared)
    for section, declared, commands in _GROUPS
    for name, command in commands.items()
}
ALIASES = {alias: name for name, command in COMMANDS.items() for alias in command.aliases}
