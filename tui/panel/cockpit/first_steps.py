"""What somebody without a run may do first, shown where a run's log will stand."""

from tui.snapshot.feed import PanelSnapshot

_BEGIN = (
    "To begin:",
    "",
    "A program of your own: `fresnel-tui launch -- python train.py` in any terminal, or n here "
    "and its command.",
    "A real training that comes along: n, then gaussian-tiny. It takes a minute on the CPU.",
)
_LOOK_AROUND = (
    "Look around: quit with q, then `fresnel-tui demo` (ten tiny runs on GPUs that are made up), "
    "or `FRESNEL_GPUS=sim:8xMI300X fresnel-tui` for such GPUs alone."
)
_HELP = "Every key: ?. Everything by its name: Ctrl+P. From the start, step by step: "
_TUTORIAL = "`fresnel-tui help tutorial`."


def first_steps(snapshot: PanelSnapshot) -> list[str]:
    """The steps as paragraphs; made-up GPUs are spoken of where there are no others."""
    reading = snapshot.reading
    without = reading is not None and not reading.gpus
    return [*_BEGIN, _LOOK_AROUND if without else "", _HELP + _TUTORIAL]
