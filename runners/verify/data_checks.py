"""Data, checkpoint, configuration and the preset's own checks."""

from collections.abc import Iterator

from runners.doctor.checks import Check, Verdict
from runners.host.files import ABSENT
from runners.model.units import gib_text, gpus_text
from runners.verify.facts import CheckpointFacts, FileFacts, LaunchFacts

_SHOWN = 3


def check_paths(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the folders and files that parameters name are there."""
    for named in facts.paths:
        text = f"{named.parameter}: {named.path}"
        if not named.absence:
            yield Check("data", "PASS", text)
            continue
        text += f": {named.absence}"
        if named.maybe_name:
            yield Check("data", "WARN", text, "unless it is a name that the program downloads")
        else:
            change = facts.change(named.parameter, "PATH")
            advice = f"create it, or {change}" if named.absence == ABSENT else change
            yield Check("data", "FAIL", text, advice)


def check_files(facts: LaunchFacts) -> Iterator[Check]:
    """The files that the preset asks for: found, counted, paired, of the right size."""
    for files in facts.files:
        if files.cut:
            name = files.rule.name or files.rule.path
            text = f"{name}: not checked: {files.cut} ({files.place})"
            yield Check("files", "WARN", text, "name the folders more exactly")
            continue
        problems = list(_file_problems(files))
        if not files.found and not problems:
            continue  # another rule counts them, or none need be there
        name = files.rule.name or files.rule.path
        verdict: Verdict = "WARN" if files.rule.optional else "FAIL"
        advice = files.rule.advice or "see the preset's `checks`"
        for problem in problems:
            yield Check("files", verdict, f"{name}: {problem}", advice)
        if not problems:
            yield Check("files", "PASS", f"{name}: {_found(files)}")


def check_commands(facts: LaunchFacts) -> Iterator[Check]:
    """The preset's own commands."""
    for command in facts.commands:
        rule = command.rule
        name = rule.name or " ".join(rule.command)
        output = f": {command.last_line}" if command.last_line else ""
        if command.exit_code == rule.exits:
            yield Check("command", "PASS", f"{name}{output}")
            continue
        ending = f"exit code {command.exit_code} instead of {rule.exits}"
        if command.exit_code is None:
            ending = f"did not end within {rule.seconds:g} s"
        verdict: Verdict = "WARN" if rule.optional else "FAIL"
        yield Check("command", verdict, f"{name}: {ending}{output}", rule.advice)


def check_checkpoint(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the checkpoint to go on from can be opened, and fits model and GPUs."""
    found = facts.checkpoint
    if found is None:
        return
    if found.unseen:
        yield Check("checkpoint", "WARN", f"{found.path}: {found.unseen}", "")
        return
    if found.problem:
        advice = "resume from the one before; `fresnel-tui checkpoint inspect` says more"
        yield Check("checkpoint", "FAIL", found.problem, advice)
        return
    trouble = False
    for text, advice in _checkpoint_problems(found, len(facts.plan.gpus)):
        trouble = True
        yield Check("checkpoint", "WARN", f"{found.path}: {text}", advice)
    wrong = _other_shapes(found)
    if wrong:
        trouble = True
        text = f"{found.path}: other shapes than {found.compared_with}: {wrong}"
        advice = "it was made with another configuration: give the run that one"
        yield Check("checkpoint", "FAIL", text, advice)
    if not trouble:
        step = "".join(f", {name} {value:g}" for name, value in list(found.step.items())[:2])
        yield Check("checkpoint", "PASS", f"{found.path}: opens, {gib_text(found.bytes)}{step}")


def check_unread(facts: LaunchFacts) -> Iterator[Check]:
    """Keys of the configuration file that the program never reads."""
    config = facts.config
    if config is None:
        return
    for key, why in facts.spec.checks.without_effect.items():
        if config.values.get(key) not in (None, False):
            text = f"{key} in {config.path} has no effect: {why}"
            yield Check("configuration", "WARN", text, "remove it, so that nobody relies on it")
    if config.unread:
        names = ", ".join(config.unread[:8]) + (", …" if len(config.unread) > 8 else "")
        text = f"{names} in {config.path}: no source file of the program has such a name"
        yield Check("configuration", "WARN", text, "mistyped, or without effect")
    elif config.unread is not None:
        yield Check("configuration", "PASS", f"{config.path}: the program knows every key's name")


def check_twice(facts: LaunchFacts) -> Iterator[Check]:
    """Flags that stand twice on the command line: most programs take the last."""
    flags = [word.partition("=")[0] for word in facts.plan.argv if word.startswith("--")]
    own = {parameter.flag.rstrip("=") for parameter in facts.spec.parameters}
    for flag in sorted({flag for flag in flags if flags.count(flag) > 1 and flag in own}):
        text = f"{flag} is given twice on the command line; most programs use the last"
        yield Check("arguments", "WARN", text, "remove one of them from the preset")


def _file_problems(files: FileFacts) -> Iterator[str]:
    if files.problem:
        yield files.problem
        return
    rule = files.rule
    least, most = rule.count or (0 if rule.pairs or rule.rows else 1, None)
    if files.found < least or (most is not None and files.found > most):
        yield f"{files.found:,} found, {_range_text(least, most)} expected ({files.place})"
    if files.wrong:
        shown = ", ".join(f"{name} {size:,}" for name, size in files.wrong_sizes[:_SHOWN])
        expected = _range_text(*(rule.size or (0, None)), unit=" bytes")
        yield f"{files.wrong:,} of {files.found:,} have another size than {expected}: {shown}"
    if files.lacking:
        shown = ", ".join(files.missing[:_SHOWN]) + (", …" if files.lacking > _SHOWN else "")
        yield f"{files.lacking:,} files that belong to them are missing: {shown}"


def _range_text(low: int, high: int | None, unit: str = "") -> str:
    if high is None:
        return f"{low:,}{unit} or more"
    return f"{low:,}{unit}" if high == low else f"{low:,} to {high:,}{unit}"


def _found(files: FileFacts) -> str:
    rows = "" if files.rows is None else f", {files.rows:,} rows"
    paired = ", every partner is there" if files.rule.pairs or files.rule.rows else ""
    return f"{files.found:,} found{rows}{paired} ({files.place})"


def _checkpoint_problems(found: CheckpointFacts, gpus: int) -> Iterator[tuple[str, str]]:
    for device in found.devices:
        number = device.partition(":")[2]
        if number.isdecimal() and int(number) >= gpus:
            yield (
                f"its tensors were on {device}, the run sees {gpus_text(gpus)}; programs that do "
                "not map them elsewhere cannot load it",
                f"`fresnel-tui checkpoint remap {found.path}`",
            )
    if found.wrappers and not any("module" in key.split(".") for key in found.current):
        names = ", ".join(found.wrappers)
        yield (
            f"its keys begin with {names}; programs that do not expect it find no weights",
            f"`fresnel-tui checkpoint strip {found.path}`",
        )


def _other_shapes(found: CheckpointFacts) -> str:
    wrong = [
        f"{key} {_by(shape)} instead of {_by(found.current[key])}"
        for key, shape in found.shapes.items()
        if shape != found.current.get(key, shape)
    ]
    return ", ".join(wrong[:_SHOWN])


def _by(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"
