"""Preset files with one mistake each, and what the person who made it must be told."""

from typing import NamedTuple


class Mistake(NamedTuple):
    """A preset's text, the line and key of its mistake, words of the error, and the key that was
    meant.
    """

    text: str
    line: int | None
    key: str
    expected: str
    nearest: str = ""


_GOOD = "launcher: command\ncommand: 'true'\n"

MISTAKES = {
    # ── keys ──────────────────────────────────────────────────────────────────────────────────────
    "unknown key": Mistake(
        _GOOD + "enviroment: {A: 1}\n", 3, "enviroment", "unknown key", "environment"
    ),
    "unknown key unlike any": Mistake(
        _GOOD + "zzz: 1\n", 3, "zzz", "the keys here are launcher, description"
    ),
    "key in another spelling": Mistake(
        _GOOD + "working-directory: .\n", 3, "working-directory", "unknown key", "working_directory"
    ),
    "unknown key of stop": Mistake(
        _GOOD + "stop:\n  target: group\n  laddr: [SIGINT 1s]\n",
        5,
        "stop.laddr",
        "unknown key",
        "ladder",
    ),
    "unknown key of gpus": Mistake(
        _GOOD + "gpus:\n  cuont: 1\n", 4, "gpus.cuont", "unknown key", "count"
    ),
    "unknown key of estimate": Mistake(
        _GOOD + "estimate: {tiem: 5m}\n", 3, "estimate.tiem", "unknown key", "time"
    ),
    "scaling by a parameter that is none": Mistake(
        _GOOD + "parameters: {bsize: 8}\nscaling:\n  batch: bsiez\n",
        5,
        "scaling.batch",
        "`bsiez` is no",
        "bsize",
    ),
    "scaling by a text": Mistake(
        _GOOD + "parameters: {bs: many}\nscaling:\n  batch: bs\n",
        5,
        "scaling.batch",
        "`bs` is not a numeric parameter",
    ),
    "scaling rule without its base": Mistake(
        _GOOD
        + (
            "parameters: {bs: 8, lr: 0.1}\nscaling:\n  {batch: bs, learning_rate: lr, rule: "
            "linear}\n"
        ),
        5,
        "scaling.rule",
        "rule linear needs learning_rate, base_batch and base_rate",
    ),
    "unknown key of a parameter": Mistake(
        _GOOD + "parameters:\n  lr:\n    value: 1\n    minumum: 0\n",
        6,
        "parameters.lr.minumum",
        "unknown key",
        "minimum",
    ),
    "private key of a parameter": Mistake(
        _GOOD + "parameters:\n  lr: {value: 1, _default: 2}\n",
        4,
        "parameters.lr._default",
        "unknown key",
    ),
    "key twice": Mistake(
        _GOOD + "gpus: 1\ngpus: 2\n", 4, "gpus", "is given twice (first in line 3)"
    ),
    "launcher missing": Mistake(
        "command: 'true'\n", 1, "launcher", "is missing (python, torchrun, accelerate or command)"
    ),
    # ── values ────────────────────────────────────────────────────────────────────────────────────
    "launcher misspelt": Mistake(
        "launcher: torchun\nscript: a.py\n",
        1,
        "launcher",
        "expected one of python, torchrun, accelerate, command",
        "torchrun",
    ),
    "launcher of the wrong type": Mistake("launcher: 3\n", 1, "launcher", "expected"),
    "text where a list belongs": Mistake(
        _GOOD + "arguments: --fast\n", 3, "arguments", "expected a list, got text"
    ),
    "text where true or false belongs": Mistake(
        _GOOD + "tty: no\n", 3, "tty", "expected true or false, got text"
    ),
    "number where text belongs": Mistake(
        _GOOD + "description: 3\n", 3, "description", "expected text, got a whole number"
    ),
    "list where a mapping belongs": Mistake(
        _GOOD + "environment: [A=1]\n", 3, "environment", "expected a mapping"
    ),
    "nothing where a mapping belongs": Mistake(_GOOD + "stop:\n", 3, "stop", "expected a mapping"),
    "list inside the environment": Mistake(
        _GOOD + "environment:\n  A: 1\n  B: [1]\n",
        5,
        "environment.B",
        "expected text or a number, got a list",
    ),
    "name of a variable": Mistake(
        _GOOD + "environment:\n  A-B: 1\n", 4, "environment.A-B", "letters, digits and _"
    ),
    "no processes": Mistake(
        "launcher: torchrun\nscript: a.py\nprocesses: 0\n", 3, "processes", ">= 1"
    ),
    "parameters as a list": Mistake(
        _GOOD + "parameters: [lr]\n", 3, "parameters", "expected a mapping (NAME: VALUE)"
    ),
    "name of a parameter": Mistake(
        _GOOD + "parameters:\n  '--lr': 1\n", 4, "parameters.--lr", "a parameter's name has letters"
    ),
    "type of a parameter": Mistake(
        _GOOD + "parameters:\n  lr: {value: 1, type: flaot}\n",
        4,
        "parameters.lr.type",
        "expected one of int, float",
        "float",
    ),
    "value against its type": Mistake(
        _GOOD + "parameters:\n  n: {value: 1.5, type: int}\n",
        4,
        "parameters.n",
        "expected a whole number, got 1.5",
    ),
    "value below the minimum": Mistake(
        _GOOD + "parameters:\n  n: {value: 0, minimum: 1}\n",
        4,
        "parameters.n",
        "expected at least 1, got 0",
    ),
    "value above the maximum": Mistake(
        _GOOD + "parameters:\n  n: {value: 9, maximum: 8}\n",
        4,
        "parameters.n",
        "expected at most 8, got 9",
    ),
    "value that is no choice": Mistake(
        _GOOD + "parameters:\n  opt: {value: sdg, choices: [adam, sgd]}\n",
        4,
        "parameters.opt",
        "expected one of adam, sgd, got 'sdg'",
    ),
    "minimum above maximum": Mistake(
        _GOOD + "parameters:\n  n: {value: 3, minimum: 5, maximum: 2}\n",
        4,
        "parameters.n",
        "minimum 5 is above maximum 2",
    ),
    # ── what runs ─────────────────────────────────────────────────────────────────────────────────
    "command without a command": Mistake(
        "launcher: command\n", 1, "command", "needs the key `command`"
    ),
    "command and script": Mistake(_GOOD + "script: a.py\n", 3, "script", "remove this key"),
    "script and command": Mistake(
        "launcher: python\nscript: a.py\ncommand: ls\n", 3, "command", "remove this key"
    ),
    "neither script nor module": Mistake(
        "launcher: python\n", 1, "script", "needs `script` or `module`"
    ),
    "both script and module": Mistake(
        "launcher: python\nscript: a.py\nmodule: a\n", 1, "module", "not both"
    ),
    "shell with a list": Mistake(
        "launcher: command\nshell: true\ncommand: [ls, -l]\n",
        3,
        "command",
        "is one text, not a list",
    ),
    "quote that never ends": Mistake(
        "launcher: command\ncommand: echo 'a\n", 2, "command", "No closing quotation"
    ),
    "launcher arguments for python": Mistake(
        "launcher: python\nscript: a.py\nlauncher_arguments: [-v]\n",
        3,
        "launcher_arguments",
        "only torchrun and accelerate",
    ),
    "processes for python": Mistake(
        "launcher: python\nscript: a.py\nprocesses: 2\n",
        3,
        "processes",
        "only torchrun and accelerate",
    ),
    # ── units ─────────────────────────────────────────────────────────────────────────────────────
    "negative GPU count": Mistake(
        _GOOD + "gpus: -1\n", 3, "gpus", "expected 0 or more GPUs, got -1"
    ),
    "GPU words": Mistake(
        _GOOD + "gpus: many\n", 3, "gpus", "expected GPU indices such as 0-6,7 or UUIDs, got 'many'"
    ),
    "GPU named twice": Mistake(
        _GOOD + "gpus: {ids: '0-3,2'}\n", 3, "gpus.ids", "GPU 2 is named twice"
    ),
    "endless range of GPUs": Mistake(
        _GOOD + "gpus: 0-99999999999\n", 3, "gpus", "expected GPU indices"
    ),
    "GPU count and ids": Mistake(
        _GOOD + "gpus: {count: 2, ids: '0,1'}\n", 3, "gpus", "count or ids, not both"
    ),
    "GPU count as a word": Mistake(
        _GOOD + "gpus: {count: al}\n", 3, "gpus.count", "expected one of all, or a whole number"
    ),
    "empty ladder": Mistake(_GOOD + "stop: {ladder: []}\n", 3, "stop.ladder", "length >= 1"),
    "rung of no signal": Mistake(
        _GOOD + "stop: {ladder: [SIGINTT 5s]}\n",
        3,
        "stop.ladder",
        "expected stop-file or a signal such as SIGINT, got 'SIGINTT'",
    ),
    "rung without a wait": Mistake(
        _GOOD + "stop: {ladder: [SIGINT]}\n", 3, "stop.ladder", "needs a wait, e.g. 'SIGINT 60s'"
    ),
    "rung with a wrong wait": Mistake(
        _GOOD + "stop: {ladder: [SIGINT soon]}\n", 3, "stop.ladder", "expected a length of time"
    ),
    "rung after SIGKILL": Mistake(
        _GOOD + "stop: {ladder: [SIGKILL, SIGINT 5s]}\n",
        3,
        "stop.ladder",
        "SIGKILL must be the last rung",
    ),
    "rung as a mapping": Mistake(
        _GOOD + "stop:\n  ladder:\n    - SIGINT: 5s\n", 5, "stop.ladder.0", "expected text"
    ),
    "stop target": Mistake(
        _GOOD + "stop: {target: worker}\n",
        3,
        "stop.target",
        "expected one of leader, group, workers",
        "workers",
    ),
    "estimated time": Mistake(
        _GOOD + "estimate: {time: a while}\n",
        3,
        "estimate.time",
        "such as 90s, 10m or 2h, got 'a while'",
    ),
    "estimated cost": Mistake(
        _GOOD + "estimate: {cost: cheap}\n",
        3,
        "estimate.cost",
        "expected US dollars such as 0.17, got 'cheap'",
    ),
    # ── words ─────────────────────────────────────────────────────────────────────────────────────
    "unknown word": Mistake(
        _GOOD + "arguments:\n  - a\n  - ${run_dri}/x\n",
        5,
        "arguments.1",
        "${run_dri} is not known",
        "${run_dir}",
    ),
    "unknown word of a parameter": Mistake(
        _GOOD + "parameters:\n  out: ${rundir}\n",
        4,
        "parameters.out",
        "${rundir} is not known",
        "${run_dir}",
    ),
    "word that is no name": Mistake(
        _GOOD + "environment: {A: '${1+1}'}\n", 3, "environment.A", "${1+1} is not known"
    ),
    # ── YAML ──────────────────────────────────────────────────────────────────────────────────────
    "unclosed bracket": Mistake(_GOOD + "gpus: [1\n", 4, "", "not valid YAML"),
    "tab for indentation": Mistake(_GOOD + "stop:\n\ttarget: group\n", 4, "", "not valid YAML"),
    "list as a key": Mistake(_GOOD + "? [a, b]\n: 1\n", 3, "", "a key must be a word"),
    "tag that does not fit": Mistake(
        _GOOD + "gpus: !!int two\n", 3, "", "'two' is not a valid int"
    ),
    "two documents": Mistake(_GOOD + "---\nlauncher: python\n", 3, "", "not valid YAML"),
    "alias inside its anchor": Mistake(
        _GOOD + "arguments: &a [*a]\n", None, "", "an alias inside its own anchor"
    ),
    "control character": Mistake(_GOOD + "description: \x01\n", None, "", "not valid YAML"),
    "empty file": Mistake(
        "", None, "launcher", "expected a mapping with at least the key `launcher`"
    ),
    "only text": Mistake("just words\n", 1, "launcher", "expected a mapping"),
}
