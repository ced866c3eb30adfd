from dataclasses import replace

import pytest

from allocator.api import TaintRule
from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.api.device_class import DeviceTaintSelector
from allocator.bits import bits
from allocator.model import Allocation, Claim, CounterConsumption, CounterSet, DeviceResult, Taint, Term
from cel.values.quantity import Quantity
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.decision.schedule_result import Placed
from scheduler.state.claims import FINALIZER, AlreadyReserved, Waiting, full
from scheduler.state.pods import CPU
from tests.builders import (
    Watched,
    a_claim,
    a_class,
    a_container,
    a_device,
    a_node,
    a_pod,
    a_result,
    a_slice,
    a_term,
    a_user,
    amounts,
    an_allocated_claim,
    kubernetes,
    labelled,
    named,
    on_node,
    requires,
    watched,
)

OURS = "ours"


@pytest.fixture
def cluster() -> Cluster:
    """One node with two devices."""
    found = Cluster(kubernetes(), is_ours=lambda pod: pod.scheduler_name == OURS)
    found.set_class(a_class())
    found.set_node(a_node())
    found.set_slice(a_slice("gpu-0", "gpu-1"))
    return found


def place(cluster: Cluster, pod: Pod, *claims: Claim, device: str = "gpu-0") -> None:
    allocations = tuple(Allocation((a_result(device),)) for claim in claims if claim.allocation is None)
    cluster.reserve(pod, Placed("node-0", claims, allocations))


def able(cluster: Cluster) -> list[int]:
    return list(bits(cluster.fleet.able([a_claim(name="asked")])))


def in_use(cluster: Cluster) -> set[str]:
    usage = cluster.fleet.usage
    return {name for pool in usage.holders for name in usage.allocated_in(pool)}


# -- nodes


def test_number_of_a_node_that_is_gone_serves_the_next_one(cluster: Cluster) -> None:
    cluster.set_node(a_node("node-1"))
    cluster.set_node(a_node("node-2"))
    cluster.remove_node("node-1")
    cluster.set_node(a_node("node-3"))
    cluster.set_node(a_node("node-4"))
    assert [cluster.number_of(f"node-{n}") for n in range(5)] == [0, None, 2, 1, 3]
    assert cluster.name_of(1) == "node-3"
    assert cluster.fleet.all == cluster.signatures_of(a_pod()).of(a_pod()).allowed == 0b1111


def test_node_that_comes_back_has_its_pods(cluster: Cluster) -> None:
    cluster.set_node(a_node("node-1", allocatable=amounts(cpu="4")))
    cluster.set_pod(a_pod(a_container(cpu="1"), node_name="node-1"))
    cluster.remove_node("node-1")
    cluster.set_node(a_node("other", allocatable=amounts(cpu="4")))
    cluster.set_node(a_node("node-1", allocatable=amounts(cpu="4")))
    free = cluster.infos.columns[CPU].free
    assert [free[cluster.number_of(name) or 0] for name in ("other", "node-1")] == [4000, 3000]


def test_nodes_that_a_selector_reaches_follow_labels(cluster: Cluster) -> None:
    selector = (labelled(zone="a"),)
    assert cluster.reached(selector) == 0
    cluster.set_node(a_node(labels={"zone": "a"}))
    assert cluster.reached(selector) == 1
    cluster.remove_node("node-0")
    assert cluster.reached(selector) == 0


def test_selector_that_names_nodes_reaches_those_that_are_there(cluster: Cluster) -> None:
    cluster.set_node(a_node("node-1", {"zone": "a"}))
    assert cluster.reached(named("node-1")) == 0b10
    assert cluster.reached(named("node-9")) == 0
    both = Term((requires("zone", "In", "b"),), named("node-1")[0].fields)
    assert cluster.reached((both,)) == 0


def test_selector_that_makes_no_sense_reaches_no_node(cluster: Cluster) -> None:
    assert cluster.reached((a_term(requires("zone", "Near", "a")),)) == 0


# -- claims of pods


def texts(cluster: Cluster, pod: Pod) -> str:
    found = cluster.claims_of(pod)
    return found.reason if isinstance(found, Waiting) else ",".join(one.claim.name for one in found)


def test_claims_are_resolved_in_the_order_of_the_entries_each_once(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.set_claim(watched(a_claim(name=name)), 1)
    assert texts(cluster, a_user("pod", "b", "a", "b")) == "b,a"


def test_entry_that_needs_no_claim_is_left_out(cluster: Cluster) -> None:
    pod = a_pod(claims=(PodClaim("none", template_name="t"),), claim_statuses={"none": None})
    assert texts(cluster, pod) == ""


def of_template(cluster: Cluster, found: Watched | None = None) -> str:
    if found:
        cluster.set_claim(found, 1)
    return texts(cluster, a_pod(claims=(PodClaim("gpu", template_name="t"),), claim_statuses={"gpu": "claim"}))


def test_pod_waits_in_the_words_of_kube_scheduler(cluster: Cluster) -> None:
    pod = a_pod(claims=(PodClaim("gpu", template_name="t"),))
    assert texts(cluster, pod) == 'pod "default/pod": ResourceClaim not created yet'
    assert texts(cluster, a_user("pod", "x")) == 'could not find ResourceClaim "default/x"'
    assert of_template(cluster) == 'could not find ResourceClaim "default/claim"'
    foreign = "ResourceClaim default/claim was not created for Pod default/pod (Pod is not owner)"
    assert of_template(cluster, watched(a_claim(), owner="uid-other")) == foreign
    assert of_template(cluster, watched(a_claim(), owner="uid-pod", deleting=True)) == (
        'resourceclaim "claim" is being deleted'
    )
    assert of_template(cluster, watched(a_claim(), owner="uid-pod")) == "claim"
    assert of_template(cluster, watched(a_claim(), owner="uid-group", kind="PodGroup")) == "PodGroup claims unsupported"


def test_a_pod_that_says_more_than_is_looked_at_is_told_so(cluster: Cluster) -> None:
    excess = "spec.volumes has 129 entries; at most 128 are looked at"
    pod = a_pod(excess=excess)
    assert texts(cluster, pod) == cluster.gate(pod) == f'pod "default/pod": {excess}'
    assert texts(cluster, replace(pod, node_name="node-0")) == "", "what a pod that has a node uses is judged as ever"


def test_claim_that_is_being_deleted_and_kept_by_the_pod_alone_does_not_gate_it(cluster: Cluster) -> None:
    """Only an attempt at the pod lets go of the claim, and both would wait without end."""
    pod, other = a_user("pod", "claim"), a_user("other", "claim")
    claim, allocated = a_claim(), an_allocated_claim("gpu-0", name="claim")
    reported = 'resourceclaim "claim" is being deleted'
    for version, (found, users, asked, gate) in enumerate(
        (
            (allocated, (pod,), pod, ""),
            (allocated, (pod,), replace(pod, node_name="node-0"), reported),
            (allocated, (pod,), other, reported),
            (allocated, (pod, other), pod, reported),
            (allocated, (), pod, reported),
            (claim, (), pod, reported),
        )
    ):
        cluster.set_claim(watched(found, users=users, deleting=True), version)
        assert cluster.gate(asked) == gate, (version, users)
        waiting = cluster.claims_of(asked)
        assert isinstance(waiting, Waiting)
        assert (waiting.reason, waiting.kept is None) == (reported, bool(gate))


def test_claim_that_another_pod_is_given_is_waited_for(cluster: Cluster) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    place(cluster, a_user("first", "claim"), a_claim())
    second = a_user("second", "claim")
    assert texts(cluster, second) == "resource claim default/claim is in the process of being allocated"
    assert cluster.gate(second) == ""
    assert texts(cluster, a_user("first", "claim")) == "claim"


def test_claim_of_a_pod_is_another_one_once_it_was_made_anew(cluster: Cluster) -> None:
    cluster.set_claim(watched(an_allocated_claim("gpu-0", name="claim")), 1)
    cluster.set_claim(watched(replace(a_claim(), uid="uid-new")), 3)
    cluster.remove_claim("uid-claim")
    assert in_use(cluster) == set()
    (found,) = cluster.claims_of(a_user("pod", "claim"))  # type: ignore[misc] # Waiting is no list, and fails here
    assert found.claim.uid == "uid-new"


def test_claim_is_full_for_one_more_pod_and_not_for_its_own(cluster: Cluster) -> None:
    users = [a_user(f"user-{n}", "claim") for n in range(RESERVED_FOR_MAX)]
    cluster.set_claim(watched(an_allocated_claim("gpu-0", name="claim"), users=users), 1)
    for pod, number in ((a_user("more", "claim"), 1), (users[7], 0)):
        found = cluster.claims_of(pod)
        assert not isinstance(found, Waiting)
        assert len(full(pod, found)) == number


# -- reservations


def test_reservation_takes_devices_and_room_at_once_and_gives_both_back(cluster: Cluster) -> None:
    cluster.set_node(a_node(allocatable=amounts(cpu="4")))
    cluster.set_claim(watched(a_claim()), 1)
    pod = a_pod(a_container(cpu="1"))
    place(cluster, pod, a_claim())
    assert in_use(cluster) == {"gpu-0"}
    assert cluster.infos.columns[CPU].free[0] == 3000
    cluster.unreserve(pod.uid)
    assert in_use(cluster) == set()
    assert cluster.infos.columns[CPU].free[0] == 4000


def test_reservation_leaves_only_when_the_write_is_shown(cluster: Cluster) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    place(cluster, a_pod(), a_claim())
    cluster.written("uid-claim", 5)
    cluster.bound("uid-pod")
    cluster.set_claim(watched(a_claim()), 4)
    assert in_use(cluster) == {"gpu-0"}
    cluster.set_claim(watched(an_allocated_claim("gpu-0", name="claim")), 5)
    assert cluster.claims.reservation("uid-claim") is None
    assert in_use(cluster) == {"gpu-0"}
    cluster.set_claim(watched(a_claim()), 6)
    assert in_use(cluster) == set()


def test_write_that_was_shown_before_its_answer_came_is_no_reservation_any_more(cluster: Cluster) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    place(cluster, a_pod(), a_claim())
    cluster.set_claim(watched(an_allocated_claim("gpu-0", name="claim")), 5)
    assert cluster.claims.reservation("uid-claim") is not None
    cluster.written("uid-claim", 5)
    assert cluster.claims.reservation("uid-claim") is None


def test_two_attempts_at_one_claim_or_for_one_pod_are_refused(cluster: Cluster) -> None:
    place(cluster, a_pod(), a_claim())
    with pytest.raises(
        AlreadyReserved, match="claim default/claim is being allocated for pod uid-pod, not for uid-other"
    ):
        place(cluster, a_pod(name="other"), a_claim(), device="gpu-1")
    with pytest.raises(AlreadyReserved, match="pod uid-pod already has an attempt in progress"):
        place(cluster, a_pod(), a_claim(name="more"), device="gpu-1")
    assert in_use(cluster) == {"gpu-0"}


def test_devices_that_another_writer_gave_the_claim_meanwhile_are_in_use_beside_the_reserved_ones(
    cluster: Cluster,
) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    pod = a_pod()
    place(cluster, pod, a_claim())
    cluster.set_claim(watched(an_allocated_claim("gpu-1", name="claim")), 2)
    assert in_use(cluster) == {"gpu-0", "gpu-1"}
    cluster.unreserve(pod.uid)
    assert in_use(cluster) == {"gpu-1"}


def test_allocated_claims_are_handed_on_as_they_are(cluster: Cluster) -> None:
    held = an_allocated_claim("gpu-1", name="held")
    cluster.set_claim(watched(held), 1)
    cluster.set_claim(watched(a_claim()), 2)
    allocation = Allocation((a_result("gpu-0"),))
    pairs = cluster.reserve(a_pod(), Placed("node-0", (held, a_claim()), (allocation,)))
    assert [(one.claim.name, given) for one, given in pairs] == [("held", None), ("claim", allocation)]


# -- slices and classes


def test_taint_rule_touches_what_it_selects_and_nothing_else(cluster: Cluster) -> None:
    cluster.set_node(a_node("node-1"))
    cluster.set_slice(a_slice("gpu-0", name="slice-1", pool="pool-1", reach=on_node("node-1")))
    assert able(cluster) == [0, 1]
    gathered = cluster.fleet.gathered
    rule = TaintRule("rule", Taint("key", effect="NoSchedule"), DeviceTaintSelector(pool="pool-1"))
    cluster.set_taint_rule(rule)
    assert able(cluster) == [0]
    cluster.set_taint_rule(replace(rule, selector=DeviceTaintSelector(pool="pool-0")))
    assert able(cluster) == [1]
    cluster.remove_taint_rule("rule")
    assert able(cluster) == [0, 1]
    assert cluster.fleet.gathered == gathered + 1 + 2 + 1


def test_taint_rules_change_nothing_while_their_gate_is_off() -> None:
    cluster = Cluster(kubernetes("1.36"), is_ours=lambda _: True)
    cluster.set_class(a_class())
    cluster.set_node(a_node())
    cluster.set_slice(a_slice("gpu-0"))
    cluster.set_taint_rule(TaintRule("rule", Taint("key", effect="NoSchedule"), DeviceTaintSelector()))
    assert able(cluster) == [0]


def test_slice_that_changes_replaces_the_one_of_its_name(cluster: Cluster) -> None:
    cluster.set_slice(a_slice("x"))
    assert [device.name for device in cluster.fleet.snapshot.view(a_node()).devices] == ["x"]
    cluster.remove_slice("slice-0")
    assert able(cluster) == []


def test_extended_resources_are_those_of_the_classes(cluster: Cluster) -> None:
    cluster.set_class(a_class("nic", extended_resource_name="example.com/nic"))
    assert "example.com/nic" in cluster.extended_resources
    cluster.remove_class("nic")
    assert "example.com/nic" not in cluster.extended_resources


def test_labels_of_a_namespace_follow_it(cluster: Cluster) -> None:
    cluster.set_namespace(Namespace("ml", {"a": "b"}))
    assert cluster.labels_of("ml") == {"a": "b"}
    cluster.remove_namespace("ml")
    assert cluster.labels_of("ml") == {}


# -- rivals


def rivals(cluster: Cluster, uid: str = "uid-claim") -> list[tuple[str, int]]:
    return [(rival.name, rival.resource_version) for rival in cluster.rivals(uid)]


def hold(cluster: Cluster, name: str, version: int, *results: DeviceResult | str) -> None:
    cluster.set_claim(watched(an_allocated_claim(*results, name=name)), version)


def test_claims_that_hold_a_device_of_ours_are_rivals_the_first_one_first(cluster: Cluster) -> None:
    hold(cluster, "claim", 5, "gpu-0")
    hold(cluster, "later", 7, "gpu-0", "gpu-1")
    hold(cluster, "first", 3, "gpu-0")
    hold(cluster, "other", 9, "gpu-1")
    assert rivals(cluster) == [("first", 3), ("later", 7)]


def test_rival_keeps_the_version_of_its_allocation(cluster: Cluster) -> None:
    hold(cluster, "claim", 5, "gpu-0")
    hold(cluster, "rival", 3, "gpu-0")
    hold(cluster, "rival", 9, "gpu-0")
    assert rivals(cluster) == [("rival", 3)]
    cluster.set_claim(watched(a_claim(name="rival")), 10)
    hold(cluster, "rival", 11, "gpu-0")
    assert rivals(cluster) == [("rival", 11)]


def test_admin_access_has_no_rivals(cluster: Cluster) -> None:
    hold(cluster, "claim", 5, "gpu-0")
    hold(cluster, "admin", 6, a_result("gpu-0", admin_access=True))
    assert rivals(cluster) == []


def test_attempt_that_has_not_written_is_no_rival_and_one_that_has_is(cluster: Cluster) -> None:
    place(cluster, a_pod(), a_claim(name="ours"))
    hold(cluster, "claim", 5, "gpu-0")
    assert rivals(cluster) == []
    cluster.written("uid-ours", 8)
    assert rivals(cluster) == [("ours", 8)]


def a_share(share_id: str, memory: str) -> DeviceResult:
    return a_result("shared", share_id=share_id, consumed_capacity={"memory": Quantity.parse(memory)})


def test_shares_are_rivals_when_they_take_more_than_there_is(cluster: Cluster) -> None:
    shared = a_device("shared", capacity={"memory": "3"}, allow_multiple_allocations=True)
    cluster.set_slice(a_slice(shared))
    hold(cluster, "claim", 1, a_share("a", "1"))
    hold(cluster, "second", 2, a_share("b", "2"))
    assert rivals(cluster) == []
    hold(cluster, "third", 3, a_share("c", "1"))
    assert rivals(cluster) == [("second", 2), ("third", 3)]


def test_whole_device_and_share_of_it_are_rivals(cluster: Cluster) -> None:
    hold(cluster, "claim", 1, a_share("a", "1"))
    hold(cluster, "whole", 2, "shared")
    assert rivals(cluster) == [("whole", 2)]


def test_devices_that_draw_on_the_same_counters_are_rivals_when_these_are_overdrawn(cluster: Cluster) -> None:
    sets = (CounterSet("set", {"slots": Quantity.parse("2")}),)
    consumes = (CounterConsumption("set", {"slots": Quantity.parse("1")}),)
    parts = [a_device(f"part-{n}", consumes_counters=consumes) for n in range(3)]
    cluster.set_slice(a_slice(*parts, "plain", slice_count=2))
    cluster.set_slice(a_slice(name="sets", slice_count=2, counter_sets=sets))
    hold(cluster, "claim", 1, "part-0")
    hold(cluster, "second", 2, "part-1")
    hold(cluster, "plain", 3, "plain")
    assert rivals(cluster) == []
    hold(cluster, "third", 4, "part-2")
    assert rivals(cluster) == [("second", 2), ("third", 4)]
    (violation,) = cluster.violations()
    assert (violation.invariant, [one.name for one in violation.claims]) == ("I5", ["claim", "second", "third"])


def test_pool_whose_counters_are_not_published_yet_makes_rivals_and_no_violation(cluster: Cluster) -> None:
    """Its slices come one after the other, and its driver may be stopped in between."""
    consumes = (CounterConsumption("set", {"slots": Quantity.parse("1")}),)
    parts = [a_device(f"part-{n}", consumes_counters=consumes) for n in range(3)]

    def publish_counters(number: str, generation: int) -> None:
        sets = (CounterSet("set", {"slots": Quantity.parse(number)}),)
        cluster.set_slice(a_slice(name="sets", slice_count=2, generation=generation, counter_sets=sets))

    publish_counters("2", 1)
    cluster.set_slice(a_slice(*parts, slice_count=2))
    cluster.set_slice(a_slice(*parts, slice_count=2, generation=2))
    hold(cluster, "claim", 1, "part-0")
    hold(cluster, "second", 2, "part-1")
    assert rivals(cluster) == [("second", 2)]
    assert cluster.violations() == []
    publish_counters("2", 2)
    assert rivals(cluster) == []
    publish_counters("1", 2)
    hold(cluster, "second", 3, "part-1")
    assert [violation.invariant for violation in cluster.violations()] == ["I5"]


# -- objections and violations


def test_decision_stands_while_its_devices_are_published(cluster: Cluster) -> None:
    allocation = Allocation((a_result("gpu-0"),))
    assert cluster.objection("node-0", [allocation]) == ""
    cluster.set_slice(a_slice("gpu-1"))
    gone = "device gpu.example/pool-0/gpu-0 is no longer published for node node-0"
    assert cluster.objection("node-0", [allocation]) == gone
    cluster.remove_node("node-0")
    assert cluster.objection("node-0", [allocation]) == "node node-0 is gone"


def violations(cluster: Cluster) -> list[tuple[str, str]]:
    return [(one.invariant, one.message) for one in cluster.violations()]


def bind(cluster: Cluster, name: str, held: Claim, *, reserved: bool = True, node: str = "node-0") -> Pod:
    pod = a_user(name, held.name, node_name=node, scheduler_name=OURS)
    cluster.set_claim(watched(held, users=[pod] if reserved else ()), 1)
    cluster.set_pod(replace(pod, node_name=""))
    cluster.set_pod(pod)
    return pod


def test_device_of_two_bound_pods_is_a_violation_until_one_is_gone(cluster: Cluster) -> None:
    bind(cluster, "first", an_allocated_claim("gpu-0", name="a"))
    hold(cluster, "b", 2, "gpu-0")
    assert violations(cluster) == []
    second = bind(cluster, "second", an_allocated_claim("gpu-0", name="c"))
    message = "claims default/a, default/c of bound pods have it at the same time"
    assert violations(cluster) == [("I1", message)]
    (violation,) = cluster.violations()
    assert (violation.message, [str(claim) for claim in violation.claims]) == (message, ["default/a", "default/c"])
    cluster.remove_pod(second.uid)
    assert violations(cluster) == []


def test_device_that_an_attempt_wanted_for_a_claim_that_got_another_one_elsewhere_is_no_violation(
    cluster: Cluster,
) -> None:
    """Two schedulers raced for a pod: ours has lost, and not given up yet."""
    raced = a_claim(name="raced")
    cluster.set_claim(watched(raced), 1)
    place(cluster, a_user("loser", "raced"), raced, device="gpu-0")
    bind(cluster, "first", an_allocated_claim("gpu-1", name="raced"))
    bind(cluster, "second", an_allocated_claim("gpu-0", name="other"))
    assert violations(cluster) == []


def test_bound_pod_whose_claim_is_not_as_it_has_to_be_is_a_violation(cluster: Cluster) -> None:
    bind(cluster, "good", an_allocated_claim("gpu-0", name="good"))
    assert violations(cluster) == []
    bind(cluster, "pod", a_claim(name="a"))
    assert violations(cluster) == [("I2", "it is bound, and claim default/a is not allocated")]
    bind(cluster, "pod", an_allocated_claim("gpu-1", name="a"), reserved=False)
    assert violations(cluster) == [("I2", "it is bound, and claim default/a is not reserved for it")]
    there = Allocation((a_result("gpu-1"),), node_selector=named("node-9"))
    bind(cluster, "pod", a_claim(name="a", allocation=there))
    message = "it is bound to node node-0, from which claim default/a cannot be reached"
    assert violations(cluster) == [("I2", message)]


def test_claim_that_its_owner_puts_in_the_place_of_a_bound_pods_is_no_violation(cluster: Cluster) -> None:
    """Whoever may write a claim may remove its finalizer, delete it, and create another one of its name."""
    bind(cluster, "pod", an_allocated_claim("gpu-0", name="a"))
    cluster.remove_claim("uid-a")
    cluster.set_claim(watched(replace(a_claim(name="a"), uid="another")), 2)
    assert violations(cluster) == []


@pytest.mark.parametrize("is_reserved", [True, False])
def test_claim_that_a_bound_pod_has_lost_is_a_violation_while_it_is_the_same(
    cluster: Cluster, *, is_reserved: bool
) -> None:
    pod = bind(cluster, "pod", an_allocated_claim("gpu-0", name="a"))
    assert violations(cluster) == []
    cluster.set_claim(watched(a_claim(name="a"), users=[pod] if is_reserved else []), 2)
    assert violations(cluster) == [("I2", "it is bound, and claim default/a is not allocated")]


def test_pod_that_was_created_with_its_node_is_not_bound_by_us(cluster: Cluster) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    cluster.set_pod(a_user("pod", "claim", node_name="node-0", scheduler_name=OURS))
    assert violations(cluster) == []


def test_pod_of_another_scheduler_is_not_ours_to_judge(cluster: Cluster) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    pod = a_user("pod", "claim", scheduler_name="other")
    cluster.set_pod(pod)
    cluster.set_pod(replace(pod, node_name="node-0"))
    assert violations(cluster) == []


def test_allocation_without_the_finalizer_is_a_violation(cluster: Cluster) -> None:
    held = an_allocated_claim("gpu-0")
    cluster.set_claim(watched(a_claim(name="holder"), safe=False), 1)
    cluster.set_claim(watched(held, safe=False), 2)
    assert violations(cluster) == [("I4", f"it is allocated without the finalizer {FINALIZER}")]
    cluster.set_claim(watched(held), 3)
    assert violations(cluster) == []


def test_finalizer_that_was_gone_when_a_program_began_is_no_violation(cluster: Cluster) -> None:
    """Its owner may have removed it."""
    cluster.set_claim(watched(an_allocated_claim("gpu-0"), safe=False), 1)
    assert violations(cluster) == []


def test_finalizer_that_the_owner_of_a_claim_removes_is_no_violation_until_it_is_allocated_anew(
    cluster: Cluster,
) -> None:
    held = an_allocated_claim("gpu-0")
    cluster.set_claim(watched(held), 1)
    cluster.set_claim(watched(held, safe=False), 2)
    assert violations(cluster) == []
    cluster.set_claim(watched(a_claim(name="holder"), safe=False), 3)
    cluster.set_claim(watched(held, safe=False), 4)
    assert violations(cluster) == [("I4", f"it is allocated without the finalizer {FINALIZER}")]


def test_shares_of_one_device_for_two_bound_pods_are_no_violation(cluster: Cluster) -> None:
    shared = a_device("shared", capacity={"memory": "3"}, allow_multiple_allocations=True)
    cluster.set_slice(a_slice(shared))
    bind(cluster, "first", an_allocated_claim(a_share("a", "1"), name="a"))
    bind(cluster, "second", an_allocated_claim(a_share("b", "2"), name="b"))
    assert violations(cluster) == []


def test_attempt_that_ends_late_leaves_what_another_one_has_reserved_since(cluster: Cluster) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    place(cluster, a_pod(), a_claim())
    cluster.written("uid-claim", 5)
    cluster.set_claim(watched(an_allocated_claim("gpu-0", name="claim")), 5)
    cluster.set_claim(watched(a_claim()), 6)
    place(cluster, a_pod(name="other"), a_claim(), device="gpu-1")
    cluster.unreserve("uid-pod")
    assert in_use(cluster) == {"gpu-1"}


def test_attempt_at_a_claim_that_is_gone_ends_well(cluster: Cluster) -> None:
    cluster.set_claim(watched(a_claim()), 1)
    place(cluster, a_pod(), a_claim())
    cluster.written("uid-claim", 5)
    cluster.remove_claim("uid-claim")
    cluster.bound("uid-pod")
    assert in_use(cluster) == set()


def test_pod_that_is_bound_counts_until_it_is_shown_on_its_node_and_not_if_it_had_ended_before(
    cluster: Cluster,
) -> None:
    pod = a_pod()
    cluster.set_pod(pod)
    place(cluster, pod)
    cluster.bound(pod.uid)
    assert cluster.pods.assumed == 1
    cluster.set_pod(replace(pod, node_name="node-0"))
    assert cluster.pods.assumed == 0
    cluster.remove_pod(pod.uid)
    place(cluster, pod)  # by somebody who has read it before it ended
    cluster.bound(pod.uid)
    assert cluster.pods.assumed == 0
