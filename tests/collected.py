"""Importing this imports the tests named in `$COLLECT` (JSON), as pytest does: what
`tests/workers.py` forks from.
"""

import contextlib
import json
import os

import pytest

with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
    pytest.main(["--collect-only", "-n0", "-pno:cacheprovider", *json.loads(os.environ["COLLECT"])])
