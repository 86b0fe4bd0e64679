"""Choosing and opening a backend. Each is a name in a table, imported on use.

GPUs that no driver shows are counted on the PCI bus.
"""

from importlib import import_module
from pathlib import Path

from runners.gpus.backends.backend import Absent, Backend, DriverTrouble, NoDriver
from runners.gpus.driver_setting import DRIVERS, Choice
from runners.host.files import read_text
from runners.state.layout import StateDirectory

BACKENDS = {
    "nvml": "runners.gpus.backends.nvml",
    "amd": "runners.gpus.backends.amd",
    "simulated": "runners.gpus.backends.simulated",
}
_MAKERS = {
    "0x10de": "NVIDIA GPU is in this machine, but no driver shows it: install the NVIDIA "
    "driver, or start the "
    "container with its GPUs",
    "0x1002": "AMD GPU is in this machine, but no driver shows it: load the amdgpu driver, or "
    "start the container "
    "with /dev/kfd and /dev/dri",
}
_CLASSES = ("0x03", "0x12")


def open_backend(choice: Choice, state: StateDirectory) -> Backend:
    """Open what `choice` asks for; a failure becomes an empty backend with a problem text."""
    if choice.kind == "none":
        return Absent()
    if choice.kind == "auto":
        return _detect(choice, state)
    try:
        return _open(choice.kind, choice, state)
    except (NoDriver, DriverTrouble) as reason:
        return Absent(str(reason))


def _detect(choice: Choice, state: StateDirectory) -> Backend:
    """The first driver that works and has GPUs; a loaded one in trouble is reported in any case."""
    trouble: DriverTrouble | None = None
    for driver in DRIVERS:
        try:
            backend = _open(driver, choice, state)
        except NoDriver:
            continue
        except DriverTrouble as found:
            trouble = trouble or found
            continue
        # Libraries without a loaded driver need no report beside GPUs that work.
        if trouble and trouble.loaded:
            backend.problem = str(trouble)
        return backend
    # Without any driver, the PCI bus may still show a card: then that is said.
    return Absent(str(trouble) if trouble else unseen_gpu())


def _open(name: str, choice: Choice, state: StateDirectory) -> Backend:
    try:
        module = import_module(BACKENDS[name])
    except ImportError as error:
        raise NoDriver(f"{name} cannot be read: {error}") from None
    backend: Backend = module.open_backend(choice, state)
    return backend


def unseen_gpu(root: Path = Path("/")) -> str | None:
    """One line on a GPU that no driver shows; None where there is none."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        maker, kind = (read_text(device / name).strip() for name in ("vendor", "class"))
        if maker in _MAKERS and kind.startswith(_CLASSES):
            return f"an {_MAKERS[maker]} ({device.name})"
    return None
