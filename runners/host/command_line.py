"""What `ps` shows of this process: its command line, replaced. Standard library only."""

import os


def set_command_line(*arguments: str) -> None:
    """Show `arguments` as this process's command line; what does not fit is cut.

    The kernel reads it from the process's own memory, between two addresses (`arg_start` and
    `arg_end`, fields 48 and 49 of proc_pid_stat(5)). Does nothing where they cannot be read.
    """
    import ctypes  # loaded already where this is needed: by a supervisor, which adopts orphans

    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        begin, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return
    text = b"\0".join(os.fsencode(argument) for argument in arguments)
    if 0 < begin < end:
        # The last byte stays 0: without it, the kernel would show the environment behind it too.
        ctypes.memmove(begin, text[: end - begin - 1].ljust(end - begin, b"\0"), end - begin)
