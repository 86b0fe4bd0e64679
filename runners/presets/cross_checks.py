"""What the keys of a preset require of each other, and of the words inside their texts."""

import re

from runners.model.launchers import PROCESS_LAUNCHERS, traits_of
from runners.model.spec import GpuRequest, MetricPattern, RunSpec, wrong_priority
from runners.model.suggestions import nearest_hint
from runners.presets.reading.typed import KeyMistake, KeyPath

PARAMETER = re.compile(r"\$\{parameters\.([\w.-]+)\}")
"""A parameter's value in the text of a check."""
FIELD = re.compile(r"\{(\w*)\}")
"""A part of the name of a file, in the names of those that belong to it."""
_KNOWN_FIELDS = ("stem", "name", "folder", "row")


def check_across(spec: RunSpec) -> None:
    """Raise KeyMistake for keys that do not fit together."""
    _check_what_runs(spec)
    _check_environment(spec)
    check_gpus(spec.gpus, ("gpus",))
    if problem := wrong_priority(spec.priority):
        raise KeyMistake(("priority",), problem)
    _check_scaling(spec)
    _check_resume(spec)
    _check_total(spec)
    _check_stages(spec)
    for i, pattern in enumerate(spec.metrics.patterns):
        _check_pattern(pattern, ("metrics", "patterns", i))
    _check_files(spec)


def check_gpus(request: GpuRequest, key: KeyPath) -> None:
    """Raise KeyMistake for a request that says both how many GPUs and which."""
    if request.ids and request.count != 0:
        raise KeyMistake(key, "give count or ids, not both")


def _check_what_runs(spec: RunSpec) -> None:
    traits = traits_of(spec.launcher)
    if not traits.runs_python:
        if not spec.command:
            raise KeyMistake((), f"launcher {spec.launcher} needs the key `command`")
        for key in ("script", "module"):
            if getattr(spec, key):
                raise KeyMistake(
                    (key,), f"launcher {spec.launcher} runs `command`; remove this key"
                )
    else:
        if spec.command or spec.shell:
            key = "command" if spec.command else "shell"
            raise KeyMistake(
                (key,), f"launcher {spec.launcher} runs `script` or `module`; remove this key"
            )
        if bool(spec.script) == bool(spec.module):
            wrong = "not both" if spec.script else "one of them is missing"
            raise KeyMistake((), f"launcher {spec.launcher} needs `script` or `module`: {wrong}")
    if traits.starts_processes:
        return
    others = " and ".join(PROCESS_LAUNCHERS)
    if spec.launcher_arguments:
        raise KeyMistake(("launcher_arguments",), f"only {others} take launcher arguments")
    if spec.processes is not None:
        raise KeyMistake(("processes",), f"only {others} start several processes")


def _check_environment(spec: RunSpec) -> None:
    for name in spec.environment:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise KeyMistake(("environment", name), "a variable's name has letters, digits and _")


def _check_scaling(spec: RunSpec) -> None:
    scaling = spec.scaling
    if scaling is None:
        return
    types = {parameter.name: parameter.type for parameter in spec.parameters}
    for key, name in (("batch", scaling.batch), ("learning_rate", scaling.learning_rate)):
        if name and types.get(name) not in ("int", "float"):
            raise KeyMistake(
                ("scaling", key), f"`{name}` is not a numeric parameter{nearest_hint(name, types)}"
            )
    has_base = scaling.learning_rate and scaling.base_batch and scaling.base_rate
    if scaling.rule != "none" and not has_base:
        raise KeyMistake(
            ("scaling", "rule"),
            f"rule {scaling.rule} needs learning_rate, base_batch and base_rate",
        )


def _check_resume(spec: RunSpec) -> None:
    resume = spec.resume
    if resume is None:
        return
    if bool(resume.parameter) == bool(resume.arguments):
        raise KeyMistake(("resume",), "give `parameter` or `arguments`, one of them")
    if resume.auto and not resume.parameter:
        raise KeyMistake(("resume", "auto"), "it is a value of `parameter`, which is missing")
    if resume.parameter:
        _check_named(resume.parameter, spec, ("resume", "parameter"))
    elif not any("${checkpoint}" in word for word in resume.arguments):
        raise KeyMistake(("resume", "arguments"), "none of them has ${checkpoint} in it")


def _check_total(spec: RunSpec) -> None:
    total = spec.total
    if total is None:
        return
    if bool(total.parameter) == (total.count is not None):
        raise KeyMistake(("total",), "give `parameter` or `count`, one of them")
    if total.parameter:
        _check_named(total.parameter, spec, ("total", "parameter"))
    if total.stages and not (total.parameter and spec.config):
        raise KeyMistake(("total", "stages"), "it is a list in `config.file`, beside `parameter`")
    if total.of_stage and not total.stages:
        raise KeyMistake(("total", "of_stage"), "it is for `stages`, which is missing")


def _check_named(name: str, spec: RunSpec, key: KeyPath) -> None:
    names = [parameter.name for parameter in spec.parameters]
    if name not in names:
        raise KeyMistake(key, f"there is no parameter `{name}`{nearest_hint(name, names)}")


def _check_stages(spec: RunSpec) -> None:
    for name, stage in spec.expect.stages.items():
        if stage.stages:
            raise KeyMistake(("expect", "stages", name, "stages"), "a stage has no stages")


def _check_pattern(pattern: MetricPattern, key: KeyPath) -> None:
    # Every expression is tried here, so that none fails while a run proceeds.
    try:
        groups = pattern.compiled().groupindex
    except (re.error, OverflowError, RecursionError) as error:
        raise KeyMistake(key, f"not a regular expression: {error}") from None
    if not groups:
        raise KeyMistake(
            key, "it has no named group: a metric is one, as in loss=(?P<loss>[-+.e0-9]+)"
        )
    if ("name" in groups) != ("value" in groups):
        raise KeyMistake(key, "the groups `name` and `value` go together")
    for name in pattern.offset:
        if name not in groups:
            raise KeyMistake((*key, "offset", name), f"the expression has no group `{name}`")


def _check_files(spec: RunSpec) -> None:
    names = [parameter.name for parameter in spec.parameters]
    for place, rule in enumerate(spec.checks.files):
        key = ("checks", "files", place)
        for name in PARAMETER.findall(rule.path):
            if name not in names:
                raise KeyMistake(
                    (*key, "path"), f"no parameter `{name}`{nearest_hint(name, names)}"
                )
        for part, patterns in (("pairs", rule.pairs), ("rows", rule.rows)):
            for i, pattern in enumerate(patterns):
                unknown = set(FIELD.findall(pattern)) - set(_KNOWN_FIELDS)
                if unknown:
                    known = ", ".join(f"{{{field}}}" for field in _KNOWN_FIELDS)
                    raise KeyMistake(
                        (*key, part, i), f"{{{min(unknown)}}} is not known; there are {known}"
                    )
