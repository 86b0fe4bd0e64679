"""The loops that numba compiles and keeps, compiled before any test or training needs them.

In a fresh clone that takes half a minute of a processor, which every worker of the tests, and every
training that begins meanwhile, would pay for itself.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from runners.host.locks import locked
from tests.support import REPOSITORY
from tests.warm import TORCH

SOURCES = ("trainers/gaussian/cpu_kernels.py", "trainers/pcdiff/neighbours_numba.py")


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder of this run of the tests, which all its workers see."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def compile_once(factory: pytest.TempPathFactory) -> None:
    """Compile what is not kept yet; of several workers one does, and the others wait for it."""
    if find_spec("numba") is None or find_spec("torch") is None:
        return
    with locked(shared_folder(factory) / "kernels.lock"):
        if not all(map(_is_kept, SOURCES)):
            words = [sys.executable, "-m", "tests.trainers.kernels"]
            TORCH.run(words, cwd=REPOSITORY, check=True)


def _is_kept(name: str) -> bool:
    source = REPOSITORY / name
    kept = source.parent.joinpath("__pycache__").glob(f"{source.stem}.*.nbi")
    return any(index.stat().st_mtime > source.stat().st_mtime for index in kept)


def main() -> None:
    """Draw a few Gaussians and their gradient, and search in a few points, as trainings do."""
    import torch

    from trainers.gaussian.cpu_kernels import draw_compiled
    from trainers.gaussian.projection import Camera, Gaussians
    from trainers.pcdiff.geometry import Ball, survey

    torch.set_num_threads(1)
    places = torch.tensor([[[0.0, 0.0, -3.0]]], requires_grad=True)
    turned, plain = torch.eye(3)[None, None], torch.full((1, 1, 3), 0.5)
    one = Gaussians(places, plain, turned, plain, plain[..., 0])
    draw_compiled(one, Camera(16)).sum().backward()
    survey(torch.linspace(0, 1, 192).view(1, 64, 3), [Ball(8, 0.2, 4)], "numba")


if __name__ == "__main__":
    main()
