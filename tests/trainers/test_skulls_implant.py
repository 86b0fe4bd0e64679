"""From completions to implants: files read in both forms, figures, meshes, and going on."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
nrrd = pytest.importorskip("nrrd")
trimesh = pytest.importorskip("trimesh")
yaml = pytest.importorskip("yaml")

from tests.warm import TORCH  # noqa: E402
from trainers.common.errors import SettingsError, StoppedError  # noqa: E402
from trainers.common.settings_parser import plain, write_settings  # noqa: E402
from trainers.common.weights import read_weights  # noqa: E402
from trainers.implants import completing, evaluate, unet  # noqa: E402
from trainers.implants import implant as pipeline  # noqa: E402
from trainers.implants.completing import complete_truly, missing_cases  # noqa: E402
from trainers.implants.published import PROTOCOLS  # noqa: E402
from trainers.implants.trained_models import SHIPPED, find_model  # noqa: E402
from trainers.skulls.listing import (  # noqa: E402
    DEFECTS,
    SkullDataError,
    SkullSample,
    read_listing,
)
from trainers.skulls.made_up import make_up  # noqa: E402
from trainers.skulls.shaping import Shaping, cut_out, vote  # noqa: E402
from trainers.skulls.volumes import read_volume  # noqa: E402
from trainers.voxelization import generate  # noqa: E402
from trainers.voxelization.cases import Output  # noqa: E402
from trainers.voxelization.completions import find_cases, read_completion  # noqa: E402
from trainers.voxelization.config import read_config  # noqa: E402
from trainers.voxelization.data import Pair, completed_points, read_array  # noqa: E402
from trainers.voxelization.dpsr import DPSR  # noqa: E402
from trainers.voxelization.model import Voxelizer  # noqa: E402
from trainers.voxelization.reconstruction import load_voxelization  # noqa: E402

pytestmark = pytest.mark.trainers
PRESETS = Path(__file__).resolve().parents[2] / "presets"

SMALL = {
    "data.num_offset": 2,
    "data.pointcloud_n": 300,
    "model.grid_res": 32,
    "model.c_dim": 8,
    "model.encoder_kwargs.hidden_dim": 8,
    "model.encoder_kwargs.grid_resolution": 4,
    "model.encoder_kwargs.unet3d_kwargs.num_levels": 2,
    "model.encoder_kwargs.unet3d_kwargs.f_maps": 8,
    "model.decoder_kwargs.hidden_size": 8,
}


class PerfectVoxelization:
    """Answers with the complete skull of the root it is given, whatever the points say."""

    device = torch.device("cpu")

    def __init__(self, root: Path) -> None:
        self.mask = read_volume(root / "complete_skull" / "002.nrrd").mask

    def skull(self, cloud: np.ndarray, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
        assert cloud.shape[1] == 3
        assert 0 < cloud.min() < cloud.max() < max(shape)
        return self.mask


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("skulls") / "data"
    make_up(folder, 3, size=32, points=1000, held_out=1)
    return folder


@pytest.fixture(scope="module")
def syn(root) -> Path:
    folder = root / "results" / "syn"
    complete_truly(read_listing(root / "test.csv"), folder, 270, 30)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    values = read_config(None, SMALL)
    sizes = load_sizes(values)
    path = tmp_path_factory.mktemp("model") / "model_best.pt"
    plain = {**values, "model.grid_res": [32, 32, 32]}
    torch.save({"state_dict": Voxelizer(sizes).state_dict(), "settings": plain}, path)
    return path


def load_sizes(values):
    from trainers.voxelization.config import architecture

    return architecture(values)


def test_skulls_may_have_any_names(root, tmp_path) -> None:
    for path in [*root.rglob("002*")]:
        copy = tmp_path / path.relative_to(root).parent / path.name.replace("002", "Müller_b")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (tmp_path / "test.csv").write_text("complete_skull/Müller_b_surf.npy\n", encoding="utf-8")
    samples = read_listing(tmp_path / "test.csv")
    complete_truly(samples, tmp_path / "syn", 270, 30)
    cases = find_cases(tmp_path / "syn")
    assert len(cases) == len(DEFECTS)
    found = [read_completion(case, 1) for case in cases]
    assert {(case.defect, case.subject) for case in found} == {(k, "Müller_b") for k in DEFECTS}
    for name, subject in (
        ("1001_random_1", "1001"),
        ("Müller_b_bilateral", "Müller_b"),
        ("random_1_070", "070"),
        ("bilateral070", "070"),
        ("070", "070"),
        ("2024 a", "2024 a"),
        ("2024 b", "2024 b"),
    ):
        assert Pair(Path(f"{name}_vox.npz")).subject == subject


def test_an_implant_lies_where_its_skull_lies(root, syn, tmp_path) -> None:
    """Moved and turned by its header: the implant's volume too, and its mesh in the patient."""
    case = syn / "bilateral002_surf"
    data = shutil.copytree(root, tmp_path / "data", ignore=shutil.ignore_patterns("results"))
    for folder in ("defective_skull", "implant"):
        path = data / folder / "bilateral" / "002.nrrd"
        mask, header = nrrd.read(str(path))
        header["space"] = "right-anterior-superior"
        header["space directions"] = np.array([[0, 6.0, 0], [-5.0, 0, 0], [0, 0, 4.0]])
        header["space origin"] = np.array([100.0, -20.0, 7.0])
        nrrd.write(str(path), mask, header)
    output = Output(tmp_path / "out")
    said: list[str] = []
    _, failures = generate.make_all(
        [case], data, PerfectVoxelization(root), output, 1, write=said.append
    )
    assert failures == []
    made, header = nrrd.read(str(tmp_path / "out" / case.name / "mean_impl.nrrd"))
    assert header["space"] == "right-anterior-superior"
    voxels = np.argwhere(made)
    places = voxels @ header["space directions"] + header["space origin"]
    mesh = trimesh.load(tmp_path / "out" / case.name / "implant.stl")
    assert mesh.is_watertight and mesh.volume > 0
    middle = places.mean(0) * (-1, -1, 1)
    assert np.abs(mesh.center_mass - middle).max() < 3
    # The truth's axes run otherwise: they cannot be laid over each other.
    header["space directions"] = np.diag([6.0, 5.0, 4.0])
    nrrd.write(str(data / "implant" / "bilateral" / "002.nrrd"), mask, header)
    _, failures = generate.make_all(
        [case], data, PerfectVoxelization(root), output, 1, overwrite=True, write=said.append
    )
    assert "the axes of the implant's volume run RAS" in failures[0]


def test_completions_are_read_whole_or_as_implants_alone(root, syn, tmp_path) -> None:
    cases = find_cases(syn)
    assert [case.name for case in cases][:2] == ["bilateral002_surf", "frontoorbital002_surf"]
    found = read_completion(cases[0], 1)
    assert (found.defect, found.subject) == ("bilateral", "002")
    assert found.clouds[0].shape == (300, 3)
    assert found.implants[0].shape == (30, 3)
    inside = read_volume(found.volume(root, "implant")).mask
    box = np.argwhere(inside)
    assert (found.implants[0] >= box.min(0) - 1.1).all()
    assert (found.implants[0] <= box.max(0) + 1.1).all()

    other = tmp_path / "bilateral002_surf"
    other.mkdir()
    for name in ("input", "shift", "scale"):
        np.save(other / f"{name}.npy", np.load(cases[0] / f"{name}.npy"))
    with pytest.raises(SkullDataError, match=r"sample.npy is missing"):
        read_completion(other, 1)
    np.save(other / "sample.npy", np.load(cases[0] / "sample.npy")[:, -30:])
    alone = read_completion(other, 1)
    np.testing.assert_allclose(alone.clouds[0], found.clouds[0], atol=1e-4)
    with pytest.raises(SkullDataError, match="holds 1 completions and 2 are asked for"):
        read_completion(other, 2)
    with pytest.raises(SkullDataError, match="holds no completions"):
        find_cases(tmp_path / "nothing")


def test_implants_are_made_judged_drawn_and_meshed_and_not_made_twice(root, syn, tmp_path) -> None:
    output = Output(tmp_path / "out", members=True, truth=True, made_with="perfect 1")
    said: list[str] = []
    voxelization = PerfectVoxelization(root)
    cases = find_cases(syn)
    rows, failures = generate.make_all(cases, root, voxelization, output, 1, write=said.append)
    assert failures == []
    assert all(row["dice"] > 0.8 for row in rows)
    assert all(row["dice"] > row["mirror_dice"] for row in rows if row["defect"] == "bilateral")
    folder = tmp_path / "out" / "random_2002_surf"
    for name in ("mean_impl.nrrd", "impl_0.nrrd", "true_impl.nrrd", "input.ply", "slices.png"):
        assert (folder / name).is_file(), name
    figures = yaml.safe_load((folder / "eval_metrics.yaml").read_text())
    assert figures["dice"] == rows[-1]["dice"]
    assert figures["mirror"]["dice"] == rows[-1]["mirror_dice"]
    volume = read_volume(folder / "mean_impl.nrrd")
    mesh = trimesh.load(folder / "implant.stl")
    assert mesh.is_watertight
    cubic_mm = volume.mask.sum() * math.prod(volume.spacing)
    assert mesh.volume == pytest.approx(cubic_mm, rel=0.25)

    summary = generate.write_benchmark(tmp_path / "out", rows, {"ensemble_size": 1})
    told = json.loads((tmp_path / "out" / "benchmark_summary.json").read_text())
    assert told["per_defect"]["all"]["cases"] == summary["case_count"] == 5
    assert told["per_defect_mirror"]["all"]["dice"] < told["per_defect"]["all"]["dice"]
    table = (tmp_path / "out" / "benchmark_cases.csv").read_text().splitlines()
    assert len(table) == 6
    assert table[0].startswith("case_name,case_dir,mean_implant_path,eval_metrics_path,dice")

    again: list[str] = []
    rows_again, _ = generate.make_all(cases, root, voxelization, output, 1, write=again.append)
    assert [row["dice"] for row in rows_again] == [row["dice"] for row in rows]
    assert all("done already" in line for line in again)
    # Drawn again meanwhile, by another network, say.
    drawn = np.load(cases[1] / "sample.npy")
    np.save(cases[1] / "sample.npy", drawn + np.float32(1e-3))
    again.clear()
    generate.make_all(cases[:2], root, voxelization, output, 1, write=again.append)
    assert "done already" in again[0] and "done already" not in again[1]
    np.save(cases[1] / "sample.npy", drawn)
    other = Output(tmp_path / "out", made_with="another model")
    generate.make_all(cases[:1], root, voxelization, other, 1, write=again.append)
    assert "Sampling step [1/1] ..." in again


def test_a_case_is_done_again_where_anything_that_decides_it_has_changed(
    root, syn, tmp_path
) -> None:
    """Its shaping, what is to be written, its volumes: else the old figures are told as the new."""
    shutil.copytree(root, tmp_path / "data")
    root, cases, said = tmp_path / "data", find_cases(syn)[:1], []
    voxelization = PerfectVoxelization(root)

    def again(points: int | None = None, **how) -> bool:
        said.clear()
        output = Output(tmp_path / "out", **how)
        generate.make_all(cases, root, voxelization, output, 1, points, write=said.append)
        return not any("done already" in line for line in said)

    small = Shaping(radius_scale=0.4)
    for how in ({}, {"members": True}, {"truth": True}, {"shaping": small}, {"metrics": False}):
        assert (again(**how), again(**how)) == (True, False), how
    assert again(5) and not again(5)
    assert (again(), again()) == (True, False)
    truth = root / "implant" / "bilateral" / "002.nrrd"
    kept = truth.read_bytes()
    truth.unlink()
    assert again() and not again()
    truth.write_bytes(kept)
    assert again() and not again(), "it can be judged now"


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("scale", np.zeros(0)), ("shift", np.zeros(0)), ("shift", np.zeros(2)),
        ("input", np.zeros(10)), ("input", np.zeros((1, 0, 3))), ("sample", np.zeros((1, 0, 3))),
        ("sample", np.zeros((1, 9, 2))), ("shift", None),
    ],
)  # fmt: skip
def test_completions_of_other_shapes_are_refused_by_name(syn, tmp_path, name, array) -> None:
    case = tmp_path / find_cases(syn)[0].name
    shutil.copytree(find_cases(syn)[0], case)
    assert read_completion(case, 1).clouds
    if array is None:
        with (case / f"{name}.npy").open("wb") as file:
            np.savez(file, a=np.zeros(3))
    else:
        np.save(case / f"{name}.npy", array)
    with pytest.raises(SkullDataError, match=re.escape(str(case))):
        read_completion(case, 1)
    files = tuple(case / f"{part}.npy" for part in ("sample", "shift", "scale"))
    if name != "input":
        with pytest.raises(SkullDataError, match=re.escape(str(case))):
            completed_points(Pair(vox=case, generated=files), 32)
    (case / "a_pc.npz").write_bytes((case / "scale.npy").read_bytes())
    with pytest.raises(SkullDataError, match=r"a_pc\.npz: is damaged"):
        read_array(case / "a_pc.npz", "points")


def test_a_stop_ends_a_case_between_its_parts_and_it_is_made_anew(root, syn, tmp_path) -> None:
    cases, said = find_cases(syn)[:2], []
    skull, drawn = PerfectVoxelization(root).skull, []

    class Asked(PerfectVoxelization):
        def skull(self, *given):
            drawn.append(given)
            return skull(*given)

    def make(model: str, stop=lambda: False) -> list[dict]:
        output = Output(tmp_path / "out", made_with=model)
        given = (cases, root, Asked(root), output, 1)
        return generate.make_all(*given, stop=stop, write=said.append)[0]

    before = make("one")
    rows = make("another", stop=lambda: len(drawn) == 4)  # while the second is made
    assert [row["case_name"] for row in rows] == [cases[0].name]
    assert said[-2:] == [
        "Sampling step [1/1] ...",
        "stopped before case 2/2 was done; start again to go on there",
    ]
    said.clear()
    assert [row["dice"] for row in make("another")] == [row["dice"] for row in before]
    assert "done already" in said[0] and "Sampling step [1/1] ..." in said
    # What is there is another model's by now, whichever part of it.
    make("one", stop=lambda: len(drawn) == 6)
    said.clear()
    make("another")
    assert not any("done already" in line for line in said[:2])


def test_an_empty_implant_is_a_failure_with_figures_and_a_broken_case_is_named(
    root, syn, tmp_path
) -> None:
    voxelization = PerfectVoxelization(root)
    voxelization.mask = np.zeros_like(voxelization.mask)
    cases = [find_cases(syn)[0], tmp_path / "random_1002_surf"]
    output = Output(tmp_path / "out")
    rows, failures = generate.make_all(cases, root, voxelization, output, 1, write=lambda _: None)
    assert (rows[0]["dice"], rows[0]["hd95_mm"]) == (0.0, math.inf)
    assert not (tmp_path / "out" / cases[0].name / "implant.stl").exists()
    assert len(failures) == 1
    assert "random_1002_surf" in failures[0]
    summary = generate.write_benchmark(tmp_path / "out", rows, {})
    assert summary["per_defect"]["bilateral"]["failed"] == 1
    again, _ = generate.make_all(cases[:1], root, voxelization, output, 1, write=lambda _: None)
    assert float(again[0]["hd95_mm"]) == math.inf


def test_generate_runs_from_its_flags_and_says_when_the_mirror_is_better(
    root, syn, model, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    flags = ["--path", str(syn), "--model_file", str(model), "--num_ensemble", "1"]
    code = generate.main([*flags, "--device", "cpu", "--output_dir", str(tmp_path)])
    told = capsys.readouterr().out
    assert code == 0
    assert "5 cases of SkullBreak" in told
    assert "not above the mirror baseline's" in told
    assert (tmp_path / "generation_ours" / "benchmark_cases.csv").is_file()
    assert generate.main([*flags, "--dset", "SkullFix", "--device", "cpu"]) == 2
    assert "is a case of SkullBreak" in capsys.readouterr().err


def test_published_weights_make_implants(root, syn, tmp_path, monkeypatch, capsys) -> None:
    """A file as the original project writes it: its sizes, DDP's names, a NumPy scalar inside."""
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    torch.manual_seed(0)
    network = Voxelizer(load_sizes(read_config(None, {})))
    state = network.state_dict()
    assert (sum(p.numel() for p in network.parameters()), len(state)) == (1_085_272, 129)
    content = {
        "epoch": 7,
        "it": 99,
        "loss_val_best": np.float64(0.25),
        "state_dict": {f"module.{name}": tensor for name, tensor in state.items()},
    }
    torch.save(content, tmp_path / "model_best.pt")
    flags = ["--path", str(syn), "--model_file", str(tmp_path / "model_best.pt")]
    flags += ["--num_ensemble", "1", "--psr_resolution", "32", "--output_dir", str(tmp_path)]
    assert generate.main([*flags, "--device", "cpu", "--threads", "1"]) == 0
    assert "5 cases of SkullBreak" in capsys.readouterr().out
    case = find_cases(syn)[0]
    made = read_any(tmp_path / "generation_ours" / case.name / "mean_impl.nrrd")
    # The same by hand: points through the network, solved, cut from the defective skull.
    voxelization = load_voxelization(tmp_path / "model_best.pt", None, torch.device("cpu"))
    completion = read_completion(case, 1)
    skull = voxelization.skull(completion.clouds[0], (32, 32, 32), 1)
    bone = read_volume(completion.volume(root, "defective_skull"))
    how = Shaping.for_spacing(bone.spacing)
    np.testing.assert_array_equal(
        made, cut_out(vote([skull], how.dilation), bone.mask, completion.implants[0], how)
    )
    with torch.no_grad():
        points = torch.from_numpy(completion.clouds[0][None] / 32).float().clamp(0, 1 - 1e-5)
        field = DPSR((32, 32, 32), 2)(*network.eval()(points))
    np.testing.assert_array_equal(skull, (field[0] <= 0).numpy())


def read_any(path: Path) -> np.ndarray:
    """A mask that may be empty, as random weights make it."""
    return nrrd.read(str(path))[0] > 0


def test_a_coarser_solution_is_interpolated_to_the_volumes_voxels(model) -> None:
    fine = load_voxelization(model, None, torch.device("cpu"))
    assert fine.points == 300
    chance = np.random.default_rng(0)
    cloud = chance.random((300, 3)).astype(np.float32) * 20 + 6
    assert fine.skull(cloud, (32, 32, 32)).shape == (32, 32, 32)
    fine.resolution = (16, 16, 16)
    assert fine.skull(cloud, (32, 32, 32)).shape == (32, 32, 32)
    with pytest.raises(SettingsError, match="other proportions"):
        fine.skull(cloud, (32, 32, 24))


def test_the_pipeline_goes_from_made_up_skulls_to_implants(
    model, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path / "run"))
    flags = ["--made_up", "2", "--made_up_size", "32", "--limit", "2", "--device", "cpu"]
    flags += ["--output_dir", str(tmp_path / "run")]
    code = pipeline.main([*flags, "--completions", "true", "--voxelizer", str(model)])
    told = capsys.readouterr().out
    assert code == 0
    assert "found        2 defective skulls" in told
    assert (tmp_path / "run" / "implants_true" / "benchmark_summary.json").is_file()
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").open()]
    summary, end = events[-2:]
    assert (summary["type"], end["type"], end["code"]) == ("summary", "end", 0)
    assert {"dice", "mirror_dice"} <= summary["values"].keys()
    assert pipeline.main([*flags, "--voxelizer", str(model)]) == 2
    assert "launch skull-both or skull-both-tiny first" in capsys.readouterr().err
    assert pipeline.main(["--device", "cpu"]) == 2
    assert "name a list with --path" in capsys.readouterr().err
    # No skull is made up where no model would make an implant.
    empty = tmp_path / "empty"
    words = ["--made_up", "2", "--output_dir", str(empty), "--device", "cpu"]
    assert pipeline.main([*words, "--pcdiff", "no.pt", "--shipped"]) == 2
    assert "--pcdiff: there is no file no.pt" in capsys.readouterr().err
    assert not empty.exists()


def test_the_table_stands_beside_the_published_and_says_what_is_not_comparable(
    model, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    monkeypatch.setattr(pipeline, "find_rivals", lambda *_: (model, {"unet": lambda bone: ~bone}))
    flags = ["--made_up", "2", "--made_up_size", "32", "--limit", "2", "--device", "cpu"]
    flags += ["--output_dir", str(tmp_path), "--completions", "true", "--voxelizer", str(model)]
    assert evaluate.main(flags) == 0
    output = capsys.readouterr().out
    assert "mean DSC" in output and "the unet baseline's" in output
    folder = tmp_path / "implants_true"
    written = (folder / "evaluation.md").read_text()
    assert written.strip() in output
    lines = written.splitlines()
    ours, published = "\n".join(lines).split("published, not measured here")
    assert [f"{name} (here) | 2 |" in ours for name in evaluate.OURS.values()] == [True] * 3
    assert "| PCDiff, 5 members (Friedrich et al. 2023) |  | 0.87 | 0.89 | 2.45 |" in published
    assert "NOT the published protocol: 2 cases of 1 skulls" in published
    assert (folder / "bilateral001_surf" / "unet_impl.nrrd").is_file()
    again = ["--results", str(folder), "--train_path", str(tmp_path / "made_up" / "train.csv")]
    assert evaluate.main(again) == 0
    assert "trained on 1 skulls, and not 114" in capsys.readouterr().out
    assert evaluate.main(["--results", str(tmp_path)]) == 2
    assert "benchmark_cases.csv cannot be read" in capsys.readouterr().err

    def asked_to_stop(*given: object, **more: object) -> object:
        os.kill(os.getpid(), signal.SIGUSR1)
        return generate.make_all(*given, **more)

    (folder / "evaluation.md").unlink()
    shutil.rmtree(folder / "bilateral001_surf")
    monkeypatch.setattr(pipeline, "make_all", asked_to_stop)
    assert evaluate.main(flags) == 128 + signal.SIGUSR1
    assert not (folder / "evaluation.md").exists()
    monkeypatch.undo()
    # Asked once all is made, it has made all.
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    monkeypatch.setattr(pipeline, "find_rivals", lambda *_: (model, {"unet": lambda bone: ~bone}))

    def asked_at_the_end(*given: object, **more: object) -> object:
        made = generate.make_all(*given, **more)
        os.kill(os.getpid(), signal.SIGTERM)
        return made

    monkeypatch.setattr(pipeline, "make_all", asked_at_the_end)
    assert evaluate.main(flags) == 0
    assert (folder / "evaluation.md").is_file()


def test_a_stop_that_both_programs_were_sent_is_no_failure_of_the_drawing(tmp_path) -> None:
    """A terminal's Ctrl+C: the drawing one may have ended before the other asks it to."""
    asked: list[int] = []
    command = ["-c", "raise SystemExit(130)", "x/sample.py"]

    def stop() -> bool:
        return bool(asked)

    with pytest.raises(SettingsError, match="ended with exit code 130"):
        completing.run_program(command, stop, tmp_path / "events")
    start = subprocess.Popen

    def started(*given, **more):
        process = start(*given, **more)
        process.wait()
        asked.append(1)
        return process

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(completing.subprocess, "Popen", started)
        completing.run_program(command, stop, tmp_path / "events")


def test_the_protocols_own_numbers_are_said_to_be_so() -> None:
    rows = [
        {"case_name": f"{defect}{skull:03d}_surf", "defect": defect}
        for skull in range(20)
        for defect in DEFECTS
    ]
    training = [
        SkullSample(str(n), None, Path(f"complete_skull/{n:03d}_surf.npy"), Path(), Path())
        for n in range(114)
    ]
    protocol = PROTOCOLS["SkullBreak"]
    assert "as many as" in evaluate.protocol_sentence(rows, protocol, training)
    assert "NOT" in evaluate.protocol_sentence(rows[:-1], protocol, training)
    assert "NOT" in evaluate.protocol_sentence(rows, protocol, [])


def test_auto_takes_the_newest_model_of_the_runs_beside(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path / "mine"))
    for age, name, trainer in ((30, "a", "pcdiff"), (10, "b", "pcdiff"), (1, "c", "voxelization")):
        folder = tmp_path / name / "checkpoints"
        write_settings(folder / "settings.json", trainer, {})
        (folder / "last.pt").write_bytes(b"x")
        when = (folder / "last.pt").stat().st_mtime - age
        os.utime(folder / "last.pt", (when, when))
    assert find_model("auto", "pcdiff", "--pcdiff") == tmp_path / "b" / "checkpoints" / "last.pt"
    assert find_model("auto", "gaussian", "--gaussian") is None
    # Without the panel, what was trained here, as by the commands of the page.
    monkeypatch.delenv("FRESNEL_RUN_DIR")
    monkeypatch.chdir(tmp_path)
    assert find_model("auto", "pcdiff", "--pcdiff") == tmp_path / "b" / "checkpoints" / "last.pt"
    with pytest.raises(SettingsError, match="--pcdiff: there is no file"):
        find_model(str(tmp_path / "none.pt"), "pcdiff", "--pcdiff")


def test_cases_that_lack_members_are_completed_again(root, syn) -> None:
    samples = read_listing(root / "test.csv")
    assert missing_cases(samples, syn, 1) == []
    assert missing_cases(samples, syn, 2) == samples
    assert missing_cases(samples, root / "nowhere", 1) == samples


def test_completions_of_other_settings_are_drawn_again(root, model, tmp_path, monkeypatch) -> None:
    """Else figures are told of a network or of steps that drew nothing of what was judged."""
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    drawn: list[int] = []
    samples, syn = read_listing(root / "test.csv"), tmp_path / "completions" / "syn"
    stops: list[int] = []

    def sample(command: list[str], *_: object) -> None:
        """As sample.py: what is there already stays. Where it is to stop, after one case."""
        left = [one for one in samples if not (syn / one.case / "sample.npy").is_file()]
        left = left[: stops.pop()] if stops else left
        complete_truly(left, syn, 270, 30)
        drawn.append(len(left))

    monkeypatch.setattr(pipeline, "run_program", sample)
    base = ["--path", str(root / "test.csv"), "--pcdiff", str(model), "--output_dir", str(tmp_path)]
    others = ["--sampling_steps", "9"]
    for more in ([], [], others, others):
        settings = pipeline.make_parser().read([*base, *more])
        pipeline.complete(settings, samples, syn, pipeline.StopRequest(), None)
    assert drawn == [5, 5]
    os.utime(model)
    stops.append(1)
    for _ in range(2):
        pipeline.complete(settings, samples, syn, pipeline.StopRequest(), None)
    assert drawn[2:] == [1, 4], "the same file name, another network; stopped after one case"
    settings = pipeline.make_parser().read([*base, *others, "--num_ens", "2"])
    pipeline.complete(settings, samples, syn, pipeline.StopRequest(), None)
    assert drawn[4:] == [5], "that have too few members"


def test_cases_are_drawn_alike_with_and_without_a_stop_between(root, tmp_path, monkeypatch) -> None:
    """Each by its place in the list that is handed on, which must not depend on what is done."""
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    samples, syn = read_listing(root / "train.csv"), tmp_path / "completions" / "syn"
    lists: list[str] = []

    def sample(command: list[str], *_: object) -> None:
        lists.append(Path(command[command.index("--path") + 1]).read_text())
        complete_truly(samples[:6], syn, 270, 30)

    monkeypatch.setattr(pipeline, "run_program", sample)
    words = ["--path", str(root / "train.csv"), "--pcdiff", str(root / "train.csv")]
    settings = pipeline.make_parser().read([*words, "--output_dir", str(tmp_path)])
    for _ in range(2):
        pipeline.complete(settings, samples, syn, pipeline.StopRequest(), None)
    assert len(missing_cases(samples, syn, 1)) == 4
    assert lists[0] == lists[1]
    # And none that was not asked for, as the other defects of the same skull.
    (tmp_path / "first.csv").write_text(lists[0])
    assert read_listing(tmp_path / "first.csv") == samples
    pipeline.complete(settings, samples[6:8], syn, pipeline.StopRequest(), None)
    (tmp_path / "first.csv").write_text(lists[2])
    assert read_listing(tmp_path / "first.csv") == samples[6:8]


def test_where_no_run_has_any_the_shipped_models_make_implants_above_the_mirror(
    tmp_path, monkeypatch, capsys
) -> None:
    """Of the preset's values, on the one defect that the other side does not show."""
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path / "run"))
    warm = SimpleNamespace(Popen=TORCH.start, PIPE=subprocess.PIPE)
    monkeypatch.setattr(completing, "subprocess", warm)
    preset = yaml.safe_load((PRESETS / "skull-implant-tiny.yaml").read_text())
    values = {name: item["value"] for name, item in preset["parameters"].items()}
    assert (values["shipped"], values["pcdiff"], values["voxelizer"]) == (True, "auto", "auto")
    flags = ["--shipped", "--made_up", "2", "--made_up_size", "32", "--limit", "1"]
    flags += ["--sampling_steps", "8"]
    assert pipeline.main([*flags, "--device", "cpu", "--threads", "1"]) == 0
    told = capsys.readouterr().out
    for trainer, path in SHIPPED.items():
        assert f"{path}" in told, trainer
        assert path.stat().st_size <= 2_000_000
        assert f"`{path.name}`" in path.with_suffix(".md").read_text()
    folder = tmp_path / "run" / "implants"
    summary = json.loads((folder / "benchmark_summary.json").read_text())
    found, mirror = (summary[name]["all"]["dice"] for name in ("per_defect", "per_defect_mirror"))
    assert found > 0.5 > mirror


def test_the_shipped_voxelizer_is_of_the_recipe_beside_it() -> None:
    file = SHIPPED["voxelization"]
    values = read_config(file.parent / "recipe.yaml", {})
    settings = read_weights(file)[1]["settings"]
    assert {**settings, "train.out_dir": values["train.out_dir"]} == plain(values)
    command = (file.parent / "recipe.yaml").read_text()
    card = file.with_suffix(".md").read_text()
    for key in ("made_up", "seed", "schedule"):
        said = re.search(rf"--{key} (\S+)", command)
        assert said and f"| {key} | {said[1]} |" in card
    # Else the skulls that the pipeline and the tiny preset make up were among those trained on.
    assert "--seed 7 " in command and pipeline.MADE_UP_SEED != 7


def test_networks_that_have_diverged_make_no_implants(model, tmp_path, monkeypatch) -> None:
    """Each would be an empty one, and counted as a failure of the method."""
    content = torch.load(model, weights_only=True)
    content["state_dict"]["encoder.fc_c.bias"][0] = torch.nan
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(SettingsError, match="take an earlier checkpoint"):
        load_voxelization(tmp_path / "a.pt", None, torch.device("cpu"))
    monkeypatch.setattr(unet, "make_network", lambda _: torch.nn.Linear(1, 1))
    weights = {"weight": torch.full((1, 1), torch.nan), "bias": torch.zeros(1)}
    about = {"written_by": {"trainer": "unet"}, "sizes": {}, "model": weights}
    torch.save(about, tmp_path / "b.pt")
    with pytest.raises(SettingsError, match="take an earlier checkpoint"):
        unet.load_unet(tmp_path / "b.pt", torch.device("cpu"))
