"""Made-up skulls, lists in both generations, clouds, preparation, and what is wrong with data."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skimage")
nrrd = pytest.importorskip("nrrd")

from scipy.spatial import cKDTree  # noqa: E402

from tests.warm import TORCH  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.pcdiff.data import find_samples  # noqa: E402
from trainers.skulls import made_up  # noqa: E402
from trainers.skulls.listing import (  # noqa: E402
    DEFECTS,
    SkullDataError,
    check_split,
    load_cloud,
    read_listing,
    volume_of,
)
from trainers.skulls.prepare import cloud_jobs, make_points, pair_jobs  # noqa: E402
from trainers.skulls.resampling import place, plan_placement, resample_dataset, restore  # noqa: E402
from trainers.skulls.surfaces import surface_cloud, surface_mesh  # noqa: E402
from trainers.skulls.volumes import read_volume, write_volume  # noqa: E402

pytestmark = pytest.mark.trainers

ROOT = Path(__file__).resolve().parents[2]


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return TORCH.run(
        [sys.executable, str(ROOT / "trainers" / "skulls" / program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.fixture(scope="module")
def skulls(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("skulls")
    done = run("made_up.py", "--root", root, "--count", 3, "--size", 32, "--points", 1500)
    assert done.returncode == 0, done.stderr
    return root


def test_made_up_skulls_are_complete_pairs_and_not_symmetric(skulls) -> None:
    samples = read_listing(skulls / "train.csv")
    assert [sample.defect for sample in samples[:5]] == list(DEFECTS)
    assert samples[0].name == "000_bilateral"
    assert samples[0].case == "bilateral000_surf"
    for sample in samples:
        complete, defective, implant = (
            read_volume(volume_of(path)).mask
            for path in (sample.complete, sample.defective, sample.implant)
        )
        assert (complete == (defective | implant)).all()
        assert not (defective & implant).any()
        assert 0.01 < implant.sum() / complete.sum() < 0.5
        assert load_cloud(sample.implant).shape == (1500, 3)
    assert read_volume(volume_of(samples[0].complete)).spacing == (6.4, 6.4, 6.4)
    assert (complete[::-1] != complete).mean() > 0.01
    check_split(samples, read_listing(skulls / "test.csv"))


def test_a_list_that_is_not_there_is_said_before_clouds_are_made(skulls, tmp_path) -> None:
    shutil.copytree(skulls / "implant", tmp_path / "implant", ignore=lambda *_: ["000_surf.npy"])
    done = run("prepare.py", "--root", tmp_path, "--target-points", 500)
    assert done.returncode == 2
    assert "train.csv: there is no such list" in done.stderr
    assert not list(tmp_path.rglob("000_surf.npy"))


def test_skulls_made_once_are_copied_the_next_time(skulls, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(made_up, "skull_mask", None)  # nothing can be made any more
    made_up.make_up(tmp_path, 3, 32, points=1500)
    assert "skulls made up  3/3" in capsys.readouterr().err
    for path in sorted(path for path in skulls.rglob("*_surf.npy") if "random" in str(path)):
        again = tmp_path / path.relative_to(skulls)
        assert again.read_bytes() == path.read_bytes() and not again.samefile(path)
        assert again.stat().st_nlink == 1, "who changes it must not change the next run's"
    with pytest.raises(TypeError):
        made_up.make_up(tmp_path / "other", 3, 24, points=1500)


def test_where_nothing_can_be_kept_skulls_are_made_all_the_same(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    made_up.make_up(tmp_path / "root", 2, 24, "SkullFix", points=200)
    assert load_cloud(tmp_path / "root" / "implant" / "001_surf.npy").shape == (200, 3)


def test_both_generations_of_lists_and_the_four_columns_read_alike(
    skulls, tmp_path, monkeypatch
) -> None:
    expected = read_listing(skulls / "train.csv")
    old = tmp_path / "old.csv"
    old.write_text("set/complete_skull/000.nrrd\nset/complete_skull/001.nrrd\n")
    (tmp_path / "set").symlink_to(skulls)
    monkeypatch.chdir(tmp_path)
    found = read_listing(Path("old.csv"))
    assert [(s.name, s.defect) for s in found] == [(s.name, s.defect) for s in expected]
    assert found[0].implant.samefile(expected[0].implant)
    four = skulls / "four.csv"
    four.write_text(
        "defective,implant,defect_type,name\n"
        "defective_skull/random_1/000.nrrd,implant/random_1/000.nrrd,random_1,000\n"
    )
    assert read_listing(four) == [s for s in expected if s.name == "000_random_1"]


def test_a_mistake_in_a_list_is_one_error_that_names_it(skulls, tmp_path) -> None:
    def refused(text: str, folder: Path = skulls) -> str:
        path = folder / "bad.csv"
        path.write_text(text)
        with pytest.raises(SkullDataError) as caught:
            read_listing(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "is empty" in refused("")
    assert "one complete skull's path a row" in refused("\n\n")
    assert "listed twice" in refused("complete_skull/000_surf.npy\ncomplete_skull/000.nrrd\n")
    assert "the pair" in refused("complete_skull/999_surf.npy\n")
    assert "2 columns" in refused("complete_skull/000_surf.npy,x\n")
    assert "does not lie in a folder complete_skull" in refused("implant/bilateral/000.nrrd\n")
    assert "ends in .nrrd or _surf.npy" in refused("complete_skull/000.stl\n")
    with pytest.raises(SkullDataError, match=r"is a folder; name the list in it"):
        read_listing(skulls)
    with pytest.raises(SkullDataError, match="there is no such list"):
        read_listing(tmp_path / "none.csv")
    # Only volumes, no clouds yet: the error says how to make them.
    copy = tmp_path / "raw skulls"
    for path in skulls.rglob("000.nrrd"):
        goal = copy / path.relative_to(skulls)
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_bytes(path.read_bytes())
    assert f"prepare.py --root '{copy}'" in refused("complete_skull/000.nrrd\n", copy)
    (copy / "defective_skull" / "bilateral" / "000.nrrd").unlink()
    (copy / "defective_skull" / "bilateral").rmdir()
    assert "folder of defect bilateral is missing" in refused("complete_skull/000.nrrd\n", copy)


def test_bad_clouds_and_volumes_are_named(tmp_path) -> None:
    path = tmp_path / "000_surf.npy"
    for array, words in (
        (np.zeros((5, 2), np.float32), "shape"),
        (np.zeros((0, 3), np.float32), "no points"),
        (np.zeros((5, 3), int), "int64"),
        (np.full((5, 3), np.nan, np.float32), "NaN"),
    ):
        np.save(path, array)
        with pytest.raises(SkullDataError, match=words) as caught:
            load_cloud(path)
        assert str(path) in str(caught.value)
    path = tmp_path / "my skulls" / "implant" / "bilateral" / "000_surf.npy"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no array")
    again = f"delete it and .*prepare.py --root '{tmp_path / 'my skulls'}'$"
    with pytest.raises(SkullDataError, match=f"cannot be read as an array .*; {again}"):
        load_cloud(path)
    np.save(path, np.zeros((0, 3), np.float32))
    with pytest.raises(SkullDataError, match=again):
        load_cloud(path)
    volume = tmp_path / "000.nrrd"
    for array, words in ((np.zeros((4, 4, 4), np.uint8), "empty"), (np.ones((4, 4)), "2 axes")):
        nrrd.write(str(volume), array)
        with pytest.raises(SkullDataError, match=words):
            read_volume(volume)
    nrrd.write(str(volume), np.arange(-32, 32).reshape(4, 4, 4).astype(np.int16))
    with pytest.raises(SkullDataError, match="more than two values, from -32 to 31: a skull is a"):
        read_volume(volume)
    volume.write_bytes(b"NRRD0005\n")
    with pytest.raises(SkullDataError, match="cannot be read as NRRD"):
        read_volume(volume)


@pytest.mark.parametrize("values", [(0, 255), (-1024, 3071), (0.0, 1.0)])
def test_any_two_values_are_a_mask(tmp_path, values) -> None:
    mask = np.zeros((4, 4, 4), bool)
    mask[1:3] = True
    nrrd.write(str(tmp_path / "000.nrrd"), np.where(mask, values[1], values[0]))
    assert (read_volume(tmp_path / "000.nrrd").mask == mask).all()


def test_skulls_whose_axes_run_otherwise_are_refused_before_any_is_prepared(
    skulls, tmp_path, capsys
) -> None:
    root = tmp_path / "raw"
    for name in ("000", "001"):
        path = root / "complete_skull" / f"{name}.nrrd"
        data, header = nrrd.read(str(skulls / "complete_skull" / f"{name}.nrrd"))
        if name == "001":
            header["space"] = "right-anterior-superior"
        path.parent.mkdir(parents=True, exist_ok=True)
        nrrd.write(str(path), data, header)
    with pytest.raises(SkullDataError, match=r"001\.nrrd: its axes run RAS, those of .* LPS"):
        cloud_jobs(root, 100)
    header["space directions"] = np.diag([2.0, 2.0, 2.0])[[1, 0, 2]]
    for name in ("000", "001"):
        nrrd.write(str(root / "complete_skull" / f"{name}.nrrd"), data, header)
    capsys.readouterr()
    assert len(cloud_jobs(root, 100)) == 2
    assert "axis 0 of" in (told := capsys.readouterr().out) and "(they run ARS)" in told
    short = root / "implant" / "001.nrrd"
    short.parent.mkdir()
    nrrd.write(str(short), data[:, :, :20])
    path.unlink()
    nrrd.write(str(path), data)
    with pytest.raises(SkullDataError, match=r"has shape \[32, 32, 20\], and .*001.nrrd has"):
        cloud_jobs(root, 100)


def test_a_skull_that_lies_obliquely_is_used_and_one_that_is_sheared_or_elsewhere_is_not_silently(
    skulls, tmp_path, capsys
) -> None:
    mask = read_volume(skulls / "complete_skull" / "000.nrrd").mask
    c, s = np.cos(0.3), np.sin(0.3)
    oblique = 2.0 * np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])

    def jobs(complete: np.ndarray, implant: np.ndarray, origin: float = 0.0) -> str:
        for part, ways, start in (("complete_skull", complete, 0.0), ("implant", implant, origin)):
            place = {"space": "LPS", "space directions": ways, "space origin": np.full(3, start)}
            write_volume(tmp_path / part / "000.nrrd", mask, (2.0,) * 3, place)
        assert len(cloud_jobs(tmp_path, 100)) == 2
        return capsys.readouterr().out

    assert jobs(oblique, oblique, 1.0) == ""
    far = 2 * np.sin(0.15) * np.hypot(62, 62)
    assert f"implant/000.nrrd lies up to {far:.3g} mm away from" in jobs(oblique, 2.0 * np.eye(3))
    assert "lies up to 5.2 mm away from" in jobs(oblique, oblique, 3.0)
    sheared = oblique.copy()
    sheared[1, 2] = 0.2
    with pytest.raises(SkullDataError, match=r"000\.nrrd: its axes are not at right angles"):
        jobs(sheared, sheared)


@pytest.mark.parametrize("unit", [0.4, 0.001])
def test_clouds_in_another_unit_than_voxels_are_refused(skulls, tmp_path, unit) -> None:
    root = shutil.copytree(skulls, tmp_path / "data")
    sample = read_listing(root / "train.csv")[0]
    pair = tmp_path / "pair.npz"
    make_points(sample, pair, 90, 10)
    assert pair.is_file()
    for part in ("defective", "implant"):
        path = getattr(sample, part)
        np.save(path, load_cloud(path) * np.float32(unit))
        if part == "defective":
            with pytest.raises(SkullDataError, match="in voxel indices, not in mm or m"):
                make_points(sample, pair, 90, 10)
            if unit == 0.001:
                with pytest.raises(SettingsError, match="have to be in the same unit"):
                    find_samples(root / "train.csv", shown=False)


def test_one_skull_in_both_lists_is_refused(skulls) -> None:
    samples = read_listing(skulls / "train.csv")
    with pytest.raises(SkullDataError, match="skull 000 is in the training list and in the test"):
        check_split(samples[:2], samples[3:4])


def test_the_surface_lies_half_a_voxel_out_and_points_are_evenly_spread() -> None:
    mask = np.zeros((12, 12, 12), bool)
    mask[4:8, 4:8, 4:8] = True
    vertices, _ = surface_mesh(mask)
    assert vertices.min(0).tolist() == [3, 3, 3]
    assert vertices.max(0).tolist() == [8, 8, 8]
    axes = np.ogrid[:40, :40, :40]
    ball = sum((axis - 19.5) ** 2 for axis in axes) < 15**2
    points = surface_cloud(ball, 2000)
    assert points.shape == (2000, 3)
    assert points.dtype == np.float32
    nearest = cKDTree(points).query(points, 2)[0][:, 1]
    random = surface_cloud(ball, 20000)[::10]
    assert nearest.min() > 2.5 * cKDTree(random).query(random, 2)[0][:, 1].min()
    assert nearest.max() < 3 * nearest.min()


def test_preparing_makes_what_is_missing_and_splits_by_skull(skulls, tmp_path) -> None:
    root = tmp_path / "raw"
    for path in [*skulls.rglob("*.nrrd"), *skulls.glob("*.csv")]:
        goal = root / path.relative_to(skulls)
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_bytes(path.read_bytes())
    more = ("--target-points", 800, "--num_points", 300, "--num_nn", 30, "--workers", 2)
    done = run("prepare.py", "--root", root, *more)
    assert done.returncode == 0, done.stderr
    assert "33 made, 0 failed" in done.stdout
    folder = root / "voxelization"
    with np.load(folder / "000_bilateral_pc.npz") as pair:
        assert pair["points"].shape == (300, 3)
        assert 0 <= pair["points"].min() < pair["points"].max() < 1
    complete = read_volume(root / "complete_skull" / "000.nrrd").mask
    with np.load(folder / "000_random_2_vox.npz") as pair:
        assert (pair["psr"] == np.where(complete, -0.5, 0.5)).all()
    rows = [(folder / name).read_text().split() for name in ("train.csv", "eval.csv")]
    assert {row[:3] for row in rows[0]}.isdisjoint(row[:3] for row in rows[1])
    assert len(rows[0]) == len(rows[1]) == 5

    (root / "implant" / "random_1" / "001_surf.npy").unlink()
    again = run("prepare.py", "--root", root, *more)
    assert "1 made, 0 failed" in again.stdout
    (root / "implant" / "random_1" / "001_surf.npy").unlink()
    (root / "implant" / "random_1" / "001.nrrd").write_bytes(b"broken")
    failed = run("prepare.py", "--root", root, *more)
    assert failed.returncode == 1
    assert failed.stderr.count("error: ") == 1
    assert "random_1/001.nrrd: cannot be read as NRRD" in failed.stderr


def test_skullfix_volumes_go_into_the_cube_and_back() -> None:
    axes = np.ogrid[:50, :60, :30]
    ball = sum(((a - m) / r) ** 2 for a, m, r in zip(axes, (25, 30, 15), (18, 20, 12), strict=True))
    mask = ball < 1
    spacing = (0.9, 0.9, 1.35)
    resampled, where = plan_placement(mask, spacing, side=120)
    cube = place(resampled, where, 120)
    assert cube.sum() == resampled.sum()
    assert cube[:, :, 0].any()
    back = restore(cube, where)
    assert back.shape == mask.shape
    assert 2 * (back & mask).sum() / (back.sum() + mask.sum()) > 0.99
    with pytest.raises(SkullDataError, match="over 40"):
        plan_placement(mask, spacing, side=40)


def test_what_is_older_than_what_it_is_made_from_is_told_and_left(tmp_path, capsys) -> None:
    root = tmp_path / "own"
    made_up.make_up(root, 2, 16, points=50)
    (sample, *_), now = read_listing(root / "train.csv"), time.time()
    pairs = [root / "voxelization" / f"{sample.name}_{kind}.npz" for kind in ("pc", "vox")]
    pairs[0].parent.mkdir()
    made_from = [volume_of(sample.defective), sample.defective, volume_of(sample.complete)]
    for path in (*root.rglob("*.nrrd"), *root.rglob("*.npy"), *pairs):
        path.touch()
        os.utime(path, (now, now))
    assert cloud_jobs(root, 50) == [] and len(pair_jobs(root, [sample], (20, 5))) == 0
    assert capsys.readouterr().out == ""
    for path in made_from:
        os.utime(path, (now + 60, now + 60))
    os.utime(volume_of(sample.defective), (now + 120, now + 120))
    assert cloud_jobs(root, 50) == [] and len(pair_jobs(root, [sample], (20, 5))) == 0
    clouds, told = capsys.readouterr().out.splitlines()
    assert "note         2 clouds are older than what they are made from and left as" in clouds
    assert "2 pairs are older" in told and f"such as {pairs[0]} and {sample.defective}: " in told


def test_lists_of_resampled_skulls_name_the_resampled_ones(skulls, tmp_path, monkeypatch) -> None:
    """Rows of whole paths, or from the working directory on, would lead back to the others."""
    source, target = tmp_path / "skulls", tmp_path / "cubes"
    shutil.copytree(skulls, source)
    monkeypatch.chdir(tmp_path)
    rows = ["skulls/complete_skull/000.nrrd", str(source / "complete_skull" / "001_surf.npy")]
    (source / "train.csv").write_text("".join(f"{row}\n" for row in rows))
    (source / "notes.csv").write_bytes(b"caf\xe9;1\n")  # no list, and no UTF-8
    # What a kill or another system left beside them is no skull.
    (source / "complete_skull" / ".77.000.nrrd").write_bytes(b"NRRD0004")
    jobs = resample_dataset(source, target, 32, 8.0)
    assert [path.name for _, _, path in jobs] == ["000.nrrd", "001.nrrd", "002.nrrd"]
    assert (target / "notes.csv").read_bytes() == b"caf\xe9;1\n"
    listed = (target / "train.csv").read_text().splitlines()
    assert listed == ["complete_skull/000.nrrd", "complete_skull/001_surf.npy"]
    before = (source / "test.csv").read_bytes()
    assert (target / "test.csv").read_bytes() == before


def test_a_header_of_other_axes_is_refused_by_name(tmp_path) -> None:
    path, said = tmp_path / "a.nrrd", "spacings: 0.5 0.5"
    head = f"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n{said}\n\n"
    path.write_bytes(head.encode() + bytes([0, 1] * 4))
    with pytest.raises(SkullDataError, match=r"a\.nrrd"):
        read_volume(path)
    # A stack of pictures: nothing is said of the way from one to the next.
    said = "space dimension: 2\nspace directions: (0.5,0) (0,0.25) none"
    head = f"NRRD0004\ntype: uint8\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n{said}\n\n"
    path.write_bytes(head.encode() + bytes([0, 1] * 4))
    assert read_volume(path).spacing == (0.5, 0.25, 1.0)
    path.write_bytes(head.encode() + bytes([1, 2] * 4))
    with pytest.raises(SkullDataError, match="is full"):
        read_volume(path)
