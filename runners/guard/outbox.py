"""Messages to the guard's webhook: each is sent until it is accepted, by the next guard too."""

import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from runners.host.files import names_in, read_plain

SENT = " told"
_AGAIN_AFTER_S = 60.0


class WebhookOutbox:
    """Posts in threads, so that a webhook that hangs delays nothing; kept in the rule's folder."""

    def __init__(self) -> None:
        self.problem = ""
        self._on_its_way: set[str] = set()
        self._sent_at = float("-inf")

    def send(self, claim: Path, url: str, content: dict[str, object]) -> None:
        """Post the message that `claim` names, unless that is already going on."""
        if not url or claim.name in self._on_its_way:
            return
        self._on_its_way.add(claim.name)
        # A daemon thread: a post that hangs must not keep a lifted guard from ending.
        threading.Thread(target=self._post, args=(claim, url, content), daemon=True).start()

    def send_again(self, folder: Path, url: str) -> None:
        """Post what a guard before this one has claimed and not sent, and what was not accepted."""
        if not url or time.monotonic() - self._sent_at < _AGAIN_AFTER_S:
            return
        self._sent_at = time.monotonic()
        names = names_in(folder)
        for name in names:
            if name.startswith("said ") and not name.endswith(SENT) and name + SENT not in names:
                with suppress(OSError, ValueError):
                    self.send(folder / name, url, json.loads(read_plain(folder / name)))

    def _post(self, claim: Path, url: str, content: dict[str, object]) -> None:
        from runners.host.webhook import post_json  # HTTP is a third of a guard

        done = post_json(url, content)
        if done.taken:
            self.problem = ""
            with suppress(OSError):
                # A file beside the claim, because the claim must not change once it is there.
                claim.with_name(claim.name + SENT).touch(mode=0o600)
        else:
            self.problem = f"the webhook does not take messages: {done.answer} (try {done.tries})"
            with suppress(OSError):
                print(self.problem, file=sys.stderr, flush=True)
        self._on_its_way.discard(claim.name)
