"""`dra simulate`: pods that lose their node or devices, and nodes, slices and taints that come and go."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.scheduler.cli.test_simulate import a_trace, an_arrival, explained, only, simulate
from tests.unit.scheduler.manifests import (
    Json,
    a_cluster,
    a_node,
    a_pod,
    a_slice,
    a_template,
    an_allocated_claim,
    an_object,
)

RULES = ("--feature-gates", "DRADeviceTaintRules=true")
SEEN = ("--explain", "a", "--explain", "b")


def a_tainted_slice(*taints: Json, node: str = "n1") -> Json:
    return a_slice(node=node, devices=[{"name": "gpu-0", "taints": list(taints)}])


def a_taint(effect: str = "NoExecute") -> Json:
    return {"key": "broken", "effect": effect}


def a_rule(name: str = "rule", effect: str = "NoExecute", **selector: str) -> Json:
    spec = {"deviceSelector": selector, "taint": a_taint(effect)}
    return {**an_object("resource.k8s.io/v1beta2", "DeviceTaintRule", name), "spec": spec}


def tolerating(name: str, **toleration: Any) -> Json:
    """A template of claims that tolerate the taint."""
    tolerations = [{"key": "broken", "operator": "Exists", **toleration}]
    exactly = {"deviceClassName": "gpu", "tolerations": tolerations}
    return a_template(name, {"name": "gpu", "exactly": exactly})


def happening(folder: Path, objects: Sequence[Json], *lines: Any, options: Sequence[str] = RULES) -> list[str]:
    pods = [one for one in (*objects, *(line.get("pod", {}) for line in lines)) if one.get("kind") == "Pod"]
    seen = [text for pod in pods for text in ("--explain", pod["metadata"]["name"])]
    return explained(only(simulate(folder, objects, "--trace", a_trace(folder, *lines), *options, *seen)))


def attempts(lines: Sequence[str]) -> list[str]:
    """Time, pod, and node or `-`."""
    return [" ".join([*line.split()[:2], line.split()[2] if len(line.split()) == 3 else "-"]) for line in lines]


def test_a_device_taint_evicts_the_pods_that_use_the_device(tmp_path: Path) -> None:
    trace = a_trace(
        tmp_path,
        an_arrival(0, "a", duration=100),
        an_arrival(1, "b", duration=100),
        {"time": 10, "apply": a_tainted_slice(a_taint())},
        {"time": 50, "apply": a_slice(node="n1", count=1)},
    )
    scenario = only(simulate(tmp_path, a_cluster("n1", "n2", count=1), "--trace", trace, *SEEN))
    assert attempts(explained(scenario)) == ["0 a n1", "1 b n2", "10 a -", "50 a n1"]
    assert (scenario.summary.evictions, scenario.summary.ended, scenario.summary.end_s) == (1, 2, 150)
    assert scenario.by_time.evictions[-1] == 1


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
def test_other_effects_evict_nobody(tmp_path: Path, effect: str) -> None:
    lines = (an_arrival(0, "a", duration=100), {"time": 10, "apply": a_tainted_slice(a_taint(effect))})
    assert attempts(happening(tmp_path, a_cluster("n1", "n2", count=1), *lines)) == ["0 a n1"]


def test_a_taint_without_its_feature_evicts_nobody(tmp_path: Path) -> None:
    lines = (an_arrival(0, "a", duration=100), {"time": 10, "apply": a_tainted_slice(a_taint())})
    options = ("--feature-gates", "DRADeviceTaintRules=false,DRADeviceTaints=false")
    assert attempts(happening(tmp_path, a_cluster("n1", count=1), *lines, options=options)) == ["0 a n1"]


@pytest.mark.parametrize(
    ("toleration", "evicted"),
    [
        ({"effect": "NoExecute"}, []),
        ({"effect": "NoExecute", "tolerationSeconds": 30}, ["40 a -"]),
        ({"effect": "NoExecute", "tolerationSeconds": 0}, ["10 a -"]),
        ({"effect": "NoExecute", "tolerationSeconds": 500}, []),
        ({}, ["10 a -"]),  # as the controller has it: only tolerations of this effect keep a pod
    ],
)
def test_tolerations_keep_a_pod_for_as_long_as_they_say(
    tmp_path: Path, toleration: dict[str, Any], evicted: list[str]
) -> None:
    objects = [*a_cluster("n1", count=1), tolerating("patient", **toleration)]
    lines = (
        {"time": 0, "pod": a_pod("a", template="patient"), "duration": 100},
        {"time": 10, "apply": a_tainted_slice(a_taint())},
    )
    found = attempts(happening(tmp_path, objects, *lines))
    assert found == ["0 a n1", *evicted]


def test_a_pod_that_its_devices_would_evict_at_once_for_ever_is_given_up(tmp_path: Path) -> None:
    objects = [*a_cluster("n1", count=1), tolerating("patient", effect="NoExecute", tolerationSeconds=30)]
    lines = (
        {"time": 0, "pod": a_pod("a", template="patient"), "duration": 100},
        {"time": 10, "apply": a_tainted_slice(a_taint())},
    )
    lines_found = happening(tmp_path, objects, *lines)
    assert lines_found[-1] == "40 a a NoExecute taint of its devices evicts it as soon as it is placed"


def test_a_taint_that_is_gone_in_time_evicts_nobody(tmp_path: Path) -> None:
    objects = [*a_cluster("n1", count=1), tolerating("patient", effect="NoExecute", tolerationSeconds=30)]
    lines = (
        {"time": 0, "pod": a_pod("a", template="patient"), "duration": 100},
        {"time": 10, "apply": a_tainted_slice(a_taint())},
        {"time": 39, "apply": a_slice(node="n1", count=1)},
    )
    assert attempts(happening(tmp_path, objects, *lines)) == ["0 a n1"]


def test_a_rule_evicts_what_it_selects_until_it_is_removed(tmp_path: Path) -> None:
    lines = (
        an_arrival(0, "a", duration=100),
        an_arrival(1, "b", duration=100),
        {"time": 10, "apply": a_rule(pool="n1")},
        {"time": 60, "change": "remove:devicetaintrule/rule"},
    )
    found = attempts(happening(tmp_path, a_cluster("n1", "n2", count=1), *lines))
    assert found == ["0 a n1", "1 b n2", "10 a -", "60 a n1"]


def test_a_rule_without_its_feature_is_an_error(tmp_path: Path) -> None:
    trace = a_trace(tmp_path, an_arrival(0, "a"), {"time": 1, "apply": a_rule()})
    run = simulate(tmp_path, a_cluster("n1"), "--trace", trace, "--kubernetes", "1.36")
    problem = "DeviceTaintRule rule needs the feature gate DRADeviceTaintRules"
    assert (run.code, run.err) == (2, f"dra: {trace}, line 2: apply: {problem}\n")


def test_all_users_of_a_claim_and_pods_of_the_input_are_evicted(tmp_path: Path) -> None:
    users = [{"resource": "pods", "name": name, "uid": name} for name in "ab"]
    held = an_allocated_claim("held", "gpu-0", node="n1", reserved_for=users)
    pods = [a_pod(name, claim="held", nodeName="n1", metadata={"uid": name}) for name in "ab"]
    objects = [*a_cluster("n1", "n2", count=1), held, *pods]
    found = attempts(happening(tmp_path, objects, {"time": 10, "apply": a_tainted_slice(a_taint())}))
    assert found == ["10 a n2", "10 b n2"]


def test_pods_leave_a_tainted_node_at_once_or_after_their_toleration(tmp_path: Path) -> None:
    patient = {"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
    lines = (
        {"time": 0, "pod": a_pod("a", template="one", tolerations=[patient]), "duration": 100},
        an_arrival(1, "b", duration=100),
        {"time": 10, "change": "taint:n1:down:NoExecute"},
        {"time": 50, "change": "untaint:n1:down"},
    )
    found = attempts(happening(tmp_path, a_cluster("n1"), *lines))
    assert found == ["0 a n1", "1 b n1", "10 b -", "30 a n1", "50 b n1"]


def test_a_driver_that_publishes_late_and_a_node_that_joins_late_get_the_pods_that_wait(tmp_path: Path) -> None:
    lines = (
        an_arrival(0, "a", duration=100),
        an_arrival(1, "b", duration=100),
        {"time": 20, "apply": a_slice(node="n1", count=1)},
        {"time": 30, "apply": a_slice(node="n2", count=1)},
        {"time": 40, "apply": a_node("n2")},
    )
    objects = [one for one in a_cluster("n1") if one["kind"] != "ResourceSlice"]
    assert attempts(happening(tmp_path, objects, *lines)) == [
        "0 a -",
        "1 b -",
        "20 a n1",
        "20 b -",
        "30 b -",
        "40 b n2",
    ]


def test_years_in_which_nothing_happens_cost_no_more_than_a_day(tmp_path: Path) -> None:
    """Though a pod waits, which is tried again every five minutes."""
    objects = [*a_cluster("n1", count=1), a_node("n2")]
    lines = (an_arrival(0, "a"), an_arrival(1, "b"), {"time": 5e9, "apply": a_slice(node="n2", count=1)})
    found = attempts(happening(tmp_path, objects, *lines))
    assert found[:3] == ["0 a n1", "1 b -", "330 b -"]
    assert found[-1] == "5e+09 b n2"
    assert len(found) < 300


def test_a_slice_that_goes_leaves_pods_their_devices_and_a_node_that_goes_does_not(tmp_path: Path) -> None:
    name = a_slice(node="n1")["metadata"]["name"]
    lines = (
        an_arrival(0, "a", duration=100),
        {"time": 10, "change": f"remove:resourceslice/{name}"},
        an_arrival(11, "b", duration=100),
        {"time": 30, "change": "remove:node/n1"},
        {"time": 50, "apply": a_node("n1")},
        {"time": 60, "apply": a_slice(node="n1", count=1)},
    )
    found = attempts(happening(tmp_path, a_cluster("n1", count=1), *lines))
    assert found[:2] == ["0 a n1", "11 b -"]
    assert found[-1].startswith("160 ")
    assert {line.split()[2] for line in found[2:] if line.startswith("60 ")} == {"n1", "-"}


def test_a_taint_of_the_start_evicts_the_pods_of_the_input_that_do_not_tolerate_it(tmp_path: Path) -> None:
    user = {"resource": "pods", "name": "a", "uid": "a"}
    held = an_allocated_claim("held", "gpu-0", node="n1", reserved_for=[user])
    objects = [a_node("n1"), a_tainted_slice(a_taint()), *a_cluster("n2", count=1), held]
    objects.append(a_pod("a", claim="held", nodeName="n1", metadata={"uid": "a"}))
    assert attempts(happening(tmp_path, objects, an_arrival(5, "b"))) == ["0 a n2", "5 b -"]
