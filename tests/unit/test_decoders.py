"""Decoders of what several threads read are built before there are any: msgspec crashes else."""

import subprocess
import sys

from tests.support import REPOSITORY

PROGRAM = """
from runners.cost import sessions
from runners.gpus import client
from runners.state import codec, decoding, labels_file
from runners.watch.metrics import final
before = decoding.json_decoder.cache_info().misses
for kind in (
    codec.PlanOutline, codec.LaunchPlan, codec.RunRecord, codec.RunSpec, codec.QueueStatus,
    client.GpuReading, sessions.Session, labels_file.Labels, final.FinalReport,
):
    decoding.json_decoder(kind)
print(decoding.json_decoder.cache_info().misses - before)
"""


def test_what_threads_share_is_built_when_it_is_imported() -> None:
    """Two threads that build one type's at once end the process: a panel vanished now and then."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"
