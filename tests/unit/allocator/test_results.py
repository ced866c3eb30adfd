from collections.abc import Iterable
from dataclasses import replace

import pytest

from allocator.cluster.snapshot import Snapshot
from allocator.gates import Features
from allocator.model import Allocation, DeviceClass, NodeSelector, OpaqueConfig, Reach, ResultConfig, Term, Toleration
from allocator.outcome import InvalidPool, Outcome
from tests.builders import (
    DRIVER,
    a_claim,
    a_class,
    a_config,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_snapshot,
    all_devices,
    an_alternative,
    devices,
    everywhere,
    first_available,
    kubernetes,
    labelled,
    named,
    on_node,
    per_device,
    requires,
    where,
)
from tests.unit.allocator.answers import allocations, decide, names, results

FAST, SLOW = a_config(speed="fast"), a_config(speed="slow")


def only(outcome: Outcome) -> Allocation:
    (allocation,) = allocations(outcome)
    return allocation


def reported(outcome: Outcome) -> list[tuple[str, list[str], object]]:
    """(source, requests, parameters) for each configuration."""
    return [(c.source, list(c.requests), c.opaque["parameters"]) for c in only(outcome).config]


def config(speed: str, *requests: str) -> OpaqueConfig:
    return a_config(DRIVER, *requests, speed=speed)


def cluster(classes: Iterable[DeviceClass] | None = None, features: Features | None = None) -> Snapshot:
    return a_snapshot(a_slice(*devices(8)), classes=classes, features=features or kubernetes())


# -- devices


def test_results_are_in_order_of_requests_and_then_of_devices() -> None:
    slices = a_slice("b", "a", pool="y"), a_slice("d", "c", pool="x")
    claim = a_claim(a_request("z", 2), a_request("a", 2))
    given = [(r.request, r.pool, r.device) for r in results(decide(a_snapshot(*slices), claim))]
    assert given == [("z", "x", "d"), ("z", "x", "c"), ("a", "y", "b"), ("a", "y", "a")]


def test_result_names_the_device_and_nothing_that_it_does_not_have() -> None:
    (result,) = results(decide(a_snapshot(a_slice("x")), a_claim(a_request("r"))))
    assert (result.request, result.id) == ("r", (DRIVER, "pool-0", "x"))
    assert not result.admin_access
    assert (result.tolerations, result.binding_conditions, result.binding_failure_conditions) == ((), (), ())
    assert (result.share_id, result.consumed_capacity, result.skip_node_operations) == ("", {}, ())


def test_result_of_a_subrequest_names_request_and_subrequest() -> None:
    claim = a_claim(first_available("gpus", an_alternative("few", count=1)))
    assert [result.request for result in results(decide(cluster(), claim))] == ["gpus/few"]


def test_tolerations_are_copied_from_the_chosen_request_with_and_without_the_gate() -> None:
    tolerations = (Toleration("a", "Exists"), Toleration("b", "Equal", "1", "NoExecute"))
    chosen = an_alternative("second", tolerations=tolerations)
    claim = a_claim(first_available("r", an_alternative("first", count=9), chosen), a_request("plain"))
    for features in (kubernetes(), kubernetes(DRADeviceTaints=False, DRADeviceTaintRules=False)):
        assert [r.tolerations for r in results(decide(cluster(features=features), claim))] == [tolerations, ()]


# -- configuration of classes


def test_configuration_of_a_class_is_written_once_with_all_requests_that_use_it() -> None:
    snapshot = cluster(classes=[a_class(config=[FAST, SLOW]), a_class("other", config=[FAST])])
    claim = a_claim(a_request("a"), a_request("b", class_name="other"), a_request("c"))
    assert reported(decide(snapshot, claim)) == [
        ("FromClass", ["a", "c"], {"speed": "fast"}),
        ("FromClass", ["a", "c"], {"speed": "slow"}),
        ("FromClass", ["b"], {"speed": "fast"}),
    ]


def test_configuration_of_classes_is_in_order_of_first_use() -> None:
    snapshot = cluster(classes=[a_class("a", config=[FAST]), a_class("b", config=[SLOW])])
    claim = a_claim(a_request("one", class_name="b"), a_request("two", class_name="a"))
    assert reported(decide(snapshot, claim)) == [
        ("FromClass", ["one"], {"speed": "slow"}),
        ("FromClass", ["two"], {"speed": "fast"}),
    ]


def test_configuration_is_that_of_the_class_of_the_chosen_subrequest() -> None:
    snapshot = cluster(classes=[a_class("a", config=[FAST]), a_class("b", config=[SLOW])])
    many, one = an_alternative("many", "a", count=9), an_alternative("one", "b")
    claim = a_claim(first_available("r", many, one), a_request("plain", class_name="a"))
    assert reported(decide(snapshot, claim)) == [
        ("FromClass", ["r/one"], {"speed": "slow"}),
        ("FromClass", ["plain"], {"speed": "fast"}),
    ]


def test_configuration_is_that_of_the_alternative_that_needs_no_device_where_none_is_given() -> None:
    classes = a_class("one", config=[FAST]), a_class("two", config=[SLOW])
    request = first_available("r", an_alternative("a", "one", count=9), an_alternative("b", "two", count=0))
    assert reported(decide(cluster(classes), a_claim(request))) == [("FromClass", [], {"speed": "slow"})]


def test_selector_beside_all_nodes_goes_into_the_result() -> None:
    reach = replace(everywhere(), node_selector=(labelled(zone="east"),))
    assert only(decide(a_snapshot(a_slice("x", reach=reach)), a_claim())).node_selector == (labelled(zone="east"),)


def test_configuration_of_a_class_is_copied_as_it_is() -> None:
    opaque = {"driver": "any.example", "parameters": {"deep": [1, {"x": None}]}}
    snapshot = cluster(classes=[a_class(config=[OpaqueConfig(opaque)])], features=kubernetes("1.36"))
    assert only(decide(snapshot, a_claim(a_request("r")))).config == (ResultConfig("FromClass", ("r",), opaque),)


# -- configuration of claims


def test_configuration_of_the_claim_comes_after_that_of_the_classes_in_its_own_order() -> None:
    snapshot = cluster(classes=[a_class(config=[FAST])])
    claim = a_claim(a_request("a"), a_request("b"), config=[config("2", "b"), config("1", "a")])
    assert reported(decide(snapshot, claim)) == [
        ("FromClass", [], {"speed": "fast"}),
        ("FromClaim", ["b"], {"speed": "2"}),
        ("FromClaim", ["a"], {"speed": "1"}),
    ]


def test_configuration_for_all_requests_is_written_without_names() -> None:
    assert reported(decide(cluster(), a_claim(a_request("a"), config=[FAST]))) == [("FromClaim", [], {"speed": "fast"})]


def test_configuration_for_subrequests_that_were_not_chosen_is_left_out() -> None:
    request = first_available("r", an_alternative("many", count=9), an_alternative("one"))
    entries = [config("many", "r/many"), config("one", "r/one"), config("both", "r/one", "r/many"), config("all", "r")]
    claim = a_claim(request, a_request("x"), config=entries)
    assert reported(decide(cluster(), claim)) == [
        ("FromClaim", ["r/one"], {"speed": "one"}),
        ("FromClaim", ["r/one", "r/many"], {"speed": "both"}),
        ("FromClaim", ["r"], {"speed": "all"}),
    ]


def test_configuration_that_names_nobody_is_left_out() -> None:
    assert reported(decide(cluster(), a_claim(a_request("a"), a_request("b"), config=[config("x", "c")]))) == []


def test_configuration_for_several_requests_is_written_once_since_1_37() -> None:
    claim = a_claim(a_request("a"), a_request("b"), a_request("c"), config=[config("x", "b", "c")])
    entry = ("FromClaim", ["b", "c"], {"speed": "x"})
    assert reported(decide(cluster(), claim)) == [entry]
    assert reported(decide(cluster(features=kubernetes("1.36")), claim)) == [entry, entry]


def test_configuration_that_covers_every_request_is_written_without_names_since_1_37() -> None:
    claim = a_claim(a_request("a"), a_request("b"), config=[config("x", "b", "a")])
    classes = [a_class(config=[FAST])]
    assert reported(decide(cluster(classes, kubernetes("1.37")), claim)) == [
        ("FromClass", [], {"speed": "fast"}),
        ("FromClaim", [], {"speed": "x"}),
    ]
    assert reported(decide(cluster(classes, kubernetes("1.36")), claim)) == [
        ("FromClass", ["a", "b"], {"speed": "fast"}),
        ("FromClaim", ["b", "a"], {"speed": "x"}),
        ("FromClaim", ["b", "a"], {"speed": "x"}),
    ]


def test_request_and_its_chosen_subrequest_both_count_as_covering_it() -> None:
    request = first_available("r", an_alternative("one"), an_alternative("two", count=2))
    entries = [config("request", "r", "x"), config("chosen", "r/one", "x"), config("other", "r/two", "x")]
    outcome = decide(cluster(), a_claim(request, a_request("x"), config=entries))
    assert [(requests, speed) for _, requests, speed in reported(outcome)] == [
        ([], {"speed": "request"}),
        ([], {"speed": "chosen"}),
        (["r/two", "x"], {"speed": "other"}),
    ]


def test_each_claim_has_its_own_configuration() -> None:
    claims = [a_claim(name=name, config=[config(name)]) for name in "ab"]
    written = [[c.opaque["parameters"] for c in a.config] for a in allocations(decide(cluster(), *claims))]
    assert written == [[{"speed": "a"}], [{"speed": "b"}]]


# -- node selector


def selector(snapshot: Snapshot, count: int = 2, node_name: str = "node-0") -> NodeSelector | None:
    node = a_node(node_name, {"region": "1", "zone": "x", "rank": "5"})
    return only(decide(snapshot, a_claim(a_request(count=count)), node=node)).node_selector


def slices_reached(*reaches: Reach) -> Snapshot:
    return a_snapshot(*(a_slice("x", pool=f"pool-{n}", reach=reach) for n, reach in enumerate(reaches)))


def test_device_of_a_node_ties_the_claim_to_it() -> None:
    assert selector(slices_reached(on_node()), 1) == named("node-0")


def test_device_for_all_nodes_ties_the_claim_to_none() -> None:
    assert selector(slices_reached(everywhere()), 1) is None


def test_requirements_of_all_devices_are_united_each_once_in_order() -> None:
    first = Term((requires("region", "In", "1", "2"), requires("zone", "Exists")))
    second = Term((requires("rank", "Gt", "4"), requires("region", "In", "2", "1"), requires("region", "In", "1")))
    assert selector(slices_reached(where(first), where(second))) == (
        Term(
            (
                requires("region", "In", "1", "2"),
                requires("zone", "Exists"),
                requires("rank", "Gt", "4"),
                requires("region", "In", "1"),
            )
        ),
    )


def test_requirement_that_a_term_repeats_is_written_once() -> None:
    twice = Term((requires("zone", "Exists"), requires("zone", "Exists")))
    assert selector(slices_reached(where(twice)), 1) == (Term((requires("zone", "Exists"),)),)


def test_fields_and_labels_stay_apart() -> None:
    term = Term((requires("zone", "Exists"),), (requires("metadata.name", "In", "node-0"),))
    assert selector(slices_reached(where(term), where(labelled(region="1")))) == (
        Term((requires("zone", "Exists"), requires("region", "In", "1")), (requires("metadata.name", "In", "node-0"),)),
    )


def test_device_for_all_nodes_adds_no_requirement() -> None:
    assert selector(slices_reached(everywhere(), where(labelled(region="1")))) == (labelled(region="1"),)


@pytest.mark.parametrize("first", [where(labelled(region="1")), everywhere()])
def test_device_of_a_node_goes_before_all_requirements(first: Reach) -> None:
    assert selector(slices_reached(first, on_node())) == named("node-0")
    assert selector(slices_reached(on_node(), first)) == named("node-0")


def test_device_that_binds_to_a_node_ties_the_claim_to_the_node_of_the_attempt() -> None:
    for is_on in (True, False):
        features = kubernetes(DRADeviceBindingConditions=is_on)
        fabric = a_slice(a_device("x", binds_to_node=True), reach=everywhere())
        assert selector(a_snapshot(fabric, features=features), 1, "node-7") == named("node-7")


def test_own_node_selection_of_a_device_counts_where_devices_choose() -> None:
    members = [
        a_device("a", reach=everywhere()),
        a_device("b", reach=where(labelled(region="1"))),
        a_device("c", reach=on_node()),
    ]
    snapshot = a_snapshot(a_slice(*members, reach=per_device()))
    assert [selector(snapshot, count) for count in (1, 2, 3)] == [None, (labelled(region="1"),), named("node-0")]


def test_own_node_selection_of_a_device_does_not_count_where_the_slice_selects() -> None:
    assert selector(a_snapshot(a_slice(a_device("a", reach=on_node()), reach=everywhere())), 1) is None


def test_selector_of_several_terms_ends_the_attempt_once_its_device_is_chosen() -> None:
    two = where(labelled(region="1"), labelled(region="2"))
    with pytest.raises(InvalidPool, match=r"slice slice-0: a node selector of 2 terms is not supported"):
        selector(slices_reached(two), 1)
    assert selector(slices_reached(everywhere(), two), 1) is None


def test_selector_of_several_terms_does_not_matter_beside_an_earlier_device_of_a_node() -> None:
    two = where(labelled(region="1"), labelled(region="2"))
    assert selector(slices_reached(on_node(), two)) == named("node-0")


def test_each_claim_has_its_own_node_selector() -> None:
    snapshot = slices_reached(everywhere(), on_node())
    outcome = decide(snapshot, a_claim(name="a"), a_claim(name="b"))
    assert [allocation.node_selector for allocation in allocations(outcome)] == [None, named("node-0")]


def test_time_of_allocation_is_not_for_the_allocator_to_say() -> None:
    assert only(decide(cluster(), a_claim())).allocation_timestamp == ""


# -- all of it together


def test_pools_with_conditions_last_alternatives_configuration_and_selector_together() -> None:
    waiting = a_device("e1", binding_conditions=("ready",), binding_failure_conditions=("failed",))
    region = where(labelled(region="1"))
    snapshot = a_snapshot(
        a_slice("d2", "d1", pool="z", reach=region),
        a_slice("f1", pool="y", reach=everywhere()),
        a_slice(waiting, pool="b", reach=everywhere()),
        classes=[a_class(config=[FAST])],
    )
    request = first_available("r1", an_alternative("s0", count=2), an_alternative("s1"))
    claim = a_claim(a_request("r0", 3), request, config=[config("A", "r1/s0"), config("B", "r1/s0", "r1/s1")])
    outcome = decide(snapshot, claim, node=a_node(labels={"region": "1"}))
    assert [(r.request, r.pool, r.device) for r in results(outcome)] == [
        ("r0", "y", "f1"),
        ("r0", "z", "d2"),
        ("r0", "z", "d1"),
        ("r1/s1", "b", "e1"),
    ]
    assert results(outcome)[3].binding_conditions == ("ready",)
    assert results(outcome)[3].binding_failure_conditions == ("failed",)
    assert reported(outcome) == [
        ("FromClass", [], {"speed": "fast"}),
        ("FromClaim", ["r1/s0", "r1/s1"], {"speed": "B"}),
    ]
    assert only(outcome).node_selector == (labelled(region="1"),)


def test_all_writes_its_devices_in_canonical_order() -> None:
    slices = a_slice("b", "a", name="1", slice_count=2), a_slice("c", name="0", slice_count=2)
    assert names(decide(a_snapshot(*slices), a_claim(all_devices()))) == ["c", "b", "a"]
