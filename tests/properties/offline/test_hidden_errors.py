"""A pod that is placed here, and that kube-scheduler gives up at a selector that fails, is told of; no other pod is."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allocator.gates import Features
from scheduler.offline.input_claims import Claims, identified
from scheduler.offline.placement import HiddenError, PlacedPod, Placement, Result
from scheduler.offline.snapshot_cluster import cluster_of
from tests.unit.scheduler.manifests import DRIVER, Json, a_claim, a_class, a_node, a_pod, a_request, a_slice
from tests.unit.scheduler.scenario import inventory_of

NODES = ("node-1", "node-2", "node-3")
ATTRIBUTE = f'device.attributes["{DRIVER}"].fast'
EXPRESSIONS = (f'device.driver == "{DRIVER}"', ATTRIBUTE, f"has({ATTRIBUTE}) && {ATTRIBUTE}", f"!{ATTRIBUTE}", "true")

devices = st.lists(st.sampled_from([{"fast": {"bool": True}}, {"fast": {"bool": False}}, {}]), max_size=3)
selectors = st.lists(st.sampled_from(EXPRESSIONS), max_size=2)


def place(objects: Sequence[Json], *, is_strict: bool) -> tuple[list[Result], list[HiddenError]]:
    inventory = inventory_of(*objects)
    claims, pods = Claims(inventory), identified(inventory.pods)
    cluster = cluster_of(inventory, claims, pods, Features.of("1.37", is_strict=is_strict))
    placement = Placement(cluster, claims, inventory.namespaces)
    placement.tells_hidden_errors = True
    results = placement.run(pods, [], lambda _done, _total: None)
    return results, list(placement.hidden_errors.found)


def a_slice_with(node: str, attributes: Sequence[Any]) -> Json:
    return a_slice(node=node, devices=[{"name": f"gpu-{n}", "attributes": one} for n, one in enumerate(attributes)])


@given(st.lists(devices, min_size=1, max_size=3), selectors, selectors, st.integers(1, 3))
def test_what_kube_scheduler_gives_up_is_told(
    fleet: list[list[Any]], of_class: list[str], of_request: list[str], count: int
) -> None:
    asked = [{"cel": {"expression": one}} for one in of_request]
    objects = [
        a_class(expressions=of_class),
        a_claim("c", a_request(count=count, selectors=asked)),
        a_pod("p", claim="c"),
    ]
    for node, attributes in zip(NODES, fleet, strict=False):
        objects += [a_node(node), a_slice_with(node, attributes)]
    ([here], hidden), ([there], nothing) = place(objects, is_strict=False), place(objects, is_strict=True)
    assert nothing == []
    is_hidden = isinstance(here, PlacedPod) and not isinstance(there, PlacedPod)
    assert [one.reason for one in hidden] == ([there.reason] if is_hidden else [])  # type: ignore[union-attr]


def test_pods_that_ask_for_the_same_are_told_of_once() -> None:
    request = a_request(count=2, selectors=[{"cel": {"expression": ATTRIBUTE}}])
    objects = [a_class(), *(a_claim(name, request) for name in ("c", "d"))]
    objects += [a_pod("p", claim="c"), a_pod("q", claim="d"), a_node("node-1"), a_slice_with("node-1", [{}])]
    objects += [a_node("node-2"), a_slice_with("node-2", [{"fast": {"bool": True}}] * 4)]
    results, [error] = place(objects, is_strict=False)
    assert [one.hidden for one in results if isinstance(one, PlacedPod)] == [error, error]
    reason = f"claim default/c, request gpu: selector #0 on device {DRIVER}/node-1/gpu-0: CEL runtime error: "
    assert error.text.startswith(f"kube-scheduler gives up at node node-1: {reason}")
    assert error.text.endswith(" (--strict decides as it does)")
    assert str(error) == f"pod default/p and 1 like it: {error.text}"
