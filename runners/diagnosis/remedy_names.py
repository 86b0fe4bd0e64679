"""The remedies that can be applied by a key, by name: what signatures may offer.

What each does to a launch stands in `runners.diagnosis.remedy`; nothing here resets a GPU, ends
somebody else's process or installs anything.
"""

from collections.abc import Sequence

REMEDIES = {
    "another-port": "listen on a port that is free at every launch",
    "half-batch": "half the batch, and the learning rate by its preset's rule if that has one",
    "accumulate": "more gradient accumulation: less memory, the same effective batch",
    "mixed-precision": "mixed precision, where the program has it",
    "expandable-segments": "the allocator's expandable segments, against fragmented GPU memory",
    "half-rate": "half the learning rate",
    "sqrt-rate": "the learning rate by the square root rule instead of the linear one",
    "fewer-workers": "half as many loader processes",
    "more-workers": "twice as many loader processes",
    "remap-checkpoint": "continue from a copy of the checkpoint that is on the CPU",
    "strip-checkpoint": "continue from a copy of the checkpoint without wrappers' prefixes",
    "earlier-checkpoint": "continue from the checkpoint before",
    "resume": "continue from the newest complete checkpoint",
    "show-gpus": "unset the variable that hides the GPUs",
    "first-gpu-number": "the number that the GPU has inside the run",
    "interface": "the network interface of the default route for NCCL and Gloo",
    "nccl-debug": "NCCL_DEBUG=INFO, so that the next failure says more",
    "no-infiniband": "NCCL_IB_DISABLE=1: over the ordinary network, where InfiniBand does not work",
    "no-nccl-shm": "NCCL without shared memory: slower, until /dev/shm is larger",
    "blocking-launches": "kernels one after the other: slower, but errors name the real line",
    "architecture-override": "HSA_OVERRIDE_GFX_VERSION as this GPU needs it, or none",
    "torchrun": "start it with torchrun, one process per GPU",
    "no-compile": "TORCHDYNAMO_DISABLE=1: without torch.compile, slower",
}
"""Every remedy's name, and what it does in words."""

_BY_CLASS = {
    "host_out_of_memory": ("fewer-workers",),
    "host_rebooted": ("resume",),
    "machine_taken_away": ("resume",),
    "ended_at_logout": ("resume",),
    "stopped_at_limit": ("resume",),
    "ended_by_slurm": ("resume",),
    "killed_unknown": ("resume",),
    "terminated_unknown": ("resume",),
    "interrupted_unknown": ("resume",),
    "terminal_closed": ("resume",),
    "stopped": ("resume",),
    "stopped_by_guard": ("resume",),
    "crashed": ("blocking-launches", "resume"),
    "gpu_hardware": ("resume",),
}
"""Remedies of verdicts that rest on no signature."""


def remedies_of(kind: str, named: Sequence[str] = ()) -> tuple[str, ...]:
    """The remedies for a class of failure: those a signature named, else the class's own."""
    return tuple(named) or _BY_CLASS.get(kind, ())
