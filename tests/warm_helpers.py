"""Helper processes that soon end by themselves, forked by the tests' warm server as commands are.

Half of what tests of processes cost was interpreters that start for a helper. What a forked command
starts, and its supervisor, has these helpers forked. What lives on (sampler, guard, keeper), every
supervisor, and all that a cold command, a job or a machine of its own starts, is started as users'
are. That each helper starts cold is tested in `tests/architecture/test_imports.py`.

`python -I -S warm_helpers.py ADDRESS supervisor.py WORDS…` is a supervisor, with what it may import.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

if __name__ == "__main__":
    _ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    sys.path.insert(0, _ROOT)

else:
    import subprocess

    from tests.warm import WarmServer

from runners.host import helpers
from tests import warm_client

FORKED = frozenset(
    {"summarize", "explain", "attempt-report", "dispatch", "replan", "notify", "start-sampler"}
)
_ALTERING = ("LD_PRELOAD", "LD_LIBRARY_PATH")
"""Variables that only an interpreter's start heeds."""


def install(address: str) -> None:
    """From now on this process's helpers are forked by the server at `address`."""
    cold = helpers.become

    def become(
        name: str,
        *arguments: str | os.PathLike[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        mine = helpers.marked(os.environ if environment is None else environment, name)
        if name in FORKED and not any(key in mine for key in _ALTERING):
            os.environ.clear()
            os.environ.update(mine)
            # As exec would: locks and the pipe that says that it was.
            os.closerange(3, 1 << 16)
            warm_client.main(address, helpers.command(name, *arguments)[1:])
        cold(name, *arguments, environment=environment)

    helpers.become = become
    client = sys.modules.get("runners.gpus.client")
    if client is not None:
        client.subprocess = _Forking(address)  # type: ignore[attr-defined]
    spawn = sys.modules.get("runners.lifecycle.supervisor.spawn")
    if spawn is not None:

        def command(name: str, *arguments: str | os.PathLike[str]) -> list[str]:
            python, *flags, file, state, run = helpers.command(name, *arguments[:2])
            own = [os.path.abspath(__file__), address]  # noqa: PTH100
            return [python, *flags, *own, file, state, run, *map(os.fspath, arguments[2:])]

        spawn.command = command  # type: ignore[attr-defined]


class _Forking:
    """`subprocess`, for who starts a sampler."""

    DEVNULL = -3

    def __init__(self, address: str) -> None:
        self._address = address

    def Popen(self, argv: Sequence[str], **options: Any) -> Any:
        """Have it forked, as `subprocess` would have started it."""
        if not any(key in options["env"] for key in _ALTERING):
            server = WarmServer.at(self._address)
            if server is not None:
                return server.start(argv, **options)
        return subprocess.Popen(argv, **options)


def _supervise() -> None:
    import gc

    gc.disable()
    from runners.lifecycle.supervisor import supervisor

    address = sys.argv.pop(1)
    del sys.argv[0]
    install(address)
    supervisor.main()


if __name__ == "__main__":
    _supervise()
