"""Resuming from a checkpoint: the spec that does it, and what changed since."""

from pathlib import Path

import msgspec

from runners.lifecycle.launch.resume_flag import resume_rule
from runners.model.errors import WrongInput
from runners.model.parameters import with_value
from runners.model.scaling import batch_of
from runners.model.spec import ResumeRule, RunSpec


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
    return spec.resume or resume_rule(spec, folder or Path.cwd())


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
