"""Whether the command line can start at all, and what its interpreter sees of the GPUs it gets."""

import re
from collections.abc import Iterator

from runners.doctor.checks import Check
from runners.model.parameters import leaf_of
from runners.model.python_command import python_command
from runners.model.run_ids import by_names
from runners.model.units import gpus_text
from runners.model.vendors import PLATFORMS, VendorCheck
from runners.model.wrappers import started_in_the_end
from runners.verify.facts import LaunchFacts, TorchFacts

OVERRIDES = {
    "gfx1101": "11.0.0",
    "gfx1102": "11.0.0",
    "gfx1103": "11.0.0",
    "gfx1031": "10.3.0",
    "gfx1032": "10.3.0",
    "gfx1034": "10.3.0",
    "gfx1035": "10.3.0",
    "gfx1036": "10.3.0",
}
"""HSA_OVERRIDE_GFX_VERSION by architecture: the one of its family that ROCm has code for (RX 7800
XT: 11.0.0, of users' guides; the family's by ROCm's list of supported GPUs).
"""
OLDEST_DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
"""By CUDA's major version the oldest Linux driver that its minor version compatibility allows
(NVIDIA, CUDA Toolkit release notes, table "CUDA Toolkit and Minimum Required Driver Version").
"""
WRONG_CUDNN, ENOUGH_CUDNN = (90800, 91100), 91500
_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
_OVERRIDE_CHECK: VendorCheck = "architecture override"


def check_interpreter(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the run's interpreter starts and answers."""
    found = facts.interpreter
    if found is None:
        chooser = started_in_the_end(facts.plan.argv).chooser
        if chooser and python_command(facts.plan.argv) is not None:
            text = f"`{chooser}` chooses it at the start: imports and PyTorch are not checked"
            advice = "they are where the command begins with the path of that Python"
            yield Check("interpreter", "WARN", text, advice)
        return
    if found.problem:
        text = f"{found.path}: {found.problem}"
        yield Check("interpreter", "FAIL", text, "name another one in the preset's `interpreter`")
    else:
        yield Check("interpreter", "PASS", f"Python {found.version} ({found.path})")


def check_imports(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the modules that the program imports can be imported."""
    found = facts.interpreter
    if found is None or found.problem or not found.imports:
        return
    broken = {name: error for name, error in found.imports.items() if error}
    for name, error in broken.items():
        missing = error.startswith("ModuleNotFoundError")
        advice = "it is installed, but built for something else, or half removed"
        if missing:
            advice = f"{found.path} -m pip install {name}, if that is its package's name"
        is_unsure = missing and found.extends_path and name not in facts.spec.checks.imports
        advice = "unless it lies where the script's own sys.path leads" if is_unsure else advice
        yield Check("imports", "WARN" if is_unsure else "FAIL", f"{name}: {error}", advice)
    if not broken:
        yield Check("imports", "PASS", ", ".join(found.imports))


def check_torch(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the run's PyTorch sees the GPUs that the plan gives it."""
    torch, given = _torch(facts), len(facts.plan.gpus)
    if torch is None:
        return
    build = _build(torch)
    if torch.problem and given and not _simulated(facts):
        yield Check("torch", "FAIL", f"{build}: {torch.problem}", _why_none(facts, torch))
    elif not given:
        text = "the run is given none"
        if facts.waits:
            text = f"not checked, none are free for it now: {by_names(facts.waits)}"
        yield Check("torch", "WARN" if facts.waits else "PASS", f"{build}; GPUs: {text}")
    elif _simulated(facts):
        yield Check("torch", "PASS", f"{build}; the run's GPUs are simulated, it sees none of them")
    elif len(torch.devices) < given:
        text = f"{build} sees {len(torch.devices)} of the {gpus_text(given)} the run is given"
        yield Check("torch", "FAIL", text, _why_none(facts, torch))
    else:
        names = ", ".join(dict.fromkeys(device.name for device in torch.devices))
        yield Check("torch", "PASS", f"{build} sees {len(torch.devices)} × {names}")


def check_architecture(facts: LaunchFacts) -> Iterator[Check]:
    """Whether this build of PyTorch has code for the GPUs."""
    torch = _torch(facts)
    if torch is None or not torch.devices or not torch.architectures:
        return
    for device in dict.fromkeys(torch.devices):
        if not device.arch or runs_on(device.arch, torch.architectures):
            continue
        has = ", ".join(torch.architectures)
        text = f"{device.name} is {device.arch}; {_build(torch)} has code for {has}"
        advice = "install a build for it (sm_120 needs CUDA 12.8 and torch 2.7 or newer)"
        if device.arch in OVERRIDES:
            advice = f"set {_OVERRIDE}={OVERRIDES[device.arch]} in the preset's environment"
        yield Check("GPU architecture", "FAIL", text, advice)
        return
    kinds = ", ".join(dict.fromkeys(device.arch for device in torch.devices if device.arch))
    if kinds:
        yield Check("GPU architecture", "PASS", f"{kinds}: this build has code for it")


def runs_on(arch: str, built: tuple[str, ...]) -> bool:
    """True when a build for the architectures `built` runs on a GPU of `arch`.

    CUDA: binaries run within a major version upwards, compute_ code is compiled for anything newer
    (CUDA programming guide, application compatibility). AMD: the same architecture only.
    """
    if arch in built:
        return True
    wanted = _capability(arch)
    if wanted is None:
        return False
    capabilities = ((target, _capability(target)) for target in built)
    return any(
        has is not None and has <= wanted and (has[0] == wanted[0] or target[:8] == "compute_")
        for target, has in capabilities
    )


def check_driver(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the NVIDIA driver is new enough for the CUDA that PyTorch was built with."""
    torch = _torch(facts)
    if torch is None or not torch.cuda or not facts.driver or not facts.concerns("driver"):
        return
    major = int(torch.cuda.split(".")[0]) if torch.cuda.split(".")[0].isdecimal() else 0
    oldest = OLDEST_DRIVERS.get(major)
    has = tuple(int(part) for part in re.findall(r"\d+", facts.driver)[:2])
    if oldest is None or len(has) < 2:
        return
    if has < oldest:
        text = f"driver {facts.driver}, CUDA {torch.cuda} needs {oldest[0]}.{oldest[1]} or newer"
        yield Check("driver", "FAIL", text, "update the driver, or install a build for older CUDA")
    else:
        yield Check("driver", "PASS", f"{facts.driver} fits CUDA {torch.cuda}")


def check_cudnn(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the run's 3-D convolutions in half precision are wrong or slow."""
    torch = _torch(facts)
    if torch is not None:
        yield from judge_cudnn(torch)


def judge_cudnn(torch: TorchFacts) -> Iterator[Check]:
    """Whether 3-D convolutions in half precision are wrong or slow with this PyTorch's cuDNN."""
    if torch.cudnn is None or not torch.devices:
        return
    trouble = half_volumes_trouble(torch.version, torch.cudnn)
    if trouble:
        advice = "pip install 'nvidia-cudnn-cu12>=9.15', or train volumes in fp32"
        yield Check("cuDNN", "WARN", trouble, advice)
    else:
        yield Check("cuDNN", "PASS", cudnn_name(torch.cudnn))


def half_volumes_trouble(release: str, cudnn: int) -> str:
    """What is wrong with 3-D convolutions in half precision; empty where nothing is known.

    pytorch/pytorch#163539 (wrong in bf16), #166643 and #166122 (without cuDNN, slow).
    """
    if WRONG_CUDNN[0] <= cudnn < WRONG_CUDNN[1]:
        return f"{cudnn_name(cudnn)} computes 3-D convolutions in bf16 wrongly"
    if re.match(r"2\.9(\.|$)", release) and cudnn < ENOUGH_CUDNN:
        return (
            f"torch {release} with {cudnn_name(cudnn)} does 3-D convolutions in bf16 and fp16"
            " without cuDNN: 4 times as slow, in 17 times the memory"
        )
    return ""


def cudnn_name(cudnn: int) -> str:
    """`cuDNN 9.10.2`, of 91002."""
    return f"cuDNN {cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"


def check_vendor(facts: LaunchFacts) -> Iterator[Check]:
    """Whether PyTorch was built for the make of the GPUs."""
    torch = _torch(facts)
    if torch is None or not facts.gpus or _simulated(facts) or not (torch.cuda or torch.hip):
        return
    wants = facts.gpus[0].traits.platform
    if not torch.built_for(wants):
        others = " and ".join(name for name in PLATFORMS if torch.built_for(name))
        text = f"{_build(torch)} is for {others}, {facts.gpus[0].name} needs {wants}"
        yield Check("torch build", "FAIL", text, f"install PyTorch for {wants}")


def check_override(facts: LaunchFacts) -> Iterator[Check]:
    """HSA_OVERRIDE_GFX_VERSION: there where an AMD GPU needs it, absent where it is wrong."""
    known = facts.architectures
    kinds = {known[gpu.index] for gpu in facts.gpus if gpu.index in known}
    value = facts.environment.get(_OVERRIDE)
    torch = _torch(facts)
    built = torch.architectures if torch is not None else ()
    if not kinds:
        meant = any(_OVERRIDE_CHECK in gpu.traits.checks for gpu in facts.gpus)
        if value and facts.gpus and not meant:
            text = f"{_OVERRIDE}={value}, and the GPUs are not AMD's: it does nothing"
            yield Check(_OVERRIDE_CHECK, "WARN", text, "leave it out of the environment")
        return
    kind = min(kinds)
    if value and (kind not in OVERRIDES or kind in built):
        text = f"{_OVERRIDE}={value}, but {kind} has code of its own"
        advice = f"remove {_OVERRIDE} from the preset and from your shell"
        yield Check(_OVERRIDE_CHECK, "FAIL", text, advice)
    elif kind in OVERRIDES and built and kind not in built:
        wanted = OVERRIDES[kind]
        advice = f"--set environment.{_OVERRIDE}={wanted}"
        if not value:
            text = f"{kind} is not in this build of PyTorch ({', '.join(built)})"
            yield Check(_OVERRIDE_CHECK, "FAIL", text, advice)
        elif value != wanted:
            text = f"{_OVERRIDE}={value}; {kind} needs {wanted}"
            yield Check(_OVERRIDE_CHECK, "WARN", text, advice)
        else:
            yield Check(_OVERRIDE_CHECK, "PASS", f"{kind} as {value}")


def check_ordinal(facts: LaunchFacts) -> Iterator[Check]:
    """Whether GPU numbers in the configuration and parameters lie inside what the run sees."""
    given = len(facts.plan.gpus)
    if not given:
        return
    numbers = "which it calls 0" if given == 1 else f"0 to {given - 1}"
    for name, number in ordinals(facts):
        if number >= given:
            text = f"{name}: {number}, but the run sees {gpus_text(given)}, {numbers}"
            yield Check("GPU number", "FAIL", text, f"set {name} to 0: {facts.change(name, 0)}")
        else:
            yield Check("GPU number", "PASS", f"{name}: {number}")


def ordinals(facts: LaunchFacts) -> Iterator[tuple[str, int]]:
    """Settings that name one GPU by its number: gpu: 7, device: cuda:7."""
    for name, value in facts.settings.items():
        leaf = leaf_of(name)
        if leaf in ("gpu", "gpu_id", "gpu_index", "device_id", "cuda_device", "local_rank"):
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                yield name, value
        elif leaf == "device" and isinstance(value, str):
            found = re.fullmatch(r"(?:cuda|hip):(\d+)", value)
            if found:
                yield name, int(found[1])


def _torch(facts: LaunchFacts) -> TorchFacts | None:
    return facts.interpreter.torch if facts.interpreter is not None else None


def _simulated(facts: LaunchFacts) -> bool:
    return any(gpu.simulated for gpu in facts.plan.gpus)


def _build(torch: TorchFacts) -> str:
    cuda = f"CUDA {torch.cuda}" if torch.cuda else "CPU only"
    return f"torch {torch.version} ({f'ROCm {torch.hip}' if torch.hip else cuda})"


def _why_none(facts: LaunchFacts, torch: TorchFacts) -> str:
    if not torch.cuda and not torch.hip:
        wants = facts.gpus[0].traits.platform
        return f"this build has no GPU support: install PyTorch for {wants} into this interpreter"
    return "see nvidia-smi or rocm-smi, the driver's version, and /dev/kfd or /dev/nvidia* here"


def _capability(arch: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)[af]?", arch)
    return (int(found[1]), int(found[2])) if found else None


def check_script(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the script or module that is to run is there."""
    start, interpreter = facts.start, facts.interpreter
    if start is None:
        return
    if not start.exists:
        folder = facts.plan.working_directory
        yield Check("script", "FAIL", f"no file {start.script}", f"the run starts in {folder}")
    if start.module and interpreter is not None and interpreter.module:
        advice = f"{interpreter.path} does not find it from {facts.plan.working_directory}"
        yield Check("module", "FAIL", interpreter.module, advice)


def check_processes(facts: LaunchFacts) -> Iterator[Check]:
    """Whether there is a GPU for every process that the launcher starts here."""
    start, given = facts.start, len(facts.plan.gpus)
    if start is None or start.processes is None or not start.launcher or not given:
        return
    if start.processes > given:
        text = f"{start.launcher} starts {start.processes} processes on {gpus_text(given)}"
        advice = f"--gpus {start.processes}, or {given} processes"
        yield Check("processes", "FAIL", text, advice)


def check_options(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the script knows the options that it is given."""
    if facts.start is None:
        return
    for flag, near in facts.start.unknown:
        advice = f"did you mean {near}?" if near else "its --help lists those it knows"
        yield Check("options", "FAIL", f"{facts.start.script} has no option {flag}", advice)
