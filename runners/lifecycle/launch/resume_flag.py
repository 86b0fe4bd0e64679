"""The flag by which a bare command goes on from a checkpoint: in its words, or in its source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from runners.lifecycle.launch.script_source import added_options, read_script
from runners.model.python_command import python_command
from runners.model.spec import ResumeRule, RunSpec

RESUMES = ("resume", "resume_from_checkpoint", "resume_from", "resume_path", "ckpt_path")
"""Flags of well-known trainers that take the path of a checkpoint to go on from."""
LOADS = ("checkpoint", "ckpt", "load_checkpoint", "checkpoint_path")
"""The same in some programs, and where a new one is written in others: their help decides."""
_LOADING = re.compile(r"resum|continu|restor|\bload|start(?:ing)? from|go(?:es)? on", re.IGNORECASE)


def resume_flag(spec: RunSpec, folder: Path) -> str | None:
    """The flag of the command that takes a checkpoint's path, as it is written; None: not known.

    One that the command has is used again. Else it is looked for in the source of its script, which
    runs in `folder`, among the options of argparse that take a value.
    """
    if spec.launcher != "command" or spec.shell:
        return None
    given = [word.partition("=")[0] for word in spec.command if word.startswith("--")]
    used = [flag for flag in given if _name_of(flag) in RESUMES]
    if used or "--" in spec.command:
        return used[0] if len(used) == 1 and "--" not in spec.command else None
    command = python_command(spec.command)
    if command is None or not command.script:
        return None
    found = {_name_of(flag): flag for flag in _flags_in(folder / command.script)}
    return next((found[name] for name in (*RESUMES, *LOADS) if name in found), None)


def resume_rule(spec: RunSpec, folder: Path) -> ResumeRule | None:
    """How a bare command goes on from a checkpoint, as a preset would say it; None: not known."""
    flag = resume_flag(spec, folder)
    return None if flag is None else ResumeRule("", (flag, "${checkpoint}"))


def _name_of(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _flags_in(script: Path) -> Iterator[str]:
    """The options of a script that may take a checkpoint's path."""
    for _, call in added_options(read_script(script)):
        for given in call.args if _takes_a_path(call) else ():
            flag = given.value if isinstance(given, ast.Constant) else None
            if isinstance(flag, str) and flag.startswith("--") and _is_meant(flag, call):
                yield flag


def _takes_a_path(call: ast.Call) -> bool:
    given = {word.arg: word.value for word in call.keywords}
    kind, nargs = given.get("type"), given.get("nargs")
    is_text = kind is None or (isinstance(kind, ast.Name) and kind.id in ("str", "Path"))
    is_one = nargs is None or (isinstance(nargs, ast.Constant) and nargs.value == "?")
    return is_text and is_one and "action" not in given and None not in given


def _is_meant(flag: str, call: ast.Call) -> bool:
    if _name_of(flag) in RESUMES:
        return True
    texts = [word.value.value for word in call.keywords
             if word.arg == "help" and isinstance(word.value, ast.Constant)]  # fmt: skip
    return any(isinstance(text, str) and _LOADING.search(text) for text in texts)
