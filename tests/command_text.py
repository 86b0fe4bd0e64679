"""What tests ask for in the answers of commands, each text once: rewording is one edit here.

Where an answer has a state, a code or a field, that is asked for instead. Functions take what
differs: names and numbers. What is on a screen stands in `tests/screen_text.py`.
"""

# ---- of every command

EXIT_CODES = "exit codes"
CHOOSE_ONE = "choose one"
SETTINGS_IGNORED = "settings and notifications are ignored"
NO_EXPRESSION = "not a regular expression"
NOT_SHOWABLE = "cannot be shown"
GIVE_ONE = "give one of them"


def no_run(name: str) -> str:
    """A run that does not exist."""
    return f"no run `{name}`"


def did_you_mean(name: str) -> str:
    """What is proposed for a name that does not exist."""
    return f"did you mean `{name}`"


def at_most(most: object) -> str:
    """A value that is too large."""
    return f"expected at most {most}"


def at_least(least: object) -> str:
    """A value that is too small."""
    return f"expected {least} or more"


def cannot_be_read(file: object) -> str:
    """A file that is damaged, or a folder."""
    return f"{file} cannot be read"


def is_damaged(file: str) -> str:
    """A record that is damaged."""
    return f"{file} is damaged"


def out_of_time(seconds: object) -> str:
    """Something that was given up."""
    return f"did not end within {seconds} s"


def no_answer_in(seconds: object) -> str:
    """Something that was asked and given up."""
    return f"did not answer within {seconds} s"


# ---- states of runs

WILL_BE_ADOPTED = "will be adopted"
IS_NOT_ADOPTED = "is not adopted: "
GOES_ON_WAITING = "goes on waiting"
NOT_YET_RECORDED = "about to be recorded"
QUEUED_AGAIN = "host restarted; it will be queued again"
NOT_ENDED = "has not ended"
STOP_IT_FIRST = "stop it first"
NOT_QUEUED = "is not in the queue"
NOT_STOPPED = "is not stopped"
LEFT_ALONE = "is left alone"
NEXT_RUNG_IN = "the next in"
WALL_TIME = "wall time"
NONE_MATCHES = "no run matches"
NO_METRIC = "no run has a metric or setting"
NO_SETTING = "no run has a setting"
NO_RANKS = "has no ranks"
NO_STACKS = "has no saved stacks"
OUT_OF_MEMORY = "out of GPU memory"
LAST_OUTPUT = "last output"


def ended_already(state: str) -> str:
    """What is said of a stop that comes too late."""
    return f"has ended already: {state}"


def on_host(run: str, host: str) -> str:
    """A run that is another machine's."""
    return f"{run} runs on host {host}"


def transition(before: str, after: str) -> str:
    """A change of states that there is not."""
    return f"a run cannot go from {before} to {after}"


def never_after(ending: str) -> str:
    """Why a run that waited for another can never start."""
    return f"not in {ending}"


def is_waited_for(by: str) -> str:
    """Why a run stays."""
    return f"{by} waits for it"


def no_deleted_run(name: str) -> str:
    """A run that is not in the trash."""
    return f"no deleted run `{name}`"


# ---- launching

NO_GPU_SETTING = "is not a choice of GPUs"
NO_FOLDER = "no folder"
NOT_TOGETHER = "do not fit together on"
NO_CHECKPOINT = "has left no checkpoint"
WHICH_PRESET = "with which preset?"
EXISTS_ALREADY = "exists already"
NOT_LAUNCHED = "was not launched"
NOTHING_STARTED = "nothing was started"
READ_BY_EVERYONE = "can be read by everyone"
WITH_A_SWEEP = "goes with a sweep"
RANGES_ONLY = "cmaes chooses numbers from ranges"
PRESETS_ESTIMATE = "(the preset's estimate)"
CODE_CHANGED = "the code changed while it waited"
NO_PROC = "/proc is not mounted"
LOGOUT_WOULD_END_IT = "a scope would end at logout"


def asked_for(gpus: str) -> str:
    """Why a launch is refused."""
    return f"{gpus} asked for"


def lacks(package: str) -> str:
    """A package that a preset needs and an interpreter has not."""
    return f"lacks the Python package {package}"


def no_gpu(index: int) -> str:
    """A GPU that does not exist."""
    return f"no GPU {index} on this machine"


def parameters(names: str) -> str:
    """Which parameters a run has."""
    return f"those of this run: {names}"


def was_secret(name: str) -> str:
    """A value that has to be given again."""
    return f"{name} was a secret"


def batches(old: int, new: int) -> str:
    """What is said of a checkpoint of another batch."""
    return f"trained with a batch of {old}, this run has {new}"


def at_a_time(runs: int, parallel: int) -> str:
    """What is said of a sweep."""
    return f"{runs} runs, {parallel} at a time"


TAKEN_OUT = "is taken out of the queue"


def starts_now(starts: int, waits: int) -> str:
    """How many of a sweep's runs start, and how many wait."""
    return f"{starts} start{'s' * (starts == 1)} now · {waits} wait: "


def will_suggest(names: str, sampler: str) -> str:
    """What is said of values that are not chosen yet."""
    return f"{names}: {sampler} suggests values when its turn comes"


def suggested(value: str) -> str:
    """What is said of a value that was chosen."""
    return f"tpe suggested {value} (trial"


def no_sampler(name: str) -> str:
    """A sampler that does not exist."""
    return f"no sampler `{name}`"


def better(metric: str) -> str:
    """A metric that may be better when it is more or less."""
    return f"is more or less of {metric} better"


# ---- the probe, remedies, reports

RUNS_OUT_OF_MEMORY = "will run out of memory"
ANOTHER_REASON = "failed for a reason other than memory"
OVERWRITES = "trials would overwrite what is there"
NO_WHOLE_NUMBER = "no whole number"
NO_MIXED_PRECISION = "no parameter for mixed precision"
NO_REMEDY = "no remedy is known"
NO_REPORT = "exists and is not a report"
READER_OF_A_PRESET = "preset can name a reader"


def not_even(setting: str) -> str:
    """The smallest batch, which does not fit."""
    return f"not even {setting} fits"


def impossible(obstacle: str) -> str:
    """A remedy that is not for this run."""
    return f"not possible: {obstacle}"


# ---- names, notes, queue

TO_WHAT = "to what"
NOTE_UNCHANGED = "the note is unchanged"


# ---- output and drivers

NOT_CUT_WHILE_IT_LASTS = "cannot be cut while the run lasts"
CUT_FROM_HERE = "cut from here by output_limit"
DRIVER_IS_SILENT = "the driver does not answer"
RELOAD_THE_DRIVER = "reboot or reload the driver"


def bytes_cut(limit: str) -> str:
    """The line where bytes of the output are missing."""
    return f"bytes cut by output_limit {limit}"


# ---- who may do what

OTHERS_MAY_WRITE = "may be written by others"
OPEN_TO_OTHERS = "open to others"


def belongs_to(owner: str, wanted: str) -> str:
    """A folder of another user."""
    return f"belongs to {owner}, not to {wanted}"


# ---- attach

ENDED_WITH = "has ended, exit code"
GOES_ON = "which goes on"
ANOTHER_TYPES = "another terminal types"
NO_TERMINAL = "has no terminal of its own"
NEEDS_A_TERMINAL = "attach needs a terminal"


# ---- money and guard

COUNTED_FROM = "counted from"
SESSION_ENDED = "session ended after"
UNDER_BUDGET = "under its budget"
LEFT_OF = "left of"
NOT_ENTERED = "cannot be entered in the ledger"
EARLIER_SESSION = "the session before it ended at"
RENTED_OUT = "rents out this machine"
GPUS_NOT_READ = "the GPUs could not be read"
RUNS_STOP_IN = "runs stop in"
NO_RUN_FOR = "no run for"
GUARD_DOES_NOTHING = "the guard does nothing: "
GUARD_ACTS_ALL_THE_SAME = "the guard acts all the same"
NO_GUARD = "no guard is set"
NOT_GUARDED = "has acted and watches nothing more: what runs now is not guarded"
WEBHOOK_IS_DEAF = "the webhook does not take messages"
MAY_WRITE_RESULTS = "it may still write results"
NOT_FETCHED = "is not fetched"


def unguarded(what: str) -> str:
    """What the guard cannot find out."""
    return f"{what} cannot be guarded"


def command_failed(which: str, code: int) -> str:
    """A command of the guard that failed."""
    return f"the {which} command failed: exit code {code}"


def price_note(rate: str) -> str:
    """What --price means where no session is open; `rate` is in dollars per hour."""
    return f"no session: it would cost ${rate}/h by flag"


def price_for(price: str, gpus: str, here: str) -> str:
    """A price that does not fit the machine."""
    return f"price {price} is for {gpus}, and this machine has {here}"


# ---- rented machines

NOT_FETCHED_FROM = "not fetched from"
FORGOTTEN = "ended and forgotten"
ANOTHER_HOST_KEY = "another host key than the one pinned"
NOT_REACHED = "is not reached"
NOT_REACHED_SINCE = "not reached since"
NO_LOGIN = "accepts no login without a prompt"
MAY_BE_THE_CAUSE = "that may be the cause"
OLDER_ELSEWHERE = "older on other machines"
NO_UV = "and uv cannot be had there"
NO_PYTHON = "has no Python 3.10 or newer"
NO_INTERPRETER = "No interpreter found for Python"
NO_LINGERING = "lingering is off and was refused"


def absent(rank: int, collective: str, others: int) -> str:
    """The rank that the others wait for."""
    return f"rank {rank} has not come to {collective}, in which {others} others wait"


def resumed_at(epoch: int, epochs: int) -> str:
    """Where a resumed run begins, and what is left of it; 0 epochs where nobody knows."""
    if not epochs:
        return f"epoch {epoch} of —; checkpoint "
    return f"epoch {epoch} of {epochs}; {epochs - epoch} epochs left"


NOT_LOADED = "libnvidia-ml.so.1 cannot be loaded"
NOT_READ = "not read since"
"""Of a GPU whose driver answers no more."""


def limit_of(length: str, usd: str) -> str:
    """A run's limit of cost, in `status`."""
    return f"{length} (cost limit of ${usd})"


def resized(now: int, before: int) -> str:
    """A machine that has another number of GPUs than when its session was opened."""
    return f"this machine has {now} GPUs now, and its session was opened for {before}"


def unfilled(name: str) -> str:
    """What is said of a command that has a place for a value, and no value for it."""
    return f"nothing fills {{{name}}}"


# ---- of rented machines


def goes_on(host: str) -> str:
    """What continues the creation of a machine."""
    return f"host create {host}"


def ends_it(host: str) -> str:
    """What ends a machine."""
    return f"host end {host}"
