"""What this machine has, as it is judged for one run, and what RCCL warns about."""

import math
from collections.abc import Iterator

from runners.doctor.checks import Check, Verdict
from runners.doctor.resources import (
    judge_clock,
    judge_logout,
    judge_memory,
    judge_open_files,
    judge_rccl,
    judge_shared_memory,
)
from runners.model.parameters import leaf_of
from runners.model.python_command import computing_processes
from runners.model.units import gib_text
from runners.verify.facts import LaunchFacts

_WORKERS = ("workers", "num_workers", "n_workers", "dataloader_num_workers", "loader_workers")


def workers_of(facts: LaunchFacts) -> int | None:
    """How many loader processes the run is told to start; None when nothing says it."""
    for name, value in facts.settings.items():
        if leaf_of(name) in _WORKERS and isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def check_open_files(facts: LaunchFacts) -> Iterator[Check]:
    """How many files the run may hold open; a run without loader workers needs few."""
    if facts.host is not None:
        found = judge_open_files(facts.host)
        if workers_of(facts) == 0:
            found = Check(found.name, "PASS", found.message)
        yield found


def shared_memory_asked(facts: LaunchFacts) -> int | None:
    """Bytes of /dev/shm that loader workers fill at most; None where no sample's size is known."""
    workers, batches = workers_each(facts), list(_batches_in_memory(facts))
    if workers is None or not batches:
        return None
    asked = max(batches) * batches_ready(facts) * workers * computing_processes(facts.plan)
    return round(asked) if math.isfinite(asked) else None


def workers_each(facts: LaunchFacts) -> int | None:
    """How many loader processes each process of the run starts, where all of them share some."""
    workers, scaling = workers_of(facts), facts.spec.scaling
    if workers is None or scaling is None or scaling.workers == "device":
        return workers
    return workers // computing_processes(facts.plan)


def batches_ready(facts: LaunchFacts) -> int:
    """How many batches every worker keeps ready: what the program is told, or PyTorch's two."""
    for name, value in facts.settings.items():
        if leaf_of(name) == "prefetch_factor" and isinstance(value, int):
            return value
    return 2


def _batches_in_memory(facts: LaunchFacts) -> Iterator[float]:
    """What a batch puts into /dev/shm, and one of each stage, whose batch the settings name."""
    expected, settings = facts.spec.expect, facts.settings
    leaves = {leaf_of(name): value for name, value in settings.items()}
    each = leaves.get("batch_size") if facts.batch is None else facts.batch.each
    if expected.shared_memory_per_sample is not None and isinstance(each, int | float):
        yield expected.shared_memory_per_sample * each
    for name, stage in expected.stages.items():
        own = leaves.get(f"batch_size_{name.replace(' ', '')}") or leaves.get("batch_size")
        batch = settings.get("batch_size") or own
        if stage.shared_memory_per_sample is not None and isinstance(batch, int):
            yield stage.shared_memory_per_sample * batch


def check_shared_memory(facts: LaunchFacts) -> Iterator[Check]:
    """/dev/shm, where loader workers and NCCL pass tensors."""
    host, workers = facts.host, workers_each(facts)
    if host is None:
        return
    found = judge_shared_memory(host)
    asked = shared_memory_asked(facts)
    if asked is not None and asked > 0 and host.shm_free is not None:
        ready = f"{workers} loader workers with {batches_ready(facts)} batches each"
        text = f"{ready} fill {gib_text(asked)} at most"
        full, held = asked > host.shm_free, facts.spec.expect.data_on_gpu
        advice = "fewer workers, or docker run --shm-size=16g or --ipc=host" if full else ""
        beyond: Verdict = "WARN" if held else "FAIL"
        verdict: Verdict = beyond if full else "PASS"
        text += ", unless all data fits on the GPU" if held else ""
        yield Check(found.name, verdict, f"{found.message}; {text}", advice)
    elif (workers or 0) > 0 or computing_processes(facts.plan) > 1:
        what = "loader workers" if (workers or 0) > 0 else "NCCL"
        used = "" if found.verdict == "PASS" else f"; {what} of this run use it"
        yield Check(found.name, found.verdict, f"{found.message}{used}", found.advice)
    else:
        yield Check(found.name, "PASS", found.message)


def check_host_memory(facts: LaunchFacts) -> Iterator[Check]:
    """Memory of the host, and the limit of the control group the run would live in."""
    if facts.host is not None:
        yield from judge_memory(facts.host)


def check_logout(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the run would outlive the login."""
    if facts.host is not None:
        yield judge_logout(facts.host)


def check_clock(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the clock is right, as far as it can be told."""
    if facts.host is not None:
        yield judge_clock(facts.host)


def check_rccl(facts: LaunchFacts) -> Iterator[Check]:
    """How several AMD GPUs of the run reach each other."""
    if facts.host is not None and len(facts.plan.gpus) > 1 and facts.concerns("RCCL"):
        yield from judge_rccl(facts.host)
