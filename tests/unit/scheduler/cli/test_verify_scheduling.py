import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.verify_scheduling import LISTED
from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.documented import rows
from tests.unit.scheduler.manifests import Json, a_claim, a_class, a_node, a_pod, a_slice

DEVICES: Json = {"resourceSlices": [a_slice(count=1)], "deviceClasses": [a_class()]}
CPU: Json = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]}
NO_CPU: Json = {"code": "Unschedulable", "plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}
NO_DEVICES: Json = {
    "code": "UnschedulableAndUnresolvable",
    "plugin": "DynamicResources",
    "reasons": ["cannot allocate all claims"],
}


BUSY: Json = {"metadata": {}, "spec": {**CPU, "nodeName": "node-1"}}


def a_machine(name: str = "node-1", cpu: str = "4", memory: str = "8Gi") -> Json:
    return {**a_node(name), "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "10"}}}


def scores(**others: int) -> Json:
    zero = dict.fromkeys(("DynamicResources", "ImageLocality", "VolumeBinding"), 0)
    plugins = {**zero, "NodeResourcesFit": 97, "TaintToleration": 300, **others}
    return {"total": sum(plugins.values()), "plugins": plugins}


def a_case(name: str = "case", **fields: Any) -> Json:
    """A pod that asks for little on one machine; recorded is that it fits there unless the case says otherwise."""
    return {
        "id": name,
        "pod": a_pod(containers=[{"name": "c"}]),
        "nodes": [a_machine()],
        "expected": fits(),
        **fields,
    }


def fits(**fields: Any) -> Json:
    return {
        "preFilter": {"code": "Success"},
        "nodes": {"node-1": {"code": "Success"}},
        "feasible": ["node-1"],
        "scores": {"node-1": scores()},
        **fields,
    }


def refused(**nodes: Json) -> Json:
    named = {name.replace("_", "-"): status for name, status in nodes.items()}
    return {"preFilter": {"code": "Success"}, "nodes": named, "feasible": []}


def lines(cases: Iterable[Json]) -> str:
    return "".join(json.dumps(case) + "\n" for case in cases)


def verify(*cases: Json, options: tuple[str, ...] = ()) -> Run:
    return dra("verify", "scheduling", "-", *options, stdin=lines(cases))


def failure(case: Json) -> str:
    run = verify(case)
    assert run.code == 1, run.out
    return run.out.splitlines()[0]


def test_a_case_that_agrees_passes() -> None:
    run = verify(a_case())
    assert (run.code, run.out) == (0, "1 passed, 0 failed, 0 skipped\n")


@pytest.mark.parametrize(
    ("case", "difference"),
    [
        (
            a_case("x", expected=refused(node_1=NO_CPU)),
            "node-1: expected Unschedulable by NodeResourcesFit (Insufficient cpu), got Success",
        ),
        (
            a_case("x", expected=fits(scores={"node-1": scores(NodeResourcesFit=3)})),
            "NodeResourcesFit of node-1: expected 3, got 97",
        ),
        (a_case("x", expected=fits(gate="SchedulingGates")), "queue: expected SchedulingGates gate, got none"),
        (
            a_case("x", expected={"preFilter": {**NO_DEVICES, "reasons": ["gone"]}, "feasible": []}),
            "preFilter: expected UnschedulableAndUnresolvable by DynamicResources (gone), got Success",
        ),
    ],
)
def test_a_case_that_differs_fails_with_its_name_and_the_difference(case: Json, difference: str) -> None:
    run = verify(case)
    failed, _, summary = run.out.splitlines()
    assert failed.startswith(f"FAILED x: {difference}")
    assert (run.code, summary) == (1, "0 passed, 1 failed, 0 skipped")


def test_code_plugin_and_reasons_of_each_node_are_compared() -> None:
    case = a_case(pod=a_pod(**CPU), pods=[BUSY], expected=refused(node_1=NO_CPU))
    assert verify(case).code == 0
    for change in ({"code": "UnschedulableAndUnresolvable"}, {"reasons": ["Insufficient memory"]}, {"plugin": "other"}):
        assert "expected" in failure({**case, "expected": refused(node_1={**NO_CPU, **change})})


def test_a_node_without_free_devices_is_refused_by_the_plugin_for_devices() -> None:
    pod = a_pod(claim="c", containers=[{"name": "c"}])
    claims = [a_claim("c")]
    case = a_case(pod=pod, resourceClaims=claims, nodes=[a_machine("node-1"), a_machine("node-2")], **DEVICES)
    nodes = {"node-1": {"code": "Success"}, "node-2": NO_DEVICES}
    assert verify({**case, "expected": fits(nodes=nodes)}).code == 0
    everywhere = {name: {"code": "Success"} for name in nodes}
    assert "node-2: expected Success, got" in failure({**case, "expected": fits(nodes=everywhere)})


def test_a_claim_that_is_missing_holds_the_pod_in_the_queue_and_refuses_every_node() -> None:
    text = 'could not find ResourceClaim "default/c"'
    expected = {
        "queue": "unschedulable",
        "gate": "DynamicResources",
        "preFilter": {**NO_DEVICES, "reasons": [text]},
        "feasible": [],
    }
    assert verify(a_case(pod=a_pod(claim="c"), expected=expected)).code == 0


def test_a_claim_without_a_namespace_is_nobodys() -> None:
    case = a_case(pod=a_pod(claim="c"), resourceClaims=[a_claim("c", namespace="")], **DEVICES)
    assert 'could not find ResourceClaim "default/c"' in failure(case)


def test_a_pod_with_gates_is_held_and_looked_at_all_the_same() -> None:
    pod = a_pod(containers=[{"name": "c"}], schedulingGates=[{"name": "a"}])
    assert verify(a_case(pod=pod, expected=fits(queue="unschedulable", gate="SchedulingGates"))).code == 0


def test_the_node_that_was_chosen_has_to_be_one_of_the_best() -> None:
    nodes = [a_machine("node-1"), a_machine("node-2"), a_machine("node-3", "8", "16Gi")]
    expected = fits(
        nodes={node["metadata"]["name"]: {"code": "Success"} for node in nodes},
        scores={"node-1": scores(), "node-2": scores(), "node-3": scores(NodeResourcesFit=98)},
    )
    case = a_case(nodes=nodes, expected=expected)
    assert verify(case).code == 0
    assert verify(a_case(nodes=nodes, expected={**expected, "chosen": {"node-3": 2}})).code == 0
    assert "chosen: " in failure(a_case(nodes=nodes, expected={**expected, "chosen": {"node-2": 2}}))


def test_a_node_of_which_one_answer_says_nothing_is_a_difference() -> None:
    nodes = {"node-1": {"code": "Success"}, "node-9": {"code": "Success"}}
    assert "node-9: expected Success, got nothing" in failure(a_case(expected=fits(nodes=nodes)))


def test_pods_of_a_case_take_room_whatever_they_leave_out() -> None:
    case = a_case(pod={"spec": CPU}, pods=[BUSY], expected=refused(node_1=NO_CPU))
    assert verify(case).code == 0


def test_names_that_no_api_server_lets_pass_are_taken_as_they_are() -> None:
    nodes = [a_machine("Node_1")]
    expected = fits(nodes={"Node_1": {"code": "Success"}}, scores={"Node_1": scores()})
    assert verify(a_case(nodes=nodes, expected=expected)).code == 0


FOUND = "preemption: found a potential placement for pod on node node-1, preempting 1 victims"
GOES = {"code": "Success", "nominated": "node-1", "reasons": [FOUND]}
BY_SCHEDULER = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}


def preempts(**changes: object) -> Json:
    """A pod that has room where BUSY goes, and kube-scheduler's answer with these changes."""
    patch = {"verb": "patch", "name": "pod-0", "patch": {"status": {"conditions": [BY_SCHEDULER]}}}
    answer = {**GOES, "writes": [patch, {"verb": "delete", "name": "pod-0"}], **changes}
    return a_case(
        "x", pod=a_pod(**CPU, priority=5), pods=[BUSY], expected={**refused(node_1=NO_CPU), "postFilter": answer}
    )


def test_preemption_is_compared_with_all_its_writes() -> None:
    run = verify(preempts())
    assert (run.code, run.out) == (0, "1 passed, 0 failed, 0 skipped\n")


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"nominated": "node-2"}, "postFilter nominated: expected 'node-2', got 'node-1'"),
        ({"code": "Unschedulable"}, "postFilter code: expected 'Unschedulable', got 'Success'"),
        ({"writes": []}, "postFilter victims: expected none, got pod-0"),
        ({"reasons": ["not so"]}, f"postFilter: expected 'not so', got '{FOUND}'"),
    ],
)
def test_another_answer_of_preemption_fails(changes: Json, difference: str) -> None:
    assert difference in failure(preempts(**changes))


def test_alternatives_are_as_good() -> None:
    changes = {"nominated": "node-2", "alternatives": [{"nominated": "node-1", "victims": ["pod-0"]}]}
    assert verify(preempts(**changes)).code == 0


def test_nodes_that_are_won_for_devices_are_compared() -> None:
    case = preempts()
    case["expected"]["preemption"] = {"nodes": [], "victims": {}, "candidates": {}}
    assert "preemption nodes: expected none, got node-1" in failure(case)
    case["expected"]["preemption"] = {
        "nodes": ["node-1"],
        "victims": {"node-1": ["pod-0"]},
        "candidates": {"node-1": ["pod-0"]},
    }
    assert verify(case).code == 0


def test_what_differs_is_counted_by_plugin() -> None:
    wrong = a_case(expected=fits(scores={"node-1": scores(NodeResourcesFit=3)}))
    assert verify(wrong, wrong).out.splitlines()[-2] == "cases that differ by plugin: NodeResourcesFit 2"


POD_LEVEL = a_case("x", pod=a_pod(containers=[{"name": "c"}], resources={"requests": {"cpu": "2", "memory": "4Gi"}}))
POD_LEVEL["expected"] = fits(scores={"node-1": scores(NodeResourcesBalancedAllocation=75)})


def test_without_strict_a_difference_that_is_listed_passes_with_its_name() -> None:
    assert verify(POD_LEVEL).out.startswith("1 passed")
    run = verify(POD_LEVEL, options=("--no-strict",))
    assert run.out.startswith("DIFFERS x (pod-level-score): NodeResourcesFit of node-1: expected 97, got 50\n")
    assert run.out.splitlines()[-1].startswith("1 passed, 0 failed, 0 skipped")
    assert run.code == 0


def test_without_strict_a_difference_that_strict_answers_have_as_well_fails() -> None:
    wrong = {**POD_LEVEL, "expected": fits(scores={"node-1": scores(NodeResourcesFit=3)})}
    assert verify(wrong, options=("--no-strict",)).code == verify(wrong).code == 1


def test_every_name_of_a_difference_is_in_the_list_of_differences() -> None:
    assert {name for name, *_ in rows("differences.md", "Scheduling")} == set(LISTED.values())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("hello", "unexpected"),
        ("[]", "the line must be an object, not a list of 0 entries"),
        ("{}", "pod is missing"),
        (json.dumps(a_case(nodes=5)), "nodes must be a list, not 5"),
        (json.dumps(a_case(pods=[5])), "pods[0] must be an object, not 5"),
        (json.dumps(a_case(pod={"metadata": {}})), "pod: Pod default/pod--1: spec: is required"),
        (json.dumps(a_case(expected={})), "preFilter is missing"),
        (json.dumps(a_case(expected=fits(scores={"node-1": {}}))), "plugins is missing"),
    ],
)
def test_a_line_that_is_no_case_is_bad_input_with_file_and_line(line: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(lines([a_case()]) + line + "\n")
    run = dra("verify", "scheduling", file)
    assert run.code == 2
    assert run.err.startswith(f"dra: {file}: line 2 is not a valid case: {problem}")
    assert len(run.err.splitlines()) == 1


def test_a_case_whose_pod_has_a_node_is_skipped_and_the_others_are_compared() -> None:
    run = verify(a_case(), a_case(pod=BUSY), a_case())
    why = 'pod.spec.nodeName is "node-1": kube-scheduler does not schedule a pod that has a node'
    assert (run.code, run.out) == (0, f"SKIPPED {a_case()['id']}: {why}\n2 passed, 0 failed, 1 skipped\n")


def test_a_case_that_kube_scheduler_crashes_on_passes_with_any_answer() -> None:
    case = a_case()
    del case["expected"]
    run = verify(case)
    assert (run.code, run.out) == (0, "1 passed, 0 failed, 0 skipped\n")


def bandwidth_of(name: str, namespace: str, wanted: str, held: str = "") -> Json:
    """A claim for a share of the one device, of which it holds so much."""
    exactly = {"deviceClassName": "gpu.example.com", "capacity": {"requests": {"bw": wanted}}}
    share = {"driver": "gpu.example.com", "pool": "p", "device": "d", "request": "r"}
    held_ = {"shareID": "9d2c6f5e-3c59-4f3e-8a4b-1d2c6f5e3c59", "consumedCapacity": {"bw": held}}
    status = {"status": {"allocation": {"devices": {"results": [{**share, **held_}]}}}} if held else {}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}, "spec": spec, **status}


@pytest.mark.parametrize("release", ["1.36", "1.37", "1.38"])
@pytest.mark.parametrize(("wanted", "fits_in"), [("10", True), ("12", False)])
def test_a_negative_amount_in_a_status_neither_stops_other_pods_nor_gives_them_room(
    release: str, wanted: str, *, fits_in: bool
) -> None:
    device = {"name": "d", "allowMultipleAllocations": True, "capacity": {"bw": {"value": "10"}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": pool, "devices": [device]}
    case = a_case(
        pod=a_pod(claim="mine", containers=[{"name": "c"}]),
        deviceClasses=[{"metadata": {"name": "gpu.example.com"}, "spec": {}}],
        resourceSlices=[{"metadata": {"name": "s"}, "spec": spec}],
        resourceClaims=[bandwidth_of("theirs", "other", "1", "-5"), bandwidth_of("mine", "default", wanted)],
    )
    placed = fits(scores={"node-1": scores()})
    if release == "1.36":
        del placed["scores"]["node-1"]["plugins"]["VolumeBinding"]
    expected = placed if fits_in else refused(node_1=NO_DEVICES)
    run = verify({**case, "expected": expected}, options=("--kubernetes", release))
    assert run.code == 0, run.out


def a_group_case(**expected: Any) -> Json:
    """A group of two that may fit on one machine beside a pod of lower priority, which is named in `pods`."""
    members = [
        {
            "metadata": {"name": f"g-{place}", "namespace": "default", "uid": f"g-{place}"},
            "spec": {**CPU, "priority": 10, "schedulingGroup": {"podGroupName": "g"}},
        }
        for place in range(2)
    ]
    low = {"metadata": {"name": "low", "namespace": "default", "uid": "low"}, "spec": {**CPU, "nodeName": "node-1"}}
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 10}
    return {
        "id": "groups",
        "nodes": [a_machine(), a_machine("node-2")],
        "pods": [low, *members],
        "podGroups": [{"metadata": {"name": "g", "namespace": "default"}, "spec": policy}],
        "expected": expected,
    }


def a_run(bound: int, *evicted: str) -> Json:
    return {"bound": {"g": bound}, "evicted": list(evicted)}


def test_a_run_with_groups_passes_with_as_many_pods_and_no_more_victims() -> None:
    case = a_group_case(stable=a_run(0, "low"), after=a_run(2, "low"))
    assert verify(case, options=("--no-strict",)).out == "1 passed, 0 failed, 0 skipped\n"


@pytest.mark.parametrize(
    ("expected", "difference"),
    [
        ({"stable": a_run(2)}, "pods of group g: expected at least 2 bound, got 0"),
        ({"stable": a_run(0, "low"), "after": a_run(3, "low")}, "pods of group g: expected at least 3 bound, got 2"),
        ({"stable": a_run(0), "after": a_run(2)}, "evicted: expected nobody, got low"),
        ({"gang": {"members": ["g-0"], "victims": ["low"]}}, "members: expected g-0, got g-0, g-1"),
        ({"gang": {"members": ["g-0", "g-1"], "victims": []}}, "victims: expected nobody, got low"),
    ],
)
def test_a_run_with_groups_that_places_less_or_evicts_more_fails(expected: Json, difference: str) -> None:
    run = verify(a_group_case(**expected), options=("--no-strict",))
    assert run.code == 1
    assert difference in run.out


def condition(status: str, reason: str, message: str = "") -> Json:
    return {"g": {"type": "PodGroupInitiallyScheduled", "status": status, "reason": reason, "message": message}}


FOUND = (
    "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, "
    "pod group preemption: found a placement for podgroup, preempting 1 victims"
)
LETTER = {"pods": {"g-0": {"message": FOUND}, "g-1": {"message": "0/2 nodes are available: 2 Insufficient cpu."}}}


def a_run_to_the_letter() -> Json:
    """One member fits beside the pod of lower priority, which goes for the other."""
    first = {**a_run(0, "low"), **LETTER, "podGroups": condition("False", "Unschedulable", FOUND)}
    return a_group_case(stable=first, after={**a_run(2, "low"), "podGroups": condition("True", "Scheduled")})


def test_a_run_with_groups_is_compared_with_the_conditions_and_words_of_kube_scheduler() -> None:
    run = verify(a_run_to_the_letter())
    assert run.out == "1 passed, 0 failed, 0 skipped\n"


@pytest.mark.parametrize(
    ("part", "changed", "difference"),
    [
        ("stable", a_run(1, "low"), "pods of group g: expected 1 bound, got 0"),
        ("stable", a_run(0), "evicted: expected nobody, got low"),
        ("stable", {"podGroups": {}}, "group g: expected no condition, got False Unschedulable"),
        ("stable", {"podGroups": condition("True", "Scheduled")}, "group g: expected True Scheduled '', got False"),
        ("stable", {"pods": {"g-1": {"message": "gone"}}}, "pod g-1: expected 'gone', got '0/2 nodes are available"),
        ("stable", {"pods": {"g-0": {"message": "gone"}}}, "pod g-0: expected 'gone', got 'minCount (2) cannot"),
        ("after", a_run(1, "low"), "after evictions, pods of group g: expected 1 bound, got 2"),
    ],
)
def test_a_run_with_groups_that_ends_otherwise_fails(part: str, changed: Json, difference: str) -> None:
    case = a_run_to_the_letter()
    case["expected"][part].update(changed)
    run = verify(case)
    assert run.code == 1
    assert difference in run.out


def test_the_cycle_for_groups_is_that_of_one_release() -> None:
    run = verify(a_run_to_the_letter(), options=("--kubernetes", "1.36"))
    assert run.code == 2
    assert "case groups is a run with groups, which is compared with --no-strict or --kubernetes 1.37 only" in run.err
