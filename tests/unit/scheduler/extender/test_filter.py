"""A node passes when it can give the pod its devices now, and every other one is told why not."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.model import Allocation, Claim
from allocator.policies.pack import Pack
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import NOT_REACHED
from scheduler.decision.schedule_result import Placed
from scheduler.extender.question import Asked
from scheduler.extender.verbs import Filtered, Sampling, Undecided, filter_nodes
from scheduler.plugins.profile import Profile
from tests.builders import (
    a_claim,
    a_device,
    a_pod,
    a_request,
    a_result,
    an_allocated_claim,
    an_alternative,
    first_available,
    kubernetes,
    named,
    watched,
)
from tests.unit.scheduler.extender.clusters import a_cluster, a_user_of, add_node

UNKNOWN = "node {} is not known yet to the extender"


def filtered(cluster: Cluster, *claims: Claim, names: tuple[str, ...] = ("node-0", "node-1", "node-2")) -> Filtered:
    return filter_nodes(cluster, a_user_of(cluster, *claims), names)


def on(node: str, device: str = "gpu-0") -> Allocation:
    """One device of a node, which only that node reaches."""
    return Allocation((a_result(device, pool=node),), node_selector=named(node))


def take(cluster: Cluster, node: str, *devices: str) -> None:
    """These devices of the node are in use."""
    held = an_allocated_claim(*(a_result(device, pool=node) for device in devices), name=f"held-{node}")
    cluster.set_claim(watched(held), 1)


# -- devices


def test_nodes_with_free_devices_pass_and_the_others_are_shown_what_is_missing() -> None:
    cluster = a_cluster(2, 1, 2)
    take(cluster, "node-2", "gpu-0")
    found = filtered(cluster, a_claim(a_request(count=2)))
    assert found == Filtered(
        ["node-0"],
        {},
        {
            "node-1": "request gpus needs 2 devices, 1 is left (1 device)",
            "node-2": "request gpus needs 2 devices, 1 is left (2 devices: 1 is in use)",
        },
    )


def test_nodes_pass_in_the_order_of_the_question() -> None:
    names = ("node-2", "node-0", "node-1")
    assert filtered(a_cluster(1, 1, 1), a_claim(), names=names).passed == list(names)


def test_only_nodes_that_are_asked_about_are_answered() -> None:
    found = filtered(a_cluster(1, 0, 1, 0), a_claim(), names=("node-2", "node-3"))
    assert (found.passed, [*found.unresolvable]) == (["node-2"], ["node-3"])


def test_claims_of_a_pod_are_given_devices_together() -> None:
    found = filtered(a_cluster(1, 2), a_claim(), a_claim(name="other"), names=("node-0", "node-1"))
    assert (found.passed, [*found.unresolvable]) == (["node-1"], ["node-0"])


def test_devices_in_flight_are_not_free() -> None:
    cluster = a_cluster(1, 1)
    other = a_claim(name="other")
    user = a_user_of(cluster, other, name="other")
    cluster.reserve(user, Placed("node-0", (other,), (on("node-0"),)))
    assert filtered(cluster, a_claim(), names=("node-0", "node-1")).passed == ["node-1"]
    cluster.unreserve(user.uid)
    assert filtered(cluster, a_claim(), names=("node-0", "node-1")).passed == ["node-0", "node-1"]


def test_nothing_is_reserved() -> None:
    cluster = a_cluster(1)
    assert filtered(cluster, a_claim(), names=("node-0",)) == filtered(cluster, a_claim(), names=("node-0",))


def test_budget_that_is_spent_is_an_answer_that_may_change() -> None:
    wanted = a_request("gpus", 3), a_request("more", 3, "device.attributes['gpu.example'].odd")
    cluster = Cluster(kubernetes(), is_ours=lambda _: True, budget_steps=1)
    cluster.set_class(next(iter(a_cluster().fleet.snapshot.classes.values())))
    add_node(cluster, "node-0", *(a_device(f"gpu-{n}", {"odd": bool(n % 2)}) for n in range(6)))
    add_node(cluster, "node-1")
    found = filtered(cluster, a_claim(*wanted), names=("node-0", "node-1"))
    assert found.failed == {"node-0": "not known: no answer after 1 steps"}
    assert found.unresolvable.keys() == {"node-1"}


def test_selector_that_fails_is_an_error() -> None:
    broken = a_claim(a_request("gpus", 1, "device.attributes['x'].y"))
    with pytest.raises(Undecided, match=r"^pod default/pod: .*CEL"):
        filtered(a_cluster(1), broken, names=("node-0",))


def test_selector_that_fails_elsewhere_is_none() -> None:
    broken = a_claim(a_request("gpus", 1, "device.attributes['gpu.example'].rank > 0"))
    cluster = a_cluster(1)
    add_node(cluster, "node-1", a_device(attributes={"rank": 1}))
    assert filtered(cluster, broken, names=("node-1",)).passed == ["node-1"]


# -- nodes


def test_node_that_is_not_known_may_be_known_soon() -> None:
    found = filtered(a_cluster(1), a_claim(), names=("node-7", "node-0", "node-8"))
    assert found == Filtered(["node-0"], {name: UNKNOWN.format(name) for name in ("node-7", "node-8")})


@pytest.mark.parametrize("devices", [(), (1,)])
def test_no_node_may_be_known(devices: tuple[int, ...]) -> None:
    found = filtered(a_cluster(*devices), a_claim(), names=("node-7",))
    assert found == Filtered([], {"node-7": UNKNOWN.format("node-7")})


def test_node_that_is_gone_is_not_known() -> None:
    cluster = a_cluster(1, 1)
    cluster.remove_node("node-0")
    found = filtered(cluster, a_claim(), names=("node-0", "node-1"))
    assert (found.passed, [*found.failed]) == (["node-1"], ["node-0"])


def test_nobody_asked_about_is_nobody_answered() -> None:
    assert filtered(a_cluster(1), a_claim(), names=()) == Filtered([])


def test_names_of_a_mask_are_those_that_are_asked_about() -> None:
    asked = Asked(a_cluster(0, 0, 0), ["node-2", "node-9", "node-0"])
    assert asked.mask == 0b101
    assert list(asked.unknown()) == ["node-9"]
    assert asked.named(0b111) == ["node-2", "node-0"]
    assert asked.named(0b1010) == []


# -- claims


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (a_pod(claims=(PodClaim("gpu", template_name="t"),)), 'pod "default/pod": ResourceClaim not created yet'),
        (a_pod(claims=(PodClaim("gpu", "claim"),)), 'could not find ResourceClaim "default/claim"'),
    ],
)
def test_claim_that_is_not_there_keeps_the_pod_from_every_node(pod: Pod, reason: str) -> None:
    names = ("node-0", "node-7")
    assert filter_nodes(a_cluster(1), pod, names) == Filtered((), {}, dict.fromkeys(names, reason))


def test_claim_that_was_made_and_is_not_seen_yet_leaves_the_pod_undecided() -> None:
    """kube-scheduler has seen it before us, and has no further event to ask again for."""
    pod = a_pod(claims=(PodClaim("gpu", template_name="t"),), claim_statuses={"gpu": "pod-gpu-x"})
    with pytest.raises(Undecided, match=r"^pod default/pod: could not find ResourceClaim \"default/pod-gpu-x\" yet$"):
        filter_nodes(a_cluster(1), pod, ["node-0"])


def test_pod_whose_entries_need_no_claim_passes_every_node_that_is_known() -> None:
    pod = a_pod(claims=(PodClaim("gpu", template_name="t"),), claim_statuses={"gpu": None})
    assert filter_nodes(a_cluster(0), pod, ("node-0", "node-7")).passed == ["node-0"]


def test_claim_that_another_pod_is_being_given_is_waited_for() -> None:
    cluster, claim = a_cluster(1), a_claim()
    first = a_user_of(cluster, claim, name="first")
    cluster.reserve(first, Placed("node-0", (claim,), (on("node-0"),)))
    reason = "resource claim default/claim is in the process of being allocated"
    assert filtered(cluster, claim, names=("node-0",)).unresolvable == {"node-0": reason}
    assert filter_nodes(cluster, first, ["node-0"]).unresolvable.keys() == {"node-0"}


def test_full_claim_keeps_the_pod_from_every_node_and_its_own_users_from_none() -> None:
    cluster = a_cluster(1)
    claim = a_claim(allocation=on("node-0"))
    users = [a_pod(name=f"user-{number}") for number in range(RESERVED_FOR_MAX)]
    pod = a_user_of(cluster, claim)
    cluster.set_claim(watched(claim, users=users), 2)
    reason = "resourceclaim default/claim is reserved for 256 pods already, which is the limit"
    assert filter_nodes(cluster, pod, ["node-0"]).unresolvable == {"node-0": reason}
    assert filter_nodes(cluster, replace(pod, uid=users[7].uid), ["node-0"]).passed == ["node-0"]


def test_missing_class_is_named() -> None:
    found = filtered(a_cluster(1), a_claim(a_request(class_name="nic")), names=("node-0",))
    assert found.unresolvable == {"node-0": "request gpus: device class nic does not exist"}


@pytest.mark.parametrize(("labels", "passed"), [({"resource.kubernetes.io/admin-access": "true"}, 1), ({}, 0)])
def test_admin_access_is_for_labelled_namespaces(labels: Mapping[str, str], passed: int) -> None:
    cluster = a_cluster(1)
    cluster.set_namespace(Namespace("default", labels))
    found = filtered(cluster, a_claim(a_request(admin_access=True)), names=("node-0",))
    assert len(found.passed) == passed
    assert all("does not have the label" in text for text in found.unresolvable.values())


def test_no_node_is_for_a_pod_whose_namespace_is_being_deleted() -> None:
    cluster = a_cluster(1)
    cluster.set_namespace(Namespace("default", is_deleted=True))
    found = filtered(cluster, a_claim(), names=("node-0",))
    assert found.unresolvable == {"node-0": "namespace default is being deleted"}


# -- allocated claims


def test_allocated_claim_keeps_the_pod_to_the_nodes_that_reach_it() -> None:
    found = filtered(a_cluster(1, 1, 0), a_claim(allocation=on("node-1")), a_claim(name="more", allocation=anywhere()))
    assert found == Filtered(["node-1"], {}, dict.fromkeys(("node-0", "node-2"), NOT_REACHED))


def anywhere() -> Allocation:
    return Allocation((a_result("gpu-9"),))


def test_pending_claim_is_given_devices_where_the_allocated_one_is() -> None:
    cluster = a_cluster(1, 2, 2)
    claim = a_claim(allocation=on("node-1"))
    found = filtered(cluster, claim, a_claim(name="pending"))
    assert (found.passed, found.stuck) == (["node-1"], ())
    assert set(found.unresolvable.values()) == {NOT_REACHED}


def test_claim_that_keeps_the_pod_from_all_nodes_is_stuck() -> None:
    claim = a_claim(allocation=on("node-9"))
    found = filtered(a_cluster(1, 1, 1), claim, a_claim(name="pending"), a_claim(name="free", allocation=anywhere()))
    assert found.passed == []
    assert found.stuck == (claim,)


def test_claim_that_is_being_deleted_is_stuck_where_the_pod_alone_keeps_it() -> None:
    cluster, claim = a_cluster(1, 1, 1), a_claim(allocation=on("node-0"))
    pod = a_user_of(cluster, claim)
    names = ("node-0", "node-1", "node-2")
    for version, (users, stuck) in enumerate((((pod,), (claim,)), ((pod, a_pod(name="other")), ())), 2):
        cluster.set_claim(watched(claim, users=users, deleting=True), version)
        refused = dict.fromkeys(names, f'resourceclaim "{claim.name}" is being deleted')
        assert filter_nodes(cluster, pod, names) == Filtered((), {}, refused, stuck)


def test_claim_is_not_stuck_while_it_lets_pass_what_lacks_devices() -> None:
    cluster = a_cluster(1)
    take(cluster, "node-0", "gpu-0")
    found = filtered(cluster, a_claim(allocation=on("node-0")), a_claim(name="pending"), names=("node-0", "node-9"))
    assert (found.passed, found.stuck) == ([], ())


def test_claim_is_not_stuck_while_a_node_may_pass_that_is_not_known_yet() -> None:
    claim = a_claim(allocation=on("node-9"))
    found = filtered(a_cluster(1), claim, names=("node-0", "node-9"))
    assert (found.passed, [*found.failed], found.stuck) == ([], ["node-9"], ())
    assert filtered(a_cluster(1), claim, names=("node-0",)).stuck == (claim,)


@pytest.mark.parametrize(("percent", "passing"), [(0, 120), (100, 250), (1, 100)])
def test_of_many_nodes_enough_pass(percent: int, passing: int) -> None:
    cluster, names = a_cluster(*[1] * 250), [f"node-{number}" for number in range(250)]
    pod = a_user_of(cluster, a_claim())
    sampling = Sampling(percent)
    first, second = (filter_nodes(cluster, pod, names, sampling) for _ in range(2))
    assert len(first.passed) == len(second.passed) == passing
    assert {*first.passed} <= {*names}
    assert (first.passed == second.passed) == (percent == 100)
    assert first.passed == sorted(first.passed, key=names.index), "in the order of the question"


def test_a_policy_chooses_the_nodes_that_pass() -> None:
    cluster = a_cluster(*[1] * 150, *[2] * 100, profiles=(Profile(policy=Pack()),))
    names = [f"node-{number}" for number in range(250)]
    found = filter_nodes(cluster, a_user_of(cluster, a_claim()), names, Sampling(1))
    assert {*found.passed} <= {*names[:150]}, "the fullest nodes are those with one device"


def test_a_policy_lets_only_the_best_nodes_pass_where_no_others_may() -> None:
    cluster = a_cluster(2, 1, 1, 3, profiles=(Profile(policy=Pack()),))
    names = [f"node-{number}" for number in range(4)]
    found = filter_nodes(cluster, a_user_of(cluster, a_claim()), names, Sampling(only_best=True))
    assert found == Filtered(["node-1", "node-2"])


def test_all_nodes_that_can_are_the_best_to_first_fit() -> None:
    cluster, names = a_cluster(2, 0, 1), ["node-0", "node-1", "node-2"]
    found = filter_nodes(cluster, a_user_of(cluster, a_claim()), names, Sampling(only_best=True))
    assert found == Filtered(["node-0", "node-2"])


def test_of_equal_nodes_the_best_give_the_earliest_alternative() -> None:
    claim = a_claim(first_available("r", an_alternative("two", count=2), an_alternative("one")))
    cluster, names = a_cluster(1, 2, 1), ["node-0", "node-1", "node-2"]
    only_best = Sampling(only_best=True)
    assert filter_nodes(cluster, a_user_of(cluster, claim), names, only_best).passed == ["node-1"]
    assert filter_nodes(cluster, a_user_of(cluster, claim), ["node-0", "node-2"], only_best).passed == [
        "node-0",
        "node-2",
    ]


def test_where_no_node_passes_each_one_is_shown_why_not_though_only_the_best_may() -> None:
    cluster, names = a_cluster(1, 1), ["node-0", "node-1"]
    found = filter_nodes(cluster, a_user_of(cluster, a_claim(a_request(count=2))), names, Sampling(only_best=True))
    assert (found.passed, [*found.unresolvable]) == ([], names)
