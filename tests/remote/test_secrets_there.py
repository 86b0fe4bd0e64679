"""No secret of a command for another machine stands in any argv, here or there."""

import threading
from pathlib import Path

from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine

SECRET = "planted-4f1d9c"
PRESET = """\
launcher: command
command: ["sh", "-c", "test \\"$API_TOKEN\\" = planted-4f1d9c"]
gpus: 0
environment: {API_TOKEN: none}
"""


class _Watch:
    """Every command line of this machine that has the secret in it, but those a person typed."""

    def __init__(self, typed: int) -> None:
        self.found: set[bytes] = set()
        self.looks = 0
        self._typed = typed
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.is_set():
            self.looks += 1
            for process in Path("/proc").iterdir():
                if process.name.isdigit() and int(process.name) != self._typed:
                    try:
                        words = (process / "cmdline").read_bytes()
                    except OSError:
                        continue
                    if SECRET.encode() in words:
                        self.found.add(words)


def test_a_secret_of_a_launch_is_in_no_command_line(
    line: CommandLine, rented: RentedMachine
) -> None:
    rented.write("fresnel/presets/own.yaml", PRESET)
    words = ["launch", "own", "--set", f"environment.API_TOKEN={SECRET}", "--wait"]
    typed = line.begin(*words, "--host", "rented")
    with _Watch(typed.pid) as watch:
        said, problem = typed.communicate(timeout=100)
    assert typed.returncode == 0, (said, problem)
    assert watch.looks > 3
    # What a preset's command says is the program's own.
    assert not [words for words in watch.found if b"API_TOKEN=" in words]
