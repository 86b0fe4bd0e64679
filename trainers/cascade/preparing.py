"""Before a stage's first step: patients are checked, baselines made, inputs drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from trainers.cascade.alignment import misaligned
from trainers.cascade.config import Config
from trainers.cascade.metrics import VolumeStatistics
from trainers.cascade.model import CascadeStage, enlarge
from trainers.cascade.patients import Patient, fit
from trainers.cascade.pictures import planes
from trainers.cascade.projector import hu_from_unit
from trainers.cascade.run import CascadeRun
from trainers.common.bar import bar
from trainers.common.errors import SharedError
from trainers.common.preview import write_preview
from trainers.common.ranks import gather_from_ranks, grouped
from trainers.common.settings_parser import SettingsError

ALIGNED = 0.5
"""The correlation of an X-ray with its CT's projection under which the two are said not to belong
together.
"""
LEAST_DEVIATION = 1 / 128


@dataclass
class Baselines:
    """What a stage has to beat, and what it is given of the stage before, for held-out patients."""

    mean: Tensor
    slope: float
    offset: float
    before: dict[str, Tensor] = field(default_factory=dict)
    judged: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def volumes(self, item: dict[str, Tensor], config: Config, name: str) -> dict[str, Tensor]:
        """Return each baseline's volume (1, D, D, D) for a patient."""
        size = self.mean.shape[-1]
        spread = self.slope * spread_views(item, config, size) + self.offset
        found = {"mean_volume": self.mean, "back_projection": spread}
        if name in self.before:
            found["upsampled"] = enlarge(self.before[name][None], size)[0]
        return found


def spread_views(item: dict[str, Tensor], config: Config, size: int) -> Tensor:
    """Return the mean of a patient's back-projected X-rays (1, D, D, D), unfiltered.

    It has no unit.
    """
    pixels = fit(item["xrays"][None], (size, size))[0]
    spread = [
        config.geometry.spread(image[None, None], view, size)
        for image, view in zip(pixels, config.views, strict=True)
    ]
    return torch.cat(spread).mean(0)


def prepare_stage(run: CascadeRun) -> Baselines:
    """Read and check every patient, each rank its share, and return the baselines.

    Every rank calls this. Raises SettingsError, on every rank, for data that cannot be trained on,
    and StoppedError where a stop was asked for meanwhile.
    """
    assert run.data is not None
    splits, ranks, data = run.splits, run.ranks, run.data
    everyone = [*splits.train, *splits.val, *splits.test]
    training = {patient.name for patient in splits.train}
    share = everyone[ranks.rank :: ranks.world]
    statistics, apart = VolumeStatistics(data.size), []
    run.reporter.phase("loading", f"{len(everyone)} patients at {data.size}^3")
    title = f"patients at {data.size}^3"

    def read_own() -> str:
        for patient in run.stop.watched(bar(share, title, shown=ranks.leads)):
            try:
                item = data.load(patient)
            except SettingsError as problem:
                return str(problem)
            if patient.name in training:
                statistics.add(item["volume"], spread_views(item, run.config, data.size))
            if run.config.data["validate_alignment"] and run.position.stage == 1:
                signed = run.calibration.kind != "none"
                worst, better = misaligned(item, run.config, signed)
                if worst < ALIGNED or better:
                    apart.append((patient.name, worst, better))
        return ""

    trouble = run.stop.shared(ranks.device, read_own)
    raise_everywhere(trouble)
    warn_misaligned(
        run, [patient for found in gather_from_ranks(apart) for patient in found], len(everyone)
    )
    packed = statistics.packed()
    if grouped():
        shared = packed.to(ranks.device)
        dist.all_reduce(shared)
        packed = shared.cpu()
    statistics.unpack(packed)
    if run.position.step_in_stage == 0 and run.config.training["centred"]:
        centre_stage(run.cascade.stages[-1], statistics)
    return Baselines(statistics.mean_volume(), *statistics.line())


def centre_stage(stage: CascadeStage, statistics: VolumeStatistics) -> None:
    """Tell a new stage the mean training volume and the deviation from it, its scale.

    One patient, or several alike, have none: the scale is not below one step of 256.
    """
    stage.centre.copy_(statistics.mean_volume())
    stage.scale.fill_(max(statistics.deviation(), LEAST_DEVIATION))


def raise_everywhere(trouble: str) -> None:
    """Raise SettingsError on every rank where any of them has trouble; every rank calls this."""
    found = [text for text in gather_from_ranks(trouble) if text]
    if found:
        raise SharedError(found[0])


def warn_misaligned(run: CascadeRun, apart: list[tuple[str, float, str]], total: int) -> None:
    """Warn of X-rays that do not look like their CT.

    Raises SettingsError where that is so for more than half.
    """
    if not apart:
        return
    name, worst, better = min(apart, key=lambda entry: entry[1])
    hint = f"; {better} would fit better" if better else ""
    text = (
        f"{len(apart)} of {total} patients have X-rays unlike the projections of their CT:"
        f" {name} correlates to {worst:.2f}{hint}"
    )
    if 2 * len(apart) > total:
        remedy = (
            "check data.flip_drrs_vertical and the CTs' orientation,"
            " or set data.validate_alignment to false"
        )
        raise SharedError(f"{text}; {remedy}")
    run.reporter.warn(text)


def sample_before(run: CascadeRun, baselines: Baselines, patients: list[Patient]) -> None:
    """Sample, for patients to judge by, what the finished stages say, this rank's share of them."""
    number, training = run.position.stage, run.config.training
    if number == 1:
        return
    run.reporter.phase(
        "warming up", f"stages 1 to {number - 1} sampled for {len(patients)} patients"
    )

    def sample_own(patient: Patient) -> None:
        assert run.data is not None and run.precision is not None
        xrays = run.data.load(patient)["xrays"][None].to(run.ranks.device)
        with run.precision.autocast():
            found = run.cascade.run(
                xrays, [patient_seed(run, patient)], training["sampling_steps"],
                training["validation_samples"], number - 1,
            )  # fmt: skip
        baselines.before[patient.name] = found[-1][0][0].float().cpu()
        baselines.judged.pop(patient.name, None)

    each_watched(run, patients, sample_own, "patients sampled")


def each_watched(
    run: CascadeRun, patients: Sequence[Patient], work: Callable[[Patient], None], title: str = ""
) -> None:
    """Do a work for this rank's share of patients, with a bar on rank 0 where there is a title.

    Every rank calls this. Raises StoppedError on all where a stop was asked for meanwhile.
    """
    mine = list(patients)[run.ranks.rank :: run.ranks.world]

    def work_own() -> None:
        for patient in run.stop.watched(bar(mine, title, shown=bool(title) and run.ranks.leads)):
            work(patient)

    run.stop.shared(run.ranks.device, work_own)


def patient_seed(run: CascadeRun, patient: Patient) -> tuple[int, ...]:
    """Return the seed of a patient's samples, the same in every epoch, rank and resumed run."""
    return (run.settings.seed, *patient.name.encode())


def preview_inputs(run: CascadeRun) -> None:
    """Write a PNG of the first patients' X-rays beside the middle slices of their CT."""
    assert run.data is not None
    if not run.ranks.leads:
        return
    shown = run.splits.train[:4]
    items = [run.data.load(patient) for patient in shown]
    rows: dict[str, list[Tensor]] = {}
    for place, view in enumerate(run.config.views):
        rows[f"{view} X-ray"] = [(item["xrays"][place] + 1) / 2 for item in items]
    for name in ("coronal", "axial", "sagittal"):
        rows[f"CT {name}, HU"] = [planes(hu_from_unit(item["volume"][0]))[name] for item in items]
    path = run.settings.checkpoint_dir / "images" / f"{run.stage.name}_inputs.png"
    title = f"{run.stage.name}: inputs above, targets below"
    write_preview(path, rows, title, [patient.name for patient in shown])
    run.reporter.image(path, title, run.position.step)
