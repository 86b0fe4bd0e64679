"""Which rented machine this is, by the cloud's metadata service; asked only where allowed.

The address is link-local and answers plain HTTP without any secret, so no proxy may be between.
Elsewhere nobody takes the connection, which is found within 0.3 s; who takes it is asked in the
ways of all clouds at once, and has two seconds to answer.

Sources: AWS "Retrieve instance metadata" (IMDSv2: a token first), Google Cloud "View and query VM
metadata", Azure "Instance Metadata Service", DigitalOcean "Metadata API reference"; RunPod names
itself in the pod's environment.
"""

import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from queue import Empty, Queue
from threading import Thread
from typing import Any

import msgspec

from runners.host.webhook import NoRedirect
from runners.model.errors import FresnelError, WrongInput
from runners.presets.reading.user_settings import read_settings

BASE = "http://169.254.169.254"
_CONNECTS_WITHIN_S = 0.3
_ANSWERS_WITHIN_S = 2.0
_MOST_BYTES = 256 * 1024
GOOGLE_HEADERS = {"Metadata-Flavor": "Google"}
AZURE_HEADERS = {"Metadata": "true"}


class Instance(msgspec.Struct, frozen=True):
    """A rented machine: its provider, its id there, and its kind where the provider says."""

    provider: str
    id: str = ""
    kind: str = ""
    region: str = ""


def find_instance(environment: Mapping[str, str] | None = None) -> Instance | None:
    """The machine this is, or None when nobody says, or when asking is not allowed.

    `$FRESNEL_METADATA` overrides the settings: 0 or off, 1 or on, or another address to ask.
    Raises WrongInput for another word.
    """
    environment = os.environ if environment is None else environment
    # Known from the environment, without asking the service.
    if environment.get("RUNPOD_POD_ID"):
        return _instance("RunPod", dict(environment), "RUNPOD_POD_ID", "RUNPOD_GPU_NAME")
    base = metadata_base(environment)
    return _ask_everybody(base) if base and _is_anybody_there(base) else None


def metadata_base(environment: Mapping[str, str] | None = None) -> str:
    """The address of the metadata service, empty where asking it is not allowed.

    Raises WrongInput for another word in `$FRESNEL_METADATA`, or mistaken settings.
    """
    word = (os.environ if environment is None else environment).get("FRESNEL_METADATA", "")
    if word.lower() in ("0", "off", "no"):
        return ""
    if word.startswith(("http://", "https://")):
        return word.rstrip("/")
    if word and word.lower() not in ("1", "on", "yes"):
        raise WrongInput(f"FRESNEL_METADATA={word}: expected on, off, or an address such as {BASE}")
    return BASE if word or read_settings().cost.metadata else ""


def allowed_base() -> str:
    """The same; empty too where the settings are mistaken: that is said where they are read."""
    try:
        return metadata_base()
    except FresnelError:
        return ""


def _is_anybody_there(base: str) -> bool:
    """Whether a connection is taken; the kernel takes it, however busy the service or this is."""
    url = urllib.parse.urlsplit(base)
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
        address = (url.hostname or "", port)
        socket.create_connection(address, timeout=_CONNECTS_WITHIN_S).close()
    except (OSError, ValueError):
        return False
    return True


def _ask_everybody(base: str) -> Instance | None:
    """The first answer that makes sense; later ones than two seconds are not waited for."""
    answers: Queue[Instance | None] = Queue()
    # Daemon threads: a connection that hangs must not keep the command from ending.
    for ask in _CLOUDS:
        Thread(target=lambda ask=ask: answers.put(ask(base)), daemon=True).start()
    deadline = time.monotonic() + _ANSWERS_WITHIN_S
    for _ in _CLOUDS:
        try:
            found = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            return None
        if found is not None:
            return found
    return None


def ask_metadata(
    url: str,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
) -> str | None:
    """The text at `url`, empty where the service says that there is none; None without an answer.

    No more than 256 KiB are read.
    """
    opener = _opener(is_https=url.startswith("https:"))
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)
    try:
        with opener.open(request, timeout=_ANSWERS_WITHIN_S) as answer:
            return str(answer.read(_MOST_BYTES).decode("utf-8", "replace")).strip()
    except urllib.error.HTTPError as error:
        return "" if error.code == http.client.NOT_FOUND else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def _opener(is_https: bool) -> urllib.request.OpenerDirector:
    """What asks without any proxy: that of the environment would answer for a machine of its own.

    Since Python 3.12 an opener for https reads all certificates of the machine when it is made,
    which takes longer than a metadata service is waited for; those are asked by plain http.
    """
    if is_https:
        return urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect())
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        NoRedirect(),  # a metadata service never redirects: what does is something else
    ):
        opener.add_handler(handler)
    return opener


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object in `text`; empty where it is none."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def aws_headers(base: str) -> dict[str, str] | None:
    """The headers by which AWS answers, good for a minute; None when it gives no token."""
    ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = ask_metadata(f"{base}/latest/api/token", ttl, "PUT")
    # IMDSv2 answers only with a token; version 1 may be switched off.
    return {"X-aws-ec2-metadata-token": token} if token else None


def _ask_aws(base: str) -> Instance | None:
    headers = aws_headers(base)
    if headers is None:
        return None
    document = json_object(
        ask_metadata(f"{base}/latest/dynamic/instance-identity/document", headers)
    )
    if not document.get("instanceType"):
        return None
    return _instance("AWS", document, "instanceId", "instanceType", "region")


def _instance(provider: str, found: dict[str, Any], *keys: str) -> Instance:
    """An instance with the values of these keys: id, kind and region; empty for a missing one."""
    return Instance(provider, *(str(found.get(key, "")) for key in keys))


def _ask_digitalocean(base: str) -> Instance | None:
    # It does not say of what size it is (digitalocean/api-v2, issue 182).
    found = json_object(ask_metadata(f"{base}/metadata/v1.json"))
    if "droplet_id" not in found:
        return None
    return _instance("DigitalOcean", found, "droplet_id", "", "region")


def _ask_google(base: str) -> Instance | None:
    found = json_object(
        ask_metadata(f"{base}/computeMetadata/v1/instance/?recursive=true", GOOGLE_HEADERS)
    )
    # Something else may answer at the same address: only a known form counts.
    if "machineType" not in found:
        return None
    names = {
        key: str(found.get(key, "")).rpartition("/")[2] for key in ("id", "machineType", "zone")
    }
    return _instance("Google Cloud", names, *names)


def _ask_azure(base: str) -> Instance | None:
    url = f"{base}/metadata/instance?api-version=2021-02-01"
    found = json_object(ask_metadata(url, AZURE_HEADERS)).get("compute")
    if not isinstance(found, dict) or "vmSize" not in found:
        return None
    return _instance("Azure", found, "vmId", "vmSize", "location")


_CLOUDS: tuple[Callable[[str], Instance | None], ...] = (
    _ask_aws,
    _ask_digitalocean,
    _ask_google,
    _ask_azure,
)
