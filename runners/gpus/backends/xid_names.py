"""NVIDIA's Xid errors in a few words (docs.nvidia.com/deploy/xid-errors)."""

_MEANINGS = {
    8: "the GPU stopped processing: restart the run",
    13: "engine exception: most often the program reads or writes out of bounds",
    31: "memory page fault: most often the program touches memory that is not its own",
    32: "corrupted command stream: the program, the driver or the PCIe link",
    38: "driver firmware error",
    43: "the GPU stopped working for one program: most often the program's own fault",
    45: "a program was cleaned away after an earlier error",
    46: "the GPU stopped processing: reset it",
    48: "double bit ECC error: reset the GPU",
    61: "internal micro-controller breakpoint: reset the GPU",
    62: "internal micro-controller halt: reset the GPU",
    63: "a failing memory row is remapped: reset the GPU when it is idle",
    64: "a failing memory row could not be remapped: reset the GPU, have it replaced",
    68: "video processor exception",
    69: "engine class error: the program or the driver",
    74: "NVLink error: reset the GPU; if it comes back, the link or board is broken",
    78: "vGPU could not start",
    79: "fell off the bus: reboot; look at power, heat and the slot",
    92: "many single bit ECC errors: watch it",
    94: "contained memory error: only the program that met it must restart",
    95: "uncontained memory error: reset the GPU",
    109: "context switch timeout: restart the run",
    110: "security fault: reboot",
    119: "the GPU's system processor (GSP) does not answer: reset the GPU",
    120: "error of the GPU's system processor (GSP): reset the GPU",
    121: "errors on the chip-to-chip link, corrected",
    136: "link training failed",
    137: "NVLink privilege error: most often the program",
    140: "memory error that was not corrected: reset the GPU",
    143: "the GPU could not be initialised",
    154: "the driver asks for a recovery: a reset or a reboot, see dmesg",
}


def xid_meaning(code: int) -> str:
    """What Xid `code` means, in a few words; unknown ones point to the kernel's log."""
    return _MEANINGS.get(code, "see NVIDIA's Xid catalogue and dmesg")
