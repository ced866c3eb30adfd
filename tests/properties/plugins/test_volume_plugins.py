"""Any history of storage, nodes and pods leaves what a look at every object says, and no trace of what is gone."""

from dataclasses import replace
from itertools import cycle as cycle_through

from hypothesis import given, settings

from allocator.bits import bits
from allocator.model import Node
from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import PodVolumes
from scheduler.decision.pod_cycle import PodCycle
from scheduler.plugins.plugin import Cycle, Plugin
from scheduler.plugins.volume_binding import plan
from tests.properties.plugins import naive
from tests.properties.plugins.strategies import extras, furniture, pods_that_ask, steps
from tests.properties.plugins.world import Step, World


def agree(world: World, extra: PodVolumes) -> None:
    for pod in pods_that_ask(extra):
        agree_on(world, pod)


def agree_on(world: World, pod: Pod) -> None:
    cluster = world.cluster
    cycle = PodCycle(cluster, pod, ()).view
    for plugin in cluster.signatures_of(pod).plugins:
        if plugin.name in naive.PLUGINS and all(name in world.storage.claims for name in naive.claim_names(pod)):
            expected = {name: naive.PLUGINS[plugin.name](world.storage, pod, node) for name, node in nodes(world)}
            assert reported(world, plugin, cycle) == expected, plugin.name
    for name, node in nodes(world):
        if not naive.binding(world.storage, pod, node):
            agree_on_plan(world, cycle, name)


def agree_on_plan(world: World, cycle: Cycle, name: str) -> None:
    """The sizes of the volumes are the same; which one of those alike is nobody's business."""
    waiting = [world.storage.claims[one] for one in naive.claim_names(cycle.pod) if one in world.storage.claims]
    waiting = [one for one in waiting if not one.is_bound and naive.waits(world.storage, one)]
    unpinned = [one for one in waiting if one.selected_node is None]
    expected = naive.matches(world.storage, unpinned, world.storage.nodes[name])
    found = plan(cycle, world.cluster.number_of(name) or 0)
    assert {one.claim.name: one.volume.capacity for one in found.matches} == {
        claim.name: volume.capacity for claim, volume in expected if volume
    }
    assert {one.name for one in found.provisioned} == {one.name for one in waiting} - {
        claim.name for claim, volume in expected if volume
    }
    assert len({one.volume.name for one in found.matches}) == len(found.matches)


def nodes(world: World) -> list[tuple[str, Node]]:
    return list(world.storage.nodes.items())


def reported(world: World, plugin: Plugin, cycle: Cycle) -> dict[str, set[str]]:
    assert plugin.dynamic
    found: dict[str, set[str]] = {name: set() for name in world.storage.nodes}
    for one in plugin.dynamic.rejections(cycle, world.cluster.fleet.all):
        for number in bits(one.nodes):
            found[world.cluster.name_of(number)].add(one.reason)
    refused = {world.cluster.name_of(number) for number in bits(plugin.dynamic.refused(cycle))}
    assert refused == {name for name, reasons in found.items() if reasons}
    return found


@given(furniture, steps, extras)
@settings(max_examples=120)
def test_any_history_leaves_what_a_look_at_every_object_says(
    first: list[Step], history: list[Step], extra: PodVolumes
) -> None:
    world = World()
    for step in [*first, *history]:
        world.do(step)
        if step[0] == "ask":
            agree(world, step[1])
    agree(world, extra)


@given(furniture, steps, extras)
@settings(max_examples=40)
def test_what_was_taken_and_given_back_leaves_no_trace(
    first: list[Step], history: list[Step], extra: PodVolumes
) -> None:
    world = World()
    for step in [*first, *history]:
        world.do(step)
    for pod in pods_that_ask(extra):
        cycle = PodCycle(world.cluster, pod, ()).view
        for name in world.storage.nodes:
            world.cluster.volumes.assume(pod.uid, name, plan(cycle, world.cluster.number_of(name) or 0))
            world.cluster.volumes.forget(pod.uid)
    agree(world, extra)


@given(furniture, steps, steps, extras)
@settings(max_examples=40)
def test_attempts_that_are_withdrawn_after_anything_leave_no_trace(
    first: list[Step], history: list[Step], meanwhile: list[Step], extra: PodVolumes
) -> None:
    """Volumes and claims come, go and are bound by others between a decision and its end."""
    world = World()
    for step in [*first, *history]:
        world.do(step)
    pods = [replace(pod, uid=f"uid-{number}") for number, pod in enumerate(pods_that_ask(extra))]
    for pod, name in zip(pods, cycle_through(world.storage.nodes), strict=False):
        found = plan(PodCycle(world.cluster, pod, ()).view, world.cluster.number_of(name) or 0)
        world.cluster.volumes.assume(pod.uid, name, found)
    for step in meanwhile:
        world.do(step)
    for pod in pods:
        world.cluster.volumes.forget(pod.uid)
    agree(world, extra)
