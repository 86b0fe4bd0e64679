"""Which process samples, recorded in the lock file; it counts only while the lock is held."""

import os

import msgspec

from runners.host.identity import host_name
from runners.host.locks import is_held
from runners.host.procfs import start_ticks
from runners.state.decoding import read
from runners.state.layout import StateDirectory


class SamplerOwner(msgspec.Struct, frozen=True):
    """The sampling process; `setting` is the value of `$FRESNEL_GPUS` it was started under."""

    pid: int
    ticks: int | None
    host: str
    setting: str

    @property
    def is_alive(self) -> bool:
        """True when exactly this process lives on this host."""
        return (
            self.host == host_name()
            and self.ticks is not None
            and start_ticks(self.pid) == self.ticks
        )


def record_owner(descriptor: int, setting: str) -> None:
    """Write this process into the lock file it holds open as `descriptor`."""
    pid = os.getpid()
    text = msgspec.json.encode(SamplerOwner(pid, start_ticks(pid), host_name(), setting))
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def owner_of(state: StateDirectory) -> SamplerOwner | None:
    """The process that samples into `state`; None when the lock is free or not written yet."""
    if not is_held(state.sampler_lock):
        return None
    owner = read(state.sampler_lock, SamplerOwner)
    # A sampler that has just taken the lock of a dead one finds that one's record in it.
    is_left = owner is not None and owner.host == host_name() and not owner.is_alive
    return None if is_left else owner
