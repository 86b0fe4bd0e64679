"""What an interpreter can import and what its PyTorch sees: run by that interpreter.

`python interpreter_script.py REQUEST`, which is JSON: `imports`, a list of modules; `torch`, a
boolean; `folder` and `module`, texts. Answers in JSON on stdout. Standard library only, for any
Python from 3.8 on; whatever is imported may print what it likes.
"""

import gc
import importlib
import importlib.util
import json
import os
import sys


def main() -> None:
    """Answer the request in the first argument."""
    gc.disable()  # what is imported is looked through for garbage a dozen times, and holds none
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what modules print while they are imported goes to stderr
    request = json.loads(sys.argv[1])
    # As for the program itself: its own folder comes first, not this file's.
    sys.path[0] = request["folder"]
    sys.argv = [""]
    imports = {name: _import(name) for name in request["imports"]}
    found = {"version": ".".join(map(str, sys.version_info[:3])), "imports": imports}
    if request.get("module"):
        found["module"] = _missing(request["module"])
    if request["torch"] and not imports.get("torch", ""):
        found["torch"] = _torch_facts()
    json.dump(found, answer)
    answer.flush()
    os._exit(0)  # what a module left running at exit is nobody's here


def _import(name: str) -> str:
    try:
        importlib.import_module(name)
    except BaseException as problem:
        lines = str(problem).strip().splitlines() or [""]
        return f"{type(problem).__name__}: {lines[0][:200]}"
    return ""


def _missing(module: str) -> str:
    """Why `python -m` would not find a module, which itself is not imported; empty: it would."""
    try:
        if importlib.util.find_spec(module) is None:
            return f"No module named {module}"
    except BaseException as problem:
        lines = str(problem).strip().splitlines() or [""]
        return f"{type(problem).__name__}: {lines[0][:200]}"
    return ""


def _torch_facts() -> dict:  # type: ignore[type-arg]
    """Version, build, architectures, devices; `problem` instead of what cannot be known."""
    try:
        torch = importlib.import_module("torch")
    except BaseException:
        return {}
    found = {
        "version": str(torch.__version__),
        "cuda": getattr(torch.version, "cuda", None),
        "hip": getattr(torch.version, "hip", None),
    }
    try:
        found["architectures"] = list(torch.cuda.get_arch_list())
    except BaseException:
        found["architectures"] = []
    try:
        found["cudnn"] = None if found["hip"] else torch.backends.cudnn.version()
    except BaseException:
        found["cudnn"] = None
    try:
        found["devices"] = [_device(torch, i) for i in range(torch.cuda.device_count())]
        if found["devices"]:
            torch.cuda.init()
    except BaseException as problem:
        found["devices"] = []
        found["problem"] = (str(problem).strip().splitlines() or [type(problem).__name__])[0][:300]
    return found


def _device(torch, index: int) -> dict:  # type: ignore[no-untyped-def,type-arg]
    about = torch.cuda.get_device_properties(index)
    named = getattr(about, "gcnArchName", "") if getattr(torch.version, "hip", None) else ""
    arch = named.split(":")[0] or f"sm_{about.major}{about.minor}"
    return {"name": about.name, "arch": arch, "memory": about.total_memory}


if __name__ == "__main__":
    main()
