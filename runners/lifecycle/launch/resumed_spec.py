"""Resuming from a checkpoint: the spec that does it, and what changed since.

The flag by which a bare command goes on is looked for in its words, and in its script's source.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from runners.lifecycle.launch.program_options import added_options, read_script
from runners.model.errors import WrongInput
from runners.model.parameters import with_value
from runners.model.python_command import python_command
from runners.model.scaling import batch_of
from runners.model.spec import ResumeRule, RunSpec
from runners.model.wrappers import started_in_the_end

RESUMES = ("resume", "resume_from_checkpoint", "resume_from", "resume_path", "ckpt_path")
"""Flags of well-known trainers that take the path of a checkpoint to go on from."""
LOADS = ("checkpoint", "ckpt", "load_checkpoint", "checkpoint_path")
"""The same in some programs, and where a new one is written in others: their help decides."""
_LOADING = re.compile(r"resum|continu|restor|\bload|start(?:ing)? from|go(?:es)? on", re.IGNORECASE)


def resumed(
    spec: RunSpec, checkpoint: Path, parent: str = "", folder: Path | None = None
) -> RunSpec:
    """Return `spec` resuming from `checkpoint`; `parent` is the id of the run that wrote it.

    The flag of a bare command is looked for in its script, which runs in `folder`, and kept. Raises
    WrongInput where it is not known how the program resumes.
    """
    rule = rule_of(spec, folder)
    if rule is None:
        raise _not_known(spec, checkpoint)
    if spec.resume is None and not spec.restart.arguments:
        note = f"goes on by {rule.arguments[0]}, found in its command or source"
        spec = msgspec.structs.replace(spec, resume=rule, warnings=(*spec.warnings, note))
    path = str(checkpoint)
    if rule.parameter:
        parameters = tuple(
            with_value(parameter, path) if parameter.name == rule.parameter else parameter
            for parameter in spec.parameters
        )
        spec = msgspec.structs.replace(spec, parameters=parameters)
    else:
        added = tuple(word.replace("${checkpoint}", path) for word in rule.arguments)
        spec = msgspec.structs.replace(spec, arguments=(*spec.arguments, *added))
    return msgspec.structs.replace(spec, parent=parent, resumed_from=path)


def rule_of(spec: RunSpec, folder: Path | None = None) -> ResumeRule | None:
    """How `spec` goes on: as it says, else by the flag of its command; None where unknown."""
    if spec.resume is None and spec.restart.arguments:
        return ResumeRule("", spec.restart.arguments)
    if spec.resume is not None:
        return spec.resume
    flag = resume_flag(spec, folder or Path.cwd())
    return None if flag is None else ResumeRule("", (flag, "${checkpoint}"))


def changes_on_resume(before: RunSpec, after: RunSpec, devices: tuple[int, int]) -> tuple[str, ...]:
    """Warnings for a batch that differs from the checkpoint's; `devices` before and after."""
    old, new = batch_of(before, devices[0]), batch_of(after, devices[1])
    if old is None or new is None or old.total == new.total:
        return ()
    return (
        f"the checkpoint was trained with a batch of {old.total:,}, this run has {new.total:,}: "
        "its learning rate and schedule were made for the other one",
    )


def _not_known(spec: RunSpec, checkpoint: Path) -> WrongInput:
    if spec.source:
        return WrongInput(
            f"`{spec.preset}` does not say how its program goes on from a checkpoint",
            "give the preset the key `resume`, e.g. resume: {parameter: resume}",
        )
    return WrongInput(
        f"{checkpoint} is there, but not how the command goes on from it",
        """say so when it is launched: --set 'resume={arguments: [--FLAG, "${checkpoint}"]}'""",
    )


def resume_flag(spec: RunSpec, folder: Path) -> str | None:
    """The flag of the command that takes a checkpoint's path, as it is written; None: not known.

    One that the command has is used again. Else it is looked for in the source of its script, which
    runs in `folder`, among the options of argparse that take a value.
    """
    if spec.launcher != "command" or spec.shell:
        return None
    program = started_in_the_end(spec.command).argv
    given = [word.partition("=")[0] for word in program if word.startswith("--")]
    used = [flag for flag in given if _name_of(flag) in RESUMES]
    if used or "--" in program:
        return used[0] if len(used) == 1 and "--" not in program else None
    command = python_command(spec.command)
    if command is None or not command.script:
        return None
    found = {_name_of(flag): flag for flag in _flags_in(folder / command.script)}
    return next((found[name] for name in (*RESUMES, *LOADS) if name in found), None)


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
