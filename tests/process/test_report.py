"""`report`: one file with everything in it, that nothing from outside can break."""

import json
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from runners.state.layout import RunDirectory
from tests.command_text import NO_REPORT
from tests.process.conftest import CommandLine
from tui.cli.schema import read_schemas, schema_of

PROGRAM = """\
import sys
for epoch in range(1, 6):
    print(f"epoch: {epoch}/5 | loss: {float(sys.argv[2]) / epoch:.4f} | psnr: {20 + epoch}", flush=True)
if len(sys.argv) > 3:
    raise ValueError("no <b>such</b> thing")
"""


def png(path: Path) -> bytes:
    """A picture of one red pixel at `path`."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    content += chunk(b"IEND", b"")
    path.write_bytes(content)
    return content


class Page(HTMLParser):
    """The text of a page, the sources it names, and whether its tags are closed."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.text, self.sources, self.tags = "", [], []  # type: ignore[var-annotated]
        self.feed(content)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attributes if name in ("src", "href")]
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def runs(cli: CommandLine) -> list[RunDirectory]:
    """A good run with pictures and a failed one."""
    Path(cli.folder, "train.py").write_text(PROGRAM)
    good = cli.command("python3", "train.py", "--lr", "1", options=("--name", "good"))
    bad = cli.command("python3", "train.py", "--lr", "2", "fail", options=("--name", "<b>bad</b>"))
    for run in (good, bad):
        cli.ended(run)
    for epoch in range(1, 10):
        png(good.path / f"sample_epoch_{epoch:04d}.png")
    (good.path / "fake.png").write_text("<script>alert(1)</script>")
    cli.run("note", "good", "<script>alert(2)</script> & fine")
    return [good, bad]


def test_one_file_with_everything(cli: CommandLine, runs: list[RunDirectory]) -> None:
    good, bad = runs
    said = cli.json("report", good.id, bad.id, "-o", "out.html", "--title", "Two & more")
    jsonschema.validate(said, schema_of("report", read_schemas()))
    assert said["runs"] == [good.id, bad.id] and said["pictures"] == 6 and said["charts"] >= 2
    content = Path(cli.folder, "out.html").read_text()
    page = Page(content)
    assert "<script" not in content and "b" not in page.tags, "nothing from outside is markup"
    assert len(page.sources) == 6 and all(one.startswith("data:image/png") for one in page.sources)
    links = re.findall(r"https?://[^\s\"<]+", content)
    assert set(links) == {"http://www.w3.org/2000/svg"}, "it needs no network"
    assert content.count("<svg") == content.count("</svg>") >= 2
    for words in (
        "Two & more", "loss", "psnr", "epoch 9", "<script>alert(2)</script> & fine", "lr",
        "ValueError: no <b>such</b> thing", "exit code 1", "Differences", "4 more pictures",
    ):  # fmt: skip
        assert words in page.text, words


def test_a_single_run_has_a_name_of_its_own_and_no_other_file_is_replaced(
    cli: CommandLine, runs: list[RunDirectory]
) -> None:
    assert cli.run("report", "good").stdout.strip() == "good.html"
    first = Path(cli.folder, "good.html").read_text()
    assert "Differences" not in Page(first).text
    cli.run("report", "good")  # a report may be replaced by a newer one
    Path(cli.folder, "mine.html").write_text("<html>mine</html>")
    refused = cli.run("report", "good", "-o", "mine.html", "--json", exits=2)
    message = json.loads(refused.stdout)["error"]["message"]
    assert message == f"mine.html {NO_REPORT}"
    assert Path(cli.folder, "mine.html").read_text() == "<html>mine</html>"
