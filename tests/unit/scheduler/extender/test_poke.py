"""Pods that were refused are woken by an annotation on a node whose devices have changed since."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from allocator.model import Reach
from scheduler.client.errors import ApiError, ApiStatus, CallFailed, Unanswered
from scheduler.core_v1.node import Namespace
from scheduler.decision.cluster import Cluster
from scheduler.extender.poke import ANNOTATION, ASKED_AGAIN_S, DEBOUNCE_S, MOST_NODES, Poke
from scheduler.state.cluster_changes import (
    ClaimChanged,
    ClassChanged,
    Event,
    LimitsChanged,
    NamespaceChanged,
    NodeChanged,
    PodChanged,
    SliceChanged,
    TaintRulesChanged,
)
from tests.builders import a_claim, a_class, a_node, a_pod, a_slice, everywhere, on_node, per_device
from tests.unit.scheduler.extender.clusters import a_cluster

START = datetime(2026, 1, 2, tzinfo=UTC)
POD = a_pod()
SLICE = SliceChanged(None, a_slice(reach=on_node("node-1")))


def a_refusal(status: int) -> ApiError:
    return ApiError("PATCH /api/v1/nodes/x", status, ApiStatus("Reason", "message"))


@dataclass
class World:
    """Time that passes only when somebody lets it, and an API server that takes down what is annotated, and when."""

    cluster: Cluster = field(default_factory=lambda: a_cluster(1, 1, 1))
    errors: list[CallFailed] = field(default_factory=list)
    tried: list[tuple[float, str]] = field(default_factory=list)
    woke: int = 0
    time_s: float = 0.0
    sleeping: list[tuple[float, asyncio.Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.poke = Poke(self.cluster, self, self.sleep, self.now, self.count)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.time_s)

    def count(self) -> None:
        self.woke += 1

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        self.sleeping.append((self.time_s + seconds, over))
        await over.wait()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "",
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        assert (method, content_type) == ("PATCH", "application/merge-patch+json")
        text = self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        assert body == {"metadata": {"annotations": {ANNOTATION: text}}}
        self.tried.append((self.time_s, path.removeprefix("/api/v1/nodes/")))
        if self.errors:
            raise self.errors.pop(0)
        return {}

    async def run_all(self) -> None:
        """Let everybody go on until all wait for something."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_time(self, seconds: float) -> None:
        end_s = self.time_s + seconds
        await self.run_all()
        while due := [one for one in self.sleeping if one[0] <= end_s]:
            first = min(due, key=lambda one: one[0])
            self.sleeping.remove(first)
            self.time_s = first[0]
            first[1].set()
            await self.run_all()
        self.time_s = end_s

    def run(self, scenario: Callable[[], Awaitable[None]]) -> list[tuple[float, str]]:
        """What is annotated, and when, while the scenario is told and in the minute after it."""

        async def within() -> None:
            running = asyncio.create_task(self.poke.run())
            await scenario()
            await self.pass_time(60)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        asyncio.run(within())
        return self.tried

    def tell(self, *events: Event) -> list[tuple[float, str]]:
        """What is annotated after these events at once."""

        async def scenario() -> None:
            for event in events:
                self.poke.on_event(event)

        return self.run(scenario)


@pytest.fixture
def world() -> World:
    """A pod was refused a while ago."""
    found = World()
    found.cluster.set_pod(POD)
    found.poke.refused(POD)
    return found


def of_nodes(names: Iterable[str]) -> list[Event]:
    return [SliceChanged(None, a_slice(reach=on_node(name))) for name in names]


# -- what only we see


def test_slice_wakes_by_its_node_and_in_time(world: World) -> None:
    assert world.tell(SLICE) == [(DEBOUNCE_S, "node-1")]
    assert world.woke == 1


def test_slice_that_goes_or_moves_wakes_by_both_of_its_nodes(world: World) -> None:
    moved = SliceChanged(a_slice(reach=on_node("node-2")), a_slice(reach=on_node("node-0")))
    assert world.tell(moved) == [(DEBOUNCE_S, "node-2"), (DEBOUNCE_S, "node-0")]
    assert world.woke == 1


@pytest.mark.parametrize("reach", [everywhere(), per_device()])
def test_slice_of_many_nodes_wakes_by_one(world: World, reach: Reach) -> None:
    assert world.tell(SliceChanged(None, a_slice(reach=reach))) == [(DEBOUNCE_S, "node-0")]


@pytest.mark.parametrize(
    "event", [TaintRulesChanged(), LimitsChanged(), NamespaceChanged(None, Namespace("default", {}))]
)
def test_what_belongs_to_no_node_wakes_by_one(world: World, event: Event) -> None:
    assert world.tell(event) == [(DEBOUNCE_S, "node-0")]


def test_namespace_that_is_deleted_wakes_nobody_before_it_is_gone(world: World) -> None:
    labels = {"team": "research"}
    assert world.tell(NamespaceChanged(Namespace("x", labels), Namespace("x", labels, is_deleted=True))) == []


def test_changes_that_come_together_wake_together(world: World) -> None:
    async def scenario() -> None:
        for name in ("node-2", "node-1", "node-2"):
            world.poke.note(name)
            await world.pass_time(0.9)

    assert world.run(scenario) == [(DEBOUNCE_S, "node-2"), (DEBOUNCE_S, "node-1")]


def test_change_after_the_pods_were_woken_wakes_again(world: World) -> None:
    async def scenario() -> None:
        world.poke.note("node-1")
        await world.pass_time(DEBOUNCE_S + 1)
        world.poke.note("node-2")

    assert world.run(scenario) == [(DEBOUNCE_S, "node-1"), (2 * DEBOUNCE_S + 1, "node-2")]


def test_many_slices_wake_by_some_of_their_nodes() -> None:
    world = World(a_cluster(*[1] * 40))
    world.poke.refused(POD)
    annotated = world.tell(*of_nodes(f"node-{number}" for number in range(40)))
    assert annotated == [(DEBOUNCE_S, f"node-{number}") for number in range(MOST_NODES)]
    assert world.woke == 1


# -- who is woken


def test_nobody_is_woken_while_no_pod_waits() -> None:
    assert World().tell(SLICE, TaintRulesChanged(), ClaimChanged(None, a_claim())) == []


def test_pod_that_was_refused_after_the_change_knows_of_it() -> None:
    world = World()

    async def scenario() -> None:
        world.poke.on_event(SLICE)
        world.poke.refused(POD)

    assert world.run(scenario) == []


def test_pod_that_asks_again_before_it_is_woken_is_not_woken(world: World) -> None:
    async def scenario() -> None:
        world.poke.on_event(SLICE)
        await world.pass_time(1)
        world.poke.refused(POD)

    assert world.run(scenario) == []
    assert list(world.poke.waiting) == [POD.uid]


def test_pod_that_does_not_ask_again_is_woken_whoever_else_does(world: World) -> None:
    async def scenario() -> None:
        world.poke.refused(a_pod(name="other"))
        world.poke.on_event(SLICE)
        await world.pass_time(1)
        world.poke.refused(POD)

    assert world.run(scenario) == [(DEBOUNCE_S, "node-1")]
    assert list(world.poke.waiting) == [POD.uid]


def test_pod_that_passes_is_not_woken(world: World) -> None:
    async def scenario() -> None:
        world.poke.on_event(SLICE)
        world.poke.passed(POD.uid)

    assert world.run(scenario) == []


@pytest.mark.parametrize("new", [None, a_pod(node_name="node-1")])
def test_pod_that_is_gone_or_bound_is_not_woken(world: World, new: Any) -> None:
    assert world.tell(SLICE, PodChanged(POD, new)) == []
    assert world.poke.waiting == {}


def test_pod_that_had_ended_before_it_was_refused_is_woken_once(world: World) -> None:
    world.cluster.remove_pod(POD.uid)

    async def scenario() -> None:
        world.poke.on_event(SLICE)
        await world.pass_time(30)
        world.poke.on_event(SLICE)

    assert world.run(scenario) == [(DEBOUNCE_S, "node-1")]
    assert world.poke.waiting == {}


def test_pod_that_still_waits_is_woken(world: World) -> None:
    assert world.tell(PodChanged(POD, a_pod(labels={"a": "b"})), SLICE) == [(DEBOUNCE_S, "node-1")]


# -- what kube-scheduler sees too


@pytest.mark.parametrize(
    "event",
    [
        ClaimChanged(None, a_claim()),
        ClassChanged(None, a_class()),
        NodeChanged(None, a_node("node-9")),
        NodeChanged(a_node("node-1"), a_node("node-1", {"a": "b"})),
        PodChanged(POD, replace(POD, claim_statuses={"gpu": "made"})),
    ],
)
def test_pod_that_is_not_asked_about_in_time_is_woken(world: World, event: Event) -> None:
    assert world.tell(event) == [(ASKED_AGAIN_S, "node-0")]


def test_pod_that_is_asked_about_in_time_is_not_woken(world: World) -> None:
    async def scenario() -> None:
        world.poke.on_event(ClaimChanged(None, a_claim()))
        await world.pass_time(ASKED_AGAIN_S - 1)
        world.poke.refused(POD)

    assert world.run(scenario) == []


def test_each_change_leaves_all_the_time_to_ask_again(world: World) -> None:
    async def scenario() -> None:
        world.poke.on_event(ClaimChanged(None, a_claim()))
        await world.pass_time(ASKED_AGAIN_S - 1)
        world.poke.refused(POD)
        world.poke.on_event(ClaimChanged(a_claim(), None))

    assert world.run(scenario) == [(2 * ASKED_AGAIN_S, "node-0")]


def test_own_annotation_is_no_change(world: World) -> None:
    assert world.tell(NodeChanged(a_node("node-1"), a_node("node-1"))) == []


def test_slice_is_passed_on_while_something_else_is_waited_for(world: World) -> None:
    assert world.tell(ClaimChanged(None, a_claim()), SLICE) == [(DEBOUNCE_S, "node-1"), (ASKED_AGAIN_S, "node-0")]


# -- what does not work


def test_node_that_is_gone_is_replaced_by_one_that_is_there(world: World) -> None:
    world.cluster.remove_node("node-1")
    assert world.tell(SLICE) == [(DEBOUNCE_S, "node-0")]


def test_cluster_without_nodes_is_left_alone() -> None:
    world = World(a_cluster())
    world.poke.refused(POD)
    assert (world.tell(SLICE), world.woke) == ([], 0)


@pytest.mark.parametrize(
    "error", [a_refusal(500), a_refusal(429), a_refusal(404), Unanswered("c", "t", is_ambiguous=True)]
)
def test_failed_call_is_tried_again(world: World, error: CallFailed) -> None:
    world.errors = [error]
    assert world.tell(SLICE) == [(DEBOUNCE_S, "node-1"), (2 * DEBOUNCE_S, "node-1")]
    assert world.woke == 1


def test_call_that_is_forbidden_is_tried_again_with_the_next_change(world: World) -> None:
    world.errors = [a_refusal(403)]

    async def scenario() -> None:
        world.poke.on_event(SLICE)
        await world.pass_time(30)
        world.poke.on_event(SLICE)

    assert world.run(scenario) == [(DEBOUNCE_S, "node-1"), (30 + DEBOUNCE_S, "node-1")]


def test_one_node_is_enough_to_wake(world: World) -> None:
    world.errors = [a_refusal(500)]
    assert world.tell(*of_nodes(("node-1", "node-2"))) == [(DEBOUNCE_S, "node-1"), (DEBOUNCE_S, "node-2")]
    assert world.woke == 1
