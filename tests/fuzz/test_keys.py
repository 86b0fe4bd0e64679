"""Keys, clicks, pastes and sizes at random, all at once, as a slow line brings them: none ends the panel."""

import fcntl
import os
import random
import select
import struct
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.world import EXAMPLES
from tests.support import CEILING_S
from tests.terminal import Terminal, panel_command

LETTERS = "nsardmdiIGHhgJjklvVtTNnRxXuUyYoObBfF/=$*+-<>?123456789 LwWcCeEpPzZKMS:"
CONTROLS = [*["\r"] * 10, *["\x1b"] * 12, *["\t"] * 6, *"\x7f\x10\x0b\x06\x01\x05\x15\x17\x12\x0c"]
SEQUENCES = [
    *(f"\x1b[{code}" for code in ("A", "B", "C", "D", "H", "F", "Z", "3~", "5~", "6~", "1;5C")),
    *(f"\x1b[{code}~" for code in (15, 17, 18, 19, 20)),
    *("\x1bOQ", "\x1bOR", "\x1bOS", "\x1b[1;2A", "\x1b[1;2B", "\x1b[I", "\x1b[O"),
]
TEXTS = [
    *("loss<0.1", "state:failed", "tag:good", "0", "-1", "1e400", "²", "9" * 20, "lr=1e-4,3e-4"),
    *("seed=0..3", "${run_dir}", "~", "true", "é漢🎉", "--", '"', "[bold]", "50%", "5h", "x" * 300),
]
SIZES = [(150, 24), (200, 60), (150, 40), (80, 24), (60, 15), (30, 8), (10, 3), (300, 80)]


def _inputs(chance: random.Random) -> Iterator[str | tuple[int, int]]:
    columns, rows = 80, 24
    while True:
        kind = chance.random()
        if kind < 0.74:
            yield chance.choice([*LETTERS, *CONTROLS, *SEQUENCES])
        elif kind < 0.85:
            yield chance.choice(TEXTS)
        elif kind < 0.89:
            yield "\x1b[200~" + chance.choice(TEXTS) + chance.choice(["", "\n2\n"]) + "\x1b[201~"
        elif kind < 0.98:
            place = f"{chance.choice([0, 0, 0, 64, 65, 2, 32])};{chance.randint(1, columns)};"
            place += str(chance.randint(1, rows))
            yield f"\x1b[<{place}M\x1b[<{place}m"
        else:
            columns, rows = chance.choice(SIZES)
            yield columns, rows


def _drain(panel: Terminal, patience_s: float) -> bytes:
    """What it paints, read and not looked at."""
    seen = b""
    for _ in range(20):
        if not select.select([panel.window], [], [], patience_s)[0]:
            break
        try:
            block = os.read(panel.window, 1 << 16)
        except OSError:
            break
        seen = (seen + block)[-20_000:]
    return seen


@pytest.mark.parametrize("seed", [1, 2])
def test_no_keys_end_the_panel(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.chdir(tmp_path)
    chance = random.Random(seed)
    sent: list[str | tuple[int, int]] = []
    while len(sent) < EXAMPLES // 2:
        panel = Terminal(panel_command("demo"), 120, 40, FRESNEL_GPUS="sim:4xH100")
        try:
            panel.wait_for("running")
            for given in _inputs(chance):
                sent.append(given)
                if isinstance(given, str):
                    os.write(panel.window, given.encode())
                else:
                    fcntl.ioctl(
                        panel.window, termios.TIOCSWINSZ, struct.pack("4H", *given[::-1], 0, 0)
                    )
                seen = _drain(panel, chance.choice([0, 0, 0, 0.01, 0.03]))
                # It may be left: by q, by a click on it, by its name.
                # Many thousands take minutes, all before Ctrl+Q.
                is_enough = len(sent) % 1000 == 0 or len(sent) >= EXAMPLES // 2
                if is_enough or panel.child.poll() is not None:
                    break
            # All that was sent is done first, and some keys take their time.
            until = time.monotonic() + 4 * CEILING_S
            while panel.child.poll() is None and time.monotonic() < until:
                # It may wait for Enter, with the terminal lent; and asking for pictures eats a key.
                os.write(panel.window, b"\r\x11")
                seen = _drain(panel, 0.1) or seen
            assert panel.child.poll() == 0, (sent[-30:], seen.decode(errors="replace"))
        finally:
            panel.close()
