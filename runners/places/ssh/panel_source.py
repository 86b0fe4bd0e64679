"""The panel's own source, as it is taken to another machine."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from runners.host.files import read_text
from runners.host.helpers import ROOT

STAMP = "installed.digest"
_FOLDERS = ("runners", "tui", "trainers", "presets", "docs")
_FILES = ("pyproject.toml", "constraints.txt", "LICENSE", "README.md")


def installed_digest() -> str:
    """The digest that `host setup` left beside this source; empty where it did not install it."""
    return read_text(ROOT / STAMP).strip()


@cache
def source_digest() -> str:
    """What tells this source from any other."""
    digest = hashlib.sha256()
    for path in _files():
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def source_archive() -> bytes:
    """This source as a gzipped tar archive: code, presets, trainers, and the stamp."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as archive:
        for path in _files():
            archive.add(path, str(path.relative_to(ROOT)), recursive=False, filter=_plain)
        stamp = tarfile.TarInfo(STAMP)
        stamp.size = len(source_digest())
        archive.addfile(stamp, io.BytesIO(source_digest().encode()))
    return buffer.getvalue()


def _files() -> Iterator[Path]:
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                yield path
    yield from (ROOT / name for name in _FILES if (ROOT / name).is_file())


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member
