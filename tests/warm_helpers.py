"""Our helper processes as mere forks: what would exec an interpreter goes on with what it has.

A command that the warm server has forked starts a supervisor, that one a helper for the queue, and
so on: thousands of interpreters that import the same again. A process that has all of it already
becomes the helper without exec: with the arguments, environment, descriptors and signals that exec
would leave it, seen as such in /proc, and where a helper is isolated, without the modules that it
could not import. What `subprocess` starts as a cold command has cold helpers.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import fcntl
import functools
import gc
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import thread as executors
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tests.warm_server import take_streams

_PR_SET_MM, _PR_SET_MM_MAP = 35, 14
_DEEPEST = 6
"""So often may one become another in the same process: what was before stays on its stack."""
_ROOMS = ("runners.host", "runners.model", "runners.state", "runners.lifecycle.supervisor")
"""Where an isolated helper finds what it may import of ours."""
_PATH = list(sys.path)
_STANDARD = [
    _PATH[0],
    *(path for path in _PATH if path.startswith(sys.base_prefix) and "-packages" not in path),
]


def _import_all(package: str) -> None:
    for module in iter_modules(import_module(package).__path__, f"{package}."):
        with suppress(ImportError):
            import_module(module.name)


sys.path[:] = _STANDARD
for _room in _ROOMS:
    _import_all(_room)
sys.path[:] = _PATH
_ISOLATED = frozenset(sys.modules)

from runners.host import helpers, identity, subreaper  # noqa: E402 - as an isolated helper has them

for _helper in helpers.HELPERS.values():
    import_module(_helper.module)

_BEGIN = {tuple(helpers.command(name)[1:]): helper for name, helper in helpers.HELPERS.items()}
_BEGIN[tuple(helpers.this_program()[1:])] = helpers.HelperProcess("tui.__main__", "a command")
_execve: Callable[..., Any] = os.execve
_execute_child: Callable[..., Any] = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_caches: list[Any] = []
_kept: list[Any] = []
"""What the process before has: nobody may take it down, for its descriptors are others' now."""
_hidden: dict[str, Any] = {}
_depth = 0
_pid = os.getpid()


def install() -> None:
    """From now on a fork of this process becomes a helper without exec, where the kernel lets a
    process say what it is.
    """
    if not _show(sys.orig_argv, os.environ):
        return
    kind = type(functools.lru_cache(_note_fork))
    _caches[:] = [found for found in gc.get_objects() if isinstance(found, kind)]
    os.register_at_fork(after_in_child=_note_fork)
    os.execve = _exec  # type: ignore[assignment]
    subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]


def _note_fork() -> None:
    global _pid
    _pid = os.getpid()


def _helper_of(
    argv: Any, environment: Mapping[str, str] | None
) -> tuple[helpers.HelperProcess, list[str]] | None:
    """Which helper a command line is, and its arguments; None where only exec will do."""
    if isinstance(argv, str | bytes) or _depth >= _DEEPEST or argv[0] != sys.executable:
        return None
    given = os.environ if environment is None else environment
    if any(
        given.get(name) != os.environ.get(name)
        for name in {*given, *os.environ}
        if name.startswith(("LD_", "PYTHON"))
    ):
        return None
    for length in (2, 3, 4):
        helper = _BEGIN.get(tuple(argv[1 : length + 1]))
        if helper is not None:
            return helper, [os.fspath(word) for word in argv[length + 1 :]]
    return None


def _exec(path: Any, argv: Sequence[str], environment: Mapping[str, str]) -> None:
    found = _helper_of(argv, environment)
    if found is not None and path == sys.executable and threading.active_count() == 1:
        _become(*found, argv, environment)
    _execve(path, argv, environment)


def _execute(self: Any, args: Any, *rest: Any) -> None:
    """`Popen._execute_child`, which for a helper forks and is done."""
    executable, before, _, kept, folder, given = rest[:6]
    found = _helper_of(args, given)
    plainly = (executable, before, rest[8], *rest[16:20]) == (
        None,
        None,
        False,
        None,
        None,
        None,
        -1,
    )
    if found is None or not plainly:
        _execute_child(self, args, *rest)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        self.pid = os.fork()
    if self.pid == 0:
        try:
            _take(rest[9], rest[12], rest[14], kept)
            if folder is not None:
                os.chdir(folder)
            if rest[20]:
                os.setsid()
            _become(*found, args, os.environ if given is None else given)
        finally:
            os._exit(255)
    self._child_created = True
    self._close_pipe_fds(*rest[9:15])


def _take(read_in: int, write_out: int, write_errors: int, kept: Sequence[int]) -> None:
    """Have these streams, of which -1 is the one that is there, and these descriptors."""
    streams = (read_in, write_out, write_errors)
    apart = [
        fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, 3) if given >= 0 else -1 for given in streams
    ]
    for own, given in enumerate(apart):
        if given >= 0:
            os.dup2(given, own)
    for descriptor in _descriptors():
        if descriptor in kept:
            os.set_inheritable(descriptor, True)
        else:
            os.set_inheritable(descriptor, False)


def _descriptors() -> list[int]:
    """Those that are open, above the three streams."""
    found = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(OSError):
            if int(name) > 2:
                fcntl.fcntl(int(name), fcntl.F_GETFD)
                found.append(int(name))
    return found


def _become(
    helper: helpers.HelperProcess,
    arguments: list[str],
    argv: Sequence[str],
    environment: Mapping[str, str],
) -> None:
    """Be a helper as an interpreter would be that exec has begun; ends with it."""
    os._exit(_run(functools.partial(_main_of, helper, arguments, argv, environment)) & 0xFF)


def _main_of(
    helper: helpers.HelperProcess,
    arguments: list[str],
    argv: Sequence[str],
    environment: Mapping[str, str],
) -> Any:
    global _depth
    _depth += 1
    if os.getpid() != _pid:  # a copy of which Python knows nothing
        ctypes.pythonapi.PyOS_AfterFork_Child()
    _forget()
    environment = dict(environment)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    _show(list(argv), environment)
    _see_modules(helper.isolated)
    sys.argv = [argv[3] if helper.isolated else "-c", *arguments]
    if "-E" not in argv[:2] and not helper.isolated:
        named = os.environ.get("PYTHONPATH", "")
        sys.path[1:1] = filter(None, named.split(os.pathsep))
    sys.orig_argv = list(argv)
    main: Callable[[], Any] = import_module(helper.module).main
    gc.enable()
    return main()


def _forget() -> None:
    """Leave nothing of what this process was but what exec leaves."""
    _kept.append((sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__))
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if signal.getsignal(number) not in (signal.SIG_DFL, signal.SIG_IGN):
            with suppress(OSError):
                signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for cache in _caches:
        cache.cache_clear()
    subreaper._on = False
    identity._answer = None
    decoding: Any = _hidden.get("runners.state.decoding") or sys.modules["runners.state.decoding"]
    decoding._kept = None
    atexit._clear()
    executors._threads_queues.clear()  # threads that are gone, one of which this was, perhaps
    asyncio._set_running_loop(None)
    gc.freeze()
    for descriptor in _descriptors():
        if not os.get_inheritable(descriptor):
            os.close(descriptor)
    take_streams(unbuffered=False)
    sys.setrecursionlimit(sys.getrecursionlimit() + 500)


def _see_modules(isolated: bool) -> None:
    """Have what can be imported, and what is, as a helper of this kind has it."""
    sys.modules.update(_hidden)
    _hidden.clear()
    sys.path[:] = _STANDARD if isolated else _PATH
    if isolated:
        for name in set(sys.modules) - _ISOLATED:
            if name.partition(".")[0] not in sys.stdlib_module_names:
                _hidden[name] = sys.modules.pop(name)


def _show(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Have the kernel show these in /proc as what this process was started with; whether it does."""
    words = b"".join(os.fsencode(word) + b"\0" for word in argv)
    named = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    text = ctypes.create_string_buffer(words + named, len(words) + len(named))
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    fields = [
        int(word) for word in Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[1:]
    ]
    code, data = fields[22:24], fields[41:44]  # proc_pid_stat(5): 26 and 27; 45 to 47
    at = ctypes.addressof(text)
    places = (at, at + len(words), at + len(words), at + len(text))
    asked = struct.pack("=12QIi", *code, *data, libc.sbrk(0), fields[24], *places, 0, 0, -1)
    answer = libc.prctl(
        _PR_SET_MM, _PR_SET_MM_MAP, ctypes.c_char_p(asked), ctypes.c_ulong(len(asked)), 0
    )
    _kept.append(text)
    return bool(answer == 0)


def _run(main: Callable[[], Any]) -> int:
    """A program to its end, and its exit code."""
    try:
        raise SystemExit(main())
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = 120
    return code or 0
