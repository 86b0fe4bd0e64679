"""From which checkpoint a later attempt of a run resumes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from runners.host.files import append_event, modified_at
from runners.lifecycle.supervisor.queue_wait import has_stepped
from runners.model.kept_secrets import unmasked_arguments
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields

if TYPE_CHECKING:
    from runners.host.newest_file import NewestFile


class CheckpointChoice:
    """The newest whole checkpoint of a run on which no attempt died before its first step."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._chosen: str | None = None
        self._useless: list[str] = []

    def judge_attempt(self) -> None:
        """Find out whether the checkpoint that the failed attempt began from was good."""
        # It died before its first step: most likely of that checkpoint, so an older one is next.
        if self._chosen is not None and has_stepped(self.directory) is False:
            self._useless.append(self._chosen)

    def is_further(self, plan: PlanFields) -> bool:
        """Whether the attempt that has just ended left a whole checkpoint of its own."""
        began = modified_at(self.directory.leader)
        newest = self._newest(plan, began)
        return newest is not None and newest.modified >= began

    def arguments(self, plan: PlanFields, started: float) -> list[str]:
        """The arguments for the next attempt, by the plan's restart rule.

        None without a checkpoint written since `started` (unix seconds).
        """
        checkpoint = self._newest(plan, started)
        template = plan["restart_arguments"]
        self._chosen = checkpoint.path if checkpoint and template else None
        return self._with_checkpoint(template) if checkpoint else []

    def _newest(self, plan: PlanFields, since: float) -> "NewestFile | None":
        # Most supervisors never start anything again, and do without.
        from runners.host.bounded_glob import acting_budget
        from runners.host.newest_file import first_whole, run_files
        from runners.host.printed_paths import PrintedScan

        folder = str(self.directory.path)
        printed = PrintedScan(folder, plan["working_directory"]).poll(is_live=False)
        budget = acting_budget()
        files = run_files(folder, plan["checkpoints"], printed, since, budget)
        if budget.cut:
            text = f"there may be a newer checkpoint than the one it goes on from: {budget.cut}"
            append_event(self.directory.supervisor_events, "alert", text=text)
        return first_whole(file for file in files if file.path not in self._useless)

    def real_arguments(
        self, arguments: list[str], plan: PlanFields, environment: Mapping[str, str]
    ) -> list[str]:
        """What `arguments` gave, with the secrets in them, which are in `environment`.

        Raises SecretGone.
        """
        template = unmasked_arguments("restart_arguments", plan["restart_arguments"], environment)
        return self._with_checkpoint(template) if arguments else []

    def _with_checkpoint(self, template: Sequence[str]) -> list[str]:
        return [word.replace("${checkpoint}", self._chosen or "") for word in template]
