"""`prices update`: a list that is whole takes the place of the one before, anything else changes
nothing.
"""

import hashlib
from collections.abc import Iterator
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
import yaml

from runners.cost.prices import list_prices, updated_file
from tests.process.conftest import CommandLine

TODAY = date.today().isoformat()
ENTRY = {"provider": "Ours", "gpu": "H100 SXM", "match": "H100 SXM", "source": "our list"}


def listing(*changes: dict[str, object], form: object = 1) -> bytes:
    """A published list: of each change a price, by its name."""
    entries = {}
    for change in changes:
        entry = {**ENTRY, "date": TODAY, "usd_per_hour": "2.50", **change}
        name = entry.pop("name", "ours-h100")
        entries[name] = {key: value for key, value in entry.items() if value is not None}
    return yaml.safe_dump({"format": form, "prices": entries}).encode()


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def file(cli: CommandLine) -> Path:
    """A list with its checksum beside it."""
    path = cli.folder / "list.yaml"
    path.write_bytes(listing({}))
    path.with_name("list.yaml.sha256").write_text(f"{sha(listing({}))}  list.yaml\n")
    return path


def price_of(name: str) -> str | None:
    return next((entry.usd_per_hour for entry in list_prices() if entry.name == name), None)


def test_a_list_with_its_checksum_beside_it_is_taken_in(cli: CommandLine, file: Path) -> None:
    done = cli.json("prices", "update", str(file))
    assert (done["prices"], done["added"], done["kept"]) == (1, ["ours-h100"], "")
    assert price_of("ours-h100") == "2.50" and price_of("amd-cloud-mi300x") == "1.99"
    cli.run("session", "start", "--price", "ours-h100", "--gpus", "1", "--anyway")
    assert cli.json("cost")["usd_per_hour"] == 2.5
    # Another: the one before is kept, and what is new and changed is said.
    newer = listing({"usd_per_hour": "2.75"}, {"name": "ours-too"})
    file.write_bytes(newer)
    done = cli.json("prices", "update", str(file), "--sha256", sha(newer).upper())
    assert (done["added"], done["changed"]) == (["ours-too"], ["ours-h100"])
    assert Path(done["kept"]).read_bytes() == listing({})
    assert price_of("ours-h100") == "2.75"


@pytest.mark.parametrize("given", ["beside", "flag", "none", "nonsense"])
def test_a_list_whose_checksum_differs_or_lacks_changes_nothing(
    cli: CommandLine, file: Path, given: str
) -> None:
    cli.run("prices", "update", str(file))
    before = updated_file().read_bytes()
    file.write_bytes(listing({"usd_per_hour": "0.01"}))
    beside = file.with_name("list.yaml.sha256")
    words: tuple[str, ...] = ()
    if given == "flag":
        words = ("--sha256", sha(b"something else"))
    elif given == "nonsense":
        words = ("--sha256", "abc")
    elif given == "none":
        beside.unlink()
    refused = cli.run("prices", "update", str(file), *words, exits=2)
    assert "SHA-256" in refused.stderr or "checksum" in refused.stderr
    assert updated_file().read_bytes() == before
    assert [path.name for path in updated_file().parent.iterdir()] == [updated_file().name]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"prices: {}\n", "format"),
        (listing({}, form=2), "format"),
        (listing(), "expected 1 to"),
        (b"format: 1\nprices:\n\tours: 2\n", ":3"),
        (listing({"source": ""}), "prices.ours-h100"),
        (listing({"date": None}), "prices.ours-h100"),
        (listing({"date": "2999-01-01"}), "prices.ours-h100"),
        (listing({"usd_per_hour": "0"}), "prices.ours-h100"),
        (listing({"usd_per_hour": "1e9"}), "prices.ours-h100"),
        (listing({"usd_per_hour": "99999"}), "prices.ours-h100"),
        (listing({"billing": "per fortnight"}), "billing"),
        (listing({"minimum": "soon"}), "minimum"),
        (listing({"currency": "EUR"}), "currency"),
        (listing({"name": "a name"}), "prices.a name"),
        (listing({"provider": "\x1b[31mred"}), "prices.ours-h100"),
        (listing({}, {"name": "second", "provider": None}), "prices.second"),
        (b"format: 1\n#" + b"x" * (300 << 10), "longer than"),
        (b"\xff\xfe\x00", ""),
    ],
)
def test_a_list_that_is_not_whole_changes_nothing(
    cli: CommandLine, file: Path, content: bytes, where: str
) -> None:
    cli.run("prices", "update", str(file))
    before = updated_file().read_bytes()
    file.write_bytes(content)
    refused = cli.run("prices", "update", str(file), "--sha256", sha(content), exits=2)
    assert where in refused.stderr
    assert updated_file().read_bytes() == before and price_of("ours-h100") == "2.50"


def test_the_later_of_two_days_counts_and_the_user_s_own_before_both(
    cli: CommandLine, file: Path
) -> None:
    older = (date.today() - timedelta(days=3650)).isoformat()
    content = listing(
        {"name": "amd-cloud-mi300x", "date": older, "usd_per_hour": "9"},
        {"name": "digitalocean-h100", "usd_per_hour": "3.50"},
    )
    file.write_bytes(content)
    cli.run("prices", "update", str(file), "--sha256", sha(content))
    assert price_of("amd-cloud-mi300x") == "1.99", "the release knows more"
    assert price_of("digitalocean-h100") == "3.50"
    own = updated_file().with_name("prices.yaml")
    own.write_text("prices: {digitalocean-h100: {usd_per_hour: 3.10}}\n")
    assert price_of("digitalocean-h100") == "3.1"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.over = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/list.yaml"


class _Answers(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status, page = self.server.pages.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", page.decode())
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    there = _Server()
    thread = Thread(target=there.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield there
    there.over.set()
    there.shutdown()
    thread.join()
    there.server_close()


def test_an_address_is_read_with_its_checksum(cli: CommandLine, server: _Server) -> None:
    content = listing({})
    server.pages = {"/list.yaml": (200, content)}
    cli.run("prices", "update", server.url, exits=2)
    server.pages["/list.yaml.sha256"] = (200, sha(content).encode())
    assert cli.json("prices", "update", server.url)["sha256"] == sha(content)
    assert price_of("ours-h100") == "2.50"


def test_an_address_that_is_none_fails_redirects_or_sends_too_much_changes_nothing(
    cli: CommandLine, server: _Server
) -> None:
    content = listing({})
    words = ("--sha256", sha(content))
    for url in ("http://example.org/list.yaml", "ftp://127.0.0.1/list.yaml", "https://"):
        cli.run("prices", "update", url, *words, exits=None if url == "https://" else 2)
    server.pages = {"/other": (200, content), "/list.yaml": (302, b"/other")}
    assert "302" in cli.run("prices", "update", server.url, *words, exits=None).stderr
    server.pages = {"/list.yaml": (500, b"")}
    assert "500" in cli.run("prices", "update", server.url, *words, exits=None).stderr
    server.pages = {"/list.yaml": (200, content + b"#" * (300 << 10))}
    cli.run("prices", "update", server.url, *words, exits=2)
    assert not updated_file().exists()


def test_the_list_says_what_is_old(cli: CommandLine) -> None:
    found = {entry["name"]: entry for entry in cli.json("prices")}
    assert found["amd-cloud-mi300x"]["age"] and found["amd-cloud-mi300x"]["source"]
    assert "prices update" in cli.run("prices").stderr
