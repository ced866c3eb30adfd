"""What an allocation counts for, and what a limit of tenants refuses."""

from collections.abc import Sequence
from fractions import Fraction

import pytest

from allocator.allocate import allocate
from allocator.cluster.snapshot import Snapshot
from allocator.explain.text import OPERATOR, node_text, summary
from allocator.fleet.fleet import Fleet
from allocator.limit_use import LimitsInForce
from allocator.limits import ONE_DEVICE, CountedDevices, Namespaces, TenantLimit
from allocator.model import Claim, CounterConsumption, CounterSet, Device, Requirement
from allocator.outcome import Allocated, Outcome
from cel.values.quantity import Format, Quantity
from tests.builders import (
    CLASS,
    a_claim,
    a_class,
    a_device,
    a_node,
    a_request,
    a_result,
    a_slice,
    a_snapshot,
    all_devices,
    amounts,
    an_allocated_claim,
    an_alternative,
    devices,
    first_available,
    on_node,
)

TEAM = "team-a"
H100, A100 = 'device.attributes["gpu.example"].model == "H100"', 'device.attributes["gpu.example"].model == "A100"'
GI = 2**30 * ONE_DEVICE


def gpus(model: str, number: int) -> tuple[Device, ...]:
    return tuple(a_device(f"{model.lower()}-{one}", {"model": model}) for one in range(number))


def most(number: int, counted: CountedDevices | None = None, name: str = "team-a-gpus", **more: object) -> TenantLimit:
    whom = Namespaces(frozenset({TEAM}))
    return TenantLimit(name, whom, counted or CountedDevices(), number * ONE_DEVICE, **more)  # type: ignore[arg-type] # its fields


def wanting(*requests: object, name: str = "new", namespace: str = TEAM) -> Claim:
    return a_claim(*requests, name=name, namespace=namespace)  # type: ignore[arg-type] # requests


def holding(*results: object, name: str = "holder", namespace: str = TEAM) -> Claim:
    return an_allocated_claim(*results, name=name, namespace=namespace)  # type: ignore[arg-type] # results


def limited(snapshot: Snapshot, limits: Sequence[TenantLimit], *held: Claim) -> Snapshot:
    return snapshot.with_allocated(held).with_limits(LimitsInForce(limits), held)


def refusal(snapshot: Snapshot, *claims: Claim) -> str:
    return node_text(allocate(snapshot, a_node(), claims), reader=OPERATOR)


def devices_of(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Allocated), outcome
    return [result.device for allocation in outcome.allocations for result in allocation.results]


def used(counted: CountedDevices, *held: Claim, snapshot: Snapshot) -> str:
    """By the only limit, as it writes it."""
    limit = TenantLimit("l", counted=counted, most=0)
    return limit.text_of(limited(snapshot, [limit], *held).limited.used_of((0, "")))


def test_refusal_names_the_limit_what_is_in_use_what_is_asked_and_the_most() -> None:
    held = holding("gpu-000", "gpu-001")
    snapshot = limited(a_snapshot(a_slice(*devices(8))), [most(3)], held)
    assert refusal(snapshot, wanting(a_request(count=2))) == "limit team-a-gpus: 2 of 3 in use, 2 more requested"
    assert devices_of(allocate(snapshot, a_node(), [wanting()])) == ["gpu-002"]
    assert isinstance(allocate(snapshot, a_node(), [wanting(a_request(count=4), namespace="team-b")]), Allocated)


def test_alternative_within_the_limit_is_taken() -> None:
    slices = a_slice(*gpus("H100", 4), *gpus("A100", 4))
    snapshot = limited(a_snapshot(slices), [most(2, CountedDevices(selectors=(H100,)))])
    asked = first_available(
        "gpus", an_alternative("big", selectors=(H100,), count=3), an_alternative("small", selectors=(A100,), count=3)
    )
    assert devices_of(allocate(snapshot, a_node(), [wanting(asked)])) == ["a100-0", "a100-1", "a100-2"]


def test_devices_that_do_not_count_are_taken_behind_those_that_do() -> None:
    snapshot = limited(
        a_snapshot(a_slice(*gpus("H100", 4), *gpus("A100", 4))), [most(1, CountedDevices(selectors=(H100,)))]
    )
    assert devices_of(allocate(snapshot, a_node(), [wanting(a_request(count=3))])) == ["h100-0", "a100-0", "a100-1"]


def test_all_devices_are_refused_by_the_name_of_the_limit() -> None:
    snapshot = limited(a_snapshot(a_slice(*devices(4))), [most(3)])
    assert refusal(snapshot, wanting(all_devices())) == "limit team-a-gpus: 0 of 3 in use, 4 more requested"


def test_claims_of_one_pod_are_counted_together() -> None:
    snapshot = limited(a_snapshot(a_slice(*devices(4))), [most(2)])
    two = [wanting(name="a"), wanting(name="b")]
    assert devices_of(allocate(snapshot, a_node(), two)) == ["gpu-000", "gpu-001"]
    assert refusal(snapshot, *two, wanting(name="c")) == "limit team-a-gpus: 0 of 2 in use, 3 more requested"


def test_later_request_makes_an_earlier_one_take_another_alternative() -> None:
    snapshot = limited(
        a_snapshot(a_slice(*gpus("H100", 2), *gpus("A100", 2))), [most(1, CountedDevices(selectors=(H100,)))]
    )
    either = first_available("either", an_alternative("h", selectors=(H100,)), an_alternative("a", selectors=(A100,)))
    asked = wanting(either, a_request("must", 1, H100))
    assert devices_of(allocate(snapshot, a_node(), [asked])) == ["a100-0", "h100-0"]


def test_what_lacks_devices_anyway_is_refused_for_that() -> None:
    snapshot = limited(a_snapshot(a_slice(*devices(2))), [most(1)])
    assert "needs 3 devices, 2 are left" in refusal(snapshot, wanting(a_request(count=3)))


def test_admin_access_counts_for_nothing() -> None:
    snapshot = a_snapshot(a_slice(*devices(4)))
    held = holding("gpu-000", a_result("gpu-001", admin_access=True))
    assert used(CountedDevices(), held, snapshot=snapshot) == "1"
    limits = [most(1)]
    admin = wanting(a_request(count=4, admin_access=True))
    assert isinstance(allocate(limited(snapshot, limits, held), a_node(), [admin]), Allocated)


def test_whole_device_counts_with_its_capacity_and_a_share_with_what_it_consumes() -> None:
    whole = a_device("whole", capacity={"memory": "80Gi"})
    shared = a_device("shared", capacity={"memory": "80Gi"}, allow_multiple_allocations=True)
    snapshot = a_snapshot(a_slice(whole, shared))
    share = a_result("shared", share_id="s", consumed_capacity=amounts(memory="16Gi"))
    counted = CountedDevices("capacity", "memory")
    limit = TenantLimit("memory", counted=counted, most=100 * GI, format=Format.BINARY_SI)
    held = holding("whole", share)
    snapshot = limited(snapshot, [limit], held)
    assert limit.text_of(snapshot.limited.used_of((0, ""))) == "96Gi"
    asked = wanting(a_request(capacity=amounts(memory="8Gi")))
    assert refusal(snapshot, asked) == "limit memory: 96Gi of 100Gi in use, 8Gi more requested"


def test_partition_counts_with_its_counters() -> None:
    part = a_device("part", consumes_counters=(CounterConsumption("set", {"slices": Quantity.parse("3")}),))
    sets = a_slice(name="sets", slice_count=2, counter_sets=(CounterSet("set", {"slices": Quantity.parse("7")}),))
    snapshot = a_snapshot(a_slice(part, name="parts", slice_count=2), sets)
    counted = CountedDevices("counters", "slices")
    assert used(counted, holding("part"), snapshot=snapshot) == "3"
    share = TenantLimit("half", counted=counted, share=Fraction(1, 2))
    snapshot = snapshot.with_limits(LimitsInForce([share]), ())
    assert share.text_of(snapshot.limited.terms_of((0, ""), snapshot).most) == "3"
    assert isinstance(allocate(snapshot, a_node(), [wanting()]), Allocated)
    tight = TenantLimit("tight", counted=counted, share=Fraction(1, 7))
    snapshot = snapshot.with_limits(LimitsInForce([tight]), ())
    assert refusal(snapshot, wanting()) == "limit tight: 0 of 1 in use, 3 more requested"


def test_share_of_devices_is_rounded_down_and_follows_what_is_published() -> None:
    limit = TenantLimit("third", counted=CountedDevices(driver="gpu.example"), share=Fraction(1, 3))
    fleet = Fleet(a_snapshot(), [a_node()])
    fleet.set_limits(LimitsInForce([limit]))
    first = a_slice(*devices(3))
    fleet.add_slice(first)
    assert fleet.current.limited.terms_of((0, ""), fleet.current).most == ONE_DEVICE
    fleet.remove_slice(first)
    fleet.add_slice(a_slice(*devices(8)))
    assert fleet.current.limited.terms_of((0, ""), fleet.current).most == 2 * ONE_DEVICE


def test_class_counts_the_devices_that_it_selects_whichever_class_is_asked_for() -> None:
    classes = [a_class(CLASS), a_class("h100", H100)]
    snapshot = a_snapshot(a_slice(*gpus("H100", 2), *gpus("A100", 2)), classes=classes)
    assert used(CountedDevices(class_name="h100"), holding("h100-0", "a100-0"), snapshot=snapshot) == "1"
    assert used(CountedDevices(class_name="none"), holding("h100-0"), snapshot=snapshot) == "0"


def test_device_on_which_a_selector_fails_does_not_count() -> None:
    snapshot = a_snapshot(a_slice(a_device("bare"), *gpus("H100", 1)))
    assert used(CountedDevices(selectors=(H100,)), holding("bare", "h100-0"), snapshot=snapshot) == "1"


def test_device_that_is_not_published_any_more_counts_by_what_its_claim_says() -> None:
    snapshot = a_snapshot(classes=[a_class(CLASS)])
    held = an_allocated_claim("gone", namespace=TEAM)
    assert used(CountedDevices(driver="gpu.example"), held, snapshot=snapshot) == "1"
    assert used(CountedDevices(class_name=CLASS), held, snapshot=snapshot) == "1"
    assert used(CountedDevices(selectors=("true",)), held, snapshot=snapshot) == "0"


def test_namespaces_have_a_limit_together_or_each_by_itself() -> None:
    gold = (Requirement("tier", "In", ("gold",)),)
    labels = {"team-a": {"tier": "gold"}, "team-b": {"tier": "gold"}, "team-c": {}}
    held = [holding("gpu-000", name=name, namespace=name) for name in labels]
    snapshot = a_snapshot(a_slice(*devices(4)))

    def accounts(*, each: bool) -> dict[tuple[int, str], int]:
        limits = LimitsInForce([TenantLimit("gold", Namespaces(labels=gold, each=each), most=0)], labels)
        return snapshot.with_limits(limits, held).limited.used

    assert accounts(each=False) == {(0, ""): 2 * ONE_DEVICE}
    assert accounts(each=True) == {(0, "team-a"): ONE_DEVICE, (0, "team-b"): ONE_DEVICE}


def test_label_with_its_name_selects_a_namespace_that_nothing_is_known_of() -> None:
    named = Namespaces(labels=(Requirement("kubernetes.io/metadata.name", "In", (TEAM,)),))
    assert (named.has(TEAM, {}), named.has("other", {})) == (True, False)


def test_soft_limit_counts_and_refuses_nothing() -> None:
    snapshot = limited(a_snapshot(a_slice(*devices(4))), [most(1, soft=True)], holding("gpu-000"))
    assert isinstance(allocate(snapshot, a_node(), [wanting(a_request(count=3))]), Allocated)


def test_limit_that_is_exceeded_already_lets_pass_what_does_not_count() -> None:
    counted = CountedDevices(selectors=(H100,))
    snapshot = limited(
        a_snapshot(a_slice(*gpus("H100", 4), *gpus("A100", 2))), [most(1, counted)], holding("h100-0", "h100-1")
    )
    assert devices_of(allocate(snapshot, a_node(), [wanting()])) == ["a100-0"]
    only = wanting(a_request("gpus", 1, H100))
    assert refusal(snapshot, only) == "limit team-a-gpus: 2 of 1 in use, 1 more requested"


def test_every_limit_that_holds_has_to_be_kept() -> None:
    limits = [most(9, name="wide"), most(2, CountedDevices(selectors=(H100,)), name="narrow")]
    snapshot = limited(a_snapshot(a_slice(*gpus("H100", 8))), limits)
    assert refusal(snapshot, wanting(a_request(count=3))) == "limit narrow: 0 of 2 in use, 3 more requested"


def test_claims_of_several_namespaces_are_no_attempt_where_limits_hold() -> None:
    snapshot = limited(a_snapshot(a_slice(*devices(4))), [most(1)])
    with pytest.raises(ValueError, match="several namespaces"):
        allocate(snapshot, a_node(), [wanting(), wanting(namespace="team-b")])


# -- a fleet


def a_fleet(nodes: int, limits: Sequence[TenantLimit], *, each: int = 4) -> Fleet:
    names = [f"node-{number}" for number in range(nodes)]
    slices = [a_slice(*devices(each), name=name, pool=name, reach=on_node(name)) for name in names]
    fleet = Fleet(a_snapshot(*slices), [a_node(name) for name in names])
    fleet.set_limits(LimitsInForce(limits))
    return fleet


def each_team(number: int, **more: object) -> TenantLimit:
    return TenantLimit("each", Namespaces(each=True), CountedDevices(), number * ONE_DEVICE, **more)  # type: ignore[arg-type]


def test_tenants_share_their_answers_and_read_their_own_numbers() -> None:
    fleet = a_fleet(3, [each_team(2)])
    for number in range(20):
        fleet.add_allocated(
            [holding(a_result(f"gpu-{number % 4:03}", pool="gone"), name=f"h-{number}", namespace=f"t-{number}")]
        )
    texts = set()
    for number in range(20):
        wanted = [wanting(a_request(count=2), namespace=f"t-{number}")]
        assert fleet.able(wanted) == 0
        [(outcome, nodes)] = fleet.unable(wanted, fleet.all)
        assert nodes == fleet.all
        texts.add(summary([("node-0", outcome, 3)], 3))
    assert texts == {"0/3 nodes: limit each: 1 of 2 in use, 2 more requested"}
    assert (fleet.asked, fleet.kept) == (1, kept_for_one_tenant())


def kept_for_one_tenant() -> int:
    other = a_fleet(3, [each_team(2)])
    other.add_allocated([holding(a_result("gpu-000", pool="gone"))])
    assert other.able([wanting(a_request(count=2))]) == 0
    return other.kept


def test_limit_that_cannot_be_reached_costs_no_answer() -> None:
    fleet = a_fleet(3, [most(1_000)])
    for number in range(8):
        assert fleet.able([wanting(name=f"c-{number}")]) == fleet.all
        fleet.add_allocated([holding(a_result("x", pool="gone"), name=f"h-{number}")])
    assert fleet.asked == 1


def test_answers_follow_what_is_left() -> None:
    fleet = a_fleet(2, [most(2)])
    held = holding(a_result("gpu-000", pool="node-0"), a_result("gpu-001", pool="node-0"))
    assert fleet.able([wanting()]) == fleet.all
    fleet.add_allocated([held])
    assert fleet.able([wanting()]) == 0
    fleet.set_limits(LimitsInForce([most(3)]))
    assert fleet.able([wanting()]) == fleet.all
    fleet.set_limits(LimitsInForce([most(2)]))
    fleet.remove_allocated([held])
    assert fleet.able([wanting()]) == fleet.all
    fleet.set_limits(LimitsInForce())
    assert fleet.able([wanting(a_request(count=4))]) == fleet.all


def test_nodes_of_which_other_devices_count_are_not_alike() -> None:
    """Nothing but the limit reads the attribute."""
    slices = [
        a_slice(*gpus(model, 2), name=name, pool=name, reach=on_node(name))
        for name, model in (("node-0", "H100"), ("node-1", "A100"))
    ]
    fleet = Fleet(a_snapshot(*slices), [a_node("node-0"), a_node("node-1")])
    fleet.set_limits(LimitsInForce([most(0, CountedDevices(selectors=(H100,)))]))
    assert fleet.able([wanting()]) == 0b10


def test_kept_snapshot_keeps_what_was_in_use() -> None:
    fleet = a_fleet(1, [most(2)])
    kept = fleet.snapshot
    fleet.add_allocated([holding(a_result("gpu-000", pool="node-0"))])
    assert (kept.limited.used_of((0, "")), fleet.current.limited.used_of((0, ""))) == (0, ONE_DEVICE)
