"""`--host any`, `@label` and `a,b` for `launch` and `plan`: on one of several machines.

`list` and `cancel` with `--host any` are about what waits for one.
"""

import argparse
import time
from collections.abc import Sequence
from threading import Event

from runners.host.clock import age
from runners.host.identity import is_attended
from runners.model.errors import DeniedError, ExitCode, FresnelError, WrongInput
from runners.model.trailing_command import split_at_dashes, with_flags
from runners.places.fleet.asking import Fleet
from runners.places.fleet.choosing import Offer, choose
from runners.places.fleet.dispatcher import start_dispatcher
from runners.places.fleet.waiting import (
    WaitingLaunch,
    ask_to_cancel,
    cancelled_at,
    new_launch,
    open_launches,
    read_launch,
    save_launch,
)
from runners.places.ssh.groups import candidates
from runners.places.ssh.registry import RemoteRegistry
from runners.places.table import open_kinds
from runners.state.layout import StateDirectory
from runners.state.secret_store import find_secret
from tui.cli.given_variables import named_secrets, preset_secrets
from tui.cli.output import echo, print_json, print_table
from tui.cli.results_here import bring_results, brings_results
from tui.views.format import DASH, dollars, duration
from tui.views.json_values import iso, number

_POLL_S = 0.1
_CONNECTS_WITHIN_S = 10.0
_OURS = ("--wait", "--follow", "--json")
"""Flags that are meant for the command here."""


def run_anywhere(arguments: argparse.Namespace) -> int:
    """Launch or plan on one of the machines; list or cancel what waits for one."""
    name = arguments.command_name
    known = {"launch": _launch, "plan": _plan, "list": _list, "cancel": _cancel}
    if name not in known:
        raise WrongInput(
            f"--host {arguments.host}: {name} is done on a machine that is named",
            f"--host any goes with {', '.join(known)}",
        )
    return known[name](arguments)


def _set_up(registry: RemoteRegistry, where: str) -> list[str]:
    """The machines that a launch may start on; FresnelError where there is none."""
    names = candidates(registry, where)
    ready = [name for name in names if registry.find(name).command]
    if not ready:
        raise DeniedError(f"{', '.join(names)}: not set up", f"fresnel-tui host setup {where}")
    return ready


# ---- launch


def _launch(arguments: argparse.Namespace) -> int:
    state = StateDirectory().create()
    _set_up(RemoteRegistry(state), arguments.host)
    command, environment = _without_values(_command(arguments.remote_command))
    # As they are here now: whoever starts it has another shell's.
    for name in named_secrets(arguments) - set(environment):
        if (value := find_secret(name)) is not None:
            environment[name] = value
    launch = _new_launch(arguments, command, environment)
    save_launch(state, launch)
    launch = _follow(state, launch, until_ended=arguments.wait or arguments.follow)
    if not launch.ended and arguments.no_queue:
        ask_to_cancel(state, launch)
        reason, launch = launch.reason, _follow(state, launch, until_ended=True, quiet=True)
        if not launch.runs:
            raise DeniedError(reason)
    if not launch.ended:
        if arguments.json:
            print_json(_json(launch))
        else:
            print(launch.id)
            echo(f"waits for a machine: {launch.reason}")
            echo(f"`fresnel-tui cancel {launch.id} --host any` takes it out of the queue")
        return ExitCode.DONE
    if launch.problem:
        raise _failed(launch)
    return _started(launch, arguments)


def _new_launch(
    arguments: argparse.Namespace, command: tuple[str, ...], environment: dict[str, str]
) -> WaitingLaunch:
    attended, preset = is_attended(), arguments.preset or ""
    where, overrides = arguments.host, arguments.overrides
    concealed = sorted(preset_secrets(arguments))
    return new_launch(command, where, attended, environment, preset, overrides, concealed)


def _command(given: Sequence[str]) -> tuple[str, ...]:
    """The launch's words without those that are meant for us."""
    ours, command = split_at_dashes(given)
    return (*(text for text in ours if text not in _OURS), *command)


def _without_values(command: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command with `--env NAME` for `--env NAME=VALUE`, and the values, which may be secrets.

    Of one that is named only, the value that it has here now, or that is kept.
    """
    kept, program = split_at_dashes(command)
    environment = {}
    for i in range(len(kept)):
        flag, equals, given = kept[i].partition("=")
        if flag != "--env" or (not equals and i + 1 >= len(kept)):
            continue
        where, text = (i, given) if equals else (i + 1, kept[i + 1])
        name, has_value, value = text.partition("=")
        known = value if has_value else find_secret(name)
        if known is not None:
            environment[name] = known
            kept[where] = f"--env={name}" if equals else name
    return (*kept, *program), environment


def _follow(
    state: StateDirectory, launch: WaitingLaunch, until_ended: bool, quiet: bool = False
) -> WaitingLaunch:
    """Wait until every machine has answered, or until it has started or was given up."""
    shown = ""
    while not (launch.ended or (launch.looked and not launch.asked and not until_ended)):
        # Looked at each time: the one before may have been about to leave.
        start_dispatcher(state)
        try:
            time.sleep(_POLL_S)
        except KeyboardInterrupt:
            echo(f"\nit goes on waiting: `fresnel-tui cancel {launch.id} --host any` ends that")
            raise
        launch = read_launch(state, launch.id)
        if until_ended and not quiet and launch.looked and launch.reason not in ("", shown):
            shown = launch.reason
            echo(f"waits for a machine: {shown}")
    return launch


def _started(launch: WaitingLaunch, arguments: argparse.Namespace) -> int:
    echo(f"on {launch.choice or launch.machine}")
    if arguments.wait or arguments.follow:
        from tui.cli import run_command

        where = [*launch.runs, "--host", launch.machine, *(["--json"] if arguments.json else [])]
        shows = arguments.follow and not arguments.json and len(launch.runs) == 1
        for command in (["logs", "--follow"], ["wait"]) if shows else (["wait"],):
            code = run_command([*command, *where])
            if code == ExitCode.INTERRUPTED:
                return code
        if brings_results(arguments):
            bring_results(launch.machine, launch.runs)
        return code
    if arguments.json:
        print_json(_json(launch))
    else:
        print(*launch.runs, sep="\n")
    return ExitCode.DONE


def _failed(launch: WaitingLaunch) -> FresnelError:
    error = FresnelError(launch.problem)
    known = {code.value for code in ExitCode}
    error.exit_code = ExitCode(launch.exit_code) if launch.exit_code in known else error.exit_code
    return error


# ---- plan


def _plan(arguments: argparse.Namespace) -> int:
    state = StateDirectory().create()
    registry = RemoteRegistry(state)
    names = _set_up(registry, arguments.host)
    launch = _new_launch(arguments, _command(arguments.remote_command), {})
    offers = _ask_once(state, launch, names)
    choice = choose(offers)
    if arguments.json:
        print_json(
            {
                "machine": choice.machine,
                "reason": choice.reason,
                "machines": [_offer_json(offer) for offer in offers],
            }
        )
    else:
        rows = [
            (offer.machine, offer.fit.value, _rate(offer), offer.reason or DASH) for offer in offers
        ]
        print_table(("machine", "", "rate", "why not now"), rows)
        echo(f"would be placed on {choice.reason}" if choice.machine else "would wait")
    if choice.machine is None:
        return ExitCode.DENIED
    if arguments.json:
        return ExitCode.DONE
    from tui.cli import run_command

    print()
    return run_command(with_flags(launch.command, "--host", choice.machine))


def _ask_once(state: StateDirectory, launch: WaitingLaunch, names: Sequence[str]) -> list[Offer]:
    news = Event()
    kinds = open_kinds(state, news.set)
    try:
        for kind in kinds:
            kind.refresh()
        known = {name: place for kind in kinds for name, place in kind.places.items()}
        places = [known[name] for name in names if name in known]
        until = time.monotonic() + _CONNECTS_WITHIN_S
        while time.monotonic() < until and not all(
            place.is_down or (place.is_reached and place.snapshot is not None) for place in places
        ):
            news.wait(_POLL_S)
            news.clear()
        return Fleet().offers(launch, places)
    finally:
        for kind in kinds:
            kind.stop()


def _rate(offer: Offer) -> str:
    return DASH if offer.rate is None else f"{dollars(offer.rate)}/h"


def _offer_json(offer: Offer) -> dict[str, object]:
    return {
        "machine": offer.machine,
        "fit": offer.fit.value,
        "reason": offer.reason or None,
        "usd_per_hour": number(offer.rate),
    }


# ---- what waits


def _list(arguments: argparse.Namespace) -> int:
    state = StateDirectory()
    launches = open_launches(state)
    start_dispatcher(state)
    if arguments.json:
        print_json([_json(launch) for launch in launches])
    elif launches:
        now = time.time()
        rows = [
            (
                launch.id,
                launch.name,
                launch.where,
                duration(age(launch.created, now)),
                launch.reason or "looks at the machines",
            )
            for launch in launches
        ]
        print_table(("launch", "name", "where", "waits", "reason"), rows)
    else:
        echo("nothing waits for a machine")
    return ExitCode.DONE


def _cancel(arguments: argparse.Namespace) -> int:
    if bool(arguments.runs) == arguments.all:
        raise WrongInput("name the launches to cancel, or --all", "fresnel-tui list --host any")
    state = StateDirectory()
    launches = (
        open_launches(state)
        if arguments.all
        else [read_launch(state, name) for name in arguments.runs]
    )
    for launch in launches:
        ask_to_cancel(state, launch)
    ended = [_until_cancelled(state, launch) for launch in launches]
    if arguments.json:
        print_json([_json(launch) for launch in ended])
    for launch in () if arguments.json else ended:
        echo(f"{launch.id}: {_cancelled_text(launch)}")
    is_out = all(launch.ended and not launch.runs for launch in ended)
    return ExitCode.DONE if is_out else ExitCode.DENIED


def _until_cancelled(state: StateDirectory, launch: WaitingLaunch) -> WaitingLaunch:
    """Wait until it is out of the queue, or until it is known that a machine keeps it there."""
    since = cancelled_at(state, launch)
    while not (launch.ended or (launch.in_doubt and launch.looked >= since)):
        start_dispatcher(state)
        time.sleep(_POLL_S)
        launch = read_launch(state, launch.id)
    return launch


def _cancelled_text(launch: WaitingLaunch) -> str:
    if launch.runs:
        return f"had begun on {launch.machine}: {', '.join(launch.runs)}"
    if launch.ended:
        return launch.problem
    return (
        f"{launch.reason}. It is taken out when {launch.asked} is reached, unless it has begun; "
        f"`fresnel-tui host remove {launch.asked}` gives that machine up"
    )


def _json(launch: WaitingLaunch) -> dict[str, object]:
    return {
        "launch": launch.id,
        "name": launch.name,
        "where": launch.where,
        "created": iso(launch.created),
        "machine": launch.machine or None,
        "runs": list(launch.runs),
        "reason": (launch.choice if launch.runs else launch.problem or launch.reason) or None,
        "waits": not launch.ended,
    }
