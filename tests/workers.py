"""Workers of the tests, forked from one process that has imported them all.

Importing the tests and what they import (torch, Textual) costs twenty seconds of a processor, and
rewriting the assertions of a fresh clone as much again: it is paid once instead of by each worker.
"""

from __future__ import annotations

import json
import os
from subprocess import PIPE
from typing import Any

import pytest
from execnet import gateway_base, gateway_io

from tests.warm import WarmServer

HOW_MUCH = ("FRESNEL_FUZZ", "FRESNEL_MONEY_DAYS")
"""What `make` says of how much is tested, which modules of tests read when they are imported."""


def fork_workers(config: pytest.Config) -> None:
    """From now on a worker that xdist starts is a fork."""
    how_much = {name: os.environ[name] for name in HOW_MUCH if name in os.environ}
    server = WarmServer("tests.collected", COLLECT=json.dumps(config.args), **how_much)

    class ForkedWorker(gateway_io.Popen2IOMaster):
        """A forked process, and the pipes over which it is spoken to."""

        def __init__(self, args: list[str], execmodel: Any) -> None:
            self.popen = server.start(args, stdin=PIPE, stdout=PIPE)
            gateway_base.Popen2IO.__init__(
                self, self.popen.stdin, self.popen.stdout, execmodel=execmodel
            )

    gateway_io.Popen2IOMaster = ForkedWorker
