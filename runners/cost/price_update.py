"""Fetching a list of prices: bounded, its checksum compared, checked whole, then put in place.

Form of a checksum file: `sha256sum`'s, HEX and the name, or HEX alone (coreutils manual).
"""

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from runners.cost.prices import check_list, list_prices, updated_file
from runners.host.files import expanded, read_plain, replace
from runners.host.webhook import NoRedirect
from runners.model.errors import FresnelError, NotFound, WrongInput

_LONGEST = 256 << 10
_LONGEST_SUM = 4096
_PATIENCE_S = 10.0
_WITHIN_S = 30.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class PriceUpdate(msgspec.Struct, frozen=True):
    """What an update brought: the prices in the list, and the names of new and changed ones."""

    source: str
    sha256: str
    prices: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    oldest: str
    """The earliest day of any of them."""
    kept: str
    """Where the list before it is; empty where there was none."""


def update_prices(source: str, sha256: str = "") -> PriceUpdate:
    """Put the list at `source`, a file or an address, in the place of the one before.

    Without `sha256` the checksum is that of `SOURCE.sha256`. Raises WrongInput for a list that is
    not whole, or whose checksum differs; FresnelError when it cannot be read; OSError when it
    cannot be written. Until all of it is checked nothing changes.
    """
    content = _read(source, _LONGEST)
    found = hashlib.sha256(content).hexdigest()
    wanted = _parse_sum("--sha256", sha256) if sha256 else _sum_beside(source)
    if found != wanted:
        raise WrongInput(
            f"{source}: its SHA-256 is {found}, expected {wanted}: nothing was changed",
            "it is another file than the one that was published, or was cut short",
        )
    target = updated_file()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.new")
    try:
        replace(draft, content)
        entries = check_list(draft)
        before = {entry.name: entry for entry in list_prices()}
        kept = _keep_old(target)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    same = [(entry, before[entry.name]) for entry in entries if entry.name in before]
    return PriceUpdate(
        source,
        found,
        len(entries),
        tuple(entry.name for entry in entries if entry.name not in before),
        tuple(new.name for new, old in same if new.usd_per_hour != old.usd_per_hour),
        min(entry.date for entry in entries),
        kept,
    )


def _keep_old(target: Path) -> str:
    try:
        old = read_plain(target, _LONGEST)
    except FileNotFoundError:
        return ""
    path = target.with_suffix(".yaml.old")
    replace(path, old)
    return str(path)


def _sum_beside(source: str) -> str:
    beside = f"{source}.sha256"
    try:
        text = _read(beside, _LONGEST_SUM)
    except FresnelError as error:
        raise WrongInput(
            f"{source}: no checksum: {error.message}",
            "--sha256 HEX, from where the list is published; of a file of your own: sha256sum",
        ) from None
    return _parse_sum(beside, text.decode("utf-8", "replace"))


def _parse_sum(where: str, text: str) -> str:
    word = (text.split() or [""])[0].lower()
    if not re.fullmatch(r"[0-9a-f]{64}", word):
        raise WrongInput(f"{where}: expected a SHA-256 of 64 hexadecimal digits")
    return word


def _read(source: str, limit: int) -> bytes:
    """At most `limit` bytes of a file, or of an address. Raises FresnelError."""
    if "://" in source:
        return _fetch(source, limit)
    try:
        return read_plain(expanded(source), limit)
    except OSError as error:
        text = f"{source}: {error.strerror}" if error.strerror else str(error)
        kind = NotFound if isinstance(error, FileNotFoundError) else WrongInput
        raise kind(text) from None


def _fetch(url: str, limit: int) -> bytes:
    try:
        parts = urlsplit(url)
        is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    except ValueError as error:
        raise WrongInput(f"{url}: {error}") from None
    if parts.scheme != "https" and not is_local:
        raise WrongInput(f"{url}: expected an address that begins with https://, or a file")
    # The address that was given, and no other: what redirects is answered by somebody else.
    opener = urllib.request.build_opener(NoRedirect())
    deadline, blocks, length = time.monotonic() + _WITHIN_S, [], 0
    try:
        with opener.open(url, timeout=_PATIENCE_S) as answer:
            # In pieces: who sends a byte every nine seconds would never run into the timeout.
            while length <= limit and (block := answer.read1(65536)):
                blocks.append(block)
                length += len(block)
                if time.monotonic() > deadline:
                    raise FresnelError(f"{url}: not read within {_WITHIN_S:g} s")
    except urllib.error.HTTPError as error:
        raise FresnelError(f"{url}: HTTP {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FresnelError(f"{url}: {error}") from None
    if length > limit:
        raise WrongInput(f"{url}: longer than {limit:,} bytes")
    return b"".join(blocks)
