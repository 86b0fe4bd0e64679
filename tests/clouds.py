"""A metadata service on the loopback that answers as the clouds do, in their documented formats."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

TOKEN = ("PUT", "/latest/api/token")
ACTION = ("GET", "/latest/meta-data/spot/instance-action")
REBALANCE = ("GET", "/latest/meta-data/events/recommendations/rebalance")
DROPLET = ("GET", "/metadata/v1.json")
GOOGLE_INSTANCE = ("GET", "/computeMetadata/v1/instance/?recursive=true")
PREEMPTED = ("GET", "/computeMetadata/v1/instance/preempted")
AZURE_INSTANCE = ("GET", "/metadata/instance?api-version=2021-02-01")
SCHEDULED = ("GET", "/metadata/scheduledevents?api-version=2020-07-01")
_WITH_TOKEN = {"X-aws-ec2-metadata-token": "secret"}
_GOOGLE = {"Metadata-Flavor": "Google"}
_AZURE = {"Metadata": "true"}
DOCUMENT = {"instanceType": "p5.48xlarge", "instanceId": "i-0abc", "region": "us-east-1"}
GOOGLE = {
    "machineType": "projects/1/machineTypes/a3-highgpu-1g",
    "id": 42,
    "zone": "projects/1/zones/us-central1-a",
}
AZURE = {
    "compute": {
        "vmSize": "Standard_ND96isr",
        "vmId": "7f3a",
        "location": "westeurope",
        "name": "box-1",
    }
}


class Cloud(ThreadingHTTPServer):
    """A metadata service of one cloud; `asked` is every request that came, `silent` keeps it from
    answering, `answers_after_s` has it take its time.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.pages: dict[tuple[str, str], tuple[dict[str, str], Any]] = {}
        self.asked: list[str] = []
        self.silent = False
        self.answers_after_s = 0.0
        self.over = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def is_aws(self, action: object = None, risk: object = None) -> None:
        """Answer as a machine of AWS does, with or without a notice."""
        self.pages = {
            TOKEN: ({"X-aws-ec2-metadata-token-ttl-seconds": "60"}, "secret"),
            ("GET", "/latest/dynamic/instance-identity/document"): (_WITH_TOKEN, DOCUMENT),
            ACTION: (_WITH_TOKEN, action),
            REBALANCE: (_WITH_TOKEN, risk),
        }

    def is_digitalocean(self, droplet: int, region: str) -> None:
        """Answer as a machine of DigitalOcean does."""
        self.pages = {DROPLET: ({}, {"droplet_id": droplet, "region": region})}

    def is_google(self, preempted: str = "FALSE") -> None:
        """Answer as a machine of Google does."""
        self.pages = {GOOGLE_INSTANCE: (_GOOGLE, GOOGLE), PREEMPTED: (_GOOGLE, preempted)}

    def is_azure(self, *events: dict[str, Any]) -> None:
        """Answer as a machine of Azure does, that has these events scheduled."""
        found = {"DocumentIncarnation": 1, "Events": list(events)}
        self.pages = {AZURE_INSTANCE: (_AZURE, AZURE), SCHEDULED: (_AZURE, found)}


class _Answers(BaseHTTPRequestHandler):
    server: Cloud

    def _answer(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.server.over.wait(30 if self.server.silent else self.server.answers_after_s)
        headers, page = self.server.pages.get((self.command, self.path), ({}, None))
        right = page is not None and all(
            self.headers.get(name) == value for name, value in headers.items()
        )
        self.send_response(200 if right else 404)
        with suppress(BrokenPipeError):
            self.end_headers()
            if right:
                self.wfile.write(
                    page.encode() if isinstance(page, str) else json.dumps(page).encode()
                )

    do_GET = do_PUT = _answer

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving() -> Iterator[Cloud]:
    """A metadata service that answers while the block runs."""
    server = Cloud()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
