"""Going from a run's output to the logs that its ranks have of their own, and on to the next."""

from pathlib import Path

from runners.watch.logs.rank_logs import FOLDER, rank_logs


def next_rank_file(path: Path | None, title: str, begin: bool = False) -> tuple[Path, str] | None:
    """Behind the log of a rank the next one, after the last the output, with its title; behind the
    output the first rank's, to `begin` with. None where there is none.
    """
    parents = path.parents if path is not None else ()
    run = next((part for part in parents if (part / "output.log").exists()), None)
    if run is None or path is None or not (begin or FOLDER in path.relative_to(run).parts):
        return None
    name = title.partition(" · ")[0]
    places = [(run / "output.log", f"{name} · output.log")]
    for rank, log in rank_logs(run).items():
        places += [(one, f"{name} · rank {rank} · {one.name}") for one in log.paths]
    at = next((i for i, place in enumerate(places) if place[0] == path), -1)
    return places[(at + 1) % len(places)] if len(places) > 1 else None
