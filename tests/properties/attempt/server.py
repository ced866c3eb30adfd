"""An API server small enough to try every order of the calls that reach it, and every way in which their answers go.

It keeps pods and claims with the rules that the protocol of binding relies on: one count of versions, writes refused
under another version than the stored one, an allocation that can only go as a whole, a binding that happens once; names
that only one object has, and finalizers that keep one that is deleted. Calls do not happen by themselves: each waits
until `Server.deliver` is told what becomes of it.
"""

import asyncio
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from allocator.api.versions import Json
from scheduler.attempt.claim_objects import allocation_of, consumers_of, is_made_for, is_reserved, results_of
from scheduler.client.connection import JSON
from scheduler.client.errors import ApiError, ApiStatus, Unanswered

NAMESPACE = "work"


class Way(Enum):
    """What becomes of a call. LOST: carried out, and the answer never comes. LATE: given up, and carried out later."""

    ANSWERED = "answered"
    LOST = "lost"
    DROPPED = "dropped"
    LATE = "late"


@dataclass(eq=False)
class Call:
    """A call on its way. answer: what its sender waits for."""

    method: str
    path: str
    body: Any  # whatever was sent
    answer: asyncio.Future[Json]
    sender: str

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    def __str__(self) -> str:
        return f"{self.sender}: {self.method} {self.path.rpartition(f'/namespaces/{NAMESPACE}/')[2]}{self._sent()}"

    def _sent(self) -> str:
        """What a write is about, for who reads the log."""
        if not self.is_write:
            return ""
        metadata = guard_of(self.body)
        reported = [f"of {metadata.get('resourceVersion', 'none')}", *(metadata.get("annotations") or {}).values()]
        reported += [result["device"] for result in results_of(allocation_of(self.body) or {})]
        return f" ({', '.join([*reported, *consumers_of(self.body)])})"


@dataclass
class Server:
    """objects: by plural and name, as stored. wrongs: what should never have been.

    admit: what becomes of an object that would be stored, with what is stored of it: mutating webhooks change it.
    """

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    waiting: list[Call] = field(default_factory=list)
    late: list[Call] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    wrongs: list[str] = field(default_factory=list)
    version: int = 100
    admit: Callable[[Json, Json], Json] | None = None

    # -- the senders' side

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float | None = None,
    ) -> Json:
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        task = asyncio.current_task()
        self.waiting.append(Call(method, path, copy.deepcopy(body), answer, task.get_name() if task else ""))
        return await answer

    # -- what becomes of calls

    def deliver(self, call: Call, way: Way) -> None:
        """Let that become of the call."""
        self.waiting.remove(call)
        if way is Way.LATE:
            self.late.append(call)
        outcome = self._outcome(call) if way in (Way.ANSWERED, Way.LOST) else None
        self.log.append(f"{call}: {way.value}, {outcome if isinstance(outcome, Exception) else self.version}")
        if way is not Way.ANSWERED:
            outcome = Unanswered(str(call), "no answer", is_ambiguous=call.is_write)
        if call.answer.done():  # of a process that was killed
            return
        if isinstance(outcome, Exception):
            call.answer.set_exception(outcome)
        elif outcome is not None:
            call.answer.set_result(outcome)

    def arrive(self, call: Call) -> None:
        """A call that was given up long ago is carried out after all."""
        self.late.remove(call)
        self.log.append(f"{call}: carried out late")
        self._outcome(call)

    def add(self, plural: str, obj: Json) -> Json:
        """Store an object; it gets a version."""
        metadata = {**obj["metadata"], "namespace": NAMESPACE, "resourceVersion": self._next()}
        self.objects[plural, metadata["name"]] = {**obj, "metadata": metadata}
        return self.objects[plural, metadata["name"]]

    def all(self, plural: str) -> Iterator[Json]:
        return (copy.deepcopy(one) for (of, _), one in self.objects.items() if of == plural)

    # -- the rules

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    def _outcome(self, call: Call) -> Json | Exception:
        plural, *names = call.path.rpartition(f"/namespaces/{NAMESPACE}/")[2].split("/")
        if not names:
            return self._created(call, plural)
        key, rest = (plural, names[0]), names[1:]
        if key not in self.objects:
            return ApiError(str(call), 404, ApiStatus("NotFound", f"{names[0]} not found"))
        return self._written(call, key, rest) if call.is_write else copy.deepcopy(self.objects[key])

    def _written(self, call: Call, key: tuple[str, str], rest: list[str]) -> Json | Exception:
        stored = self.objects[key]
        if any(guard_of(call.body)[field] != stored["metadata"][field] for field in ("uid", "resourceVersion")):
            return ApiError(str(call), 409, ApiStatus("Conflict", "the object has been modified"))
        if rest == ["binding"]:
            return self._bound(call, stored)
        changed = _deleted(stored) if call.method == "DELETE" else _changed(stored, call, rest)
        if self.admit and call.method != "DELETE":
            changed = self.admit(stored, changed)
        if invalid := _invalid(stored, changed):
            return ApiError(str(call), 422, ApiStatus("Invalid", invalid))
        if changed != stored:
            changed["metadata"]["resourceVersion"] = self._next()
            self.objects[key] = changed
            if changed["metadata"].get("deletionTimestamp") and not changed["metadata"].get("finalizers"):
                del self.objects[key]
            self._check(f"{call}")
        return copy.deepcopy(changed)

    def _created(self, call: Call, plural: str) -> Json | Exception:
        name = call.body["metadata"]["name"]
        if (plural, name) in self.objects:
            return ApiError(str(call), 409, ApiStatus("AlreadyExists", f"{name} already exists"))
        sent = copy.deepcopy(call.body)
        admitted = self.admit({"metadata": {}}, sent) if self.admit else sent
        metadata = {**admitted["metadata"], "uid": f"{name}-uid-{self.version}"}
        return copy.deepcopy(self.add(plural, {**admitted, "metadata": metadata}))

    def _bound(self, call: Call, pod: Json) -> Json | Exception:
        if pod["spec"].get("nodeName"):
            return ApiError(str(call), 409, ApiStatus("Conflict", "the pod is assigned"))
        spec = {**pod["spec"], "nodeName": call.body["target"]["name"]}
        metadata = {**pod["metadata"], "resourceVersion": self._next()}
        self.objects["pods", pod["metadata"]["name"]] = {**pod, "spec": spec, "metadata": metadata}
        self._check(str(call))
        return {}

    def _check(self, after: str) -> None:
        """Each bound pod has all its claims, on its node, and no device is in two of those."""
        had: dict[str, str] = {}
        for pod in self.all("pods"):
            node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
            if not node:
                continue
            for name in claims_of(pod):
                claim = self.objects.get(("resourceclaims", name), {"metadata": {}})
                allocation = allocation_of(claim)
                if allocation is None or not is_reserved(claim, pod["metadata"]["name"], uid):
                    self.wrongs.append(f"after {after}: pod {uid} is bound without claim {name or 'of its own'}")
                    continue
                if node not in nodes_of(allocation, node):
                    self.wrongs.append(f"after {after}: claim {name} does not reach {node}, where pod {uid} is")
                if asks_for_more(pod) and name == claims_of(pod)[-1] and not is_made_for(claim, uid):
                    self.wrongs.append(f"after {after}: claim {name} stays when pod {uid} goes, for which it was made")
                for result in results_of(allocation):
                    device, other = result["device"], had.setdefault(result["device"], name)
                    if other != name:
                        self.wrongs.append(f"after {after}: {device} is in {name} and {other}")


def claims_of(pod: Json) -> list[str]:
    """The claims that the pod needs; that for extended resources by its status, "" where that names none."""
    names = [entry["resourceClaimName"] for entry in pod["spec"]["resourceClaims"]]
    reported = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return [*names, reported.get("resourceClaimName", "")] if asks_for_more(pod) else names


def asks_for_more(pod: Json) -> bool:
    """Whether the pod asks for an extended resource, which it gets by a claim that is to be made."""
    return bool(pod["spec"]["containers"])


def guard_of(sent: Json) -> Json:
    """What has to be so of the object that a call changes, and what else the call says of it."""
    found: Json = sent["preconditions"] if "preconditions" in sent else sent["metadata"]
    return found


def nodes_of(allocation: Mapping[str, Any], default: str) -> list[str]:
    """The nodes that an allocation names; the default where it reaches all."""
    selector = allocation.get("nodeSelector")
    if not selector:
        return [default]
    return [value for term in selector["nodeSelectorTerms"] for one in term["matchFields"] for value in one["values"]]


def _deleted(claim: Json) -> Json:
    return {**claim, "metadata": {**claim["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def _changed(stored: Json, call: Call, rest: list[str]) -> Json:
    """The object as it would be stored."""
    sent: Json = call.body
    if call.method == "PATCH":
        merged = {**(stored.get("status") or {}), **copy.deepcopy(sent["status"])}
        status = {name: value for name, value in merged.items() if value is not None}
        return {**stored, "metadata": dict(stored["metadata"]), "status": status}
    if rest != ["status"]:
        kept = {name: value for name, value in stored["metadata"].items() if name not in _EDITED}
        edited = {name: value for name in _EDITED if (value := sent["metadata"].get(name))}
        return {**stored, "metadata": {**kept, **copy.deepcopy(edited)}}
    return {**stored, "metadata": dict(stored["metadata"]), "status": copy.deepcopy(sent.get("status") or {})}


def _invalid(stored: Json, changed: Json) -> str:
    """Why the object cannot be stored; empty where it can."""
    before, now = allocation_of(stored), allocation_of(changed)
    if before is not None and now is not None and before != now:
        return "status.allocation: field is immutable"
    if now is None and (changed.get("status") or {}).get("reservedFor"):
        return "status.reservedFor: not allocated"
    return ""


_EDITED = ("annotations", "finalizers")
