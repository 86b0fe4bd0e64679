"""Data, checkpoint, configuration and the preset's own checks."""

from collections.abc import Iterator

from runners.doctor.checks import Check, Verdict
from runners.model.quantities import gib_text, gpus_text
from runners.verify.facts import CheckpointFacts, FileFacts, LaunchFacts

_SHOWN = 3


def check_paths(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the folders and files that parameters name are there."""
    for one in facts.paths:
        if one.exists:
            yield Check("data", "PASS", f"{one.parameter}: {one.path}")
        elif one.maybe_name:
            words = f"{one.parameter}: nothing is at {one.path}"
            yield Check("data", "WARN", words, "unless it is a name that the program downloads")
        else:
            own = any(parameter.name == one.parameter for parameter in facts.spec.parameters)
            change = f"--set {one.parameter}=PATH" if own else "correct the configuration"
            advice = f"make it, or {change}"
            yield Check("data", "FAIL", f"{one.parameter}: nothing is at {one.path}", advice)


def check_files(facts: LaunchFacts) -> Iterator[Check]:
    """The files that the preset asks for: found, counted, paired, of the right size."""
    for one in facts.files:
        problems = list(_file_problems(one))
        if not one.found and not problems:
            continue  # another rule counts them, or none need be there
        name = one.rule.name or one.rule.path
        for words in problems:
            verdict: Verdict = "WARN" if one.rule.optional else "FAIL"
            yield Check("files", verdict, f"{name}: {words}", _say(one))
        if not problems:
            yield Check("files", "PASS", f"{name}: {_found(one)}")


def check_commands(facts: LaunchFacts) -> Iterator[Check]:
    """The preset's own commands."""
    for one in facts.commands:
        rule = one.rule
        name = rule.name or " ".join(rule.command)
        said = f": {one.last_line}" if one.last_line else ""
        if one.exit_code == rule.exits:
            yield Check("command", "PASS", f"{name}{said}")
            continue
        ended = (
            f"did not end within {rule.seconds:g} s"
            if one.exit_code is None
            else f"exit code {one.exit_code} instead of {rule.exits}"
        )
        verdict: Verdict = "WARN" if rule.optional else "FAIL"
        yield Check("command", verdict, f"{name}: {ended}{said}", rule.advice)


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
    for words, advice in _checkpoint_problems(found, len(facts.plan.gpus)):
        trouble = True
        yield Check("checkpoint", "WARN", f"{found.path}: {words}", advice)
    wrong = _other_shapes(found)
    if wrong:
        trouble = True
        words = f"{found.path}: other shapes than {found.compared_with}: {wrong}"
        advice = "it is of another configuration: give the run the one it was made with"
        yield Check("checkpoint", "FAIL", words, advice)
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
            words = f"{key} in {config.path} has no effect: {why}"
            yield Check("configuration", "WARN", words, "take it out, so that nobody relies on it")
    if config.unread:
        names = ", ".join(config.unread[:8]) + (", …" if len(config.unread) > 8 else "")
        words = f"{names} in {config.path}: no source file of the program has such a name"
        yield Check("configuration", "WARN", words, "mistyped, or without effect")
    elif config.unread is not None:
        yield Check("configuration", "PASS", f"{config.path}: the program knows every key's name")


def check_twice(facts: LaunchFacts) -> Iterator[Check]:
    """Flags that stand twice on the command line: most programs take the last."""
    words = list(facts.plan.argv)
    flags = [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2]
    own = {one.flag.rstrip("=") for one in facts.spec.parameters if one.flag}
    twice = sorted({flag for flag in flags if flags.count(flag) > 1 and flag in own})
    for flag in twice:
        text = f"{flag} stands twice on the command line; most programs take the last"
        yield Check("arguments", "WARN", text, "take one of them out of the preset")


def _file_problems(one: FileFacts) -> Iterator[str]:
    if one.problem:
        yield one.problem
        return
    rule = one.rule
    least, most = rule.count or (0 if rule.pairs or rule.rows else 1, None)
    if one.found < least or (most is not None and one.found > most):
        wanted = f"{least:,}" if most == least else f"{least:,} or more" if most is None else ""
        yield f"{one.found:,} found, {wanted or f'{least:,} to {most:,}'} expected ({one.place})"
    if one.wrong:
        shown = ", ".join(f"{name} {size:,}" for name, size in one.wrong_sizes[:_SHOWN])
        yield f"{one.wrong:,} of {one.found:,} have another size than {_sizes(one)}: {shown}"
    if one.lacking:
        shown = ", ".join(one.missing[:_SHOWN]) + (", …" if one.lacking > _SHOWN else "")
        yield f"{one.lacking:,} files that belong to them are missing: {shown}"


def _sizes(one: FileFacts) -> str:
    low, high = one.rule.size or (0, None)
    if high == low:
        return f"{low:,} bytes"
    return f"{low:,} bytes or more" if high is None else f"{low:,} to {high:,} bytes"


def _found(one: FileFacts) -> str:
    rows = "" if one.rows is None else f", {one.rows:,} rows"
    paired = ", every partner is there" if one.rule.pairs or one.rule.rows else ""
    return f"{one.found:,} found{rows}{paired} ({one.place})"


def _say(one: FileFacts) -> str:
    return one.rule.advice or "see the preset's `checks`"


def _checkpoint_problems(found: CheckpointFacts, gpus: int) -> Iterator[tuple[str, str]]:
    for device in found.devices:
        number = device.partition(":")[2]
        if number.isdigit() and int(number) >= gpus:
            yield (
                f"its tensors were on {device}, the run sees {gpus_text(gpus)}; programs that do "
                "not map them elsewhere cannot load it",
                f"fresnel-tui checkpoint remap {found.path}",
            )
    if found.wrappers and not any("module" in key.split(".") for key in found.current):
        names = ", ".join(found.wrappers)
        yield (
            f"its keys begin with {names}; programs that do not expect it find no weights",
            f"fresnel-tui checkpoint strip {found.path}",
        )


def _other_shapes(found: CheckpointFacts) -> str:
    both = [key for key in found.shapes if key in found.current]
    wrong = [key for key in both if found.shapes[key] != found.current[key]]
    return ", ".join(
        f"{key} {_by(found.shapes[key])} instead of {_by(found.current[key])}"
        for key in wrong[:_SHOWN]
    )


def _by(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"
