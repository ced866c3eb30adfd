"""The checker complains where something is wrong, and only there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from allocator.model import (
    Allocation,
    Alternative,
    CounterConsumption,
    CounterSet,
    DeviceResult,
    Request,
    RequestPolicy,
    Slice,
    Taint,
    ValidRange,
)
from cel.values.quantity import Quantity
from tests.builders import (
    DRIVER,
    POOL,
    a_claim,
    a_class,
    a_config,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    all_devices,
    an_allocated_claim,
    an_alternative,
    distinct,
    everywhere,
    first_available,
    kubernetes,
    match,
    named,
)
from tests.properties.allocator.checker import complaints
from tests.properties.allocator.instance import Instance
from tests.properties.allocator.naive import answer

NUMA = f"{DRIVER}/numa"
OK = f'device.attributes["{DRIVER}"].ok'

GPUS = a_slice(*(a_device(f"gpu-{n}", {"numa": n // 2, "ok": n != 3}) for n in range(4)), a_device("nix", {"ok": True}))
BASE = Instance(
    (GPUS,),
    (a_class("gpu", config=[a_config(level=1)]),),
    (a_claim(a_request(count=2), config=[a_config(level=2)]),),
    (an_allocated_claim("gpu-2"),),
    (a_node(), a_node("other")),
    kubernetes(),
)


def given(*names: str, request: str = "gpus", **more: Any) -> Allocation:
    """The valid allocation of BASE with other devices."""
    (valid,) = answer(BASE, BASE.nodes[0]) or ()
    return replace(valid, results=tuple(DeviceResult(request, DRIVER, POOL, name, **more) for name in names))


def asking(*requests: Request, **more: Any) -> Instance:
    return replace(BASE, claims=(a_claim(*requests, config=[a_config(level=2)], **more),))


TWO = a_request(count=2)


@pytest.mark.parametrize(
    ("instance", "allocation", "complaint"),
    [
        (BASE, given("gpu-0"), "has 1 devices, not 2"),
        (BASE, given("gpu-0", "gpu-0"), "given 2 times"),
        (BASE, given("gpu-0", "gpu-2"), "held by another claim"),
        (BASE, given("gpu-0", "gpu-9"), "published 0 times"),
        (BASE, given("gpu-0", "gpu-1", request="other"), "no request of the claim"),
        (BASE, given(), "satisfied in 0 ways"),
        (asking(a_request("gpus", 2, OK)), given("gpu-0", "gpu-3"), "does not match"),
        (asking(all_devices("gpus", OK)), given("gpu-0", "gpu-1", "gpu-2"), f"lacks {DRIVER}/{POOL}/nix"),
        (asking(TWO, constraints=[match(NUMA)]), given("gpu-0", "gpu-3"), "no value that all devices have"),
        (asking(TWO, constraints=[distinct(NUMA)]), given("gpu-0", "gpu-1"), "not different on all devices"),
        (asking(TWO, constraints=[distinct(NUMA)]), given("gpu-0", "nix"), f"has no {NUMA}"),
        (BASE, replace(given("gpu-0", "gpu-1"), config=()), "configuration of the classes is not there once"),
        (BASE, replace(given("gpu-0", "gpu-1"), config=given().config[:1]), "configuration of the claim is missing"),
        (BASE, replace(given("gpu-0", "gpu-1"), node_selector=None), "does not reach"),
        (BASE, replace(given("gpu-0", "gpu-1"), node_selector=named("other")), "does not select the node"),
        (BASE, replace(given("gpu-0", "gpu-1"), node_selector=()), "does not select the node"),
        (BASE, given("gpu-0", "gpu-1", admin_access=True), "has True in its result, not False"),
        (BASE, given("gpu-0", "gpu-1", binding_conditions=("ready",)), "has ('ready',) in its result"),
        (BASE, given("gpu-0", "gpu-1", share_id="a"), "has share id 'a'"),
        (BASE, given("gpu-0", "gpu-1", skip_node_operations=("*",)), "has ('*',) in its result"),
    ],
)
def test_checker_complains(instance: Instance, allocation: Allocation, complaint: str) -> None:
    found = complaints(instance, instance.nodes[0], [allocation])
    assert any(complaint in text for text in found), found


def test_checker_is_content_with_a_valid_allocation() -> None:
    assert complaints(BASE, BASE.nodes[0], [given("gpu-0", "gpu-1")]) == []


def test_checker_wants_an_allocation_for_each_claim() -> None:
    assert complaints(BASE, BASE.nodes[0], []) == ["0 allocations for 1 claims"]


def test_checker_wants_results_in_order_of_requests() -> None:
    instance = asking(a_request("a"), a_request("b"))
    results = (*given("gpu-0", request="b").results, *given("gpu-1", request="a").results)
    assert complaints(instance, BASE.nodes[0], [replace(given(), results=results)]) == [
        "the results are not in the order of the requests"
    ]


def test_checker_wants_one_alternative() -> None:
    instance = asking(first_available("gpus", an_alternative("a"), an_alternative("b")))
    results = (*given("gpu-0", request="gpus/a").results, *given("gpu-1", request="gpus/b").results)
    found = complaints(instance, BASE.nodes[0], [replace(given(), results=results)])
    assert "gpus is satisfied in 2 ways" in found


# -- features


def one(
    device: Mapping[str, Any], *, slices: tuple[Slice, ...] = (), held: tuple[DeviceResult, ...] = (), **more: Any
) -> Instance:
    """A cluster with one device for all nodes, and a claim for it."""
    slice_ = a_slice(a_device("x", **device), reach=everywhere(), slice_count=1 + len(slices))
    asked = Alternative("gpus", "gpu", **more)
    return Instance(
        (slice_, *slices),
        (a_class(),),
        (a_claim(Request("gpus", (asked,))),),
        (an_allocated_claim(*held),),
        BASE.nodes,
        kubernetes(DRADeviceCompatibilityGroups=True),
    )


def reported(instance: Instance, *results: DeviceResult) -> list[str]:
    return complaints(instance, instance.nodes[0], [Allocation(results)])


SHARED = {"capacity": {"memory": "4"}, "allow_multiple_allocations": True}


def a_share(memory: str, share_id: str = "a", **more: Any) -> DeviceResult:
    return a_result("x", share_id=share_id, consumed_capacity={"memory": Quantity.parse(memory)}, **more)


def test_checker_knows_taints() -> None:
    tainted = one({"taints": (Taint("key", effect="NoSchedule"),)})
    assert reported(tainted, a_result("x")) == [
        f"{(DRIVER, POOL, 'x')} is tainted key, and the taint is not tolerated".replace("('", "")
        .replace("', '", "/")
        .replace("')", "")
    ]


def test_checker_knows_binding() -> None:
    bound = one({"binds_to_node": True})
    assert any("a device binds to node-0" in text for text in reported(bound, a_result("x")))


def test_checker_knows_shares() -> None:
    assert reported(one(SHARED), a_share("4")) == []
    assert any("has share id ''" in text for text in reported(one(SHARED), a_result("x")))
    assert any("has the capacities" in text for text in reported(one(SHARED), a_result("x", share_id="a")))
    assert any("are taken" in text for text in reported(one(SHARED, held=(a_share("1", "b"),)), a_share("4")))
    asking_two = one(SHARED, capacity={"memory": Quantity.parse("2")})
    assert any("less memory than is wanted" in text for text in reported(asking_two, a_share("1")))
    assert any("held by another claim" in text for text in reported(one(SHARED, held=(a_result("x"),)), a_share("4")))
    assert any("shares of it are held" in text for text in reported(one({}, held=(a_share("1"),)), a_result("x")))


def test_checker_knows_policies_of_capacities() -> None:
    values = RequestPolicy(Quantity.parse("1"), valid_values=(Quantity.parse("1"), Quantity.parse("4")))
    bounds = RequestPolicy(Quantity.parse("2"), valid_range=ValidRange(Quantity.parse("2"), Quantity.parse("3")))
    assert reported(one({**SHARED, "policies": {"memory": values}}), a_share("2")) == ["2 is no valid value of memory"]
    assert reported(one({**SHARED, "policies": {"memory": bounds}}), a_share("4")) == [
        "4 is out of the range of memory"
    ]
    assert reported(one({**SHARED, "policies": {"memory": bounds}}), a_share("1")) == [
        "1 is out of the range of memory"
    ]
    assert reported(one({**SHARED, "policies": {"memory": bounds}}), a_share("2")) == []


def counting(groups: str) -> CounterConsumption:
    return CounterConsumption("set", {"m": Quantity.parse("2")}, tuple(groups))


def test_checker_knows_counters_and_groups() -> None:
    sets = a_slice(
        name="sets", reach=everywhere(), slice_count=3, counter_sets=(CounterSet("set", {"m": Quantity.parse("3")}),)
    )
    other = a_slice(a_device("y", consumes_counters=(counting("b"),)), name="y", reach=everywhere(), slice_count=3)
    drawing = one({"consumes_counters": (counting("a"),)}, slices=(sets, other))
    assert reported(drawing, a_result("x")) == []
    beside = replace(drawing, held=(an_allocated_claim("y"),))
    assert any("drawn on by 1000000000 too much" in text for text in reported(beside, a_result("x")))
    both = replace(drawing, claims=(a_claim(a_request(count=2)),))
    assert any("no group in common" in text for text in reported(both, a_result("x"), a_result("y")))
