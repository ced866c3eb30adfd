"""How a call of the API server fails: it was rejected, or its outcome is unknown.

The difference decides what a writer does next. A rejected write has not happened and may be sent again; if the outcome
is unknown, it has to be looked up first (`is_ambiguous`).
Source: k8s.io/apimachinery meta/v1 ApiStatus.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_REQUEST_TIMEOUT = 408
_GONE = 410

_OBJECT = re.compile(r"(?<=value: )[{\[]")
_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Cause:
    """One violated rule, as the server reports it. field: in Kubernetes' notation."""

    field: str
    reason: str
    message: str


class CallFailed(Exception):
    """A call that did not succeed. call: its method and path. is_ambiguous: it may have been carried out anyway."""

    def __init__(self, call: str, text: str, *, is_ambiguous: bool) -> None:
        super().__init__(f"{call}: {text}")
        self.call = call
        self.is_ambiguous = is_ambiguous


@dataclass(frozen=True, slots=True)
class ApiStatus:
    """What the server says of its refusal. retry_after_s: from its Retry-After header, None without one."""

    reason: str
    message: str
    causes: tuple[Cause, ...] = ()
    retry_after_s: float | None = None


class ApiError(CallFailed):
    """The server answered that it did not do it. status: of HTTP; the rest: of `ApiStatus`.

    Ambiguous is a write that ended in the server's own trouble: it may be stored.
    """

    def __init__(self, call: str, status: int, said: ApiStatus) -> None:
        is_troubled = status >= 500 or status == _REQUEST_TIMEOUT
        is_write = call.split(" ", 1)[0] not in _READS
        super().__init__(call, f"{status} {said.reason}: {said.message}", is_ambiguous=is_write and is_troubled)
        self.status = status
        self.reason = said.reason
        self.message = said.message
        self.causes = said.causes
        self.retry_after_s = said.retry_after_s

    @property
    def is_expired(self) -> bool:
        """The asked-for resource version or continue token is no longer kept: what is there has to be listed again."""
        return self.status == _GONE


class Unanswered(CallFailed):
    """No answer came, or not all of it: connection refused, cut, timed out."""


class Withheld(CallFailed):
    """It was not sent: this process may not write, as one that does not lead, or leads no more."""

    def __init__(self, call: str) -> None:
        super().__init__(call, "not sent: this process does not lead", is_ambiguous=False)


class NotConfigured(Exception):
    """There is no readable configuration of the API server's address and credentials."""


def api_error(call: str, status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error of an answer. retry_after: the header of that name; the ApiStatus may say it too."""
    found = _status_object(body)
    details = _object(found.get("details"))
    causes = details.get("causes")
    listed = tuple(_cause(_object(cause)) for cause in causes) if isinstance(causes, list) else ()
    seconds = _seconds(retry_after, details.get("retryAfterSeconds"))
    message = _without_objects(str(found.get("message") or ""))
    return ApiError(call, status, ApiStatus(str(found.get("reason") or ""), message, listed, seconds))


def _cause(raw: Mapping[str, object]) -> Cause:
    field, reason, message = (str(raw.get(name) or "") for name in ("field", "reason", "message"))
    return Cause(field, reason, _without_objects(message))


def _without_objects(message: str) -> str:
    """The message without the objects that it repeats: parameters for a driver may be confidential."""
    kept, begin = [], 0
    while found := _OBJECT.search(message, begin):
        kept += [message[begin : found.start()], "..."]
        try:
            _, begin = _JSON.raw_decode(message, found.start())
        except (ValueError, RecursionError):
            begin = len(message)  # its end is unknown
    return "".join([*kept, message[begin:]])


def _status_object(body: bytes) -> Mapping[str, object]:
    """The server's ApiStatus; what is none (a path that is not served, a proxy's page) becomes its message."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {"message": body[:1000].decode(errors="replace").strip()}


def _object(raw: object) -> Mapping[str, object]:
    return raw if isinstance(raw, dict) else {}


def _seconds(header: str, in_details: object) -> float | None:
    """Seconds to wait. The API server writes no dates; a proxy's date is left to the caller's own time limit."""
    if header.isascii() and header.isdigit():
        return float(header)
    return float(in_details) if isinstance(in_details, int) and in_details > 0 else None
