from copy import deepcopy

import pytest

from allocator.api.allocation import RESERVED_FOR_MAX
from allocator.gates import Features
from allocator.outcome import Exhausted, NotEnough, Refused
from scheduler.offline.placement import PlacedPod, UnplacedPod, is_pending
from scheduler.state.pod_resources import ExtendedResources
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_namespace,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_storage_class,
    a_template,
    a_volume,
    a_volume_claim,
    an_allocated_claim,
    an_allocation,
    owned_by,
    volumes_of,
)
from tests.unit.scheduler.scenario import Scenario, inventory_of, run


def pods(*names: str, template: str = "one") -> list[Json]:
    return [a_pod(name, template=template) for name in names]


def only(scenario: Scenario) -> PlacedPod | UnplacedPod:
    (result,) = scenario.results
    return result


# Order


def test_pods_of_higher_priority_come_first() -> None:
    low, high = a_pod("low", template="one"), a_pod("high", template="one", priority=1)
    scenario = run(*a_cluster(count=1), low, a_pod("negative", template="one", priority=-1), high)
    assert scenario.order == ["high", "low", "negative"]
    assert [scenario.node_of(pod) for pod in scenario.order] == ["node-1", "", ""]


def test_of_equal_priority_the_older_comes_first_and_what_was_never_created_last() -> None:
    def born(name: str, second: int) -> Json:
        return a_pod(name, template="one", metadata={"creationTimestamp": f"2026-01-01T00:00:{second:02}Z"})

    objects = [*pods("a"), born("b", 30), born("c", 10), born("d", 20)]
    assert run(*a_cluster(), *objects).order == ["c", "d", "b", "a"]


def test_of_equal_age_the_namespace_and_then_the_name_decide() -> None:
    objects = [a_pod(name, claim="c", namespace=namespace) for namespace, name in (("b", "a"), ("a", "z"), ("a", "b"))]
    assert run(*a_cluster(), *objects).order == ["b", "z", "a"]


def test_the_order_of_the_input_does_not_matter() -> None:
    objects = [*a_cluster("n1", "n2", count=2), *pods("a", "b", "c", "d", "e")]
    first, second = run(*objects), run(*reversed(objects))
    assert first.results == second.results


def test_progress_is_reported_after_each_pod_and_claim() -> None:
    assert run(*a_cluster(), *pods("a", "b"), a_claim("unused")).reported == [(1, 3), (2, 3), (3, 3)]


# Nodes


def test_nodes_are_tried_in_the_order_of_their_names() -> None:
    scenario = run(*a_cluster("n2", "n10", "n1", count=1), *pods("a", "b", "c", "d"))
    assert [scenario.node_of(pod) for pod in "abcd"] == ["n1", "n10", "n2", ""]


def test_a_node_that_the_pod_may_not_use_is_passed_over() -> None:
    objects = [a_node("n1", unschedulable=True), a_node("n2"), a_class(), a_template()]
    scenario = run(*objects, a_slice(node="n1"), a_slice(node="n2"), *pods("p"))
    assert scenario.node_of("p") == "n2"


def test_every_node_that_refused_is_reported_with_its_reason() -> None:
    objects = [a_node("n1", unschedulable=True), a_node("n2"), a_class(), a_template(), a_slice(node="n1")]
    result = only(run(*objects, *pods("p")))
    assert isinstance(result, UnplacedPod)
    assert result.nodes is not None
    assert list(result.nodes) == ["n1", "n2"]
    assert result.nodes["n1"] == "node is unschedulable"
    refused = result.nodes["n2"]
    assert isinstance(refused, Refused)
    assert isinstance(refused.cause, NotEnough)


def test_an_input_without_nodes_says_so() -> None:
    objects = [a_class(), a_template(), a_slice(allNodes=True), *pods("p")]
    assert run(*objects).reason_of("p") == "the input contains no node"


def test_an_input_without_nodes_has_those_of_its_slices() -> None:
    assert run(a_class(), a_template(), a_slice(node="a"), *pods("p")).node_of("p") == "a"


def test_no_device_is_given_twice() -> None:
    scenario = run(*a_cluster(count=3), *pods("a", "b", "c", "d"))
    assert [scenario.devices_of(pod) for pod in "abcd"] == [["gpu-0"], ["gpu-1"], ["gpu-2"], []]


def test_devices_of_allocated_claims_are_in_use() -> None:
    scenario = run(*a_cluster(count=3), an_allocated_claim("held", "gpu-1"), *pods("a", "b", "c"))
    assert [scenario.devices_of(pod) for pod in "abc"] == [["gpu-0"], ["gpu-2"], []]


def test_a_pod_that_does_not_fit_leaves_its_devices_to_the_next() -> None:
    greedy = a_template("many", a_request(count=3))
    scenario = run(*a_cluster(count=2), greedy, *pods("a", template="many"), *pods("b"))
    assert (scenario.node_of("a"), scenario.devices_of("b")) == ("", ["gpu-0"])


def test_all_claims_of_a_pod_are_on_one_node_or_none_is_allocated() -> None:
    entries = [{"name": name, "resourceClaimTemplateName": "one"} for name in ("x", "y")]
    scenario = run(
        *a_cluster("n1", "n2", "n3", count=1), a_slice("more", node="n3", driver="other"), a_pod("p", entries=entries)
    )
    assert scenario.node_of("p") == "n3"
    assert scenario.devices_of("p") == ["gpu-0", "gpu-0"]
    refused = run(*a_cluster("n1", "n2", count=1), a_pod("p", entries=entries))
    assert (refused.node_of("p"), refused.devices_of("p")) == ("", [])


# Pods that are not looked for a node


def test_a_gated_pod_waits_and_takes_nothing() -> None:
    gated = a_pod("a", template="one", schedulingGates=[{"name": "quota.example"}, {"name": "b"}])
    scenario = run(*a_cluster(count=1), gated, *pods("b"))
    assert scenario.reason_of("a") == "scheduling is gated by quota.example, b"
    assert scenario.devices_of("b") == ["gpu-0"]


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ({"status": {"phase": "Succeeded"}}, "is finished (phase Succeeded): it needs no devices"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "is being deleted: it needs no devices"),
    ],
)
def test_a_pod_that_is_over_gets_nothing(over: Json, reason: str) -> None:
    scenario = run(*a_cluster(), a_pod("p", template="one", **over))
    assert (scenario.reason_of("p"), scenario.devices_of("p")) == (reason, [])


def test_a_pod_whose_template_is_missing_waits_and_names_it() -> None:
    scenario = run(*a_cluster(), a_pod("p", template="else"))
    assert scenario.reason_of("p") == "claim template default/else does not exist"


def test_a_bound_pod_keeps_its_node_and_allocated_claims() -> None:
    scenario = run(*a_cluster(), an_allocated_claim("c", "gpu-1"), a_pod("p", claim="c", nodeName="elsewhere"))
    assert (scenario.node_of("p"), scenario.devices_of("p")) == ("elsewhere", ["gpu-1"])


def test_no_claim_is_allocated_for_a_bound_pod() -> None:
    scenario = run(*a_cluster(), a_claim("c"), a_pod("p", claim="c", nodeName="node-1"))
    assert scenario.reason_of("p") == (
        "is bound to node node-1, and no scheduler allocates claims of bound pods: default/c"
    )


def test_a_pod_whose_entries_need_no_claim_takes_the_first_node_that_it_fits() -> None:
    pod = a_pod("p", template="one", status={"resourceClaimStatuses": [{"name": "dev"}]}, nodeSelector={"a": "b"})
    scenario = run(a_node("n1"), a_node("n2", labels={"a": "b"}), pod)
    assert (scenario.node_of("p"), scenario.devices_of("p")) == ("n2", [])


# Which pods and claims are pending


@pytest.mark.parametrize(
    ("pod", "pending"),
    [
        (a_pod("p"), False),
        (a_pod("p", claim="free"), True),
        (a_pod("p", claim="held"), True),
        (a_pod("p", claim="none"), True),
        (a_pod("p", template="one"), True),
        (a_pod("p", claim="held", nodeName="node-1"), False),
        (a_pod("p", claim="free", nodeName="node-1"), True),
        (a_pod("p", claim="none", nodeName="node-1"), True),
        (a_pod("p", template="one", nodeName="node-1"), True),
        (a_pod("p", template="one", nodeName="n", status={"resourceClaimStatuses": [{"name": "dev"}]}), False),
        (a_pod("p", claim="free", status={"phase": "Succeeded"}), False),
        (a_pod("p", claim="free", status={"phase": "Failed"}), False),
        (a_pod("p", claim="free", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
    ],
)
def test_a_pod_with_claims_is_pending_until_it_has_a_node_and_devices(pod: Json, *, pending: bool) -> None:
    inventory = inventory_of(pod, a_claim("free"), an_allocated_claim("held", "gpu-0"))
    extended = ExtendedResources(inventory.classes, Features.of("1.36"))
    assert is_pending(inventory.pods[0], inventory.claims, extended) is pending


def test_claims_that_no_pod_uses_are_placed_after_the_pods_by_name() -> None:
    scenario = run(*a_cluster(count=3), a_claim("b"), a_claim("a"), *pods("p"))
    results = scenario.results
    assert [str(result.claims[0]).partition("-")[0] for result in results] == ["default/p", "default/a", "default/b"]
    assert [result.pod is None for result in results] == [False, True, True]
    assert all(isinstance(result, PlacedPod) for result in results)


@pytest.mark.parametrize(
    "claim",
    [
        an_allocated_claim("c", "gpu-0"),
        a_claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        a_claim("c", metadata=owned_by("Pod", "p", "u")),
    ],
)
def test_a_claim_that_is_allocated_deleted_or_owned_by_a_pod_is_not_placed_by_itself(claim: Json) -> None:
    pod = a_pod("p", metadata={"uid": "u"}, nodeName="node-1")
    assert [result for result in run(*a_cluster(), claim, pod).results if result.pod is None] == []


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("p", claim="c"),
        a_pod("p", template="one", status={"resourceClaimStatuses": [{"name": "dev", "resourceClaimName": "c"}]}),
    ],
)
def test_a_claim_that_a_pod_uses_is_not_placed_by_itself(pod: Json) -> None:
    assert [result.pod is None for result in run(*a_cluster(), a_claim("c"), pod).results] == [False]


# Allocated and shared claims


def test_an_allocated_claim_restricts_the_pod_to_its_nodes() -> None:
    claim = an_allocated_claim("c", "gpu-0", node="n2")
    scenario = run(*a_cluster("n1", "n2"), claim, a_pod("p", claim="c"))
    assert scenario.node_of("p") == "n2"


def test_a_node_that_an_allocated_claim_does_not_reach_is_reported() -> None:
    claim = an_allocated_claim("c", "gpu-0", node="gone")
    result = only(run(*a_cluster("n1"), claim, a_pod("p", claim="c")))
    assert isinstance(result, UnplacedPod)
    assert result.nodes == {"n1": "claim default/c is allocated, and not reachable from the node"}


def test_an_allocated_claim_without_a_node_selector_is_reached_from_everywhere() -> None:
    claim = a_claim("c", status={"allocation": an_allocation("gpu-0", is_local=False)})
    assert run(*a_cluster("n1"), claim, a_pod("p", claim="c")).node_of("p") == "n1"


def test_pods_that_share_a_claim_get_its_devices_on_its_node() -> None:
    sharing = [a_pod(name, claim="c") for name in "ab"]
    scenario = run(*a_cluster("n1", "n2", count=2), a_claim("c"), *sharing)
    assert [scenario.node_of(pod) for pod in "ab"] == ["n1", "n1"]
    assert [scenario.devices_of(pod) for pod in "ab"] == [["gpu-0"], ["gpu-0"]]
    assert [user.name for user in scenario.placement.claims.objects["default", "c"].reserved_for] == ["a", "b"]


def test_a_claim_that_one_pod_names_twice_is_allocated_once() -> None:
    entries = [{"name": name, "resourceClaimName": "c"} for name in ("x", "y")]
    scenario = run(*a_cluster(), a_claim("c"), a_pod("p", entries=entries))
    assert scenario.devices_of("p") == ["gpu-0"]


def reserved_for(number: int) -> list[Json]:
    return [{"resource": "pods", "name": f"old-{n}", "uid": f"old-{n}"} for n in range(number)]


def test_a_claim_can_be_shared_by_256_pods_and_no_more() -> None:
    claim = an_allocated_claim("c", "gpu-0", reserved_for=reserved_for(RESERVED_FOR_MAX - 1))
    scenario = run(*a_cluster(), claim, a_pod("a", claim="c"), a_pod("b", claim="c"))
    assert scenario.node_of("a") == "node-1"
    assert scenario.reason_of("b") == "resourceclaim default/c is reserved for 256 pods already, which is the limit"


def test_a_pod_that_a_full_claim_is_reserved_for_may_use_it() -> None:
    claim = an_allocated_claim("c", "gpu-0", reserved_for=reserved_for(RESERVED_FOR_MAX))
    assert run(*a_cluster(), claim, a_pod("p", claim="c", metadata={"uid": "old-7"})).node_of("p") == "node-1"


# Admin access


ADMIN = a_template("admin", a_request(adminAccess=True))


def labelled(value: str) -> Json:
    return a_namespace("default", labels={"resource.kubernetes.io/admin-access": value})


def test_admin_access_is_allocated_in_a_namespace_that_is_labelled_for_it() -> None:
    scenario = run(*a_cluster(), labelled("true"), ADMIN, a_pod("p", template="admin"))
    assert scenario.devices_of("p") == ["gpu-0"]
    assert scenario.placement.unchecked == set()


@pytest.mark.parametrize("namespace", [a_namespace("default"), labelled("yes")])
def test_admin_access_is_refused_in_another_namespace(namespace: Json) -> None:
    scenario = run(*a_cluster(), namespace, ADMIN, a_pod("p", template="admin"), *pods("q"))
    reason = scenario.reason_of("p")
    assert reason.startswith("claim default/p-dev-")
    assert reason.endswith(
        'requests admin access, but its namespace does not have the label resource.kubernetes.io/admin-access: "true"'
    )
    assert scenario.devices_of("q") == ["gpu-0"]


def test_a_namespace_that_is_not_there_is_not_checked_and_reported() -> None:
    scenario = run(*a_cluster(), a_namespace("other"), ADMIN, a_pod("p", template="admin"), *pods("q"))
    assert scenario.devices_of("p") == ["gpu-0"]
    assert scenario.placement.unchecked == {"default"}


def test_an_allocated_claim_with_admin_access_needs_no_label() -> None:
    held = an_allocated_claim("c", "gpu-0")
    held["spec"]["devices"]["requests"] = [a_request(adminAccess=True)]
    assert run(*a_cluster(), a_namespace("default"), held, a_pod("p", claim="c")).node_of("p") == "node-1"


# What ends an attempt


def test_a_missing_class_is_reported_with_claim_and_request() -> None:
    scenario = run(*a_cluster(), a_template("two", a_request("x", device_class="none")), a_pod("p", template="two"))
    assert scenario.reason_of("p") == "request x: device class none does not exist"


def test_what_cannot_be_decided_on_one_node_ends_the_attempt_on_all() -> None:
    half = a_slice("half", node="n2", driver="other", pool={"name": "n2", "generation": 1, "resourceSliceCount": 2})
    everything = a_template("all", a_request(allocationMode="All"))
    objects = [*a_cluster("n1", "n2", count=1), half, everything, a_pod("p", template="all"), *pods("q")]
    scenario = run(*objects)
    assert "pool other/n2 is being updated (1 of 2 slices of generation 1 exist)" in scenario.reason_of("p")
    assert scenario.node_of("q") == "n1"


def test_a_node_that_the_pod_may_not_use_ends_nothing() -> None:
    half = a_slice("half", node="n2", driver="other", pool={"name": "n2", "generation": 1, "resourceSliceCount": 2})
    everything = a_template("all", a_request(allocationMode="All"))
    objects = [a_node("n1"), a_node("n2", unschedulable=True), a_class(), a_slice(node="n1"), half, everything]
    assert run(*objects, a_pod("p", template="all")).devices_of("p") == ["gpu-0", "gpu-1"]


def test_a_spent_budget_is_reported_as_not_known() -> None:
    devices = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n // 2}}} for n in range(12)]
    objects = [a_node(), a_class(), a_slice(devices=devices)]
    claim = a_claim("c", a_request("a", count=2), a_request("b", count=2))
    constraints = [{"matchAttribute": f"{DRIVER}/numa", "requests": ["a"]}, {"distinctAttribute": f"{DRIVER}/numa"}]
    claim["spec"]["devices"]["constraints"] = constraints
    result = only(run(*objects, claim, budget_steps=3))
    assert isinstance(result, UnplacedPod)
    assert result.nodes is not None
    assert isinstance(result.nodes["node-1"], Exhausted)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_pod_that_was_copied_from_a_running_one_with_its_uid_is_another_one(*, is_reversed: bool) -> None:
    asks = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    node = {**a_node(), "status": {"allocatable": {"cpu": "5"}}}
    running = a_pod("running", nodeName="node-1", containers=asks, metadata={"uid": "u"})
    copies = [a_pod(name, template="one", containers=asks, metadata={"uid": "u"}) for name in ("copy", "second")]
    pods = [running, *copies]
    objects = [node, a_class(), a_template(), a_slice(), *(reversed(pods) if is_reversed else pods)]
    scenario = run(*objects)
    assert [scenario.node_of(name) for name in ("running", "copy", "second")] == ["node-1", "node-1", ""]


def test_a_run_changes_nothing_that_it_was_given() -> None:
    objects = [*a_cluster(), a_claim("c"), *pods("p")]
    before = deepcopy(objects)
    run(*objects)
    assert objects == before


# Volumes


def with_hostnames(*names: str) -> list[Json]:
    objects = a_cluster(*names)
    return [*(a_node(name, labels={"kubernetes.io/hostname": name}) for name in names), *objects[len(names) :]]


def with_volume(name: str, *claims: str) -> Json:
    return a_pod(name, template="one", volumes=volumes_of(*claims))


def test_a_pod_goes_where_its_volume_and_its_devices_are() -> None:
    bound = [a_volume(node="b", phase="Bound"), a_volume_claim(volume="pv"), a_storage_class()]
    assert run(*with_hostnames("a", "b"), *bound, with_volume("p", "data")).node_of("p") == "b"


def test_a_volume_is_matched_with_one_claim_only() -> None:
    storage = [a_volume(node="b"), a_volume_claim("one"), a_volume_claim("two")]
    static = a_storage_class(provisioner="kubernetes.io/no-provisioner")
    scenario = run(*with_hostnames("a", "b"), *storage, static, with_volume("p", "one"), with_volume("q", "two"))
    assert [scenario.node_of(pod) for pod in ("p", "q")] == ["b", ""]


def test_a_volume_is_made_once_for_all_pods_that_share_its_claim() -> None:
    """Each node has devices for one pod."""
    objects = [a_node(name) for name in ("a", "b")] + a_cluster("a", "b", count=1)[2:]
    shared = [a_volume(), a_volume_claim(accessModes=["ReadWriteMany"]), a_storage_class()]
    scenario = run(*objects, *shared, with_volume("p", "data"), with_volume("q", "data"))
    assert [scenario.node_of(pod) for pod in ("p", "q")] == ["a", ""]


def test_a_claim_that_is_not_there_refuses_its_pod() -> None:
    scenario = run(*a_cluster(), a_volume_claim(), with_volume("p", "gone"))
    assert scenario.reason_of("p") == 'persistentvolumeclaim "gone" not found'
