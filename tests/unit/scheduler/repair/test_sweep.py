"""Which claims hold something of ours that nobody uses, and for how long."""

import asyncio
from collections.abc import Callable, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import cast

import pytest

from allocator.api.versions import Json
from scheduler.attempt.binder import Binder, CurrentSteps
from scheduler.attempt.claim_objects import ClaimRef, Intent
from scheduler.attempt.slots import CallLimit
from scheduler.client import api_resources
from scheduler.kinds import WatchedClaim, claim_of
from scheduler.repair import EVERY_S, LEAST_AGE_S, Sweep, should_have_been_freed
from tests.unit.scheduler.attempt.raw_claims import OURS, a_raw_claim, an_allocation

TURNS = 20
FOREIGN = Intent("another-scheduler", 1, "1", "pod-uid", "node-0", 1)


def a_sweep() -> Sweep:
    return Sweep("dra-scheduler")


def never(_: ClaimRef) -> bool:
    return False


def unused(name: str = "claim") -> Json:
    return a_raw_claim(intent=OURS, allocation=an_allocation("gpu-0"), name=name)


def seen(claim: Json) -> WatchedClaim:
    """As the watch shows it."""
    return claim_of({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **deepcopy(claim)})


def due(sweep: Sweep, claims: Sequence[Json], now_s: float, in_flight: Callable[[ClaimRef], bool] = never) -> list[str]:
    """Names of the claims that are."""
    return [found.claim.name for _, found in sweep.due(map(seen, claims), in_flight, now_s)]


def test_allocation_of_ours_that_nobody_has_reserved_is_left_over() -> None:
    assert a_sweep().leftover(unused()) == "allocation"


def test_allocation_whose_finalizer_was_taken_away_is_freed_and_is_nobodys_fault() -> None:
    """Its owner may take it away, and delete the pod: nothing of ours has gone wrong."""
    claim = unused()
    assert should_have_been_freed("allocation", claim)
    assert not should_have_been_freed("intent", claim)
    claim["metadata"]["finalizers"] = []
    assert a_sweep().leftover(claim) == "allocation"
    assert not should_have_been_freed("allocation", claim)


def test_intent_of_ours_without_allocation_is_left_over() -> None:
    assert a_sweep().leftover(a_raw_claim(intent=OURS)) == "intent"


def test_what_is_used_or_not_ours_is_no_leftover() -> None:
    sweep, allocation = a_sweep(), an_allocation("gpu-0")
    assert sweep.leftover(a_raw_claim(intent=OURS, allocation=allocation, reserved_for=["pod-uid"])) is None
    assert sweep.leftover(a_raw_claim(intent=FOREIGN, allocation=allocation)) is None
    assert sweep.leftover(a_raw_claim(intent=FOREIGN)) is None
    assert sweep.leftover(a_raw_claim(allocation=allocation)) is None
    assert sweep.leftover(a_raw_claim(finalizers=[])) is None


def test_leftover_is_due_once_it_was_there_for_two_minutes() -> None:
    sweep, claims = a_sweep(), [unused()]
    assert due(sweep, claims, 1000.0) == []
    assert due(sweep, claims, 1000.0 + LEAST_AGE_S - 1) == []
    assert due(sweep, claims, 1000.0 + LEAST_AGE_S) == ["claim"]


def test_leftover_that_was_used_in_between_begins_anew() -> None:
    sweep = a_sweep()
    used = a_raw_claim(intent=OURS, allocation=an_allocation("gpu-0"), reserved_for=["pod-uid"])
    assert due(sweep, [unused()], 0.0) == []
    assert due(sweep, [used], 60.0) == []
    assert due(sweep, [unused()], LEAST_AGE_S) == []


def test_leftover_of_another_kind_begins_anew() -> None:
    sweep = a_sweep()
    assert due(sweep, [unused()], 0.0) == []
    assert due(sweep, [a_raw_claim(intent=OURS)], LEAST_AGE_S) == []


def test_claim_of_an_attempt_under_way_is_not_due() -> None:
    sweep, claims = a_sweep(), [unused("busy"), unused("idle")]

    def in_flight(key: ClaimRef) -> bool:
        return key.name == "busy"

    due(sweep, claims, 0.0, in_flight)
    assert due(sweep, claims, LEAST_AGE_S, in_flight) == ["idle"]


def test_recreated_claim_of_the_same_name_begins_anew() -> None:
    sweep, again = a_sweep(), unused()
    again["metadata"]["uid"] = "another"
    due(sweep, [unused()], 0.0)
    assert due(sweep, [again], LEAST_AGE_S) == []


def test_a_sweep_reads_no_text_of_a_claim_however_large_its_owner_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep, claims = a_sweep(), [seen(unused("orphan")), seen(a_raw_claim(intent=OURS, name="marked"))]
    monkeypatch.setattr("scheduler.kinds.loads_leniently", lambda _: pytest.fail("a text is read"))
    assert sweep.due(claims, never, 0.0) == []
    assert [kind for kind, _ in sweep.due(claims, never, LEAST_AGE_S)] == ["allocation", "intent"]


class Slow:
    """An API server that takes long for a namespace. now: seconds, one for each call.

    answered: namespaces, in the order of their answers.
    """

    def __init__(self, slow: str) -> None:
        self.now = 0.0
        self.slow = slow
        self.answered: list[str] = []

    async def request(self, _method: str, _path: str, *, body: Json, **_: object) -> Json:
        namespace = body["metadata"]["namespace"]
        self.now += 1.0
        for _turn in range(TURNS if namespace == self.slow else 1):
            await asyncio.sleep(0)
        self.answered.append(namespace)
        return body

    def clean(self, *claims: Json) -> int:
        time = SimpleNamespace(monotonic=lambda: self.now, sleep=asyncio.sleep, random=lambda: 0.0)
        parts = {"repairs": CallLimit(2, 1), "progress": CurrentSteps(float)}
        binder = cast(Binder, SimpleNamespace(api=self, time=time, claims=api_resources.claims("v1"), **parts))
        return asyncio.run(a_sweep().clean(binder, map(seen, claims)))


def of_namespace(namespace: str, name: str = "claim") -> Json:
    claim = a_raw_claim(intent=OURS, name=name)
    return {**claim, "metadata": {**claim["metadata"], "namespace": namespace}}


def test_namespace_that_takes_long_keeps_no_other_waiting() -> None:
    server = Slow("slow")
    assert server.clean(of_namespace("slow"), of_namespace("quick")) == 2
    assert server.answered == ["quick", "slow"]


def test_namespace_is_left_to_the_next_sweep_after_a_minute() -> None:
    server = Slow("none")
    assert server.clean(*(of_namespace("many", f"claim-{number}") for number in range(100))) == EVERY_S
