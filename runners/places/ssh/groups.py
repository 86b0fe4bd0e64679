"""Several machines by one word: `a,b`, `@label`, `all`."""

from collections.abc import Sequence

from runners.model.errors import NotFound, WrongInput
from runners.places.ssh.registry import ALL, ANY, RemoteRegistry, check_new_name


def names_several(registry: RemoteRegistry, text: str) -> bool:
    """Whether a word may mean more than one machine, even where it is only one now."""
    return "," in text or text.startswith("@") or _is_all(registry, text)


def machines_named(registry: RemoteRegistry, text: str) -> list[str]:
    """The names of the machines that a word means, each once.

    NotFound for a machine or a label that nothing has.
    """
    found = [name for word in text.split(",") if word for name in _named(registry, word)]
    if not found:
        raise NotFound("no host yet", "`fresnel-tui host add NAME user@address` adds one")
    return list(dict.fromkeys(found))


def chooses(registry: RemoteRegistry, text: str) -> bool:
    """Whether a launch by this word has a machine chosen for it."""
    return names_several(registry, text) or (text == ANY and ANY not in registry.names())


def candidates(registry: RemoteRegistry, where: str) -> list[str]:
    """The machines that a launch may start on, in the order in which they were added.

    NotFound for a machine or a label that nothing has.
    """
    chosen = machines_named(registry, ALL if where == ANY else where)
    return [host.name for host in registry.all() if host.name in chosen]


def labelled(registry: RemoteRegistry) -> dict[str, list[str]]:
    """Every label with the machines that have it."""
    found: dict[str, list[str]] = {}
    for host in registry.readable()[0]:
        for label in host.labels:
            found.setdefault(label, []).append(host.name)
    return found


def check_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels as they may be given to a machine, each once, without the @; WrongInput otherwise."""
    found = [label.removeprefix("@") for label in labels]
    for label in found:
        try:
            check_new_name(label)
        except WrongInput:
            hint = f"letters, digits, dots, dashes; neither `{ALL}` nor `{ANY}`"
            raise WrongInput(f"`{label}` is no label", hint) from None
    return tuple(dict.fromkeys(found))


def _is_all(registry: RemoteRegistry, word: str) -> bool:
    return word == ALL and ALL not in registry.names()


def _named(registry: RemoteRegistry, word: str) -> list[str]:
    if word.startswith("@"):
        groups = labelled(registry)
        if word[1:] not in groups:
            known = ", ".join(f"@{label}" for label in groups) or "none yet"
            raise NotFound(
                f"no host has the label `{word[1:]}`",
                f"labels: {known}; `fresnel-tui host label HOST {word[1:]}` gives it to one",
            )
        return groups[word[1:]]
    if _is_all(registry, word):
        return sorted(registry.names())
    return [registry.find(word).name]
