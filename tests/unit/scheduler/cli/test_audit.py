from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import orjson
import pytest

from allocator.api import Decoded
from scheduler.checks.audit import RULES, ClusterState
from scheduler.checks.contract import Check
from scheduler.input.inventory import InputClaim
from tests.builders import an_allocated_claim as an_allocated
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_slice,
    an_allocated_claim,
    text_of,
)

FINALIZER = "resource.kubernetes.io/delete-protection"


def audit(objects: Sequence[Json], *options: str) -> Run:
    return dra("audit", "-", *options, stdin=text_of(*objects))


def found(objects: Sequence[Json], *options: str) -> list[tuple[str, str, str]]:
    """(rule, object, message) of each finding."""
    run = audit(objects, "-o", "json", *options)
    assert run.code in (0, 1), run.err
    items = orjson.loads(run.out)["items"]
    return [(one["rule"], _name(one["object"]), one["message"]) for one in items]


def _name(subject: Any) -> str:
    return "/".join(filter(None, (subject["kind"], subject["namespace"], subject["name"])))


def a_bound_pod(name: str, claim: str, scheduler: str = "default-scheduler", **metadata: Any) -> Json:
    named = {"uid": f"uid-{name}", **metadata}
    return a_pod(name, claim=claim, metadata=named, nodeName="node-1", schedulerName=scheduler)


def a_held_claim(name: str, *devices: str, pod: str = "") -> Json:
    claim = an_allocated_claim(name, *devices)
    claim["metadata"]["finalizers"] = [FINALIZER]
    pod = pod or name
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]
    return claim


def healthy() -> list[Json]:
    return [*a_cluster(), a_held_claim("a", "gpu-0"), a_bound_pod("a", "a")]


# The rules


def test_a_cluster_in_order_has_no_findings() -> None:
    run = audit(healthy())
    assert (run.code, run.out) == (0, "")
    assert run.err == f"{len(RULES)} rules: 0 errors, 0 warnings, 0 notes\n"


def test_a_device_that_two_claims_hold_is_an_error() -> None:
    objects = [*healthy(), a_held_claim("b", "gpu-0"), a_bound_pod("b", "b")]
    expected = (
        "device-allocated-twice",
        f"device/{DRIVER}/node-1/gpu-0",
        "is allocated to claims default/a, default/b",
    )
    assert found(objects) == [expected]
    assert audit(objects).code == 1


def test_a_device_that_two_claims_hold_is_found_even_if_nobody_publishes_it() -> None:
    objects = [*a_cluster(), a_held_claim("a", "gone"), a_held_claim("b", "gone"), a_pod("a"), a_pod("b")]
    assert "device-allocated-twice" in [rule for rule, *_ in found(objects)]


def test_shares_beyond_the_capacity_are_an_error() -> None:
    capacity = {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validRange": {"min": "1Gi"}}}}
    slice_ = a_slice(devices=[{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}])
    claims = [a_held_claim(name, "gpu-0") for name in "ab"]
    for number, claim in enumerate(claims):
        share = f"0f6c1b2a-1111-4222-8333-44445555666{number}"
        claim["status"]["allocation"]["devices"]["results"][0].update(
            shareID=share, consumedCapacity={"memory": "50Gi"}
        )
    pods = [a_bound_pod(name, name) for name in "ab"]
    message = "capacity memory is 80Gi, but shares of claims default/a, default/b take 20Gi more"
    assert found([a_node(), a_class(), slice_, *claims, *pods]) == [
        ("capacity-exceeded", f"device/{DRIVER}/node-1/gpu-0", message)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_rule_stops_at_a_claim_of_which_only_the_devices_can_be_read(rule: Check[ClusterState]) -> None:
    claim = an_allocated("gpu-0", name="a")
    state = ClusterState(
        [], {("default", "a"): InputClaim(claim, Decoded(None), error="has errors")}, [], knows_pods=True
    )
    assert [one.field for one in rule.check(state) if one.field == "metadata.finalizers"] == []


@pytest.mark.parametrize("published", ["bw", f"{DRIVER}/bw"])
@pytest.mark.parametrize("held", [("bw", f"{DRIVER}/bw"), (f"{DRIVER}/bw", f"{DRIVER}/bw"), ("bw", "bw")])
def test_shares_count_together_however_their_capacity_is_spelled(published: str, held: tuple[str, str]) -> None:
    device = {"name": "nic-0", "allowMultipleAllocations": True, "capacity": {published: {"value": "10"}}}
    claims = [a_held_claim(name, "nic-0") for name in "ab"]
    for number, (claim, name, taken) in enumerate(zip(claims, held, ("8", "4"), strict=True)):
        share = f"0f6c1b2a-1111-4222-8333-44445555666{number}"
        result = claim["status"]["allocation"]["devices"]["results"][0]
        result.update(shareID=share, consumedCapacity={name: taken})
    cluster = [a_node(), a_class(), a_slice(devices=[device]), *(a_bound_pod(name, name) for name in "ab")]
    message = f"capacity {published} is 10, but shares of claims default/a, default/b take 2 more"
    assert found([*cluster, *claims]) == [("capacity-exceeded", f"device/{DRIVER}/node-1/nic-0", message)]
    result["consumedCapacity"] = {held[1]: "2"}
    assert found([*cluster, *claims]) == []


def test_a_share_that_does_not_say_what_it_takes_is_an_error() -> None:
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}}
    claim = a_held_claim("a", "gpu-0")
    share = {"shareID": "0f6c1b2a-1111-4222-8333-444455556660", "consumedCapacity": {"cores": "1"}}
    claim["status"]["allocation"]["devices"]["results"][0].update(share)
    message = f"device {DRIVER}/node-1/gpu-0: consumedCapacity names cores, a capacity that the device does not have"
    assert found([a_node(), a_class(), a_slice(devices=[device]), claim, a_bound_pod("a", "a")]) == [
        ("share-not-counted", "ResourceClaim/default/a", message)
    ]


def test_counters_that_are_exceeded_are_an_error() -> None:
    devices = [
        {"name": name, "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}}]}
        for name in ("gpu-0", "gpu-1")
    ]
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    counters = a_slice(
        "counters", sharedCounters=[{"name": "card", "counters": {"memory": {"value": "60Gi"}}}], pool=pool
    )
    del counters["spec"]["devices"]
    cluster = [a_node(), a_class(), a_slice(devices=devices, pool=pool), counters]
    held = [a_held_claim("a", "gpu-0"), a_held_claim("b", "gpu-1"), a_bound_pod("a", "a"), a_bound_pod("b", "b")]
    message = "counter memory of counter set card is 60Gi, but the devices in use consume 20Gi more"
    assert found([*cluster, *held]) == [("counters-exceeded", f"pool/{DRIVER}/node-1", message)]


def test_an_allocated_claim_without_its_finalizer_is_an_error() -> None:
    objects = healthy()
    next(one for one in objects if one["kind"] == "ResourceClaim")["metadata"]["finalizers"] = ["example.com/other"]
    message = f"is allocated, but has no finalizer {FINALIZER}"
    assert found(objects) == [("claim-without-finalizer", "ResourceClaim/default/a", message)]


def test_an_allocated_claim_that_is_reserved_for_nobody_is_a_warning() -> None:
    claim = a_held_claim("a", "gpu-0", "gpu-1")
    del claim["status"]["reservedFor"]
    objects = [*a_cluster(), claim, a_pod("other", entries=[])]
    expected = ("claim-not-reserved", "ResourceClaim/default/a", "holds 2 devices, but is not reserved")
    assert found(objects) == [expected]
    assert [audit(objects, "--fail-on", level).code for level in ("error", "warning", "note", "never")] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        (a_pod("other", entries=[]), "which does not exist"),
        (
            a_bound_pod("a", "a", uid="uid-new"),
            "which has been replaced by another pod of that name (uid uid-new, reserved: uid-a)",
        ),
        ({**a_bound_pod("a", "a"), "status": {"phase": "Succeeded"}}, "which has ended (Succeeded)"),
    ],
)
def test_a_reservation_of_a_pod_that_is_gone_is_a_warning(pod: Json, problem: str) -> None:
    objects = [*a_cluster(), a_held_claim("a", "gpu-0"), pod]
    assert ("reserved-for-missing-pod", "ResourceClaim/default/a", f"is reserved for pod a, {problem}") in found(
        objects
    )


def test_without_pods_no_pod_is_called_gone() -> None:
    objects = [*a_cluster(), a_held_claim("a", "gpu-0")]
    assert found(objects) == []
    assert "warning: the input contains no Pod: pods are not checked" in audit(objects).err


def test_a_bound_pod_without_its_devices_is_an_error() -> None:
    [*cluster, claim, pod] = healthy()
    unallocated = {**claim, "status": {}}
    others = a_held_claim("a", "gpu-0", pod="b")
    for claims, problem in (
        ([unallocated], "claim a is not allocated"),
        ([others], "claim a is not reserved for it"),
        ([a_held_claim("b", "gpu-1")], "claim a does not exist"),
    ):
        message = f"is bound to node node-1, but {problem}"
        assert ("pod-without-devices", "Pod/default/a", message) in found([*cluster, *claims, pod])


def test_a_bound_pod_without_a_uid_is_found_among_the_consumers_by_its_name() -> None:
    pod = a_bound_pod("a", "a")
    del pod["metadata"]["uid"]
    assert found([*a_cluster(), a_held_claim("a", "gpu-0"), pod]) == []


@pytest.mark.parametrize(
    ("reserved", "problem"), [("workers", ""), ("others", "claim a is not reserved for it or its")]
)
def test_a_claim_that_is_reserved_for_a_pod_group_is_there_for_its_pods(reserved: str, problem: str) -> None:
    [*cluster, claim, pod] = healthy()
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": reserved, "uid": "uid-g"}
    claim["status"]["reservedFor"] = [group]
    pod["spec"]["schedulingGroup"] = {"podGroupName": "workers"}
    lost = [message for rule, _, message in found([*cluster, claim, pod]) if rule == "pod-without-devices"]
    assert lost == ([f"is bound to node node-1, but {problem} PodGroup"] if problem else [])


def test_a_held_device_that_is_not_published_is_a_warning() -> None:
    objects = [*a_cluster(), a_held_claim("a", "gone"), a_bound_pod("a", "a")]
    message = "is no longer published, but allocated to default/a"
    assert found(objects) == [("device-not-published", f"device/{DRIVER}/node-1/gone", message)]


def test_an_incomplete_pool_is_a_warning() -> None:
    slice_ = a_slice(pool={"name": "node-1", "generation": 3, "resourceSliceCount": 2})
    message = "incomplete: 1 of 2 slices of generation 3 exist: no device of it is allocated"
    objects = [a_node(), a_class(), slice_, a_held_claim("a", "gpu-0"), a_bound_pod("a", "a")]
    assert found(objects) == [("pool-problem", f"pool/{DRIVER}/node-1", message)]


def test_two_schedulers_on_one_driver_are_a_warning() -> None:
    objects = [*healthy(), a_held_claim("b", "gpu-1"), a_bound_pod("b", "b", "dra-scheduler")]
    message = "its devices are allocated by schedulers default-scheduler, dra-scheduler"
    assert found(objects) == [("several-schedulers", f"driver/{DRIVER}", message)]


# Formats


def test_the_table_has_errors_first_and_what_to_do() -> None:
    run = audit([*healthy(), a_held_claim("b", "gpu-0"), a_bound_pod("b", "b", "dra-scheduler")])
    lines = run.out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["LEVEL", "error", "warning"]
    assert lines[4].startswith("device-allocated-twice: A device is allocated to several claims. Delete ")
    assert run.err.endswith("1 error, 1 warning, 0 notes\n")


def test_sarif_lists_every_rule_and_places_each_finding() -> None:
    objects = [*healthy(), a_held_claim("b", "gpu-0"), a_bound_pod("b", "b")]
    next(one for one in objects if one["kind"] == "ResourceClaim")["metadata"]["finalizers"] = []
    [log] = orjson.loads(audit(objects, "-o", "sarif").out)["runs"]
    assert [one["id"] for one in log["tool"]["driver"]["rules"]] == [rule.name for rule in RULES]
    assert [(one["ruleId"], one["level"]) for one in log["results"]] == [
        ("device-allocated-twice", "error"),
        ("claim-without-finalizer", "error"),
    ]
    [location] = log["results"][1]["locations"]
    expected = {"artifactLocation": {"uri": "standard%20input"}, "region": {"startLine": 10}}
    assert location["physicalLocation"] == expected
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "ResourceClaim default/a"


def test_sarif_gives_each_result_what_code_scanning_requires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("a b#")
    folder.mkdir()
    twice = [*healthy(), a_held_claim("b", "gpu-0"), a_bound_pod("b", "b", "other")]
    pool = a_slice(node="node-2")
    pool["spec"]["pool"]["resourceSliceCount"] = 2
    saved(folder, *twice, pool)
    log = orjson.loads(dra("audit", folder, "-o", "sarif").out)
    results = log["runs"][0]["results"]
    subjects = {one["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].split()[0] for one in results}
    assert subjects >= {"device", "driver", "pool"}
    for one in results:
        place = one["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "a%20b%23/input.yaml"
        assert place["region"]["startLine"] >= 1
        assert one["ruleId"]
        assert one["message"]["text"]


def test_junit_has_a_test_for_each_rule() -> None:
    run = audit([*healthy(), a_held_claim("b", "gpu-0"), a_bound_pod("b", "b")], "-o", "junit")
    suite = fromstring(run.out)[0]  # noqa: S314 - written here
    assert (suite.get("tests"), suite.get("failures")) == (str(len(RULES)), "1")
    failing = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failing == ["device-allocated-twice"]


# Input that says little


@pytest.mark.parametrize("kind", ["ResourceSlice", "ResourceClaim"])
def test_input_that_cannot_be_audited_is_no_success(kind: str) -> None:
    run = audit([one for one in healthy() if one["kind"] != kind])
    assert (run.code, run.out) == (2, "")
    assert f"dra: the input contains no {kind}: there is nothing to audit" in run.err


def test_every_rule_has_a_name_of_its_own_and_advice() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.summary.endswith(".") and rule.advice.endswith(".") for rule in RULES)


# `dra explain` of a pod that has its node, by the same rules


def elsewhere() -> list[Json]:
    """A pod whose claim is allocated on another node."""
    claim = a_held_claim("a", "gpu-0")
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}]
    claim["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    return [*a_cluster(), a_node("node-2"), claim, a_bound_pod("a", "a")]


def unreserved() -> list[Json]:
    return [*a_cluster(), a_held_claim("a", "gpu-0", pod="other"), a_bound_pod("a", "a")]


def gone() -> list[Json]:
    return [*a_cluster(), a_held_claim("a", "gpu-9"), a_bound_pod("a", "a")]


def tainted() -> list[Json]:
    taint = {"key": "k", "value": "v", "effect": "NoExecute"}
    node = a_node("node-1", taints=[taint])
    return [node, *a_cluster()[1:], a_held_claim("a", "gpu-0"), a_bound_pod("a", "a")]


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (unreserved(), "is bound to node node-1, but claim a is not reserved for it"),
        (elsewhere(), "is bound to node node-1, but claim a is allocated on other nodes"),
        (gone(), f"device {DRIVER}/node-1/gpu-9 is no longer published, but allocated to default/a"),
        (tainted(), "is evicted from node node-1: node node-1 has the taint k=v:NoExecute"),
    ],
)
def test_explain_says_first_why_a_bound_pod_cannot_run(objects: list[Json], said: str) -> None:
    run = dra("explain", "a", "-", stdin=text_of(*objects))
    assert (run.code, run.out.splitlines()[0]) == (1, f"pod default/a cannot run: {said}")
    verdict = orjson.loads(dra("explain", "a", "-", "-o", "json", stdin=text_of(*objects)).out)["verdict"]
    assert verdict == "CannotRun"
    assert any(message.endswith(said) for _, _, message in found(objects)) or "gpu-9" in said


def test_explain_of_a_bound_pod_with_its_devices_fits() -> None:
    run = dra("explain", "a", "-", stdin=text_of(*healthy()))
    assert (run.code, run.out.splitlines()[0]) == (0, "pod default/a fits: is on node node-1")


def test_a_claim_of_another_node_leaves_its_pod_without_devices() -> None:
    message = "is bound to node node-1, but claim a is allocated on other nodes"
    assert ("pod-without-devices", "Pod/default/a", message) in found(elsewhere())
