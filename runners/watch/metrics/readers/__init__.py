"""Lines of output → samples. A reader per kind of program, by the names that presets use."""

from importlib import import_module

from runners.watch.metrics.readers.line_reader import Reader

_PLACES = {
    "pcdiff": "pcdiff:PcdiffReader",
    "voxelization": "voxelization:VoxelizationReader",
    "cascade": "cascade:CascadeReader",
    "fresnel": "fresnel:FresnelReader",
    "huggingface": "huggingface:HuggingFaceReader",
    "lightning": "lightning:LightningReader",
    "keras": "keras:KerasReader",
    "boosting": "boosting:BoostingReader",
    "baselines3": "tables:BaselinesReader",
    "fastai": "tables:FastaiReader",
    "yolo": "tables:YoloReader",
    "stylegan": "tables:StyleganReader",
    "nerfstudio": "tables:NerfstudioReader",
    "columns": "columns:ColumnsReader",
    "optuna": "optuna:OptunaReader",
    "wandb": "tables:WandbSummaryReader",
    "json": "objects:ObjectReader",
    "tqdm": "bars:TqdmReader",
    "pairs": "pairs:PairsReader",
}
GENERAL = ("tqdm", "pairs")
"""Readers for lines that many kinds of programs print: they are asked last."""
SPECIFIC = tuple(name for name in _PLACES if name not in GENERAL)
"""Readers whose lines no other program prints, the most particular first."""


def make_reader(name: str) -> Reader:
    """A new reader by its name. Raises KeyError when there is none."""
    file, _, kind = _PLACES[name].partition(":")
    # Imported on use: most commands read no output.
    reader: Reader = getattr(import_module(f"runners.watch.metrics.readers.{file}"), kind)()
    return reader
