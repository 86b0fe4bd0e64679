"""A collective that hangs: three real ranks, one of which does not come. Needs torch."""

import importlib.util
import re

import pytest

from runners.diagnosis.stack_parts import find_py_spy
from runners.diagnosis.stacks import newest_stacks, stack_text
from runners.model.health import Condition
from tests.command_text import absent
from tests.process.conftest import CommandLine
from tests.support import eventually

pytestmark = [
    pytest.mark.trainers,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed"),
]

WORKER = """
import os, threading, time
ready = threading.Event()
def say_that_it_starts():
    while not ready.wait(0.5):
        os.write(1, b"starting\\n")
threading.Thread(target=say_that_it_starts, daemon=True).start()
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
ones = torch.ones(1)
dist.all_reduce(ones)
ready.set()
os.write(1, f"rank {dist.get_rank()} step 1 loss 0.5\\n".encode())
def load_a_batch_that_never_comes():
    time.sleep(600)
if dist.get_rank() == 2:
    load_a_batch_that_never_comes()
dist.all_reduce(ones)
"""
"""While it starts, however long that takes, it is not silent."""
PRESET = """\
launcher: torchrun
interpreter: ${python}
script: worker.py
processes: 3
gpus: 0
environment: {OMP_NUM_THREADS: 1}
on_stall: {after: 3s}
stop: {ladder: [SIGTERM 5s]}
"""


def test_the_rank_that_the_others_wait_for_is_named_and_its_stack_saved(cli: CommandLine) -> None:
    (cli.folder / "worker.py").write_text(WORKER)
    (cli.folder / "three.yaml").write_text(PRESET)
    run = cli.launch("./three.yaml")
    told = eventually(
        lambda: (cli.status(run)["health"] or {}).get("absent"), 90, what="a rank that is named"
    )
    assert list(told) == [2]
    (alert,) = eventually(lambda: cli.status(run)["alerts"], what="the watcher's alert")
    assert f"{absent(2, 'all_reduce', 2)}: worker.py" in alert["text"]
    dump = newest_stacks(run.path)
    assert dump is not None and dump.absent == (2,)
    stack = next(stack_text(dump, one) for one in dump.ranks if one.rank == 2)
    assert "load_a_batch_that_never_comes" in stack
    assert cli.status(run)["health"]["message"].startswith("silent for ")
    assert f"{Condition.STALL}: rank 2 has not come" in cli.run("list").stdout
    assert re.search(r"rank 2 .* load_a_batch_that_never_comes", cli.run("stacks", run.id).stdout)
    assert cli.status(run)["state"] == "running", "nothing is ended that nobody asked to end"
