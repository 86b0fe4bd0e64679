"""Remedies around the program: ports, variables, GPU numbers, interfaces, the launcher."""

import re

from runners.diagnosis.remedy.case import Case, Remedy, Unfit
from runners.doctor.host_facts import default_interface, kernel_architectures
from runners.model.errors import WrongInput
from runners.model.launchers import traits_of
from runners.model.spec import Parameter
from runners.model.vendors import UNKNOWN, VendorTraits, traits_of_vendor
from runners.scheduling.visibility import ALL_VARIABLES
from runners.verify.facts import ConfigFacts, LaunchFacts
from runners.verify.program_checks import OVERRIDES, ordinals

_PORT = re.compile(r"(--(?:master|main_process|main-process)[-_]port)(=| |$)(\d+)?")
_ENDPOINT = re.compile(r"(--rdzv[-_]endpoint(?:=| )[^:=\s]+:)\d+")
_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


def another_port(case: Case) -> Case:
    """A port that is free at the launch; launchers that need one get it anyway. Raises Unfit."""
    # A new launch alone is the remedy: another port is chosen for it.
    if traits_of(case.spec.launcher).starts_processes and not _states_port(case):
        return case
    environment = dict(case.spec.environment)
    if environment.get("MASTER_PORT", "").isdigit():
        environment["MASTER_PORT"] = "${port}"
    fields = {
        name: _with_free_port(getattr(case.spec, name))
        for name in ("command", "arguments", "launcher_arguments")
    }
    treated = case.changed(environment=environment, **fields)
    if treated.spec == case.spec:
        raise Unfit("no port stands in its command or environment")
    return treated


def _states_port(case: Case) -> bool:
    text = " ".join((*case.spec.launcher_arguments, *case.spec.arguments))
    return _PORT.search(text) is not None or _ENDPOINT.search(text) is not None


def _with_free_port(arguments: tuple[str, ...]) -> tuple[str, ...]:
    changed: list[str] = []
    flagged = False
    for word in arguments:
        if flagged and word.isdigit():
            word = "${port}"
        flagged = _PORT.fullmatch(word) is not None and "=" not in word
        word = _PORT.sub(_to_free_port, word)
        changed.append(_ENDPOINT.sub(lambda found: f"{found[1]}${{port}}", word))
    return tuple(changed)


def _to_free_port(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}" + ("${port}" if found[3] else "")


def expandable_segments(case: Case) -> Case:
    """The allocator's growing segments, under the name that this make of GPU reads.

    Raises Unfit when it cannot be applied.
    """
    name = _traits(case).allocator
    stated = case.spec.environment.get(name, "")
    if "expandable_segments" in stated:
        raise Unfit(f"{name}={stated} was set already")
    return case.with_variable(name, ",".join(filter(None, (stated, "expandable_segments:True"))))


def variable(name: str, value: str) -> Remedy:
    """The remedy that is a variable of the environment."""
    return lambda case: case.with_variable(name, value)


def blocking_launches(case: Case) -> Case:
    """Kernels one after the other, by the variable that this make of GPU reads."""
    return case.with_variable(*_traits(case).serial)


def _traits(case: Case) -> VendorTraits:
    """What is particular to the GPUs that the run had."""
    gpus = case.plan.gpus
    return traits_of_vendor(gpus[0].vendor) if gpus else UNKNOWN


def no_compile(case: Case) -> Case:
    """Without torch.compile: by the preset's switch, else by the variable."""
    switch = case.parameter("compile", "torch_compile", "use_compile")
    if switch is not None and switch.value is True:
        return case.with_parameter(switch, False)
    return case.with_variable("TORCHDYNAMO_DISABLE", "1")


def show_gpus(case: Case) -> Case:
    """Without the preset's own visibility variables: inherited ones are never passed on.

    Raises Unfit when it cannot be applied.
    """
    # The preset's own values win over those made from the allocation, so only these can hide GPUs.
    hiding = [name for name in ALL_VARIABLES if name in case.spec.environment]
    if not hiding:
        if not case.spec.gpus.wants_gpus:
            raise Unfit("it asks for no GPU: launch it with --gpus 1")
        raise Unfit("nothing hides them: inherited variables are not passed on to runs")
    kept = {name: value for name, value in case.spec.environment.items() if name not in hiding}
    return case.changed(environment=kept)


def first_gpu_number(case: Case) -> Case:
    """0 for every setting that names a GPU which the run does not see. Raises Unfit."""
    given = len(case.plan.gpus)
    if not given:
        raise Unfit("it was given no GPU")
    try:
        config = case.configuration()
    except WrongInput as error:
        raise Unfit(error.message) from None
    seen = None if config is None else ConfigFacts(str(config.path), config.values)
    outside = [
        name
        for name, number in ordinals(LaunchFacts(case.spec, case.plan, config=seen))
        if number >= given
    ]
    if not outside:
        raise Unfit("no parameter, and no key of a configuration the preset names, is that number")
    for name in outside:
        parameter = case.parameter(name)
        if parameter is None:
            added = Parameter(name, 0, None, "int", "", config_key=name)
            case = case.changed(parameters=(*case.spec.parameters, added))
        elif isinstance(parameter.value, str):
            case = case.with_parameter(parameter, re.sub(r"\d+$", "0", parameter.value))
        else:
            case = case.with_parameter(parameter, 0)
    return case


def interface(case: Case) -> Case:
    """The default route's interface for NCCL and Gloo. Raises Unfit."""
    name = default_interface()
    if not name:
        raise Unfit("this host has no default route")
    if case.spec.environment.get("NCCL_SOCKET_IFNAME") == name:
        raise Unfit(f"NCCL_SOCKET_IFNAME={name} was set already")
    chosen = {"NCCL_SOCKET_IFNAME": name, "GLOO_SOCKET_IFNAME": name}
    return case.changed(environment={**case.spec.environment, **chosen})


def architecture_override(case: Case) -> Case:
    """HSA_OVERRIDE_GFX_VERSION by the table; removed where the GPU has kernels of its own.

    Raises Unfit when it cannot be applied.
    """
    kinds = kernel_architectures()
    stated = case.spec.environment.get(_OVERRIDE)
    if not kinds:
        raise Unfit("the AMD kernel driver names no GPU here")
    wanted = OVERRIDES.get(kinds[0])
    if wanted is not None:
        return case.with_variable(_OVERRIDE, wanted)
    if stated is None:
        raise Unfit(f"{kinds[0]} needs none")
    kept = {name: value for name, value in case.spec.environment.items() if name != _OVERRIDE}
    return case.changed(environment=kept)


def torchrun(case: Case) -> Case:
    """The same script under torchrun. Raises Unfit."""
    if case.spec.launcher != "python":
        raise Unfit(f"its launcher is {case.spec.launcher}, which does not tell what its script is")
    return case.changed(launcher="torchrun")
