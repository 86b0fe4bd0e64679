"""Where everything is on disk. Standard library only: the supervisor imports it."""

import errno
import os
import sys
from functools import lru_cache
from pathlib import Path

from runners.host.clock import local_time
from runners.host.files import expanded, home_folder, modified_at, names_in, read_number, read_plain
from runners.host.helpers import ROOT
from runners.host.identity import boot_id, host_name
from runners.host.ownership import keep_private, permission_problem
from runners.host.slurm_job import slurm_job

SHIPPED_PRESETS = ROOT / "presets"
TRAINERS = ROOT / "trainers"
TERMINAL_STATUS = "tty.json"
"""Who waits at a run's own terminal, in its folder; written by `lifecycle/supervisor/pty.py`."""
JOB_READINGS = "job-"
"""What the name of the folder for readings of one Slurm job begins with."""
NODES = "nodes"
RANK_LOGS = "ranks"
"""In a run's folder, where torchrun keeps a log of each rank."""
ENVIRONMENT = "environment"
"""Where a run that waits for Slurm keeps its environment, readable by its user only."""
_KNOWN = 256
"""Of so many runs at most the paths are kept."""


def state_dir() -> Path:
    """The folder of all state: `$FRESNEL_STATE_DIR`, else `$XDG_STATE_HOME/fresnel-tui`."""
    chosen = os.environ.get("FRESNEL_STATE_DIR")
    if chosen:
        return expanded(chosen).absolute()
    base = os.environ.get("XDG_STATE_HOME") or home_folder() / ".local" / "state"
    return Path(base) / "fresnel-tui"


def config_dir() -> Path:
    """The user's own folder: `$XDG_CONFIG_HOME/fresnel-tui`, else `~/.config/fresnel-tui`."""
    base = os.environ.get("XDG_CONFIG_HOME") or home_folder() / ".config"
    return Path(base) / "fresnel-tui"


def settings_file() -> Path:
    """Where the user's settings are looked for."""
    return config_dir() / "settings.yaml"


def preset_folders() -> list[Path]:
    """Folders searched for presets, the first with a name wins: here, the user's, the shipped."""
    return [Path.cwd() / "presets", config_dir() / "presets", SHIPPED_PRESETS]


class StateDirectory:
    """The layout of the state folder; naming it creates nothing."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else state_dir()
        self.runs = self.root / "runs"
        self.live = self.root / "live"
        self.held = self.root / "held"
        self.unlisted = self.root / "unlisted"
        # Held from choosing GPUs to writing the plan: two launches never choose the same.
        self.allocation_lock = self.root / "allocation.lock"
        # Hosts with a shared home have one state folder; each has its own GPUs and sampler.
        self.host = self.root / "hosts" / host_name()
        # A job of a cluster sees its own GPUs only: it has samplers of its own, which end with it.
        job = slurm_job()
        self.readings = self.host / f"{JOB_READINGS}{job.here}" if job else self.host
        self.gpu_reading = self.readings / "gpus.json"
        self.sampler_lock = self.readings / "sampler.lock"
        self.sampler_wanted = self.readings / "sampler.wanted"
        self.sampler_log = self.readings / "sampler.log"
        self.watcher_lock = self.host / "watcher.lock"
        self.preemption = self.host / "preemption.json"
        self.preemption_lock = self.host / "preemption.lock"
        self.suspensions = self.host / "suspended.json"
        self.session = self.host / "session.json"
        self.probes = self.host / "probes.json"
        self.panel = self.root / "panel.json"
        self.charts = self.root / "charts.json"
        self.ledger = self.root / "ledger.jsonl"
        self.ledger_checked = self.host / "ledger.checked"
        self.guard = self.root / "guards" / host_name()
        self.drain = self.root / "drain.json"
        # Rented machines that were added: what is known of each, and what was seen of its runs.
        self.remote = self.root / "remote"
        self.all_budget = self.remote / ".budget.json"
        self.requests = self.root / "requests"
        self.secrets = self.root / "secrets"
        self.launching = self.root / "launching"
        self.signatures = self.root / "signatures.json"
        self.ended_rows = self.root / "ended.rows"
        self.letters = self.root / "letters.json"
        self.letters_lock = self.root / "letters.lock"
        self.sweeps = self.root / "sweeps"
        self.trash = self.root / "trash"
        self.labels_lock = self.root / "labels.lock"
        # Scripts and output of the jobs of a cluster, and what its scheduler said of them last.
        self.slurm = self.root / "slurm"
        self.jobs = self.slurm / "jobs.json"
        self.budgets = self.slurm / "accounts.json"
        self.expected_starts = self.slurm / "starts.json"
        self._known: dict[str, RunDirectory] = {}

    def create(self) -> "StateDirectory":
        """Make the folders, readable by their owner only.

        Raises DeniedError for a folder that others may write, OSError when one cannot be made.
        """
        # Output, environments and commands of runs are in there: nobody else may read them.
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            why = "a link that leads nowhere" if self.root.is_symlink() else "not a folder"
            raise NotADirectoryError(errno.ENOTDIR, why, str(self.root)) from None
        if keep_private(self.root, self._names()):
            print(
                f"fresnel-tui: {self.root} was open to others; now only you may read it (0700)",
                file=sys.stderr,
            )
        reason = permission_problem(self.root, follow=True)
        if reason:
            # The supervisor, which only names folders, does without.
            from runners.model.errors import DeniedError

            raise DeniedError(reason, "name a folder of your own in $FRESNEL_STATE_DIR")
        for folder in (
            *(self.runs, self.live, self.held, self.unlisted),
            *(self.host.parent, self.host, self.readings),
        ):
            folder.mkdir(mode=0o700, exist_ok=True)
        return self

    def _names(self) -> set[str]:
        """What the names of our own files and folders begin with."""
        places = [place for place in vars(self).values() if isinstance(place, Path)]
        return {
            place.relative_to(self.root).parts[0].partition(".")[0]
            for place in places
            if place != self.root
        }

    def run(self, run_id: str) -> "RunDirectory":
        """The directory of one run; the same object again, whose paths are made once."""
        found = self._known.get(run_id)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[run_id] = RunDirectory(self, run_id)
        return found

    def drained_since(self) -> str:
        """Since when the queue may start nothing, as local date and time; empty when it may."""
        since = modified_at(self.drain)
        return local_time(since, "%Y-%m-%d %H:%M") if since else ""

    def live_marker(self, run_id: str) -> Path:
        """The empty file that exists from before the first write until the ending is recorded."""
        return self.live / run_id

    def held_marker(self, run_id: str) -> Path:
        """The empty file that exists while processes of an ended run would not end."""
        return self.held / run_id

    def unlisted_marker(self, run_id: str) -> Path:
        """The empty file that exists while the ledger lacks an ended run, as after a full disk."""
        return self.unlisted / run_id

    def has_unlisted(self) -> bool:
        """Whether the ledger may lack an ended run."""
        return bool(names_in(self.unlisted))

    def ledger_mark(self) -> str:
        """This boot, and which file the ledger is and how long. Raises OSError."""
        stat = self.ledger.stat()
        return f"{boot_id()} {stat.st_ino} {stat.st_size}"

    def is_ledger_checked(self) -> bool:
        """Whether the ledger is that which was checked in this boot, or has only grown since.

        Another file, or a shorter one, may lack lines of runs that ended long ago.
        """
        try:
            mark = self.ledger_mark().split()
        except OSError:
            return True  # there is none, or none to be read
        try:
            *same, size = read_plain(self.ledger_checked).decode().split()
            return same == mark[:-1] and int(size) <= int(mark[-1])
        except (OSError, ValueError):
            return False


@lru_cache(16)
def _home_of(root: str, job: str) -> StateDirectory:
    """The state folder at `root`, as seen from `job`: its many paths are made once."""
    del job
    return StateDirectory(Path(root))


class _File:
    """A file of a run, whose path is made on first use: listing thousands of runs needs few."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __set_name__(self, _: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, run: "RunDirectory", _: type) -> Path:
        # From now on found in the object itself, without coming here.
        path = run.__dict__[self._attribute] = run.path / self._name
        return path


def output_set_aside(folder: Path, attempt: int) -> Path:
    """What an attempt of a run wrote, from the next attempt's beginning on."""
    return folder / f"output.{attempt}.log"


class RunDirectory:
    """The files of one run; one writer each (see docs/internals.md)."""

    spec = _File("spec.json")
    plan = _File("plan.json")
    state = _File("state.json")
    output = _File("output.log")
    events = _File("events.jsonl")
    supervisor_events = _File("supervisor.jsonl")
    stop = _File("stop.json")
    waits = _File("waits.json")
    pause = _File("pause.json")
    exit = _File("exit")
    leader = _File("leader")
    supervisor_lock = _File("supervisor.lock")
    run_lock = _File("run.lock")
    supervisor_log = _File("supervisor.log")
    source = _File("source.json")
    source_diff = _File("source.diff")
    fetched = _File("fetched.json")
    labels = _File("labels.json")
    deleted = _File("deleted.json")
    overrun = _File("overrun.json")
    stop_reserve = _File("stop.reserve")
    health = _File("health.json")
    job = _File("job.json")
    owner = _File("owner.json")
    owner_left = _File("owner.left")
    environment = _File(ENVIRONMENT)

    def __init__(self, home: StateDirectory, run_id: str) -> None:
        self.home = home
        self.id = run_id
        self.path = home.runs / run_id

    @classmethod
    def at(cls, folder: str | Path) -> "RunDirectory":
        """The directory of the run whose folder this is, in whichever state folder."""
        # As text: paths are made of this for every live run, every second.
        runs, run_id = os.path.split(os.path.normpath(folder))
        root, _ = os.path.split(runs)
        return cls(_home_of(root, os.environ.get("SLURM_JOB_ID", "")), run_id)

    def was_launched(self) -> bool:
        """Whether its launch got so far that it counts as a run."""
        return self.home.live_marker(self.id).exists() or self.state.exists()

    def of_node(self, rank: int) -> Path:
        """The folder of what is another node's, of a run on several; the first has the run's."""
        return self.path / NODES / str(rank) if rank else self.path

    def leader_pid(self) -> int | None:
        """The pid of the program itself, as it wrote it when it started."""
        return read_number(self.leader)
