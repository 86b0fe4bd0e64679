"""What NVIDIA advises for an Xid ("XID Errors"; the catalogue in gpud, October 2025)."""

APPLICATION = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 94}
)
RESET = frozenset({46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158})
REBOOT = frozenset({79})
HARMLESS = frozenset(
    {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 157}
)
LINKS = frozenset({74, *range(144, 151)})
POWER = frozenset({54})


def xid_advice(code: int) -> str:
    """What to do about an Xid, and whether it is the machine's or most likely the program's."""
    if code in REBOOT:
        return "the GPU was lost: the machine needs a reboot, then a look by its keeper"
    if code in RESET:
        return "the machine, not the run: its keeper resets this GPU; leave it out till then"
    if code in LINKS:
        return "a link between GPUs: runs on several of them are in doubt; tell its keeper"
    if code in POWER:
        return "power or cabling of the GPU: tell its keeper"
    if code in APPLICATION:
        return "most likely the program that ran; launch it again"
    if code in HARMLESS:
        return "follows from something else, or needs nothing"
    return "see NVIDIA's list of XID errors"
