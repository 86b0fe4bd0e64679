"""The distributed training guide: batch and rate by words, NCCL's errors, pages."""

from pathlib import Path

import pytest

from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import Evidence, LogPart
from runners.diagnosis.signatures import load_signatures
from runners.diagnosis.verdict import Diagnosis
from runners.model.scaling import batch_notes
from runners.presets.catalogue import resolve_runs
from runners.verify.config_facts import unread_keys
from tests.support import REPOSITORY

GIB = 1 << 30
NCCL = """\
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.19.3
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
socketStartConnect: Connect to 10.0.0.2<44443> failed : Connection timed out
"""
OLDER = """\
RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:825, unhandled system error, NCCL version 2.7.8
"""
PAGES = {
    "trainers/pcdiff/README.md": (
        *("1706.02677", "1708.03888", "1711.00489", "1705.08741", "notes/cuda.html"),
        *("dist_overview", "elastic/run.html", "saving_loading_models"),
        *("NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME"),
    ),
    "trainers/cascade/README.md": (
        *("train_4gpu.bat", "WSL 2", "train_distributed.py", "train_accelerate.py"),
        *("physics loss", "< 0.1", "70–80 %", "2.1, 0.5 and 0.2"),
    ),
    "docs/machines.md": ("devcloud.amd.com", "Droplet", "MI300X", "region", "ssh-keygen"),
}


def notes(name: str, devices: int, *overrides: str) -> str:
    (spec,) = resolve_runs(name, list(overrides), "")
    return "\n".join(batch_notes(spec, devices))


def test_a_small_batch_is_said_to_be_noisy_in_its_gradients() -> None:
    said = notes("pcdiff-8gpu", 8, "bs=8")
    assert "only 1 sample" in said and "gradients" in said and "statistics" not in said
    # The paper's own pair on one GPU is nothing to warn of.
    assert "only" not in notes("voxelization", 1, "batch_size=2")


def test_a_scaled_rate_on_trained_weights_is_warned_of() -> None:
    assert "trained weights" in notes("pcdiff", 7, "model=epoch_1999.pth")
    assert "trained weights" not in notes("pcdiff", 7)
    assert "trained weights" not in notes("pcdiff-1gpu", 1, "model=epoch_1999.pth")


def test_a_batch_that_does_not_divide_names_those_that_do() -> None:
    assert "42 or 49 does" in notes("pcdiff", 7, "bs=48")


@pytest.mark.parametrize("text", [NCCL, OLDER])
def test_the_guides_nccl_error_is_diagnosed(text: str, tmp_path: Path) -> None:
    logs = (LogPart("output.log", text.encode()),)
    found = diagnose(Evidence(exit_code=1, logs=logs), load_signatures(tmp_path / "none.yaml"))
    assert isinstance(found, Diagnosis) and found.kind == "network_between_ranks"
    assert set(found.remedies) >= {"nccl-debug", "interface", "no-infiniband"}


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_name_what_the_guides_name(page: str) -> None:
    text = (REPOSITORY / page).read_text()
    assert [name for name in PAGES[page] if name not in text] == []


def test_the_guides_marks_for_gpus_are_not_those_of_its_own_tables() -> None:
    """70-80 % of memory and more than 10 samples a second: the page says what they come to."""
    (spec,) = resolve_runs("cascade-4gpu-torchrun", [], "")
    stages = spec.expect.stages.values()
    shares = [f"{100 * (stage.memory or 0) / (80 * GIB):.0f}" for stage in stages]
    paces = [f"{1000 / 4 / (stage.epoch_s or 1):.1f}" for stage in stages]
    page = (REPOSITORY / "trainers/cascade/README.md").read_text()
    assert "{}, {} and {} %".format(*shares) in page and "{}, {} and {},".format(*paces) in page


def test_stage_batches_of_the_shipped_configuration_are_known() -> None:
    keys = [f"training.batch_size_stage{number}" for number in (1, 2, 3)]
    script = REPOSITORY / "trainers" / "cascade" / "train_distributed.py"
    assert unread_keys([*keys, "training.batch_sise"], script) == ("training.batch_sise",)
