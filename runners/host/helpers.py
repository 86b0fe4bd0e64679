"""Every helper process: a module whose `main()` reads `sys.argv[1:]`. Standard library only."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from runners.host.procfs import HELPER_MARK
from runners.host.subreaper import fork_beside, no_subreaper

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds `runners` and `tui`."""

LONGEST_S = 180.0

_FULL = (
    "import sys; sys.path[0] = sys.argv.pop(1); "
    "from runners.host.helpers import main_of; sys.exit(main_of('{0}')())"
)
_PROGRAM = "import sys; sys.path[0] = {0!r}; from tui.__main__ import main; main()"


class HelperProcess(NamedTuple):
    """One kind of process: its module, its purpose, and whether the standard library is enough."""

    module: str
    purpose: str
    isolated: bool = False


HELPERS = {
    "supervisor": HelperProcess(
        "runners.lifecycle.supervisor.supervisor", "owns one run until its recorded ending", True
    ),
    "pty": HelperProcess(
        "runners.lifecycle.supervisor.pty", "gives a program a pseudo-terminal", True
    ),
    "across-nodes": HelperProcess(
        "runners.lifecycle.supervisor.across_nodes", "starts a program on all nodes of a job", True
    ),
    "node-task": HelperProcess(
        "runners.lifecycle.supervisor.node_task", "owns a program on one of several nodes", True
    ),
    "run-once": HelperProcess(
        "runners.guard.run_once", "runs a guard's command at most once", True
    ),
    "sampler": HelperProcess("runners.gpus.sampler", "reads the GPUs of this host for everybody"),
    "start-sampler": HelperProcess("runners.gpus.client", "starts the sampler for a supervisor"),
    "dispatch": HelperProcess(
        "runners.lifecycle.launch.dispatch", "one pass over the queue: grants GPUs"
    ),
    "replan": HelperProcess(
        "runners.lifecycle.launch.replan", "rewrites a queued run's plan for the GPUs it got"
    ),
    "guard": HelperProcess("runners.guard.daemon", "acts on budgets, ages and idleness"),
    "keeper": HelperProcess("runners.guard.standby", "takes the guard's place when it dies"),
    "preemption": HelperProcess(
        "runners.guard.preemption_watch", "asks the provider whether it takes the machine away"
    ),
    "watch-sweep": HelperProcess(
        "runners.guard.hopeless", "stops the runs of a sweep that the median rule calls hopeless"
    ),
    "watcher": HelperProcess("runners.guard.watcher", "judges how this host's live runs do"),
    "attempt-report": HelperProcess(
        "runners.watch.metrics.attempt_report", "tells a supervisor what a failed attempt came to"
    ),
    "explain": HelperProcess(
        "runners.diagnosis.known_cause", "tells a supervisor why a program failed, in a few words"
    ),
    "ask-slurm": HelperProcess(
        "runners.slurm.job_questions", "asks Slurm about a supervisor's job, or to put it back"
    ),
    "submit-anew": HelperProcess(
        "runners.lifecycle.launch.submit_anew", "submits the job of a run that begins anew"
    ),
    "stacks": HelperProcess(
        "runners.diagnosis.stacks", "saves where every rank of a run hangs, before it is killed"
    ),
    "summarize": HelperProcess(
        "runners.watch.metrics.final_maker", "keeps an ended run's final and best values"
    ),
    "notify": HelperProcess("runners.notify", "delivers one notification"),
    "watch-nodes": HelperProcess(
        "runners.places.ssh.node_watch", "ends a launch on all machines when it fails on one"
    ),
    "fleet-queue": HelperProcess(
        "runners.places.fleet.dispatcher", "starts launches that wait for one of several machines"
    ),
    "keep-fetching": HelperProcess(
        "runners.places.ssh.kept_fetches", "fetches runs of a machine until they have ended"
    ),
    "empty-trash": HelperProcess(
        "runners.lifecycle.control.trash", "removes deleted runs that nobody brought back"
    ),
}


def command(name: str, *arguments: str | os.PathLike[str]) -> list[str]:
    """The argv of helper `name`; no run's environment or folder decides what it imports."""
    helper = HELPERS[name]
    texts = [os.fspath(word) for word in arguments]
    if helper.isolated:
        file = ROOT.joinpath(*helper.module.split(".")).with_suffix(".py")
        # -I -S: no site-packages and no .pth files, which would cost memory for every live run.
        return [sys.executable, "-I", "-S", str(file), *texts]
    # -E, and the folder that `-c` puts first is replaced: -P needs Python 3.11.
    return [sys.executable, "-E", "-c", _FULL.format(helper.module), str(ROOT), *texts]


def this_program(*arguments: str) -> list[str]:
    """The argv of this very source as `fresnel-tui ARGUMENTS`, in whatever folder it is started."""
    return [sys.executable, "-c", _PROGRAM.format(str(ROOT)), *arguments]


class _NoUuid:
    """What msgspec takes from `uuid`: the type of values that nothing of ours has."""

    unknown = None


@contextmanager
def lean_msgspec() -> Iterator[None]:
    """Within it msgspec is imported without what it asks for and nothing of ours needs.

    That is a fifth of a helper's start: `typing_extensions` with `inspect` below it, for since
    Python 3.11 `typing` has all of it; `uuid`, which asks for the platform and loads a library; and
    `textwrap`, which is for schemas.
    """
    uuid = ModuleType("uuid")
    vars(uuid).update(UUID=_NoUuid, SafeUUID=_NoUuid)
    backports = {} if sys.version_info < (3, 11) else {"typing_extensions": None}
    absent: dict[str, ModuleType | None] = {
        "uuid": uuid,
        "textwrap": ModuleType("textwrap"),
        **backports,
    }
    absent = {name: module for name, module in absent.items() if name not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


@contextmanager
def quick_imports() -> Iterator[None]:
    """Within it a process imports what it is made of.

    None of that is garbage: looking for some is a fifth of a helper's start, and of its end.
    """
    import gc  # no supervisor needs it

    gc.disable()
    with lean_msgspec():
        yield
    gc.freeze()
    gc.enable()


def main_of(module: str) -> Callable[[], Any]:
    """The `main` of a helper's module, imported quickly; it begins anew when its source changes."""
    from importlib import import_module  # no supervisor needs it

    from runners.host.replaced_code import begin_anew_when_replaced

    with quick_imports():
        main: Callable[[], Any] = import_module(module).main
    begin_anew_when_replaced()
    return main


def marked(environment: Mapping[str, str], name: str) -> dict[str, str]:
    """Return `environment` for helper `name`: with the helpers' mark, without that of a run."""
    ours = {key: value for key, value in environment.items() if not key.startswith("FRESNEL_RUN_")}
    return {**ours, HELPER_MARK: name}


def spawn(name: str, *arguments: str | os.PathLike[str]) -> None:
    """Start helper `name` in its own session, as nobody's child. Raises OSError when fork fails."""
    is_forked, forked = os.pipe()
    pid = fork_beside()
    if pid is None:
        _spawn_below(name, arguments, is_forked, forked)
    elif pid == 0:
        _become_spawned(name, arguments)
    else:
        os.close(forked)
        _await_end_of(is_forked)
        os.close(is_forked)


def _fork_or_close(*descriptors: int) -> int:
    """Fork; OSError where no process is to be had: who tries again must not run out of these."""
    try:
        return os.fork()
    except OSError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def _become_spawned(name: str, arguments: Sequence[str | os.PathLike[str]]) -> None:
    try:
        os.setsid()
        become(name, *arguments)
    finally:
        os._exit(127)


def _await_end_of(is_forked: int) -> None:
    """Return once a helper has become its program: until then it has copies of our locks."""
    while os.read(is_forked, 1):
        pass


def _spawn_below(
    name: str, arguments: Sequence[str | os.PathLike[str]], is_forked: int, forked: int
) -> None:
    # Twice forked, the helper goes to init. A supervisor adopts all orphans below it, and would
    # take the helper for a process of its run. Where it cannot fork beside itself, it adopts none
    # for the moment in which the one between ends.
    may_end, end = os.pipe()
    pid = _fork_or_close(is_forked, forked, may_end, end)
    if pid == 0:
        try:
            # Only the parent's copy is left: should that be killed, the read below ends.
            os.close(end)
            if os.fork():
                os.write(forked, b"x")
                os.close(forked)
                os.read(may_end, 1)
                os._exit(0)
            _become_spawned(name, arguments)
        finally:
            os._exit(127)
    os.close(forked)
    _await_end_of(is_forked)
    with no_subreaper():
        os.write(end, b"x")
        os.waitpid(pid, 0)
    for descriptor in (is_forked, may_end, end):
        os.close(descriptor)


def run(
    name: str,
    *arguments: str | os.PathLike[str],
    environment: Mapping[str, str] | None = None,
    within_s: float | None = None,
) -> tuple[int, str]:
    """Run helper `name` to its end, in `environment` or in ours.

    Returns its exit code and what it printed. One that is not done within `within_s` seconds
    (LONGEST_S) is killed: a suspended one, or one that a file server does not answer, holds up
    nobody for ever. Raises OSError when fork fails.
    """
    reading, writing = os.pipe()
    pid = _fork_or_close(reading, writing)
    if pid == 0:
        os.dup2(writing, 1)
        become(name, *arguments, environment=environment)
    os.close(writing)
    # Read to the end before waiting: a helper that fills the pipe would otherwise never end.
    blocks = []
    deadline = time.monotonic() + (LONGEST_S if within_s is None else within_s)
    while True:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([reading], [], [], left)[0]:
            os.kill(pid, signal.SIGKILL)
            break
        block = os.read(reading, 65536)
        if not block:
            break
        blocks.append(block)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), b"".join(blocks).decode("utf-8", "replace")


def become(
    name: str,
    *arguments: str | os.PathLike[str],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Turn this process into helper `name`; does not return."""
    try:
        mine = marked(os.environ if environment is None else environment, name)
        os.execve(sys.executable, command(name, *arguments), mine)
    finally:
        os._exit(127)
