"""The trainer as a program: what it writes, killed and resumed to the bit, two ranks as one."""

import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("nrrd")

from tests.trainers.said_once import series_of, told_twice  # noqa: E402
from tests.trainers.saved_state import differing_files, load  # noqa: E402
from tests.warm import TORCH  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.common.schedules import rate_at  # noqa: E402
from trainers.common.stopping import StopRequest  # noqa: E402
from trainers.implants.implant import main as implant_main  # noqa: E402
from trainers.skulls.made_up import defect_mask, make_up, skull_mask  # noqa: E402
from trainers.skulls.prepare import main as prepare_main  # noqa: E402
from trainers.skulls.prepare import prepare_pairs  # noqa: E402
from trainers.skulls.volumes import read_volume, write_volume  # noqa: E402
from trainers.voxelization import train as voxelization  # noqa: E402
from trainers.voxelization.model import Voxelizer  # noqa: E402
from trainers.voxelization.options import join_on_gpu, make_parser  # noqa: E402
from trainers.voxelization.reconstruction import load_voxelization  # noqa: E402
from trainers.voxelization.train import main  # noqa: E402

from .conftest import environment  # noqa: E402

pytestmark = pytest.mark.trainers

TRAIN = Path(__file__).resolve().parents[2] / "trainers" / "voxelization" / "train.py"
SMALL = """
data: {{train_path: "{root}/voxelization/train.csv", eval_path: "{root}/voxelization/eval.csv",
       pointcloud_n: 200, num_offset: 2, pointcloud_noise: 0.002}}
model:
  grid_res: 16
  c_dim: 8
  psr_sigma: 1
  s_offset: 0.02
  encoder_kwargs: {{hidden_dim: 8, grid_resolution: 4, unet3d_kwargs: {{num_levels: 2, f_maps: 8}}}}
  decoder_kwargs: {{hidden_size: 8}}
train: {{batch_size: 2, lr: 2.0e-3, n_workers: 0, print_every: 1, validate_every: 2,
        checkpoint_every: 1, total_epochs: 3, backup_every: 1}}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    make_up(folder / "skulls", 3, size=32, points=500, held_out=1)
    assert prepare_pairs(folder / "skulls", folder / "skulls" / "train.csv", (180, 20)) == []
    path = folder / "small.yaml"
    path.write_text(SMALL.format(root=folder / "skulls"))
    return path


def command(config: Path, *more: object, processes: int = 1) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    flags = [str(config), "--device", "cpu", "--threads", "1", "--no-tensorboard", *map(str, more)]
    return [sys.executable, *(launcher if processes > 1 else []), str(TRAIN), *flags]


def run(config: Path, folder: Path, *more: object, processes: int = 1):
    return TORCH.run(
        command(config, *more, processes=processes),
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    done = run(config, folder, "--ema", 0.9)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_a_user_s_own_skulls_of_different_shapes_get_to_an_implant(
    tmp_path, keep_signals, capsys
) -> None:
    own, cubes = tmp_path / "Meine Schädel", tmp_path / "Würfel"
    names = [f"2024 Müller, {letter}" for letter in "abc"]
    for number, name in enumerate(names):
        chance = np.random.default_rng(number)
        complete = skull_mask(32, chance)
        gone = defect_mask(complete, "random_1", chance)
        place = {"space": "RAS", "space directions": np.diag([6.0, 6.0, 7.0]),
                 "space origin": np.array([-90.0, -80.0, 700.0])}  # fmt: skip
        parts = {"complete_skull": complete, "defective_skull": complete & ~gone, "implant": gone}
        for part, mask in parts.items():
            padded = np.pad(mask, ((0, 2), (0, 0), (number, 0)))
            write_volume(own / part / f"{name}.nrrd", padded, (1.0,) * 3, place)
    for listing, listed in (("train.csv", names), ("test.csv", names[2:])):
        rows = [f'"complete_skull/{name}.nrrd"\n' for name in listed]
        (own / listing).write_text("".join(rows), encoding="utf-8")
    points = ["--target-points", "600", "--num_points", "300", "--num_nn", "30"]
    assert prepare_main(["--root", str(own), *points]) == 0
    config = tmp_path / "small.yaml"
    config.write_text(SMALL.format(root=own), encoding="utf-8")
    run = ["--config", str(config), "--epochs", "2", "--output_dir", str(tmp_path / "out")]
    assert main(run) == 2
    assert "--steps volumes clouds pairs --to FOLDER" in capsys.readouterr().err
    cube = ["--to", str(cubes), "--side", "32", "--spacing", "7", "--steps", "volumes", "clouds"]
    assert prepare_main(["--root", str(own), *cube, "pairs", *points]) == 0
    config.write_text(SMALL.format(root=cubes), encoding="utf-8")
    assert main(run) == 0
    assert "2 of 2 skulls" in capsys.readouterr().out
    true = ["--completions", "true", "--voxelizer", str(tmp_path / "out" / "model_best.pt")]
    folder = tmp_path / "implants"
    command = ["--path", str(cubes / "test.csv"), *true, "--output_dir", str(folder)]
    assert implant_main(command) == 0
    summary = json.loads((folder / "implants_true" / "benchmark_summary.json").read_text())
    assert summary["per_defect"]["all"]["cases"] == 1
    assert (folder / "implants_true" / f"{names[2]}_surf" / "mean_impl.nrrd").is_file()
    where = [read_volume(root / "complete_skull" / f"{names[2]}.nrrd") for root in (own, cubes)]
    middles = [volume.in_mm(np.argwhere(volume.mask)).mean(0) for volume in where]
    assert np.abs(middles[0] - middles[1]).max() < 1.5, "a cube lies where its skull lies"


def test_a_run_writes_what_the_guide_names_and_judges_beside_the_mean_volume(
    whole, read_events
) -> None:
    folder, output = whole
    for name in ("model.pt", "model_best.pt", "train.log", "history.json", "model/3.pt"):
        assert (folder / name).is_file(), name
    assert list((folder / "pictures").glob("inputs_it_00000000.png"))
    found = (
        "found        training pairs 5 of 1 skulls, evaluation pairs 5 of 1, points 200, grid 16 x"
    )
    assert found in output
    assert "effective batch 2: 2 per device x 1 device(s) x 1 accumulated" in output
    assert re.search(r"^\[Epoch 00\] it=0, loss=\d\.\d{4} loss_psr=\d\.\d{4} time=", output, re.M)
    assert re.search(r"^  psr_l2: \d\.\d{6}   mean volume \d\.\d{6}", output, re.M)
    assert (folder / "train.log").read_text().startswith("Number of parameters:")
    assert told_twice(series_of(folder, output)) == []
    events = read_events(folder)
    kinds = [event["type"] for event in events]
    assert kinds.index("image") < kinds.index("metrics")
    assert {"start", "phase", "epoch", "checkpoint", "summary"} <= set(kinds)
    epochs = [event["values"] for event in events if event["type"] == "epoch"]
    assert epochs[2]["loss"] < epochs[0]["loss"]
    assert {"val/psr_l2", "val/psr_iou", "baseline_psr_l2"} <= epochs[1].keys()
    last = load(folder / "model.pt")
    assert (last["epoch"], last["it"]) == (2, 8)
    assert isinstance(last["loss_val_best"], float)


def test_what_was_judged_last_is_exported_with_a_card_and_read_by_generate(whole) -> None:
    folder, output = whole
    path = folder / "checkpoints" / "voxelization.safetensors"
    assert f"weights      {path}, described in voxelization.md" in output
    exported, saved = (
        load_voxelization(file, None, torch.device("cpu")) for file in (path, folder / "model.pt")
    )
    assert (exported.points, exported.sigma) == (saved.points, saved.sigma)
    for one, other in zip(
        exported.network.state_dict().values(), saved.network.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)
    card = path.with_suffix(".md").read_text()
    assert "| val/psr_l2 |" in card and "5 samples of 1 skulls" in card
    assert str(folder.parent) not in card and "skulls.csv" not in card


def test_a_network_drawn_inside_out_says_so_and_learns_as_the_others_do(config, tmp_path) -> None:
    """Which seeds are, is found here: it depends on how torch draws."""
    told = {}
    for seed in range(8):
        folder = tmp_path / str(seed)
        done = run(config, folder, "--seed", seed, "--epochs", 1)
        assert done.returncode == 0, done.stderr
        first = re.search(r"it=0, loss=(\S+)", done.stdout)
        said = re.search(r"^normals .*loss (\S+), now (\S+)\)$", done.stdout, re.M)
        told[seed] = said is not None
        if said:
            drawn, now = map(float, said.groups())
            assert now < drawn
            assert float(first[1]) == pytest.approx(now, abs=0.15)  # other skulls than were judged
        if len(set(told.values())) == 2:
            break
    assert set(told.values()) == {True, False}
    on = run(config, folder, "--seed", seed, "--epochs", 2, "--resume", folder / "model.pt")
    assert on.returncode == 0, on.stderr
    assert "normals" not in on.stdout
    told = [line for line in on.stderr.splitlines() if "1 there and 2 here" in line]
    assert told == ["warning: resume: train.total_epochs is 1 there and 2 here"]


def test_killed_at_random_moments_and_resumed_it_ends_with_the_same_bits(
    config, whole, tmp_path
) -> None:
    straight, _ = whole
    # A folder of its own: `auto` would find the finished run beside it otherwise.
    folder = tmp_path / "alone"
    chance = random.Random(5)
    for _ in range(3):
        process = TORCH.start(
            command(config, "--ema", 0.9, "--resume", "auto-or-new"),
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        lines = chance.randint(1, 6)
        for line in process.stdout:
            lines -= line.startswith(("[Epoch", "Save new"))
            if lines == 0:
                process.send_signal(signal.SIGKILL)
                break
        process.communicate(timeout=60)
    done = run(config, folder, "--ema", 0.9, "--resume", "auto-or-new")
    assert done.returncode == 0, done.stderr
    assert differing_files(straight / "model.pt", folder / "model.pt") == []


def test_asked_to_stop_it_saves_inside_the_epoch_and_goes_on_to_the_same_bits(
    config, whole, tmp_path, monkeypatch, keep_signals, processes_begun
) -> None:
    """By two workers, which live to the end, and one that judges twice."""
    straight, _ = whole
    (tmp_path / "stop.json").symlink_to(tmp_path / "pictures" / "inputs_it_00000000.png")
    stopped = run(config, tmp_path, "--ema", 0.9)
    assert stopped.returncode == 0, stopped.stderr
    assert "stopped by the stop file after 1 steps; resume with --resume" in stopped.stdout
    assert load(tmp_path / "model.pt")["position"]["step_in_epoch"] == 1
    (tmp_path / "stop.json").unlink()
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    loading = tmp_path / "loading.yaml"
    words = config.read_text().replace("n_workers: 0", "n_workers: 2, n_workers_val: 1")
    loading.write_text(words)
    assert main(command(loading, "--ema", 0.9, "--resume", tmp_path / "model.pt")[2:]) == 0
    assert len(processes_begun) == 3
    assert differing_files(straight / "model.pt", tmp_path / "model.pt") == []


def test_another_batch_goes_on_as_far_in_the_schedule_and_a_step_left_out_is_no_loss(
    config, whole, tmp_path, monkeypatch, keep_signals, first_gradient_spoiled, read_events, capfd
) -> None:
    """Twice the devices are half the steps: the rate would be at its end long before the epochs."""
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    first = whole[0] / "checkpoints" / "epoch_0001.pt"
    more = ("--batch_size", 5, "--schedule", "cosine", "--ema", 0.9, "--resume", first)
    assert main(command(config, *more)[2:]) == 0
    told = capfd.readouterr().err
    assert "3 steps were taken; by this batch and these data they are 1: counted anew" in told
    assert "step 2: the gradient is not finite; the step is left out" in told
    steps = read_events(tmp_path, "metrics")
    rates = [event["values"]["learning_rate"] for event in steps]
    assert rates == pytest.approx([rate_at(step, 3, 2e-3) for step in (1, 2)])
    losses = [event["values"]["loss"] for event in read_events(tmp_path, "epoch")]
    assert losses[0] is None and 0 < losses[1] == steps[1]["values"]["loss"]


def test_two_ranks_with_half_the_batch_lose_as_much_as_one(config, tmp_path) -> None:
    lines = []
    for processes, batch in ((1, 2), (2, 1)):
        folder = tmp_path / str(processes)
        flags = ("--batch_size", batch, "--epochs", 1)
        done = run(config, folder, *flags, processes=processes)
        assert done.returncode == 0, done.stderr
        lines.append(re.findall(r"it=(\d), loss=(\S+)", (folder / "train.log").read_text()))
    # Five pairs make two whole batches; with two ranks one pair is drawn again to fill the third.
    for (first, alone), (second, shared) in zip(lines[0][:2], lines[1][:2], strict=True):
        assert first == second
        assert abs(float(alone) - float(shared)) <= 1.1e-4


def test_a_published_checkpoint_is_gone_on_from_with_a_warning(config, whole, tmp_path) -> None:
    import numpy as np

    straight, _ = whole
    content = load(straight / "model.pt")
    path = tmp_path / "published.pt"
    old = {"epoch": 1, "it": 5, "loss_val_best": np.float64(0.4)}
    torch.save({**old, "state_dict": content["state_dict"]}, path)
    done = run(config, tmp_path / "run", "--resume", path)
    assert done.returncode == 0, done.stderr
    assert "holds no optimiser state, so Adam begins anew" in done.stderr
    assert "[Epoch 02] it=6" in done.stdout
    assert "[Epoch 01]" not in done.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "no data: name data.train_path"),
        (("--train_path", "none.csv", "--eval_path", "none.csv"), "none.csv: cannot be read"),
        (("--made_up", "4", "--no_cuda", "--device", "cuda"), "contradict each other"),
        (("--wandb-project", "x"), "--wandb-project: use --wandb PROJECT"),
        (("--lrr", "1"), "unknown argument --lrr"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_2(
    tmp_path, monkeypatch, capsys, flags, words
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    try:
        code = main(["--output_dir", str(tmp_path), *flags])
    except SystemExit as ended:
        code = ended.code
    told = capsys.readouterr().err
    assert code == 2
    assert told.count("\n") == 1
    assert words in told


def test_workers_that_shared_memory_cannot_hold_are_refused_before_a_file(
    config, tmp_path, capsys, keep_signals, little_shared_memory
) -> None:
    little_shared_memory(20_000)
    words = [str(config), "--device", "cpu", "--threads", "1", "--workers", "3"]
    assert main([*words, "--output_dir", str(tmp_path / "out")]) == 2
    assert "GiB of /dev/shm, 3 worker(s)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_named_is_the_only_one_touched(monkeypatch) -> None:
    touched: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", touched.append)
    ranks = join_on_gpu("auto", 2)
    assert touched == [ranks.device] == [torch.device("cuda", 2)]
    assert ranks.reason == "train.gpu 2 of 3"
    with pytest.raises(SettingsError, match="sees 3 GPU"):
        join_on_gpu("auto", 3)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SettingsError, match="CUDA_VISIBLE_DEVICES=2"):
        join_on_gpu("auto", 2)
    assert len(touched) == 1
    monkeypatch.delenv("WORLD_SIZE")
    assert join_on_gpu("cpu", 2).device.type == "cpu"
    # Where there is none, a GPU that was named is not the CPU without a word.
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert join_on_gpu("auto", 0).device.type == "cpu"
    with pytest.raises(SettingsError, match="sees 0 GPU"):
        join_on_gpu("auto", 2)


def test_a_compiled_network_takes_the_same_steps(config, tmp_path, monkeypatch) -> None:
    """By the backend that traces and generates no code: a compiler need not be there."""
    monkeypatch.setattr("trainers.common.compiling.why_not_compiled", lambda device: "")
    compiled = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda it: compiled(it, backend="aot_eager"))
    losses = []
    for more in ([], ["--compile"]):
        folder = tmp_path / str(len(more))
        words = [str(config), "--device", "cpu", "--no-tensorboard", "--output_dir", str(folder)]
        settings = make_parser().read([*words, *more])
        made = voxelization.prepare(settings, StopRequest())
        group = [voxelization.collate_pairs([made.training[0], made.training[1]])]
        meter = SimpleNamespace(count=lambda _: None)
        losses.append([voxelization.take_step(made, group, meter)[0] for _ in range(2)])
        assert set(made.network.state_dict()) == set(Voxelizer(made.network.sizes).state_dict())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_implants_are_misplaced_as_a_model_would_and_skulls_never(config) -> None:
    from trainers.voxelization.data import VoxelPairs, read_manifest

    pairs = read_manifest(config.parent / "skulls" / "voxelization" / "train.csv")
    true = VoxelPairs(pairs, (16, 16, 16), 200)
    moved = VoxelPairs(pairs, (16, 16, 16), 200, implant_noise=0.05)
    again = VoxelPairs(pairs, (16, 16, 16), 200, implant_noise=0.05)
    distances = []
    for index in range(len(pairs)):
        change = moved[index]["inputs"] - true[index]["inputs"]
        assert not change[:180].any() and change[180:].any()
        assert torch.equal(moved[index]["inputs"], again[index]["inputs"])
        distances.append(change[180:].norm(dim=1).mean())
        # One move for all of them, and one for each.
        assert change[180:].mean(0).norm() > 0 and change[180:].std(0).min() > 0
    assert max(distances) < 0.3 and len({float(distance) for distance in distances}) == len(pairs)


def test_a_mask_travels_as_bits_and_the_defects_of_a_skull_share_it(config, tmp_path) -> None:
    import numpy as np

    from trainers.voxelization.data import VoxelPairs, collate_pairs, read_manifest, target_of

    pairs = read_manifest(config.parent / "skulls" / "voxelization" / "train.csv")
    bits, coarse = (VoxelPairs(pairs, (side,) * 3, 200) for side in (32, 16))
    same = [index for index, pair in enumerate(pairs) if pair.vox == pairs[0].vox]
    batch = collate_pairs([bits[index] for index in same])
    written = np.load(pairs[0].vox)["psr"]
    assert batch["gt_bits"].nbytes == len(same) * written.size // 8
    assert torch.equal(
        target_of(batch, (32,) * 3), torch.from_numpy(written).expand(len(same), -1, -1, -1)
    )
    places = {bits[index]["gt_bits"].data_ptr() for index in same}
    assert len(places) == 1
    # A coarser grid has values between the two; they are sent as they are.
    assert coarse[0]["gt_psr"].unique().numel() > 2
    odd = tmp_path / "odd.npz"
    np.savez(odd, psr=written * np.float32(0.9))
    both = VoxelPairs([pairs[0], pairs[0].__class__(odd, pairs[0].cloud)], (32,) * 3, 200)
    mixed = target_of(collate_pairs([both[0], both[1]]), (32,) * 3)
    assert torch.allclose(mixed[1], 0.9 * mixed[0])


def test_bad_pairs_are_named_before_the_first_step(config, tmp_path) -> None:
    import numpy as np

    from trainers.skulls.listing import SkullDataError
    from trainers.voxelization.data import check_pairs, read_manifest

    manifest = tmp_path / "train.csv"
    points, psr = np.full((10, 3), 0.5, np.float32), np.full((16, 16, 16), 0.5, np.float32)

    def refused(text: str) -> str:
        manifest.write_text(text)
        with pytest.raises(SkullDataError) as caught:
            check_pairs(read_manifest(manifest), (16, 16, 16))
        return str(caught.value)

    make = f"make it with: python trainers/skulls/prepare.py --root {tmp_path.parent}"
    assert refused("# heading only\n").endswith(f"lists nothing; {make}")
    assert "is a list of skulls" in refused("complete_skull/000_surf.npy\n")
    assert "there is no file" in refused("000\n")
    np.savez(tmp_path / "000_pc.npz", points=points)
    np.savez(tmp_path / "000_vox.npz", psr=psr[:12])
    assert "not 1, 2, 4 or 8 times" in refused("000\n")
    np.savez(tmp_path / "000_vox.npz", other=psr)
    assert refused("000\n").endswith(f"holds no array 'psr'; delete it and {make}")
    np.savez(tmp_path / "000_vox.npz", psr=psr)
    np.savez(tmp_path / "000_pc.npz", points=points * np.nan)
    assert "NaN" in refused("000\n")
    np.savez(tmp_path / "000_pc.npz", points=points * 100)
    assert "divided by 16" in refused("000\n")
    (tmp_path / "000_pc.npz").write_bytes(b"PK")
    assert "is damaged" in refused("000\n")
    np.savez(tmp_path / "000_pc.npz", points=points)
    listed = "row 3: 000 is listed in row 1, too; remove one"
    np.savez(tmp_path / "001_vox.npz", psr=psr)
    np.savez(tmp_path / "001_pc.npz", points=points)
    assert listed in refused("000\n001\n000_pc.npz,000_vox.npz\n")
    manifest.write_text("000_pc.npz,000_vox.npz\n")
    check_pairs(read_manifest(manifest), (8, 8, 8))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0, 1), "psr reaches from 0 to 1: a target is below 0"),
        ((0.5, 0.5), "psr reaches from 0.5 to 0.5"),
        ((-0.5, 0.5j), "holds complex128, which are no real numbers"),
    ],
)
def test_a_target_that_shows_no_skull_is_refused(values, words: str, tmp_path) -> None:
    import numpy as np

    from trainers.skulls.listing import SkullDataError
    from trainers.voxelization.data import Pair, VoxelPairs

    psr = np.where(np.arange(16**3).reshape(16, 16, 16) % 2, *values)
    np.savez(tmp_path / "000_vox.npz", psr=psr)
    with pytest.raises(SkullDataError, match=rf"000_vox\.npz: {words}"):
        VoxelPairs([Pair(tmp_path / "000_vox.npz")], (16, 16, 16), 10).target(0)


def test_few_points_have_no_implant_to_misplace() -> None:
    import numpy as np

    from trainers.voxelization.data import misplaced

    points, chance = np.ones((3, 3), np.float32), np.random.default_rng(0)
    assert np.array_equal(misplaced(points, 0.1, chance), points)
