"""A copy by rsync over a line that breaks again and again."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.places.ssh import retries
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.rsync import RsyncCopier
from runners.places.ssh.ssh import RemoteTrouble, Ssh
from runners.state.layout import StateDirectory

# Brings some bytes of a file at every try, and then the line breaks, seen in the protocol (12) or by
# the socket (10); with nothing to `most` it brings no more.
_RSYNC = """\
#!{python} -ISs
import sys
from pathlib import Path
part = Path(sys.argv[-1]) / ".rsync-partial" / "best.pt"
part.parent.mkdir(exist_ok=True)
have = part.read_bytes() if part.exists() else b""
Path({tries!r}).open("a").write("x")
if len(have) < {most}:
    part.write_bytes(have + b"1234567890")
    sys.exit(12 if len(have) % 20 else 10)
if {most} < 100:
    sys.exit(12)
part.rename(Path(sys.argv[-1]) / "best.pt")
"""


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Bring a file of 100 bytes by ten bytes at a time, as far as `most`."""
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0, 0.0, 0.0))
    program = tmp_path / "bin" / "rsync"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent))

    def bring_to(most: int) -> Path:
        tries = str(tmp_path / "tries")
        program.write_text(_RSYNC.format(python=sys.executable, most=most, tries=tries))
        program.chmod(0o755)
        host = RemoteHost("far", "root@far")
        copier = RsyncCopier(Ssh(RemoteRegistry(StateDirectory().create()), host))
        copier.bring("/there", {"best.pt": 100}, tmp_path / "here")
        return tmp_path / "here" / "best.pt"

    return bring_to


def test_a_copy_goes_on_as_long_as_every_try_brings_something(
    bring: Callable[[int], Path],
) -> None:
    assert bring(100).stat().st_size == 100


def test_a_copy_that_gets_no_further_ends(bring: Callable[[int], Path], tmp_path: Path) -> None:
    with pytest.raises(RemoteTrouble):
        bring(30)
    assert len((tmp_path / "tries").read_text()) == 3 + 4
