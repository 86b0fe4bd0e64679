"""Posting one JSON object to a webhook until it is accepted; the outcome in words."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, NamedTuple

_PATIENCE_S = 10.0
PAUSES_S = (1.0, 5.0, 20.0)
"""Between one try and the next."""
_WORTH_ANOTHER_TRY = (408, 425, 429)


class Delivery(NamedTuple):
    """What came of posting: whether it was taken, by how many tries, and the last answer."""

    taken: bool
    tries: int
    answer: str


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for the answer; a redirected POST would become a GET to somebody else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Nowhere to go on."""


def post_json(url: str, content: dict[str, Any], pauses: Sequence[float] = PAUSES_S) -> Delivery:
    """Post `content` to `url`, again where the server failed or was not reached."""
    for tries, pause in enumerate((*pauses, None), 1):
        status, answer = _post(url, content)
        if status is not None and 200 <= status < 300:
            return Delivery(True, tries, answer)
        # 4xx answers stay the same however often they are asked for, except these few.
        hopeless = status is not None and status < 500 and status not in _WORTH_ANOTHER_TRY
        if hopeless or pause is None:
            return Delivery(False, tries, answer)
        time.sleep(pause)
    raise AssertionError("the last try returns")


def _post(url: str, content: dict[str, Any]) -> tuple[int | None, str]:
    """The status and what it means; no status when nothing was reached."""
    opener = urllib.request.build_opener(NoRedirect())
    try:
        request = urllib.request.Request(
            url, json.dumps(content).encode(), {"Content-Type": "application/json"}
        )
        with opener.open(request, timeout=_PATIENCE_S) as answer:
            return answer.status, f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        outcome = f"HTTP {error.code}"
        if 300 <= error.code < 400:
            outcome += f": redirected to {error.headers.get('Location', 'elsewhere')}, not followed"
        return error.code, outcome
    except ValueError as error:
        return 400, str(error)  # no address at all: another try would be the same
    except (OSError, http.client.HTTPException) as error:
        return None, str(error) or type(error).__name__
