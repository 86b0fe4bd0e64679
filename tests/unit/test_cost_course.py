"""What runs cost as time goes on: sessions that begin and end within a run, shares, rates of now."""

from fractions import Fraction

from runners.cost.ledger import RunEntry
from runners.cost.sessions import Session
from runners.cost.statement import Statement
from runners.host.clock import Moment
from runners.model.plan import AssignedGpu
from runners.model.spec import Price

NOON, HOUR = 1_795_000_000, 3600
GPUS = (AssignedGpu(0, "GPU-0", "H100", 0), AssignedGpu(1, "GPU-1", "H100", 1))
EACH = Price("3", "gpu", "session")


def at(hours: float) -> float:
    return NOON + hours * HOUR


def session(begin: float, end: float | None) -> Session:
    """Both GPUs at 3 dollars an hour each, from and to some hours after noon."""
    price = Price("3", "gpu", "session")
    ended = None if end is None else at(end)
    return Session(at(begin), "here", price, 2, ended=ended, uuids=("GPU-0", "GPU-1"))


def run(
    name: str,
    begin: float,
    end: float | None,
    gpus: tuple[AssignedGpu, ...] = GPUS,
    price: Price | None = EACH,
) -> RunEntry:
    finished = None if end is None else Moment(at(end))
    return RunEntry(name, "here", "p", name, "done", gpus, price, Moment(at(begin)), finished)


def hours(course: list[tuple[int, Fraction]]) -> list[tuple[float, Fraction]]:
    """A course by hours after noon."""
    return [((moment / 1e9 - NOON) / HOUR, spent) for moment, spent in course]


def test_a_course_bends_where_sessions_and_other_runs_begin_and_end() -> None:
    runs = [run("mine", 0, 6), run("beside", 2, 3), run("before", -2, -1), run("long", -3, 9, ())]
    books = Statement([session(1, 4), session(5, 8)], runs, Moment(at(9)))
    assert hours(books.course("mine")) == [
        (0.0, Fraction(0)),
        (1.0, Fraction(0)),
        (2.0, Fraction(6)),
        (3.0, Fraction(9)),  # both GPUs shared with another for an hour
        (4.0, Fraction(15)),
        (5.0, Fraction(15)),
        (6.0, Fraction(21)),
    ]
    assert books.run_costs()["mine"] == 21


def test_what_lies_outside_the_sessions_would_cost_its_own_price() -> None:
    books = Statement(
        [session(1, 2), session(3, 8)],
        [
            run("inside", 4, 5),
            run("around", 0, 6),
            run("edge", 2, 3),
            run("free", 0, 6, price=None),
        ],
        Moment(at(9)),
    )
    assert books.would_cost("inside") == 0
    assert books.would_cost("around") == 2 * 6, "before the first, and between both"
    assert books.would_cost("edge") == 6
    assert books.would_cost("free") is None
    assert "edge" not in books.run_costs(), "it began when one session had ended"
    assert books.run_costs()["inside"] > 0


def test_a_run_of_no_length_is_a_session_s_where_one_was_open() -> None:
    runs = [run(f"at {hour}", hour, hour) for hour in (0, 1, 1.5, 2)]
    books = Statement([session(1, 2)], runs, Moment(at(9)))
    assert books.run_costs() == {"at 1": 0, "at 1.5": 0}


def test_the_rate_of_now_is_of_the_open_session_and_shared_with_whoever_lives() -> None:
    live = [run("mine", 0, None), run("beside", 0, None, GPUS[:1])]
    open_now = Statement([session(-3, -2), session(-1, None)], live, Moment(at(1)))
    assert open_now.rate_now("mine", ["mine"]) == 6
    assert open_now.rate_now("mine", ["mine", "beside"]) == Fraction("4.5")
    assert open_now.rate_now("beside", ["mine", "beside", "unknown"]) == Fraction("1.5")
    closed = Statement([session(-3, -2)], live, Moment(at(1)))
    assert closed.rate_now("mine", ["mine"]) is None


def test_a_cluster_s_job_has_its_own_rate_until_it_waits() -> None:
    price = Price("2", "gpu", "cluster")
    books = Statement(
        [session(-1, None)],
        [run("job", 0, None, price=price), run("ended", 0, 1, price=price)],
        Moment(at(1)),
    )
    assert books.rate_now("job", ["job"]) == 4
    assert books.rate_now("ended", ["ended"]) == 0
