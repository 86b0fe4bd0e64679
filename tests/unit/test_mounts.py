"""Which file system a path is on: by the kernel's table, over links, without a look at a server."""

import os
import resource
from pathlib import Path

import pytest

from runners.host import mounts
from runners.host.mounts import filesystem_of, silent_server


def table(tmp_path: Path, **kinds: str) -> Path:
    """A table of mounts below `tmp_path`; `root` is the machine's own."""
    lines = [f"20 1 0:1 / / rw - {kinds.pop('root', 'ext4')} source rw"]
    for number, (name, kind) in enumerate(kinds.items(), 21):
        point = str(tmp_path / name.replace("__", "/")).replace(" ", "\\040")
        lines.append(f"{number} 20 0:{number} / {point} rw,relatime shared:1 - {kind} source rw")
    file = tmp_path / "mountinfo"
    file.write_text("\n".join(lines))
    return file


def test_the_innermost_mount_counts(tmp_path: Path) -> None:
    """A disk of a node that has its root from a server is its own."""
    mounts = table(tmp_path, root="nfs4", scratch="xfs", scratch__bucket="fuse.s3", data="lustre")
    for name, kind in {
        "scratch/a": "xfs",
        "scratch/bucket/deep/a": "fuse.s3",
        "scratch/buckets": "xfs",
        "data": "lustre",
        "elsewhere": "nfs4",
    }.items():
        assert filesystem_of(tmp_path / name, mounts) == kind, name


def test_links_lead_to_what_they_name(tmp_path: Path) -> None:
    """Over several, relative ones and a circle; a name with a blank in it."""
    mounts = table(tmp_path, **{"my data": "nfs"})
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "set").symlink_to("../link")
    (tmp_path / "link").symlink_to(tmp_path / "my data" / "below")
    (tmp_path / "round").symlink_to("round")
    assert filesystem_of(tmp_path / "work" / "set" / "x.npy", mounts) == "nfs"
    assert filesystem_of(tmp_path / "my data" / ".." / "work", mounts) == "ext4"
    assert filesystem_of(tmp_path / "round" / "x", mounts) == "ext4"


def test_no_path_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for path in ("", "x", "a\0b", "\udcff", "/" + "long" * 2000):
        assert silent_server(path) == ""
        assert filesystem_of(Path(path), table(tmp_path)) == "ext4"
    os.chdir(tmp_path)


def test_a_process_with_many_open_files_can_ask_too(tmp_path: Path) -> None:
    """Its descriptors have numbers above 1024, which `select` refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("not so many files may be open here")
    server = mounts._Server(str(tmp_path))
    opened: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    try:
        while not opened or opened[-1] < 1100:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        assert server.answers()
    finally:
        for number in opened:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
