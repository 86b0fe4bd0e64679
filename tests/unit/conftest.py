"""What several unit tests begin with."""

import pytest

from runners.state.layout import RunDirectory, StateDirectory


@pytest.fixture
def run() -> RunDirectory:
    """The folder of a run that nobody has written into."""
    made = StateDirectory().create().run("20261121-101500-demo-7f3a")
    made.path.mkdir(parents=True)
    return made
