"""What tests wait for on a screen, each text once: rewording the program is an edit here, or none.

Texts that the program has under a name are taken from it. The rest stand here as a person finds
them. Functions take what differs: names, numbers and what a test itself has put on the screen.
"""

from runners.model.states import State
from tui.panel.screens.launch_checks import LAUNCHED_WHEN_CHECKED as CHECKED_FIRST
from tui.panel.screens.launch_plan_text import CHECKING as BEING_CHECKED
from tui.panel.screens.launch_plan_text import REFUSED, REFUSED_KEYS
from tui.panel.widgets.launch.common_fields import FIELDS
from tui.panel.widgets.log.area import PROMPTS
from tui.views.runs.launch_choices import OWN_COMMAND
from tui.views.runs.run_columns import NO_RUNS

__all__ = ["BEING_CHECKED", "CHECKED_FIRST", "NO_RUNS", "OWN_COMMAND", "REFUSED_KEYS"]

# ---- the main screen

RUNS_PANE = "Runs ─"
"""The border of the run table, where nothing is filtered."""
MAIN_SCREEN = "╭.* Runs"
ANY_RUNS = r"press n|in all"
"""The run table has been read, with runs or without."""
ENDED_OR_RUNNING = f"{State.RUNNING.sign} {State.RUNNING}|{State.DONE.sign} {State.DONE}"
FOOTER = "n Launch"
NO_FURTHER = "the border goes no further"
LAST_KEY = "palette"
HEADINGS = r"state +name +prog +loss +ETA"
SORT = "Sort runs by"
FINDING = "find:"
LEFT_TO_UNDO = "find:|marked"
READ_ONLY_MARK = "read-only"
READ_ONLY = "this panel only shows"
DRAINED = "⚠ drain"
GUARDED = "guard set"
GUARD_HELD_BACK = r"guard postponed until (\w+ )?\d\d:\d\d"  # with a day, near midnight
GUARD_COUNTS_DOWN = r"⚠ .*(29|30)m\d\ds"
SESSION_SINCE = "counted from"
PROJECTED, AT_ITS_LIMIT = "projected", "at its limit"
"""On the money page, of a run."""
FAILED = f"{State.FAILED} after"
"""Of a notice."""
NO_SHELL = "no shell to come back to"
MOUSE_GIVEN, MOUSE_TAKEN = "the terminal has the mouse", "the panel has the mouse"


def run_row(state: State, rest: str = "", letter: str = "") -> str:
    """A regular expression for a run's row: its state, then `rest`, which begins with its name."""
    row = rf"{state.sign} {state}" + (rf"\s+{rest}" if rest else "")
    return f"{letter} {row}" if letter else row


def first_row(row: str) -> str:
    """This row stands right below the headings of the run table."""
    return rf"(?m)│ *state.*\n.*│{row}"


def stopping_row(seconds: str, name: str) -> str:
    """A run's row while its stop counts down."""
    return rf"◼ stop {seconds}s\s+{name}"


def in_all(runs: int, running: int | None = None) -> str:
    """How many runs the table knows; of those that wait it tells where there is room."""
    known = rf"{running} running( · \d+ queued)? · " if running is not None else ""
    return f"{known}{runs} in all"


def found_of(count: int, runs: int | str) -> str:
    """How many of how many runs match what is looked for."""
    return f"{count} of {runs}"


def marked(runs: int) -> str:
    """So many runs are marked."""
    return f"{runs} marked"


def brought_back(runs: int) -> str:
    """So many deleted runs are there again."""
    return f"brought back {runs} runs"


def starred(name: str) -> str:
    """A run's name with its star."""
    return f"★ {name}"


def log_of(name: str) -> str:
    """The border of the log pane while it shows the output of a run."""
    return rf"{name} · output\.log"


def go_on(runs: int) -> str:
    """What is said when the panel is left."""
    return f"{runs} runs go on; `fresnel-tui` shows them"


# ---- GPUs

GPUS_PANE = "GPUs · simulated"
NO_GPU = "CPU · no GPU here"
FREE = "free"
NOT_FREE = "⚠ not free"
NO_COMPUTE = "allows no program to compute"
NOT_PUT_HERE = "not put here"
IN_USE = "in use by"
ON_THE_CPU = "Launching on the CPU"
EVERYTHING_ELSE_GOES_ON = f"{ON_THE_CPU}, stopping and logs go on"
STRANGER = "not ours"
ARE_YOU_SURE = "Are you sure"
LAST_XID = "last Xid"


def gpu_row(index: int, shows: str, is_instance: bool = False) -> str:
    """The row of a GPU in its pane."""
    return rf"(?m)^│{'└' if is_instance else ' '}{index} .*{shows}"


def gpu_title(gpu: str, model: str) -> str:
    """The border of one GPU in full."""
    return rf"GPU {gpu} · {model}"


def assigned(gpu: int | str, device: int) -> str:
    """Which device of its program a GPU becomes."""
    return f"GPU {gpu} → device {device}"


MEMORY = r"memory .*[GM]/"


# ---- the launch form

FORM = "Launch a run"
STATE_FOLDER = "the state folder"
STATE_GONE = r"is gone: removed"
FOR_EXAMPLE = r"for example on \w+: "
"""Where several machines might run it: whose plan it is."""
PLAN = "Plan: exactly what runs"
ENVIRONMENT = r"▶ Environment: \d+ set"
"""The folded part of a plan."""
STARTS = "✔ starts now on"
"""What a launch comes to, seen without scrolling."""
AS_LEFT = "as you left it"
TYPED_ONLY = "typed, and not launched"
PLANNED = "starts now|run folder|command "
CANNOT_RUN = "cannot run here"
NO_FILE = "script: no file"
QUEUED_FOR = "queued: "
SAVE_PRESET = "Save as a preset"
SAVED = "saved as"
ON_CPU = "none: runs on the CPU"
FIELD_HELP = {found.key: f"{found.key}: {found.help.split(';')[0]}" for found in FIELDS}
"""What is shown of a field while it has the cursor."""
COMMAND_HELP = "command: as in a shell"
SQUARE_ROOT = "square root"
WHOLE_NUMBER = "expected a whole number"
TYPE_A_COMMAND = "type a command"
SAMPLE_NEEDED = "a range of numbers has to be sampled"
VALUE_MISSING = "a value between the commas is missing"


def at_least(least: float, value: float) -> str:
    """What is wrong with a value that is too small."""
    return f"expected at least {least}, got {value}"


def at_a_time(runs: int, parallel: int) -> str:
    """How many runs a sweep has."""
    return f"{runs} runs, {parallel} at a time"


def will_suggest(sampler: str, metric: str) -> str:
    """What is said of values that are not chosen yet."""
    return f"{sampler} suggests values when its turn comes, for the least {metric}"


def no_sampler(name: str) -> str:
    """A sampler that does not exist."""
    return f"no sampler `{name}`"


def asked_for(gpus: str) -> str:
    """Why a launch waits."""
    return f"{gpus} asked for"


def help_of(name: str, text: str) -> str:
    """What is shown of a field while it has the cursor, or what is wrong with its value."""
    return f"{name}: {text}"


def field(name: str, value: object) -> str:
    """A name in front of its value: in forms, plans, details."""
    return rf"{name} +{value}"


def edited(name: str, value: object) -> str:
    """A field of the form that was changed."""
    return rf"✎ {name} +{value}"


def command_field(value: str) -> str:
    """The command in the form: below its name."""
    return rf"command +│[^\n]*\n[^\n]*│ +{value}"


def ticked(gpu: int, device: int | None = None) -> str:
    """A GPU that is chosen, and which device it becomes."""
    return rf"\[x\] GPU {gpu} " + ("" if device is None else rf".*→ device {device}")


def waited_for(gpu: int, holder: str) -> str:
    """A GPU that is chosen while another run holds it."""
    return rf"\[x\] GPU {gpu} .*{holder}.*waits for it"


def not_chosen(gpu: int, letter: str, holder: str) -> str:
    """A GPU that is not chosen, with the run that holds it."""
    return rf"\[ \] GPU {gpu} .* {letter} {holder}"


def held_by(gpu: int, holder: str) -> str:
    """Why a launch waits."""
    return rf"GPU {gpu} held by {holder}"


def follow_the_gpus(values: str, rule: str) -> str:
    """Which fields follow the number of GPUs, by which rule."""
    return f"{values} follow the GPUs: {rule}"


def again(name: str) -> str:
    """The border of the form that launches a run once more."""
    return f"{name} again"


def as_launched(run: str) -> str:
    """What the form says of the run it began with."""
    return f"with the settings of {run}"


def overwrite(name: str) -> str:
    """The question before a preset is replaced."""
    return f"Overwrite {name}"


# ---- commands, keys and settings

HELP = "Keys ─"
HELP_EVERYWHERE = "Everywhere"
AGAIN_COMMAND = "the selected run again, or vary it"
STOP_COMMAND = "Stop the selected run"
THEME_COMMAND = "colours; remembered"
SENT = "sent 1 command"
WRAP_COMMAND = "wrap long lines"
SIDEWAYS = "scroll sideways"
UNKNOWN_KEY = "unknown key"
TRUE_OR_FALSE = "expected true or"
MATCHES = r"paused|matches|match"


def command(verb: str, rest: str) -> str:
    """What was done as a command to copy."""
    return rf"fresnel-tui {verb} {rest}"


def works_in(key: str, pane: str, digit: int) -> str:
    """What is said of a key that does nothing in the pane that has the keys."""
    return rf"{key} works in the {pane} pane \(press {digit}\)"


# ---- dialogs about runs

ALL_IS_LOST = r"no checkpoint was seen on disk, so all of its work is\W+lost"
CAUSE = "GPU does not have enough memory"

NEWEST_CHECKPOINT = "Newest checkpoint"
NONE_ON_DISK = "none seen on disk"
KILL = "Kill it now"
NOT_POSSIBLE = "not possible"
KILL_BUTTON = "Kill now"
GPUS_FREE = "GPUs free"
SENDS_NO_FILES = "the form sends no files"
LEAVE_AS_IT_WAS = "Esc again discards the changes"
YOUR_NOTE = "your note"
COMMANDS = "This session's actions"
SETTINGS = "F6 edit the file"
NOT_SET = "not set"
"""In a field of the settings."""
PALETTE = "Search for commands"
STACKS = "stacks of .*T: the output again"
THE_PROGRAM = "the program: "
NOT_LAUNCHED = "not launched"
REFUSED_BY_CHECK = f"{REFUSED}: files"
LOG_PROMPTS = {name: text.partition(":")[0] for name, text in PROMPTS.items()}
EXPRESSION_PROMPT = "or /regex/"
NO_MATCH = "no match"
POSTPONE = "For how long from now"


def help_on(pane: str) -> str:
    """The heading of the help on the keys of one pane."""
    return f"{pane}: here"


RUNS_HELP = help_on("Runs")


def stop_dialog(name: str) -> str:
    """The question before a run is stopped."""
    return f"Stop {name}"


def is_stopping(step: int, steps: int, rung: str) -> str:
    """Where a stop stands."""
    return f"It is stopping: step {step} of {steps}, {rung}"


def tags_of(name: str) -> str:
    """The dialog for tags."""
    return f"Tags of {name}"


def note_on(name: str) -> str:
    """The dialog for a note."""
    return f"Note on {name}"


def deletion(runs: int) -> str:
    """The question before runs are deleted."""
    return f"Delete {runs} run"


def comparison(runs: int) -> str:
    """The border of the comparison."""
    return f"{runs} runs compared"


def check_row(verdict: str, check: str) -> str:
    """A check before a launch."""
    return f"{verdict}  {check}"


def why_ended(name: str) -> str:
    """The border of the page of remedies."""
    return f"Why {name} ended"


def checks_of(name: str) -> str:
    """The border of the checks before a launch."""
    return f"Checks: {name}"


def queued_because(reason: str) -> str:
    """What stands in the place of a log while a run waits."""
    return f"It is queued: {reason}"


def queue_place(place: int, of: int) -> str:
    """Where a run stands in the queue."""
    return f"Place {place} of {of} in the queue"


# ---- money

MONEY = "Money and guard"
NO_SESSION = "none is open: s starts one"
NO_GUARD = "none is set: g sets one"
DRAIN = "no new run starts until drain is ended"
END_DRAIN = "End the drain"
BUDGET = "Budget of the session"
SO_FAR = "So far"
END_SESSION = "End the session"
GUARD_OFF = "Guard off"
NO_SESSION_OPEN = "no session is open"
SESSION_ENDED = "session ended after"
DOLLARS_EXPECTED = "expected US dollars"
NOTHING_WATCHED = "say what the guard should watch"
POSTPONED = r"postponed (until )?(\w+ )?\d\d:\d\d"


def watches(what: str) -> str:
    """What a guard acts on."""
    return f"watches {what}"


# ---- metrics and images

NO_METRICS = "no metrics yet"
NONE_MARKED = "no run is marked"
NO_SUCH_METRIC = "not a regular expression|no metric matches"
NO_IMAGES = "no pictures yet"
NO_IMAGE = "neither a PNG nor a JPEG image"
CURSOR = "cursor ← →"
CHARTS = "one chart"


def curve(metric: str, *values: str) -> str:
    """The title of a chart: a metric, then each curve's letter and value."""
    return rf"{metric}\s+" + r"\s+".join(values)


def axis(name: str) -> str:
    """What the curves are drawn over."""
    return f"x {name}"


def setting(name: str, value: object, differs: bool = False) -> str:
    """A setting among a run's details; whether another marked run has another value."""
    return f"{'≠' if differs else ' '} {name} {value}"


def wrote(file: str) -> str:
    """What is said of files that were written."""
    return f"wrote ({file}) and"
