"""Importing this imports the tests named in `$COLLECT` (JSON), as pytest does: what
`tests/workers.py` forks from.
"""

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Generator

import pytest


class Unimported:
    """What pytest asks about a file: one that cannot be imported is no module."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Forget what Python has kept of it: pytest would take that for the whole file."""
        report = yield
        if not report.passed and isinstance(collector, pytest.Module):
            for name, module in list(sys.modules.items()):
                if getattr(module, "__file__", None) == str(collector.path):
                    del sys.modules[name]
        return report


with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
    arguments = ["--collect-only", "-n0", "-pno:cacheprovider", *json.loads(os.environ["COLLECT"])]
    pytest.main(arguments, plugins=[Unimported()])
if "torch" in sys.modules:
    importlib.import_module("tests.compiling")
