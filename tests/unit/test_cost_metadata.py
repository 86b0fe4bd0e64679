"""Which machine this is: asked of a local server that answers as the clouds do, and only when that
is allowed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.cost.cloud import Instance, ask_metadata, find_instance
from runners.model.errors import WrongInput
from tests.clouds import AZURE, DOCUMENT, GOOGLE, Cloud, serving


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A cloud whose address stands in for the link-local one; a proxy that must not be asked is
    set.
    """
    with serving() as server:
        monkeypatch.setenv("FRESNEL_METADATA", server.url)
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        yield server


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        (
            {
                ("PUT", "/latest/api/token"): (
                    {"X-aws-ec2-metadata-token-ttl-seconds": "60"},
                    "secret",
                ),
                ("GET", "/latest/dynamic/instance-identity/document"): (
                    {"X-aws-ec2-metadata-token": "secret"},
                    DOCUMENT,
                ),
            },
            Instance("AWS", "i-0abc", "p5.48xlarge", "us-east-1"),
        ),
        (
            {
                ("GET", "/metadata/v1.json"): (
                    {},
                    {"droplet_id": 2756294, "region": "atl1", "hostname": "box"},
                )
            },
            Instance("DigitalOcean", "2756294", "", "atl1"),
        ),
        (
            {
                ("GET", "/computeMetadata/v1/instance/?recursive=true"): (
                    {"Metadata-Flavor": "Google"},
                    GOOGLE,
                )
            },
            Instance("Google Cloud", "42", "a3-highgpu-1g", "us-central1-a"),
        ),
        (
            {("GET", "/metadata/instance?api-version=2021-02-01"): ({"Metadata": "true"}, AZURE)},
            Instance("Azure", "7f3a", "Standard_ND96isr", "westeurope"),
        ),
        ({("GET", "/metadata/v1.json"): ({}, "<html>a captive portal</html>")}, None),
        ({("GET", "/metadata/v1.json"): ({}, ["no", "object"])}, None),
    ],
)
def test_a_cloud_is_recognised_by_its_own_answer(
    cloud: Cloud, pages: Any, found: Instance | None
) -> None:
    cloud.pages = pages
    assert find_instance() == found


def test_silence_is_not_waited_for(cloud: Cloud) -> None:
    cloud.silent = True
    cloud.pages = {("GET", "/metadata/v1.json"): ({}, {"droplet_id": 1})}
    assert find_instance() is None, "who waits half a minute gets an answer"


def test_a_cloud_that_is_slow_to_answer_is_waited_for(cloud: Cloud) -> None:
    cloud.pages = {("GET", "/metadata/v1.json"): ({}, {"droplet_id": 1})}
    cloud.answers_after_s = 0.5
    assert find_instance() == Instance("DigitalOcean", "1")


def test_nobody_is_asked_unless_the_settings_allow_it(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.pages = {("GET", "/metadata/v1.json"): ({}, {"droplet_id": 1})}
    monkeypatch.setattr("runners.cost.cloud.BASE", cloud.url)
    monkeypatch.delenv("FRESNEL_METADATA")
    assert find_instance() is None and not cloud.asked
    folder = tmp_path / "config" / "fresnel-tui"
    folder.mkdir(parents=True)
    (folder / "settings.yaml").write_text("cost: {metadata: true}\n")
    assert find_instance() == Instance("DigitalOcean", "1")
    monkeypatch.setenv("FRESNEL_METADATA", "off")
    cloud.asked.clear()
    assert find_instance() is None and not cloud.asked
    monkeypatch.setenv("FRESNEL_METADATA", "maybe")
    with pytest.raises(WrongInput, match="FRESNEL_METADATA=maybe"):
        find_instance()


def test_a_pod_knows_itself_without_asking() -> None:
    assert find_instance({"RUNPOD_POD_ID": "pod1"}) == Instance("RunPod", "pod1")


def test_who_is_asked_by_plain_http_reads_no_certificates(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("certificates are read")

    monkeypatch.setattr("ssl.SSLContext.load_default_certs", refuse)
    cloud.pages = {("GET", "/metadata/v1.json"): ({}, {"droplet_id": 1, "region": "atl1"})}
    assert ask_metadata(f"{cloud.url}/metadata/v1.json") == '{"droplet_id": 1, "region": "atl1"}'
    assert ask_metadata(f"{cloud.url}/nothing") == ""
