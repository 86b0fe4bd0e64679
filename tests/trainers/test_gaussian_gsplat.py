"""gsplat is used where it draws, and not because its name can be found."""

import importlib.machinery
import sys
import types

import pytest

torch = pytest.importorskip("torch")

from tests.trainers.waits import Waits  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.gaussian import fused, render  # noqa: E402
from trainers.gaussian.projection import Camera, Gaussians  # noqa: E402

pytestmark = pytest.mark.trainers
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def rasterization(seen: tuple = fused.SEEN):
    """Answers as gsplat does: colours and distances (B,1,H,W,4), coverage, and what it found."""

    def answer(*, means, width, height, **_):
        picture = torch.tensor(seen).expand(len(means), 1, height, width, 5)
        return picture[..., :4], picture[..., 4:], {}

    return answer


def without_kernels(**_):
    """As gsplat without nvcc: its compiled part is None."""
    return None.CameraModelType


def install(monkeypatch: pytest.MonkeyPatch, version: str, draws) -> None:
    module = types.ModuleType("gsplat")
    module.rasterization = draws
    module.__spec__ = importlib.machinery.ModuleSpec("gsplat", None)
    monkeypatch.setitem(sys.modules, "gsplat", module)
    monkeypatch.setattr(fused, "version", lambda name: version)


@pytest.mark.parametrize(
    ("version", "draws", "reason"),
    [
        ("1.5.3", rasterization(), ""),
        ("1.6.0+cu128", rasterization(), ""),
        ("1.5.2", rasterization(), "1.5.2 draws no batches"),
        ("1.5.3", without_kernels, "AttributeError"),
        ("1.5.3", rasterization((0.9, 0.9, 0.9, 1.8, 0.0)), "wrongly"),
    ],
)
def test_one_gaussian_is_tried(
    version: str, draws, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, version, draws)
    found = fused.why_not_gsplat(CPU)
    assert reason in found and bool(reason) == bool(found)


def test_what_does_not_draw_is_not_taken_and_refused_where_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, "1.5.3", without_kernels)
    monkeypatch.setattr(
        fused, "why_not_gsplat", lambda device, real=fused.why_not_gsplat: real(CPU)
    )
    backend, why = render.choose_backend("auto", CUDA)
    assert backend == "torch" and "AttributeError" in why
    with pytest.raises(SettingsError, match="AttributeError"):
        render.choose_backend("gsplat", CUDA)
    install(monkeypatch, "1.5.3", rasterization())
    assert render.choose_backend("auto", CUDA) == ("gsplat", "")


def test_drawing_a_batch_sends_nothing_to_the_gpu_that_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, torch.Tensor] = {}

    def draws(*, means, **more):
        asked.update(more)
        return rasterization()(means=means, width=more["width"], height=more["height"])

    install(monkeypatch, "1.5.3", draws)
    drawn = Gaussians(
        torch.rand(2, 3, 3), torch.rand(2, 3, 3), torch.eye(3).expand(2, 3, 3, 3),
        torch.rand(2, 3, 3), torch.rand(2, 3),
    )  # fmt: skip
    with Waits(monkeypatch) as waits:
        picture = fused.draw_with_gsplat(drawn, Camera(16, focal=1.5, window=(2, 5, 8)))
    assert waits.found == [] and picture.shape == (2, 5, 8, 8)
    # The middle of the image, 8, in the window's own pixels.
    inner = [[24.0, 0.0, 6.0], [0.0, 24.0, 3.0], [0.0, 0.0, 1.0]]
    assert asked["Ks"].tolist() == [[inner]] * 2
