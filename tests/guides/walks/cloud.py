"""The cloud training guide: an MI300X at $1.99 an hour, its modes, money and phases."""

import importlib.util
from pathlib import Path

from tests.guides.conftest import GuideCommands
from tests.guides.walks.looking import findings, line, objections, output, plan
from tests.guides.walks.steps import long_step, step

FEATURES = 37 * 37 * 384 * 4
DEPTH = 256 * 256 * 4
MODES = {
    "validate": "--epochs 5 --batch_size 2 --image_size 64 --max_images 50",
    "fast": "--epochs 100 --batch_size 256 --image_size 256",
    "standard": "--epochs 200 --batch_size 128 --image_size 256",
    "full": "--epochs 300 --batch_size 64 --image_size 512",
}
LOCAL = {"FRESNEL_GPUS": "sim:1xRX7800XT"}


def photographs(folder: Path, count: int) -> None:
    """Pictures that scikit-image ships, under the guide's names."""
    from PIL import Image

    folder.mkdir(parents=True)
    spec = importlib.util.find_spec("skimage")
    assert spec is not None and spec.origin is not None
    shipped = Path(spec.origin).parent / "data" / "chelsea.png"
    with Image.open(shipped) as image:
        for number in range(count):
            image.convert("RGB").crop((number, 0, number + 96, 96)).save(
                folder / f"photo_{number}.jpg"
            )


@step
def local_data_is_counted(guide: GuideCommands) -> None:
    folder = guide.folder / "images" / "training"
    photographs(folder, 10)
    assert "features" in objections(guide, "gaussian-fast", "--only", "data")
    refused = guide.run("launch", "gaussian-fast", exits=1).stderr
    assert "was not launched" in refused, "nothing is paid for before it is checked"
    (folder / "features").mkdir()
    for photo in folder.glob("*.jpg"):
        (folder / "features" / f"{photo.stem}_dinov2.bin").write_bytes(bytes(FEATURES))
        (folder / "features" / f"{photo.stem}_depth.bin").write_bytes(bytes(DEPTH))
    found = findings(guide, "gaussian-fast", "--only", "data")
    assert any("photographs: 10 found" in text for _, text, _ in found)
    assert {verdict for verdict, _, _ in found} == {"PASS"}


@step
def a_session_counts_from_1_99_an_hour(guide: GuideCommands) -> None:
    words = ("--price", "amd-cloud-mi300x", "--budget", "100", "--since", "now", "--anyway")
    guide.run("session", "start", *words)
    told = guide.run("session").stdout
    assert "$1.99/h" in told and "$100" in told, told


@step
def every_mode_is_planned_with_its_price(guide: GuideCommands) -> None:
    dollars = {}
    for mode, settings in MODES.items():
        planned = plan(guide, f"gaussian-{mode}")
        said = line(planned)
        for flag in settings.split(" --"):
            assert flag.removeprefix("--") in said, (mode, flag)
        dollars[mode] = round(float(planned["forecast"]["usd"]), 2)
    assert dollars == {"validate": 0.17, "fast": 3.98, "standard": 11.94, "full": 23.88}
    assert "--fast_mode" in line(plan(guide, "gaussian-fast"))
    assert "--gaussians_per_patch 8" in line(plan(guide, "gaussian-full"))


@step
def custom_by_three_numbers(guide: GuideCommands) -> None:
    large = ("--set", "epochs=100", "batch_size=512", "image_size=256")
    said = line(plan(guide, "gaussian-custom", *large))
    assert "--epochs 100 --batch_size 512 --image_size 256" in said
    small = ("--set", "epochs=100", "batch_size=16", "image_size=256")
    assert "--batch_size 16" in line(plan(guide, "gaussian-custom", *small))


@step
def the_local_card_needs_its_override(guide: GuideCommands) -> None:
    for mode in ("validate", "fast", "standard", "full"):
        told = guide.run("plan", f"gaussian-{mode}-local", "--json", "--no-verify", **LOCAL).stdout
        assert '"HSA_OVERRIDE_GFX_VERSION": "11.0.0"' in told
    assert "HSA_OVERRIDE_GFX_VERSION" not in plan(guide, "gaussian-fast")["environment"]


@step
def a_hundred_dollars_are_planned(guide: GuideCommands) -> None:
    modes = ("gaussian-validate:1", "gaussian-fast:4", "gaussian-standard:2", "gaussian-full:1")
    told = guide.run("cost", "plan", *modes, "--budget", "100").stdout
    assert "$63.85" in told and "$36.15" in told


@step
def a_machine_that_is_forgotten_ends_itself(guide: GuideCommands) -> None:
    done = guide.run("guard", "set", "--max-age", "4h", "--end-command", "true")
    assert "4h" in guide.run("guard").stdout + done.stderr
    guide.run("guard", "lift", exits=None)


@step
def what_was_spent_so_far(guide: GuideCommands) -> None:
    told = guide.run("cost").stdout
    assert "$" in told and "amd-cloud-mi300x" in told


@step
def an_alias_that_nobody_added_names_the_command(guide: GuideCommands) -> None:
    words = ("push", "gaussian-fast", "--host", "fresnel-cloud")
    assert "fresnel-tui host add fresnel-cloud" in guide.run(*words, exits=3).stderr


@step
def a_crash_is_resumed(guide: GuideCommands) -> None:
    last = guide.folder / "checkpoints" / "exp2" / "decoder_exp2_lastcheckpoint.pt"
    last.parent.mkdir(parents=True)
    last.write_bytes(b"PK\x03\x04")
    planned = plan(guide, "gaussian-fast", "--set", f"resume={last}", "--set", "epochs=100")
    assert f"--resume {last}" in line(planned)


@long_step
def validate_runs_to_its_end(guide: GuideCommands) -> None:
    words = ("--set", "epochs=2", "max_images=8", "gaussians_per_patch=1")
    run = guide.launch("gaussian-validate", *words)
    assert guide.ended(run)["state"] == "done", output(guide, run.id)[-3000:]
    assert (run.path / "checkpoints" / "best.pt").exists()
    assert list(run.path.rglob("*.onnx")) and (run.path / "output.log").stat().st_size


@long_step
def the_ended_session_says_its_cost(guide: GuideCommands) -> None:
    guide.run("session", "end", exits=None)
    assert "gaussian-validate" in guide.run("cost", "export").stdout
