"""Whether the provider says that it takes this machine away; asked only where metadata is allowed.

Sources: AWS "Spot Instance interruption notices" (two minutes ahead; to be asked every 5 s) and
"EC2 instance rebalance recommendations"; Google Cloud "Spot VMs" (`preempted` turns TRUE about 30 s
before the machine is switched off); Azure "Scheduled Events for Linux VMs" (an eviction at least
30 s ahead, the end of a scale set's machine 5 to 15 min, a reboot or redeployment 15 min).
"""

from collections.abc import Callable
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from runners.cost.cloud import (
    AZURE_HEADERS,
    GOOGLE_HEADERS,
    ask_metadata,
    aws_headers,
    json_object,
)

_AGREES_S = 15.0


class CloudNotice(NamedTuple):
    """What is announced: the provider's word for it, and how many seconds are left.

    `left_s` is None where no end is announced: then nothing needs to be stopped. `ends_bill` says
    whether the machine is the provider's again afterwards.
    """

    action: str
    left_s: float | None = None
    ends_bill: bool = False


class Unanswered(Exception):
    """The metadata service did not answer, or not as it is documented to."""


def ask_notice(provider: str, base: str, now: float) -> CloudNotice | None:
    """What `provider` announces at `now` (unix s), or None; raises Unanswered."""
    return PROVIDERS[provider](base, now)


def _ask_aws(base: str, now: float) -> CloudNotice | None:
    headers = aws_headers(base)
    if headers is None:
        raise Unanswered
    found = json_object(_text(f"{base}/latest/meta-data/spot/instance-action", headers))
    action = found.get("action")
    if action in ("stop", "terminate"):
        return CloudNotice(action, _left(found.get("time"), now, 120.0), ends_bill=True)
    if action == "hibernate":
        # It begins at once, and what runs goes on afterwards: there is nothing to be saved.
        return CloudNotice(action)
    url = f"{base}/latest/meta-data/events/recommendations/rebalance"
    risk = json_object(_text(url, headers))
    return CloudNotice("rebalance recommendation") if risk.get("noticeTime") else None


def _ask_google(base: str, now: float) -> CloudNotice | None:
    text = _text(f"{base}/computeMetadata/v1/instance/preempted", GOOGLE_HEADERS)
    return CloudNotice("preempted", 30.0, ends_bill=True) if text.upper() == "TRUE" else None


_AZURE_EVENTS: dict[str, tuple[float, bool]] = {
    "Preempt": (30.0, True),
    "Terminate": (300.0, True),
    "Reboot": (900.0, False),
    "Redeploy": (900.0, False),
}
"""The least seconds between an event's announcement and its begin, and whether the bill ends."""
_AZURE_LONGEST_S = 900.0


def _ask_azure(base: str, now: float) -> CloudNotice | None:
    url = f"{base}/metadata/scheduledevents?api-version=2020-07-01"
    events = json_object(_text(url, AZURE_HEADERS)).get("Events")
    known = [event for event in events if _is_ending(event)] if isinstance(events, list) else []
    if not known:
        return None
    # Machines that belong together see each other's events.
    name = _azure_name(base)
    notices = [_azure_notice(event, now) for event in known if name in _resources(event)]
    return min(notices, key=lambda notice: notice.left_s or 0.0, default=None)


def _azure_name(base: str) -> str:
    text = _text(f"{base}/metadata/instance?api-version=2021-02-01", AZURE_HEADERS)
    compute = json_object(text).get("compute")
    name = compute.get("name") if isinstance(compute, dict) else None
    if not isinstance(name, str) or not name:
        raise Unanswered
    return name


def _is_ending(event: object) -> bool:
    return isinstance(event, dict) and event.get("EventType") in _AZURE_EVENTS


def _resources(event: dict[str, Any]) -> list[object]:
    found = event.get("Resources")
    return found if isinstance(found, list) else []


def _azure_notice(event: dict[str, Any], now: float) -> CloudNotice:
    kind = str(event["EventType"])
    least, ends_bill = _AZURE_EVENTS[kind]
    if event.get("EventStatus") == "Started":
        return CloudNotice(kind, 0.0, ends_bill)
    return CloudNotice(kind, _left(event.get("NotBefore"), now, least, _AZURE_LONGEST_S), ends_bill)


def _text(url: str, headers: dict[str, str]) -> str:
    text = ask_metadata(url, headers)
    if text is None:
        raise Unanswered
    return text


def _left(moment: object, now: float, documented: float, longest: float | None = None) -> float:
    """Seconds until `moment`; as documented where a clock that is hours off says otherwise."""
    at = _parse(moment)
    if at is None or not -_AGREES_S <= at - now <= (longest or documented) + _AGREES_S:
        return documented
    return max(0.0, at - now)


def _parse(moment: object) -> float | None:
    """Unix seconds of `2017-09-18T08:22:00Z` or `Mon, 19 Sep 2016 18:29:47 GMT`."""
    text = moment.strip() if isinstance(moment, str) else ""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        try:
            found = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError):
            return None
    # Both are in UTC by their documentation, whether they say so or not.
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


PROVIDERS: dict[str, Callable[[str, float], CloudNotice | None]] = {
    "AWS": _ask_aws,
    "Google Cloud": _ask_google,
    "Azure": _ask_azure,
}
"""Who announces such a thing, by the names that `find_instance` gives."""
