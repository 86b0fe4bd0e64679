"""Every headless command by name: what it is for, and where its flags are declared."""

from typing import NamedTuple


class Command(NamedTuple):
    """One command: FILE:FUNCTION of `tui.cli.commands` that declares its flags, and its help."""

    declared: str
    summary: str
    section: str
    aliases: tuple[str, ...] = ()
    json: bool = True
    """False for what is a conversation with a person, which no program reads."""


_RUN, _SEE, _KEEP, _MONEY, _HOSTS, _MACHINE = (
    "launch and end",
    "look",
    "label and clean up",
    "money",
    "rented machines",
    "machine and set-up",
)

COMMANDS: dict[str, Command] = {
    "launch": Command(
        "launching:launch", "start a run: a preset, or any command after --", _RUN, ("run",)
    ),
    "plan": Command(
        "launching:plan", "print exactly what launch would run, and start nothing", _RUN
    ),
    "verify": Command(
        "launching:verify", "check what launch would run, and start nothing; exit 1 on a FAIL", _RUN
    ),
    "probe": Command(
        "launching:probe", "find the largest batch that fits, by short real runs", _RUN
    ),
    "remedy": Command(
        "launching:remedy", "show remedies for an ended run, and relaunch it with them", _RUN
    ),
    "stop": Command(
        "ending:stop", "stop runs step by step; asked again, take the next step now", _RUN
    ),
    "kill": Command("ending:kill", "end runs at once by SIGKILL: no checkpoint is written", _RUN),
    "pause": Command(
        "ending:pause", "stop runs where they are (SIGSTOP); their GPUs stay theirs", _RUN
    ),
    "continue": Command("ending:proceed", "let paused runs go on, whoever paused them", _RUN),
    "wait": Command(
        "ending:wait", "wait until runs have ended; the worst ending is the exit code", _RUN
    ),
    "cancel": Command("ending:cancel", "take queued runs out of the queue", _RUN),
    "priority": Command("ending:priority", "change or show the priority of a queued run", _RUN),
    "extend": Command(
        "ending:extend", "raise the time limit of a run's Slurm job, where that is allowed", _RUN
    ),
    "drain": Command("ending:drain", "let running jobs finish and no new ones start", _RUN),
    "list": Command(
        "looking:list_runs",
        "show the runs: all live ones and the newest ended ones",
        _SEE,
        ("ls", "ps"),
    ),
    "status": Command("looking:status", "show one run, or a group", _SEE, ("show", "describe")),
    "logs": Command("looking:logs", "print a run's output", _SEE, ("log",)),
    "metrics": Command("looking:metrics", "show a run's metrics: last, min, max and trend", _SEE),
    "compare": Command(
        "looking:compare", "runs side by side: what differs, and which is best", _SEE, ("diff",)
    ),
    "pictures": Command("looking:pictures", "list a run's images (PNG, JPEG) by epoch", _SEE),
    "report": Command(
        "looking:report", "write one HTML file: curves, settings, pictures, cost, ending", _SEE
    ),
    "diagnose": Command(
        "looking:diagnose", "explain why a run ended: cause, evidence, what to do", _SEE
    ),
    "stacks": Command(
        "looking:stacks", "show and save the current stack of every rank of a run", _SEE
    ),
    "monitor": Command(
        "looking:monitor", "everything at a glance: session, GPUs, host, live runs, disks", _SEE
    ),
    "gpus": Command("looking:gpus", "show the GPUs, who holds them, and their readings", _SEE),
    "adopt": Command(
        "looking:adopt", "your Slurm jobs submitted by other means: list, follow, cancel", _SEE
    ),
    "attach": Command(
        "looking:attach", "join the terminal of a run launched with --tty", _SEE, json=False
    ),
    "shell": Command(
        "looking:shell", "open a shell with a run's environment, folder and GPUs", _SEE, json=False
    ),
    "rename": Command("labelling:rename", "give a run another name", _KEEP, ("mv",)),
    "tag": Command("labelling:tag", "add tags to a run or group, or show them", _KEEP),
    "untag": Command("labelling:untag", "remove tags from a run or group", _KEEP),
    "note": Command("labelling:note", "write a note on a run, or show it", _KEEP),
    "star": Command("labelling:star", "star runs: prune never removes them", _KEEP),
    "unstar": Command("labelling:unstar", "remove the star from runs", _KEEP),
    "best": Command("labelling:best", "say by which metric runs are judged, or show it", _KEEP),
    "delete": Command(
        "labelling:delete", "delete ended runs; undelete brings them back", _KEEP, ("rm",)
    ),
    "undelete": Command("labelling:undelete", "bring deleted runs back, or list them", _KEEP),
    "prune": Command(
        "labelling:prune", "remove ended runs by age, number and ending, for good", _KEEP
    ),
    "fetched": Command("labelling:fetched", "record that results are stored elsewhere", _KEEP),
    "cost": Command("money:cost", "show what is being spent, and on what; plan; export", _MONEY),
    "session": Command("money:session", "a rented machine's billing period", _MONEY),
    "prices": Command("money:prices", "show the known prices of GPU time; update them", _MONEY),
    "guard": Command(
        "guarding:guard",
        "stop runs at a budget, an age or idleness, without the panel",
        _MONEY,
    ),
    "host": Command("hosts:host", "rented machines: add, set up, test, end", _HOSTS),
    "up": Command(
        "launching:up", "a machine added, set up, pushed to, and a run started: once asked", _HOSTS
    ),
    "push": Command("hosts:push", "copy what a preset needs to a rented machine", _HOSTS),
    "fetch": Command("hosts:fetch", "copy results from a rented machine, verified by hash", _HOSTS),
    "fetches": Command("hosts:fetches", "fetches that are repeated: list, stop", _HOSTS),
    "nodes": Command("hosts:nodes", "launches over several rented machines", _HOSTS),
    "presets": Command(
        "machine:presets", "list the presets, save one from a run, or print their schema", _MACHINE
    ),
    "secret": Command(
        "machine:secret", "values for programs that no preset and no command line holds", _MACHINE
    ),
    "checkpoint": Command(
        "machine:checkpoint", "inspect checkpoint files, or write modified copies", _MACHINE
    ),
    "doctor": Command(
        "machine:doctor", "check everything runs depend on; exit 1 on a FAIL", _MACHINE
    ),
    "service": Command(
        "machine:service", "restore runs, queue, guard and session after a boot", _MACHINE
    ),
    "serve": Command("machine:serve", "show the panel in a browser", _MACHINE),
    "demo": Command(
        "machine:demo",
        "look around: simulated GPUs and ten tiny runs, gone when the panel is left",
        _MACHINE,
        json=False,
    ),
    "reset-terminal": Command(
        "machine:reset_terminal",
        "mend a terminal whose panel was killed",
        _MACHINE,
        json=False,
    ),
    "completion": Command(
        "machine:completion", "print the script that completes commands in a shell", _MACHINE
    ),
    "schema": Command(
        "machine:schema", "print the JSON Schema of what commands print with --json", _MACHINE
    ),
}

ALIASES = {alias: name for name, command in COMMANDS.items() for alias in command.aliases}
