"""GPUs that no driver shows: `class` 0x03… (display) or 0x12… (accelerator) in /sys/bus/pci."""

from pathlib import Path

_MAKERS = {
    "0x10de": "NVIDIA GPU is in this machine, but no driver shows it: install the NVIDIA "
    "driver, or start the "
    "container with its GPUs",
    "0x1002": "AMD GPU is in this machine, but no driver shows it: load the amdgpu driver, or "
    "start the container "
    "with /dev/kfd and /dev/dri",
}
_CLASSES = ("0x03", "0x12")


def unseen_gpu(root: Path = Path("/")) -> str | None:
    """One line on a GPU that no driver shows; None where there is none."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            maker = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text().strip()
        except OSError:
            continue
        if maker in _MAKERS and kind.startswith(_CLASSES):
            return f"an {_MAKERS[maker]} ({device.name})"
    return None
