"""How a call of the API server fails: it was rejected, or its outcome is unknown.

The difference decides what a writer does next. A rejected write has not happened and may be sent again; if the outcome
is unknown, it has to be looked up first (`is_ambiguous`). Who rejects it decides whom it concerns: an admission
webhook chooses status code, reason and details as it likes, and speaks of one object only (`api_error_kind`).
Source: k8s.io/apimachinery meta/v1 Status; k8s.io/apiserver pkg/admission, plugin/webhook/errors ToStatusErr and
plugin/policy/validating; pkg/endpoints/handlers/responsewriters.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

import orjson

LASTS_S = 5.0
"""An API server that has just started may let nobody in for a second or two. What it says for so long, it means."""

READS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods of calls that change nothing."""


TEXT_MAX = 2000
"""Characters of what the server says: webhooks may answer megabytes, which would stand in each condition and log."""

READ_MAX = 1 << 16
"""Characters of it that are looked at: each megabyte would take 13 ms, in which nothing else goes on."""

_OBJECT = re.compile(r"(?<=value: )[{\[]")
_CALLED = re.compile(r'(\b(?:Get|Post) \\?"https?://[^/?\s"\\]+)[/?][^\s"\\]*')
_NAMESPACE = re.compile(r"/namespaces/([^/]+)/")
_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Cause:
    """One violated rule, as the server reports it. field: in Kubernetes' notation."""

    field: str
    reason: str
    message: str


class ApiErrorKind(Enum):
    """What the server says by an answer that is an error.

    DENIED: an admission webhook or policy, a plugin such as the one for quotas, or etcd for its size refuses this
    object. PUT_OFF: the same, for now (429). The others are the server's own words. UNAUTHENTICATED: it does not
    know who calls. FORBIDDEN: the caller lacks a right. BUSY: it has too much to do (429). MISSING, CONFLICT,
    EXPIRED, INVALID: 404, 409, 410 and 422. TROUBLED: it has not ended what it began, or cannot do it (408, 5xx).
    REFUSED: any other error.
    """

    DENIED = "denied"
    PUT_OFF = "put off"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    BUSY = "busy"
    MISSING = "missing"
    CONFLICT = "conflict"
    EXPIRED = "expired"
    INVALID = "invalid"
    TROUBLED = "troubled"
    REFUSED = "refused"


class CallFailed(Exception):
    """A call that did not succeed. call: its method and path. is_ambiguous: it may have been carried out anyway."""

    def __init__(self, call: str, text: str, *, is_ambiguous: bool) -> None:
        super().__init__(f"{call}: {text}")
        self.call = call
        self.is_ambiguous = is_ambiguous

    @property
    def gist(self) -> str:
        """What it says whatever object it is about."""
        return type(self).__name__

    def message_in(self, namespace: str) -> str:
        """What those may know who read the objects of the namespace: of another one, no name and no webhook's words."""
        of_call = _NAMESPACE.search(self.call)
        if of_call is None or of_call[1] == namespace:
            return str(self)
        return f"a call for an object of another namespace failed: {self._answer_for_others()}"

    def _answer_for_others(self) -> str:
        return "the API server did not answer"


@dataclass(frozen=True, slots=True)
class ApiStatus:
    """What the server says of its refusal."""

    reason: str
    message: str
    causes: tuple[Cause, ...] = ()
    retry_after_s: float | None = None
    """What its Retry-After header says; None without one."""
    is_about_object: bool = False
    """The details name an object, or hold anything else."""


class ApiError(CallFailed):
    """The server answered that it did not do it. status: of HTTP; kind: what it means; the rest: of `ApiStatus`.

    Ambiguous is a write that ended in the server's own trouble: it may be stored. What is denied is not: it never came
    to the store.
    """

    def __init__(self, call: str, status: int, said: ApiStatus) -> None:
        self.kind = api_error_kind(status, said)
        is_write = call.split(" ", 1)[0] not in READS
        text = f"{f'{status} {said.reason}'.rstrip()}: {said.message}"
        super().__init__(call, text, is_ambiguous=is_write and self.kind is ApiErrorKind.TROUBLED)
        self.status = status
        self.reason = said.reason
        self.message = said.message
        self.causes = said.causes
        self.retry_after_s = said.retry_after_s

    @property
    def gist(self) -> str:
        """As of every failed call."""
        return f"{self.status} {self.reason}"

    def _answer_for_others(self) -> str:
        return f"the API server answered {self.status}"

    @property
    def is_expired(self) -> bool:
        """The asked-for resource version or continue token is no longer kept: what is there has to be listed again."""
        return self.kind is ApiErrorKind.EXPIRED


class Unanswered(CallFailed):
    """No answer came, or not all of it: connection refused, cut, timed out."""


class TooLarge(CallFailed):
    """An answer, or a line of a watch, is larger than it may be, and was not read to its end. what: of the two."""

    def __init__(self, call: str, most_bytes: int, what: str = "the answer") -> None:
        is_write = call.split(" ", 1)[0] not in READS
        super().__init__(call, f"{what} is larger than {most_bytes} bytes", is_ambiguous=is_write)


class Withheld(CallFailed):
    """It was not sent: this process may not write, as one that does not lead, or leads no more."""

    def __init__(self, call: str) -> None:
        super().__init__(call, "not sent: this process does not lead", is_ambiguous=False)


class NotConfigured(Exception):
    """There is no readable configuration of the API server's address and credentials."""


_OF_WEBHOOK = re.compile(r'admission webhook "[^"]*" denied the request\b')
_OF_POLICY = re.compile(
    r"""\S+ ("[^"]*" )?is forbidden: \w+AdmissionPolicy '[^']*' with binding '[^']*' denied request\b"""
)
_OF_SIZE = re.compile(r'(Operation cannot be fulfilled on pods/binding "[^"]*": )?etcdserver: request is too large')
_OF_RIGHTS = re.compile(r'[^"]*("[^"]*" )?is forbidden: User ".*" cannot ')
"""The server's own words at the beginning of a message; what follows holds whatever a webhook or an object says.

That of the size is all of its message: the status is that of an error of which it is unknown whether it was stored.
"""

_BY_STATUS: Mapping[int, ApiErrorKind] = {
    HTTPStatus.NOT_FOUND: ApiErrorKind.MISSING,
    HTTPStatus.REQUEST_TIMEOUT: ApiErrorKind.TROUBLED,
    HTTPStatus.CONFLICT: ApiErrorKind.CONFLICT,
    HTTPStatus.GONE: ApiErrorKind.EXPIRED,
    HTTPStatus.UNPROCESSABLE_ENTITY: ApiErrorKind.INVALID,
    HTTPStatus.TOO_MANY_REQUESTS: ApiErrorKind.BUSY,
}


_UID = "metadata.uid"
"""Writes name it so that they change no other object that has the name by now."""


def api_error_kind(status: int, said: ApiStatus) -> ApiErrorKind:
    """What an answer with this status code of HTTP, which is an error, means."""
    if _OF_WEBHOOK.match(said.message) or _OF_POLICY.match(said.message):
        return ApiErrorKind.PUT_OFF if status == HTTPStatus.TOO_MANY_REQUESTS else ApiErrorKind.DENIED
    if _OF_SIZE.fullmatch(said.message):
        return ApiErrorKind.DENIED
    if status == HTTPStatus.UNAUTHORIZED:
        return ApiErrorKind.REFUSED if said.is_about_object else ApiErrorKind.UNAUTHENTICATED
    if status == HTTPStatus.FORBIDDEN:  # authorization names the user and the verb; all else comes from admission
        return ApiErrorKind.FORBIDDEN if _OF_RIGHTS.match(said.message) and not said.causes else ApiErrorKind.DENIED
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ApiErrorKind.TROUBLED
    kind = _BY_STATUS.get(status, ApiErrorKind.REFUSED)
    is_of_another = kind is ApiErrorKind.INVALID and any(cause.field == _UID for cause in said.causes)
    return ApiErrorKind.MISSING if is_of_another else kind


def api_error(call: str, status: int, body: bytes, retry_after: str = "") -> ApiError:
    """The error of an answer. retry_after: the header of that name; the ApiStatus may say it too."""
    status_object = _status_object(body)
    details = _object(status_object.get("details"))
    causes = details.get("causes")
    listed = tuple(_cause(_object(cause)) for cause in causes) if isinstance(causes, list) else ()
    seconds = _seconds(retry_after, details.get("retryAfterSeconds"))
    reason, message = _text(status_object.get("reason")), _text(status_object.get("message"))
    said = ApiStatus(reason, message, listed, seconds, is_about_object=bool(details))
    return ApiError(call, status, said)


def _cause(raw: Mapping[str, object]) -> Cause:
    return Cause(*(_text(raw.get(name)) for name in ("field", "reason", "message")))


def _text(found: object) -> str:
    text = _without_paths(_without_objects(str(found or "")[:READ_MAX]))
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."


def _without_objects(message: str) -> str:
    """The message without the objects that it repeats: parameters for a driver may be confidential."""
    kept, begin = [], 0
    while start := _OBJECT.search(message, begin):
        kept += [message[begin : start.start()], "..."]
        try:
            _, begin = _JSON.raw_decode(message, start.start())
        except (ValueError, RecursionError):
            begin = len(message)  # its end is unknown
    return "".join([*kept, message[begin:]])


def _without_paths(message: str) -> str:
    """The message without the paths of calls that the server made: who knows a webhook's may call it.

    Source: net/url Error, which the API server repeats where a webhook does not answer.
    """
    return _CALLED.sub(r"\1/...", message)


def _status_object(body: bytes) -> Mapping[str, object]:
    """The server's ApiStatus; what is none (a path that is not served, a proxy's page) becomes its message."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        decoded = None
    return decoded if isinstance(decoded, dict) else {"message": body[:1000].decode(errors="replace").strip()}


def _object(raw: object) -> Mapping[str, object]:
    return raw if isinstance(raw, dict) else {}


def _seconds(header: str, in_details: object) -> float | None:
    """Seconds to wait. The API server writes no dates; a proxy's date is left to the caller's own time limit."""
    if header.isascii() and header.isdigit():
        return float(header)
    return float(in_details) if isinstance(in_details, int) and in_details > 0 else None
