"""Notices of one file after the other, by one descriptor."""

import asyncio
import select
from pathlib import Path

from runners.host.inotify import OneShotWatch
from tests.support import CEILING_S
from tui.panel.widgets.log.watch import FileWatch


def _is_told(watch: OneShotWatch) -> bool:
    return bool(select.select([watch.descriptor], [], [], 0)[0])


def test_only_the_file_that_was_armed_last_is_told_of(tmp_path: Path) -> None:
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    first.touch()
    second.touch()
    watch = OneShotWatch()
    try:
        watch.arm(first)
        watch.arm(second)
        assert not _is_told(watch)
        first.write_text("a line\n")
        assert not _is_told(watch)
        second.write_text("a line\n")
        assert _is_told(watch)
    finally:
        watch.close()


async def test_another_file_is_watched_by_the_same_descriptor(tmp_path: Path) -> None:
    """The kernel takes about 15 ms to close one, at every key that selects another run."""
    sizes: dict[str, int] = {}
    files = [tmp_path / "first.log", tmp_path / "second.log"]
    looked = asyncio.Event()

    def look() -> bool:
        before = dict(sizes)
        sizes.update((path.name, path.stat().st_size) for path in files if path.exists())
        looked.set()
        return before != sizes

    watch = FileWatch(look, frame=0.001)
    task = asyncio.create_task(watch.run())
    opened = set()
    for path in files:
        watch.choose(path)
        path.write_text("a line\n")
        while not sizes.get(path.name):
            looked.clear()
            await asyncio.wait_for(looked.wait(), CEILING_S)
        opened.add(frozenset(_notices_of_this_process()))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(opened) == 1
    assert not _notices_of_this_process() & set.union(*map(set, opened))


def _notices_of_this_process() -> set[str]:
    return {
        descriptor.name
        for descriptor in Path("/proc/self/fd").iterdir()
        if descriptor.is_symlink() and "inotify" in str(descriptor.readlink())
    }
