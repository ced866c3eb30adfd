"""The guard's answer to a review: allowed, or the claim that holds the device; and the metrics of its answers."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple, get_args

import orjson
import prometheus_client
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from allocator.api.allocation import ByText
from allocator.api.decode import excess
from allocator.api.findings import FieldError, shown
from allocator.api.names import LONG_NAME_MAX
from allocator.api.versions import Json
from allocator.limit_use import LimitStatus
from allocator.model import Claim, DeviceID, DeviceResult
from scheduler.client.raw_json import RawJson, loads_leniently
from scheduler.client.watch_states import Undecodable
from scheduler.guard.ledger import CAUSES, UNKNOWN, Denial, Ledger, Update
from scheduler.kinds import Raw, WatchedClaim, claim_of
from scheduler.runtime.listening import Refusal
from scheduler.runtime.metrics import CommonMetrics, Watch, leading, of_limits, of_watches
from scheduler.runtime.section import Fields, typed
from scheduler.runtime.server import Malformed, require_few_values
from scheduler.state.claims import FINALIZER
from scheduler.terminal_text import in_short

ALLOWED, NOTHING_ADDED, NOT_LEADING, UNREADABLE = "allowed", "nothing added", "not leading", "unreadable"
ANSWERS = (ALLOWED, NOTHING_ADDED, NOT_LEADING, UNREADABLE, *CAUSES)
"""What becomes of a question: it is allowed, or refused for one of the causes."""

_BUCKETS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


@dataclass(frozen=True, slots=True)
class GuardReading:
    """The values at the moment. open: updates that were allowed, and may or may not be stored.

    leading: whether this process does, by the name of the lease.
    """

    watches: Sequence[Watch]
    open: int
    leading: Mapping[str, bool]
    limits: Sequence[LimitStatus] = ()


class GuardMetrics(CommonMetrics):
    """All metrics of a guard."""

    def __init__(self, read: Callable[[], GuardReading]) -> None:
        super().__init__()
        self._expose(lambda: _of_reading(read()))
        text = "Answers to the API server: allowed, nothing added, or the reason of a refusal."
        answers = prometheus_client.Counter("dra_guard_answers", text, ["answer"], registry=self._registry)
        # Of each one, before it is given: an increase is seen only of what is there before.
        self._answers = {answer: answers.labels(answer) for answer in ANSWERS}
        text = "HTTP calls, by status."
        self._calls = prometheus_client.Counter("dra_guard_calls", text, ["code"], registry=self._registry)
        text = "Duration of calls."
        self._calls_s = prometheus_client.Histogram(
            "dra_guard_call_duration_seconds", text, buckets=_BUCKETS_S, registry=self._registry
        )
        text = "Connections closed because a limit was reached, by limit."
        self._refused = prometheus_client.Counter(
            "dra_guard_refused_connections", text, ["limit"], registry=self._registry
        )
        for limit in get_args(Refusal):
            self._refused.labels(limit)

    def answered(self, answer: str) -> None:
        """A question was answered. answer: one of `ANSWERS`."""
        self._answers[answer].inc()

    def called(self, _verb: str, status: int, duration_s: float) -> None:
        """A call was answered."""
        self._calls.labels(str(status)).inc()
        self._calls_s.observe(duration_s)

    def refused(self, what: Refusal) -> None:
        """A connection was closed because a limit was reached."""
        self._refused.labels(what).inc()


def _of_reading(reading: GuardReading) -> Iterator[Metric]:
    yield from of_watches(reading.watches)
    yield leading(reading.leading)
    yield from of_limits(reading.limits)
    text = "Allowed updates that may still be stored."
    yield GaugeMetricFamily("dra_guard_open_updates", text, value=reading.open)


# Claims as the guard knows them: who they are and what they hold, not what they request.
#
# What is left out costs time with each update and memory with each claim, and cannot be wrong: a claim whose requests
# cannot be read is judged by its devices. Nor is a claim decoded again that differs from another one in nothing but its
# name: the guard sees most allocations twice, in the API server's question and in the watch.


REMEMBERED = 1 << 10
"""Claims that need not be decoded again: more than are allocated while an update is under way."""

MOST_ERRORS = 16
"""Of a claim that cannot be read, of which the writer is told."""

MOST_CHARACTERS = 1 << 14
"""Of a claim that is remembered, as text: several times those of 32 devices."""


def holder_of(raw: Raw) -> WatchedClaim:
    """The claim with its devices, in any served version. Raises Undecodable.

    Its `raw` has no name, and of the metadata the finalizer that keeps it from being deleted, which an invariant reads.
    Others may be a megabyte of every claim that a tenant makes.
    """
    metadata = raw["metadata"]
    if not metadata.get("namespace"):
        raise Undecodable("metadata.namespace: is required")
    like = _decoded(_without_name(raw))
    claim = Claim(metadata["namespace"], metadata["name"], metadata["uid"], allocation=like.claim.allocation)
    return WatchedClaim(claim, like.data)


def with_requests(claim: Claim, raw: Raw) -> Claim:
    """The claim with its requests, on which it depends whether it may have admin access. Raises Undecodable."""
    return replace(claim, requests=claim_of(raw, MOST_ERRORS).claim.requests)


def _without_name(raw: Raw) -> Raw:
    finalizers = raw["metadata"].get("finalizers")
    protection = [FINALIZER] if isinstance(finalizers, list) and FINALIZER in finalizers else []
    return {
        **{field: raw[field] for field in ("apiVersion", "kind") if field in raw},
        "metadata": {"namespace": "any", "finalizers": protection},
        "status": _only(raw.get("status"), "allocation", "devices", "results"),
    }


def _decoded(raw: Raw) -> WatchedClaim:
    try:
        key = ByText(raw)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return claim_of(raw, MOST_ERRORS)
    return _decoded_once(key) if len(key.text) <= MOST_CHARACTERS else claim_of(raw, MOST_ERRORS)


@lru_cache(maxsize=REMEMBERED)
def _decoded_once(key: ByText[Raw]) -> WatchedClaim:
    return claim_of(key.value, MOST_ERRORS)


def _only(value: object, *path: str) -> object:
    """What is at the path, and nothing beside it. A value that is no object stays as it is: its decoder refuses it."""
    if not path or not isinstance(value, dict):
        return value
    field, *rest = path
    return {field: _only(value[field], *rest)} if field in value else {}


# AdmissionReview, the request and response of a webhook; only some fields are read.
#
# A request that no correctly configured API server sends gets status 400. A claim that cannot be checked is refused: it
# is not stored, and its writer tries again. Source: k8s.io/api/admission/v1 of Kubernetes 1.36.


API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

LARGEST_REVIEW = 20 << 20
"""Bytes of the question about the largest claim: what etcd stores (1.5 MiB), as it is and as it would be.

In the API server's JSON, each of `<`, `>`, `&` and the control characters takes six bytes: 18.9 MB, and what is around.
"""

RETRY_AFTER_S = 1
"""When a writer may ask again that found no guard to answer it."""

_VERSION = re.compile("[0-9]{1,20}")
"""etcd's revisions have 64 bits."""


class _ReviewMessage(Fields):
    model_config = ConfigDict(alias_generator=to_camel)


class AdmissionRequest(_ReviewMessage):
    """The request, as far as it is read."""

    uid: str
    operation: str
    sub_resource: str = ""
    dry_run: bool = False
    object: Json
    old_object: Json


class AdmissionReview(_ReviewMessage):
    """The envelope."""

    api_version: str
    kind: str
    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class Review:
    """One question. update: None if it adds no device, so that there is nothing to check.

    error: why the claim cannot be read; empty where it can. is_dry: nothing will be stored.
    """

    uid: str
    update: Update | None
    error: str = ""
    is_dry: bool = False


class AskedUpdate(NamedTuple):
    """What is read of a request. new, old: the claim as it would be, and as it is stored."""

    uid: str
    is_dry: bool
    new: Json
    old: Json


def read(body: bytes) -> Review:
    """The question. Raises Malformed."""
    asked = _asked(_json_of(body))
    version = _version(asked.old)
    if problem := excess(asked.new):
        return Review(asked.uid, None, f"the claim cannot be checked: {problem}", asked.is_dry)
    try:
        new = holder_of(_with_metadata(asked.new)).claim
        if any(result.admin_access for result in _results(new)):
            new = with_requests(new, asked.new)
    except Undecodable as error:
        return Review(asked.uid, None, f"the claim cannot be checked: {error}", asked.is_dry)
    added = _counted(new) - _counted(_old(asked.old))
    return Review(asked.uid, Update(new, version) if added else None, "", asked.is_dry)


def allowed(uid: str) -> bytes:
    """The answer that lets the update pass."""
    return _answer({"uid": uid, "allowed": True})


def refused(uid: str, status: HTTPStatus, reason: str, message: str) -> bytes:
    """The answer that refuses it. reason: one of metav1.StatusReason."""
    said: Json = {"status": "Failure", "code": status.value, "reason": reason, "message": in_short(message)}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        said["details"] = {"retryAfterSeconds": RETRY_AFTER_S}
    return _answer({"uid": uid, "allowed": False, "status": said})


def error_result(error: str) -> bytes:
    """The answer to what is no review: a metav1.Status, whose message the API server shows to the writer."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": in_short(error)}
    return orjson.dumps(status)


def _answer(response: Json) -> bytes:
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _json_of(body: bytes) -> Json:
    require_few_values(body)
    try:
        raw = loads_leniently(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if isinstance(raw, RawJson):
        raise Malformed("the body is not JSON")
    if not isinstance(raw, dict):
        raise Malformed(f"the body must be a JSON object (got {'null' if raw is None else shown(raw)})")
    return raw


def _asked(raw: Json) -> AskedUpdate:
    match raw:
        case {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": str(uid),
                "operation": "UPDATE",
                "subResource": "status",
                "dryRun": bool(is_dry),
                "object": dict(new),
                "oldObject": dict(old),
            },
        }:
            # As the API server asks: nothing of it is looked at again.
            return AskedUpdate(_short(uid, "request.uid"), is_dry, new, old)
    request = _request(raw)
    for field, value, wanted in (
        ("operation", request.operation, "UPDATE"),
        ("subResource", request.sub_resource, "status"),
    ):
        if value != wanted:
            raise Malformed(str(FieldError(f"request.{field}", value, f"must be {wanted}: nothing else is checked")))
    return AskedUpdate(_short(request.uid, "request.uid"), request.dry_run, request.object, request.old_object)


def _short(text: str, field: str) -> str:
    """A text that is answered, logged or remembered. Raises Malformed."""
    if len(text) > LONG_NAME_MAX:
        raise Malformed(str(FieldError(field, text, f"must not be longer than {LONG_NAME_MAX} characters")))
    return text


def _request(raw: Json) -> AdmissionRequest:
    review, errors = typed(AdmissionReview, raw)
    if review is None:
        raise Malformed("; ".join(map(str, errors)))
    for field, value, wanted in (("apiVersion", review.api_version, API_VERSION), ("kind", review.kind, KIND)):
        if value != wanted:
            raise Malformed(str(FieldError(field, value, f"must be {wanted}")))
    return review.request


def _version(old: Json) -> int:
    text = _metadata(old, "request.oldObject").get("resourceVersion")
    if not isinstance(text, str) or not _VERSION.fullmatch(text):
        raise Malformed(str(FieldError("request.oldObject.metadata.resourceVersion", text, "must be a number, quoted")))
    return int(text)


def _with_metadata(raw: Json) -> Json:
    """The object, which names itself. Raises Malformed."""
    metadata = _metadata(raw, "request.object")
    for field in ("namespace", "name", "uid"):
        if not isinstance(metadata.get(field), str) or not metadata[field]:
            problem = "must be a string that is not empty"
            raise Malformed(str(FieldError(f"request.object.metadata.{field}", metadata.get(field), problem)))
        _short(metadata[field], f"request.object.metadata.{field}")
    return raw


def _metadata(raw: Json, field: str) -> Mapping[str, Any]:
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        raise Malformed(str(FieldError(f"{field}.metadata", metadata, "must be an object")))
    return metadata


def _old(raw: Json) -> Claim | None:
    """The claim as it is stored; None if it has no devices, or cannot be read, so that all devices count as added."""
    status = raw.get("status")
    if not isinstance(status, dict) or not status.get("allocation"):
        return None  # as most claims are that get devices: nothing of them has to be read
    if excess(raw):
        return None
    try:
        return holder_of(raw).claim
    except Undecodable:
        return None


def _counted(claim: Claim | None) -> Counter[tuple[DeviceID, str, bool]]:
    """What the claim has, and how often."""
    return Counter((result.id, result.share_id, result.admin_access) for result in _results(claim))


def _results(claim: Claim | None) -> tuple[DeviceResult, ...]:
    return claim.allocation.results if claim and claim.allocation else ()


# What the guard answers to the API server: whether it may, and whether the update fits.
#
# The check and what it allows are one step, without an await in between: no other question is answered meanwhile.


WAIT_S = 1.0
"""How long to wait for what the allocator may have seen already: a newer slice, or that a device was given back."""

UNFILLED = "the caches are not filled yet"
DEPOSED = "this guard is no longer the leader"

_LOOK_S = 0.05

_LOG = logging.getLogger(__name__)


class Reviewer:
    """Answers questions while nothing stands against it, and this process leads.

    waits_for: why no question may be answered, whoever leads; empty while one may. lasts_s: for so long an update that
    was allowed may still be stored. monotonic: the clock of `is_leading`.
    """

    def __init__(
        self,
        ledger: Ledger,
        metrics: GuardMetrics,
        is_leading: Callable[[], bool],
        monotonic: Callable[[], float],
        lasts_s: float,
    ) -> None:
        self.waits_for = UNFILLED
        self._ledger = ledger
        self._metrics = metrics
        self._is_leading = is_leading
        self._monotonic = monotonic
        self._lasts_s = lasts_s

    def answer(self, body: bytes) -> bytes | Awaitable[bytes]:
        """The AdmissionReview that answers the one of `body`; later, if its writer may know more than the watches show.

        Raises Malformed.
        """
        question = read(body)
        response = self._judged(question)
        return response if isinstance(response, bytes) else self._patient(question, response)

    async def _patient(self, question: Review, refusal: Denial) -> bytes:
        """The answer once the watches show as much as the writer may know, or were waited for long enough."""
        until = self._monotonic() + WAIT_S
        while self._monotonic() < until:
            await asyncio.sleep(_LOOK_S)
            response = self._judged(question)
            if isinstance(response, bytes):
                return response
            refusal = response
        return self._denied(question, refusal)

    def _judged(self, question: Review) -> bytes | Denial:
        """The answer, or a refusal that may not last. The check and what it allows are one step."""
        if unready := self._unready():
            return self._refused(question, NOT_LEADING, HTTPStatus.SERVICE_UNAVAILABLE, unready)
        if question.error:
            return self._refused(question, UNREADABLE, HTTPStatus.UNPROCESSABLE_ENTITY, question.error)
        update = question.update
        if update is None:
            self._metrics.answered(NOTHING_ADDED)
            return allowed(question.uid)
        until = self._monotonic() + self._lasts_s
        refusal = self._ledger.refusal(update) if question.is_dry else self._ledger.admit(update, until)
        if refusal is None:
            self._metrics.answered(ALLOWED)
            return allowed(question.uid)
        may_pass = refusal.cause == UNKNOWN or self._ledger.is_behind(update)
        return refusal if may_pass else self._denied(question, refusal)

    def _denied(self, question: Review, refusal: Denial) -> bytes:
        assert question.update is not None
        claim = question.update.claim
        _LOG.info("claim %s: refused: %s", claim, refusal.message, extra={"holders": list(refusal.names)})
        return self._refused(question, refusal.cause, HTTPStatus.CONFLICT, refusal.message)

    def _unready(self) -> str:
        """Why no question may be answered now: by the clock, since a process that was stopped has heard nothing."""
        return self.waits_for or ("" if self._is_leading() else DEPOSED)

    def _refused(self, question: Review, cause: str, status: HTTPStatus, message: str) -> bytes:
        self._metrics.answered(cause)
        return refused(question.uid, status, _REASONS[status], message)


_REASONS = {
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}
"""metav1.StatusReason by status."""
