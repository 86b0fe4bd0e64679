"""How the secret texts of a plan travel: beside the environment, in memory, never on a disk.

On disk a plan has MASK in their places. Each one travels as a variable named SECRET_PREFIX and its
place in the plan (`argv.3`), with the text as JSON. Standard library only: the supervisor imports
it.
"""

import json
from collections.abc import Mapping, Sequence

MASK = "********"
SECRET_PREFIX = "FRESNEL_SECRET_"


class SecretGone(Exception):
    """A secret that is needed is not in memory any more; the message names its place."""


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` as a program gets it, without the variables that secrets travel in."""
    return {key: value for key, value in environment.items() if not key.startswith(SECRET_PREFIX)}


def unmasked_arguments(
    key: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The plan's list `key` with its secrets, which are in `environment`.

    Raises SecretGone for one that is not there.
    """
    found = []
    for place, word in enumerate(arguments):
        kept = environment.get(f"{SECRET_PREFIX}{key}.{place}")
        if kept is not None:
            word = str(json.loads(kept))
        elif MASK in word:
            raise SecretGone(f"{key} {place}: {word}")
        found.append(word)
    return found
