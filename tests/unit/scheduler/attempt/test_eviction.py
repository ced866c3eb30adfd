"""How victims of a preemption are evicted: a few at the same time, and the least important one last."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from allocator.api.versions import Json
from scheduler.attempt import eviction
from scheduler.attempt.binder import Binder
from scheduler.attempt.write_outcome import is_refused_for_good
from scheduler.client.connection import Api
from scheduler.client.errors import ApiError, ApiStatus, CallFailed
from scheduler.core_v1.pod import Pod
from scheduler.preemption.eviction_writes import PreemptionWrite
from tests.builders import a_pod

VICTIMS = [a_pod(name=f"victim-{number}") for number in range(100)]


@dataclass
class Deletions:
    """An API server that is asked to delete pods, and takes its time. refused: the path of one that it denies."""

    refused: str = ""
    paths: list[str] = field(default_factory=list)
    under_way: int = 0
    most: int = 0

    async def request(self, method: str, path: str, **_: object) -> Json:
        assert method == "DELETE"
        self.paths.append(path)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if path == self.refused:
            raise CallFailed(path, "denied", is_ambiguous=False)
        return {}


@dataclass
class BinderOfApi:
    """As much of a binder as evictions need."""

    api: Api


def evict(deletions: Deletions) -> list[str]:
    """The names of the pods that were evicted."""
    evicted: list[Pod] = []
    binder = cast(Binder, BinderOfApi(cast(Api, deletions)))
    told = eviction.Evicted(cancelled=lambda _: False, deleted=evicted.append)
    asyncio.run(eviction.evict(binder, [PreemptionWrite(pod) for pod in VICTIMS], told))
    return [pod.name for pod in evicted]


def test_few_of_many_victims_are_evicted_at_once_so_that_calls_for_others_do_not_wait() -> None:
    deletions = Deletions()
    assert sorted(evict(deletions)) == sorted(pod.name for pod in VICTIMS)
    assert deletions.most == eviction.AT_ONCE
    assert deletions.paths[-1].endswith(VICTIMS[-1].name)


def test_last_victim_stays_where_another_cannot_be_evicted() -> None:
    deletions = Deletions(refused=f"/api/v1/namespaces/{VICTIMS[3].namespace}/pods/{VICTIMS[3].name}")
    with pytest.raises(CallFailed, match="denied"):
        evict(deletions)
    assert len(deletions.paths) == len(VICTIMS) - 1


@pytest.mark.parametrize(
    ("code", "reason", "is_for_good"),
    [
        (422, "Invalid", True),  # annotations that are as large as they may be leave no room for the record
        (403, "Forbidden", True),
        (409, "Conflict", False),
        (500, "InternalError", False),
        (503, "ServiceUnavailable", False),
    ],
)
def test_write_that_stays_invalid_is_not_tried_again_at_once(code: int, reason: str, *, is_for_good: bool) -> None:
    error = ApiError("PATCH pod", code, ApiStatus(reason, "metadata.annotations: Too long"))
    assert is_refused_for_good(error) is is_for_good


class Records:
    """An API server whose pods have a record each, but for those that it cannot read."""

    def __init__(self, *unreadable: str) -> None:
        self.unreadable = unreadable

    async def request(self, method: str, path: str, **_: object) -> Json:
        name = path.rpartition("/")[2]
        if name in self.unreadable:
            raise ApiError(f"{method} {path}", 500, ApiStatus("InternalError", "it cannot be decrypted"))
        record = str(eviction.StoredRecord("node-0", {}, frozenset({name}), frozenset()))
        metadata = {"uid": f"uid-of-{name}", "annotations": {eviction.NOMINATION: record}}
        return {"metadata": metadata, "status": {"nominatedNodeName": "node-0"}}


def test_record_that_cannot_be_read_keeps_no_other_pod_waiting(caplog: pytest.LogCaptureFixture) -> None:
    pods = [a_pod(name=name, uid=f"uid-of-{name}") for name in ("a", "b", "c")]
    time = SimpleNamespace(sleep=no_pause, random=lambda: 0.0)
    binder = cast(Binder, SimpleNamespace(api=Records("b"), time=time))
    records = asyncio.run(eviction.records_of(binder, pods))
    assert [(pod.name, record.victims) for pod, record in records] == [("a", frozenset("a")), ("c", frozenset("c"))]
    assert f"pod {pods[1]}: cannot read the record of its preemption" in caplog.text


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)
