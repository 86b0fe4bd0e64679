"""What another machine advises to type, with its name."""

import pytest

from runners.places.ssh.commands_there import named_from_here


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`fresnel-tui list` shows them", "`fresnel-tui list --host amd` shows them"),
        ("a `fresnel-tui stop x --now`, b", "a `fresnel-tui stop x --now --host amd`, b"),
        ("`fresnel-tui launch -- sh -c x`", "`fresnel-tui launch --host amd -- sh -c x`"),
        ("`fresnel-tui launch --gpus 1 -- sh`", "`fresnel-tui launch --gpus 1 --host amd -- sh`"),
        *((same, same) for same in ("`fresnel-tui list --host b`", "`fresnel-tui host setup b`")),
        *((same, same) for same in ("`fresnel-tui help money`", "`fresnel-tui`", "`list`")),
    ],
)
def test_commands_are_named_with_the_machine(text: str, expected: str) -> None:
    assert named_from_here(text, "amd") == expected
