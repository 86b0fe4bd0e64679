"""Starting a helper from a process that adopts the orphans below it, as a supervisor does."""

import os
import subprocess
import sys

import pytest

from tests.support import REPOSITORY

# Once for every line that runs while a helper is started: a waiter dies there, whose program ends
# afterwards. Prints how many lines there were, and those after which nobody got the exit status.
SCRIPT = """
import itertools, os, signal, sys
from runners.host import helpers, subreaper
from runners.host.procfs import is_zombie

helpers.become = lambda *_: os._exit(0)
FILES = (helpers.__file__, subreaper.__file__)


def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        finally:
            os._exit(99)
    return pid


def supervise(line):
    gate, opened = os.pipe()
    named, name = os.pipe()
    subreaper.become_subreaper()

    def program():
        os.close(opened)
        os.read(gate, 1)
        return 7

    def wait():
        os.write(name, str(fork(program)).encode())
        signal.pause()

    waiter = fork(wait)
    started = int(os.read(named, 20))
    left = [line]

    def trace(frame, event, _):
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                os.kill(waiter, signal.SIGKILL)
                while not is_zombie(waiter):
                    pass
        return trace

    sys.settrace(trace)
    helpers.spawn("watcher")
    sys.settrace(None)
    is_over = left[0] > 0
    os.kill(waiter, signal.SIGKILL)
    os.waitpid(waiter, 0)
    os.close(opened)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(started, 0)[1])
    except ChildProcessError:
        code = None
    return 2 if is_over else int(code != 7)


lost = []
for line in itertools.count(1):
    found = os.waitstatus_to_exitcode(os.waitpid(fork(lambda: supervise(line)), 0)[1])
    if found == 2:
        break
    lost += [line] * bool(found)
print(line - 1, lost)
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="another system call")
def test_no_program_is_lost_whose_waiter_dies_while_a_helper_is_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    lines, _, lost = done.stdout.partition(" ")
    assert int(lines) > 5 and lost == "[]\n"
