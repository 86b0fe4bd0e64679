"""From which checkpoint a later attempt of a run resumes.

Standard library only: the supervisor imports it.
"""

from runners.lifecycle.supervisor.queue_wait import attempt_report
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields


class CheckpointChoice:
    """The newest whole checkpoint of a run on which no attempt died before its first step."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._chosen: str | None = None
        self._useless: list[str] = []
        self._printed: list[str] = []

    def judge_attempt(self) -> None:
        """Find out which checkpoints the failed attempt wrote, and whether its own was good."""
        told = attempt_report(self.directory)
        # It died before its first step: most likely of that checkpoint, so an older one is next.
        if self._chosen is not None and told.stepped is False:
            self._useless.append(self._chosen)
        self._printed += told.checkpoints

    def arguments(self, plan: PlanFields, started: float) -> list[str]:
        """The arguments for the next attempt, by the plan's restart rule.

        None without a checkpoint written since `started` (unix seconds).
        """
        # Most supervisors never start anything again, and do without.
        from runners.host.newest_file import newest

        checkpoint = newest(
            [*plan["checkpoints"], *self._printed],
            # One second earlier: some file systems keep whole seconds only.
            since=started - 1.0,
            own=str(self.directory.path),
            besides=self._useless,
        )
        words = plan["restart_arguments"]
        self._chosen = checkpoint.path if checkpoint and words else None
        if not checkpoint:
            return []
        return [word.replace("${checkpoint}", checkpoint.path) for word in words]
