"""`--env NAME[=VALUE]`: variables for a program, and the secrets among them on their way."""

import argparse
from collections.abc import Sequence

from runners.model.errors import FresnelError, WrongInput
from runners.model.masking import mask_value
from runners.model.placeholders import secrets_in
from runners.state.secret_store import PLACE, check_secret_name, find_secret, travelling_secrets


def given_variables(texts: Sequence[str]) -> dict[str, str]:
    """Variables as a preset writes them; one without a value stands for what is here or kept.

    WrongInput for a name that no variable can have, and for a value that is nowhere.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        check_secret_name(name)
        if equals:
            found[name] = value.replace("${", "$${")
        elif find_secret(name) is None:
            raise WrongInput(
                f"--env {name}: it is not set here, and no secret of that name is kept",
                f"fresnel-tui secret set {name}, or --env {name}=…",
            )
        else:
            found[name] = f"${{{PLACE}{name}}}"
    return found


def refuse_secrets(arguments: argparse.Namespace) -> None:
    """Raise WrongInput for a secret of a launch that is written down until all have started."""
    prefix = "environment."
    overrides = [text[len(prefix) :] for text in arguments.overrides if text.startswith(prefix)]
    for text in (*arguments.env, *overrides):
        name, equals, value = text.partition("=")
        if not equals or mask_value(name, value) != value:
            raise WrongInput(
                f"{name}: a launch over several machines is written down here, secrets are not",
                "have it on the machines: in a file that the program reads, or in their shells",
            )


def sent_secrets(arguments: argparse.Namespace) -> dict[str, str]:
    """The variables in which the secrets of a command go to another machine, with it alone."""
    return travelling_secrets(named_secrets(arguments))


def named_secrets(arguments: argparse.Namespace) -> set[str]:
    """The secrets that `--env` names, and those of the preset, as far as that is here.

    WrongInput for one that `--env` names and that is nowhere.
    """
    if not hasattr(arguments, "env"):  # none that starts a program
        return set()
    texts = {**preset_secrets(arguments), **given_variables(arguments.env)}.values()
    return {name for text in texts for name in secrets_in(text)}


def preset_secrets(arguments: argparse.Namespace) -> dict[str, str]:
    """The variables of the preset that name secrets, as it is written; none of one elsewhere."""
    preset = getattr(arguments, "preset", None)
    if preset is None:
        return {}
    from runners.presets.catalogue import resolve_runs  # a command needs none

    try:
        specs = resolve_runs(preset, arguments.overrides)
    except FresnelError:  # one of that machine's own
        return {}
    pairs = (pair for spec in specs for pair in spec.environment.items())
    return {name: text for name, text in pairs if secrets_in(text)}
