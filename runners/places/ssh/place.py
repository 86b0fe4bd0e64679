"""A machine reached by ssh as a place: what is asked for goes over its link as a command."""

import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from runners.model.run_ids import is_run_id
from runners.places.actions import (
    ApplyRemedy,
    DeleteRuns,
    Outcome,
    RestoreRuns,
    RunAction,
    commands_of,
    few_texts,
    outcome_of,
)
from runners.places.ssh.bounds import require_answer
from runners.places.ssh.commands_there import advised_from_here, named_from_here
from runners.places.ssh.frames import FoundAnswer
from runners.places.ssh.link import Link, LinkState, link_text
from runners.places.ssh.output_mirror import MirroredLog
from runners.places.ssh.pushed_files import pushed_overrides
from runners.places.ssh.remote_request import RemoteRequest, ask_once

_CHANGING = (DeleteRuns, RestoreRuns, ApplyRemedy)
"""Actions whose commands print the ids of the runs that they changed."""


class SshPlace:
    """What can be done on one machine, over a link that is kept up elsewhere."""

    def __init__(self, link: Link, mirror: Path, changed: Callable[[Sequence[str]], None]) -> None:
        """`mirror` is the folder for the output of its runs that is followed.

        `changed` is called with the arguments of commands that may have changed runs.
        """
        self.link = link
        self._mirror = mirror
        self._changed = changed
        self._followed: dict[Path, tuple[int, MirroredLog]] = {}

    @property
    def name(self) -> str:
        """What it is called here."""
        return self.link.ssh.host.name

    @property
    def obstacle(self) -> str:
        """Why it is not reached; empty when it is."""
        status = self.link.status
        return "" if status.state is LinkState.UP else f"{self.name} is {link_text(status)}"

    @property
    def clock_offset(self) -> float:
        """How far its clock is ahead, in seconds; 0 until known."""
        return self.link.status.clock_offset or 0.0

    # ---- doing and asking

    def act(self, action: RunAction, done: Callable[[Outcome], None]) -> None:
        """Send the commands that do it; `done` when the last of them has ended."""
        commands = list(commands_of(action))
        outcomes: list[Outcome] = []
        lock = threading.Lock()

        def ended(outcome: Outcome) -> None:
            with lock:
                outcomes.append(outcome)
                if len(outcomes) < len(commands):
                    return
            self._changed([word for command in commands for word in command])
            done(_joined(outcomes, with_ids=isinstance(action, _CHANGING)))

        for command in commands:
            self.command(command, ended)

    def command(self, arguments: Sequence[str], done: Callable[[Outcome], None]) -> None:
        """Run a headless command there; a launch starts nothing twice when the line breaks."""
        folder = self.link.ssh.host.folder
        self.link.order(
            RemoteRequest(list(arguments), folder, lambda r: done(_outcome(r, self.name)))
        )

    def ask(
        self, question: str, subjects: Sequence[str], done: Callable[[object, str], None]
    ) -> None:
        """Ask its agent; asked again when the line breaks before the answer."""

        def taken(answer: FoundAnswer | None, problem: str) -> None:
            if answer is not None:
                require_answer(answer.found)
            found = None if answer is None else advised_from_here(answer.found, self.name)
            done(found, named_from_here(problem, self.name))

        folder = self.link.ssh.host.folder
        asked = {"do": "ask", "question": question, "subjects": list(subjects), "folder": folder}
        ask_once(self.link, asked, FoundAnswer, taken)

    @property
    def address(self) -> str:
        """Its ssh address and its price."""
        host = self.link.ssh.host
        return " · ".join(part for part in (host.address, host.price) if part)

    def reach(self) -> None:
        """Try again without waiting."""
        self.link.retry_now()

    def preset_flags(self, preset: str, given: Sequence[str]) -> list[str]:
        """The flags with which a pushed preset finds its things there."""
        ssh = self.link.ssh
        return pushed_overrides(ssh.registry, ssh.host, preset, given)

    # ---- output

    def log_path(self, run: str) -> Path:
        """The file that a run's output is written to while it is followed; its folder is there.

        Raises ValueError for what is no run.
        """
        if not is_run_id(run):
            raise ValueError(f"{run[:80]!r} is no run")
        path = self._mirror / run / "output.log"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def follow(self, run: str) -> None:
        """Follow the output of a run too."""
        path = self.log_path(run)
        if path not in self._followed:
            log = MirroredLog(path, run, self.name)
            self._followed[path] = self.link.subscribe(log), log

    def keep_logs(self, shown: Collection[Path]) -> None:
        """Follow no others than these any longer."""
        for path in self._followed.keys() - set(shown):
            number, log = self._followed.pop(path)
            self.link.cancel(number)
            log.close()


def _outcome(request: RemoteRequest, machine: str) -> Outcome:
    output = request.output.decode("utf-8", "replace")
    errors = named_from_here(request.errors.decode("utf-8", "replace"), machine)
    runs = [word for word in request.arguments if is_run_id(word)]
    return outcome_of(output, errors, request.exit_code or 0, request.problem, runs)


def _joined(outcomes: Sequence[Outcome], with_ids: bool) -> Outcome:
    """One outcome of several commands."""
    output = "".join(outcome.output for outcome in outcomes)
    return Outcome(
        changed=tuple(output.split()) if with_ids else (),
        messages=tuple(dict.fromkeys(text for outcome in outcomes for text in outcome.messages)),
        problem=few_texts([outcome.problem for outcome in outcomes if outcome.problem]),
        output=output,
        refused=tuple(dict.fromkeys(pair for outcome in outcomes for pair in outcome.refused)),
    )
