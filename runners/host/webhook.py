"""Telling a webhook: one JSON object, posted once, and what came of it in words."""

import json
import urllib.error
import urllib.request
from typing import Any

_PATIENCE_S = 10.0


def post_json(url: str, content: dict[str, Any]) -> str:
    """Post `content` to `url`: `HTTP 200`, `HTTP 403`, or why nothing was reached."""
    try:
        request = urllib.request.Request(
            url, json.dumps(content).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            return f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, ValueError) as error:
        return str(error)
