"""`presets`, `secret`, `checkpoint`, `doctor`, `service`, `serve`, `demo`, `completion`, others."""

from tui.cli.commands.declaring import RUN, Actions, argument, examples, flag, overrides, port
from tui.cli.parsing import CommandParser


def declare_presets(parser: CommandParser) -> None:
    """`presets`: listed, or their schema."""
    actions = Actions(parser, "list")
    actions.add("list", "name them (the same as `presets` alone)", ["presets --json"])
    actions.add("schema", "the JSON Schema of their files", ["presets schema > preset.json"])
    save = actions.add(
        "save",
        "write what a run was launched with as a preset of your own",
        ["presets save my-best --from last", "launch my-best --set epochs=100"],
    )
    argument(save, "name", "NAME", "name of the preset")
    argument(save, "--from", "RUN", RUN, required=True, dest="run")
    flag(save, "--overwrite", "replace an existing one")
    examples(parser, "presets", "presets schema", "presets save my-best --from last")


def declare_secret(parser: CommandParser) -> None:
    """`secret`: kept, named, removed; never shown."""
    actions = Actions(parser, "list")
    actions.add("list", "name them (the same as `secret` alone)", ["secret"])
    for name, summary, line in (
        ("set", "keep a value: typed unseen, or from stdin", "secret set WANDB_API_KEY <key.txt"),
        ("remove", "forget one", "secret remove WANDB_API_KEY"),
    ):
        argument(actions.add(name, summary, [line]), "name", "NAME", "the variable's name")
    examples(
        parser,
        "secret set WANDB_API_KEY",
        "launch --host amd --env WANDB_API_KEY -- python train.py",
        notes="A preset names one in its `environment`: WANDB_API_KEY: ${secrets.WANDB_API_KEY}. A "
        "value is in\nno plan, no log and no argv; it goes to another machine with the launch that "
        "needs it, and is\nkept there in memory only until the program has started for the last "
        "time.",
    )


def declare_checkpoint(parser: CommandParser) -> None:
    """`checkpoint`: looked into, or copied with changes."""
    actions = Actions(parser, "")
    parser.set_defaults(device="cpu", output=None)
    inspect = actions.add(
        "inspect",
        "keys, shapes, step, devices, wrappers, who wrote it",
        ["checkpoint inspect runs/epoch_0010.pt --json"],
    )
    remap = actions.add(
        "remap",
        "write a copy on another device",
        ["checkpoint remap model.pth --device cuda:0 --python ~/venv/bin/python"],
    )
    strip = actions.add(
        "strip",
        "write a copy whose keys do not begin with `module.` or `_orig_mod.`",
        ["checkpoint strip model.pth"],
    )
    average = actions.add(
        "average",
        "write the mean of several",
        ["checkpoint average epoch_08.pt epoch_09.pt --output mean.pt"],
    )
    for action in (inspect, remap, strip, average):
        argument(action, "paths", "PATH", "checkpoint files, or a run for its newest", nargs="+")
        argument(action, "--python", "INTERPRETER", "a Python that has PyTorch (default: this one)")
        argument(action, "--preset", "PRESET", "the interpreter this preset names")
    argument(remap, "--device", "DEVICE", "cpu (default) or cuda:N", default="cpu")
    for action in (remap, strip, average):
        argument(action, "--output", "PATH", "where the copy goes")
    examples(
        parser,
        "checkpoint inspect runs/epoch_0010.pt",
        "checkpoint average epoch_08.pt epoch_09.pt --output mean.pt",
        notes="Files are opened by PyTorch's weights-only loader, in an interpreter that has "
        "PyTorch; code in a\nfile is never run. The originals stay as they are; a copy that "
        "exists already is not replaced.",
    )


def declare_doctor(parser: CommandParser) -> None:
    """`doctor`: checks."""
    examples(parser, "doctor", "doctor --json")


def declare_service(parser: CommandParser) -> None:
    """`service`: after a boot."""
    actions = Actions(parser, "")
    parser.set_defaults(preset=None)
    for name, summary in (
        ("install", "write and enable the unit"),
        ("status", "show whether it is installed and enabled"),
        ("remove", "disable and remove it"),
    ):
        _whose(actions.add(name, summary, [f"service {name}"]))
    unit = actions.add(
        "unit",
        "print a classic unit that owns a run itself",
        ["service unit gaussian-fast --set epochs=20 > ~/.config/systemd/user/train.service"],
    )
    argument(unit, "preset", "PRESET", "a preset's name, or a YAML file", nargs="?")
    overrides(unit, "change a parameter or any key of the preset")
    _whose(unit)
    _whose(actions.add_hidden("boot"))  # what the unit runs
    examples(parser, "service install", "service status")


def _whose(parser: CommandParser) -> None:
    whose = parser.add_mutually_exclusive_group()
    flag(whose, "--user", "in your own systemd (default)")
    flag(whose, "--system", "in the system's, run as you")


def declare_serve(parser: CommandParser) -> None:
    """`serve`: the panel in a browser."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on (127.0.0.1: only this machine)",
    )
    argument(parser, "--port", "N", "default 8811; 0 for any free one", type=port, default=8811)
    flag(parser, "--read-only", "read-only: launch, stop and change nothing")
    flag(parser, "--without-tls", "with another --host: the token crosses the network unencrypted")
    examples(parser, "serve", "serve --port 0 --read-only")


def declare_completion(parser: CommandParser) -> None:
    """`completion`: for a shell."""
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="which shell")
    examples(
        parser,
        "completion fish > ~/.config/fish/completions/fresnel-tui.fish",
        notes='bash, zsh: add `eval "$(fresnel-tui completion bash)"` to ~/.bashrc or ~/.zshrc',
    )


def declare_schema(parser: CommandParser) -> None:
    """`schema`: of JSON output."""
    argument(parser, "command", "COMMAND", "one command's schema (default: all)", nargs="?")
    examples(parser, "schema list", "schema > fresnel-tui.json")


def declare_demo(parser: CommandParser) -> None:
    """`demo`: a small world in the panel."""
    examples(parser, "demo")


def declare_reset_terminal(parser: CommandParser) -> None:
    """`reset-terminal`: after a panel that was killed."""
    examples(parser, "reset-terminal")
