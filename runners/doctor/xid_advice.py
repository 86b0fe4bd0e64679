"""What NVIDIA advises for an Xid ("XID Errors"; the catalogue in gpud, October 2025)."""

_ADVICE = (
    ({79}, "the GPU was lost: reboot the machine, then have its administrator check it"),
    (
        {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158},
        "the machine, not the run: have an administrator reset this GPU; exclude it until then",
    ),
    (
        {74, *range(144, 151)},
        "a link between GPUs: runs on several of them are in doubt; tell the administrator",
    ),
    ({54}, "power or cabling of the GPU: tell the administrator"),
    (
        {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 94},
        "most likely the program that ran; launch it again",
    ),
    (
        {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 157},
        "follows from something else, or needs nothing",
    ),
)


def xid_advice(code: int) -> str:
    """What to do about an Xid, and whether it is the machine's or most likely the program's."""
    advice = (text for codes, text in _ADVICE if code in codes)
    return next(advice, "see NVIDIA's list of XID errors")
