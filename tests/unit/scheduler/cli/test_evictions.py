"""Running pods that NoExecute taints end: every command that reads an input says the same of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator.gates import Features
from allocator.pod_resources import CLAIM_ANNOTATION
from scheduler.offline.evictions import evictions
from scheduler.state.claims import FINALIZER
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.cli.test_input_warnings import ARGUMENTS
from tests.unit.scheduler.cli.test_simulate import a_trace, only, simulate
from tests.unit.scheduler.cli.test_simulated_evictions import RULES, a_rule, a_taint, a_tainted_slice
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_class,
    a_node,
    a_pod,
    a_slice,
    an_allocated_claim,
)
from tests.unit.scheduler.scenario import inventory_of

DEVICE = f"device {DRIVER}/n1/gpu-0 of claim default/held has the taint broken:NoExecute"
NODE = "node n1 has the taint broken:NoExecute"


def running(
    *, lasts: Sequence[Json] = (), tolerations: Sequence[Json] = (), uid: str = "u", reserved: str = "u"
) -> list[Json]:
    """A pod with a device. lasts: what the request of its claim tolerates; tolerations: what the pod does."""
    claim = an_allocated_claim(
        "held", "gpu-0", node="n1", reserved_for=[{"resource": "pods", "name": "pod-1", "uid": reserved}]
    )
    claim["metadata"]["finalizers"] = [FINALIZER]
    claim["status"]["allocation"]["devices"]["results"][0]["tolerations"] = list(lasts)
    pod = a_pod(
        claim="held",
        metadata={"uid": uid},
        status={"phase": "Running"},
        nodeName="n1",
        tolerations=list(tolerations),
    )
    return [claim, pod]


def fleet(slice_: Json | None = None, *, taints: Sequence[Json] = ()) -> list[Json]:
    return [
        a_node("n1", taints=list(taints)),
        a_node("n2"),
        slice_ or a_slice(node="n1", count=1),
        a_slice(node="n2"),
        a_class(),
    ]


def whatif(folder: Path, objects: Sequence[Json], *options: str | Path) -> Run:
    return dra("whatif", saved(folder, *objects), "--kubernetes", "1.37", *options)


TAINTED: Mapping[str, tuple[Sequence[Json], str]] = {
    "slice": (fleet(a_tainted_slice(a_taint())), DEVICE),
    "rule": ([*fleet(), a_rule(pool="n1", device="gpu-0")], DEVICE),
    "node": (fleet(taints=[a_taint()]), NODE),
}


@pytest.mark.parametrize("source", TAINTED)
@pytest.mark.parametrize("command", ARGUMENTS)
def test_every_command_says_which_running_pod_is_evicted_and_why(tmp_path: Path, command: str, source: str) -> None:
    objects, cause = TAINTED[source]
    before, after = ARGUMENTS[command]
    run = dra(command, *before, saved(tmp_path, *objects, *running()), *after, "--kubernetes", "1.37")
    line = f"warning: 1 running pod is evicted by NoExecute taints: default/pod-1 ({cause})"
    assert [one for one in run.err.splitlines() if "evicted" in one] == [line]


@pytest.mark.parametrize("source", TAINTED)
def test_audit_finds_the_pod(tmp_path: Path, source: str) -> None:
    objects, cause = TAINTED[source]
    path = saved(tmp_path, *objects, *running())
    run = dra("audit", path, "--kubernetes", "1.37", "-o", "json")
    found = [one for one in orjson.loads(run.out)["items"] if one["rule"] == "pod-evicted"]
    assert [(one["level"], one["object"]["name"], one["message"]) for one in found] == [
        ("warning", "pod-1", f"is evicted from node n1: {cause}")
    ]
    assert run.code == 0
    assert dra("audit", path, "--kubernetes", "1.37", "--fail-on", "warning").code == 1
    assert "pod-evicted" in dra("audit", path, "--kubernetes", "1.37", "-o", "sarif").out
    assert f"is evicted from node n1: {cause}" in dra("audit", path, "--kubernetes", "1.37", "-o", "junit").out


def test_audit_finds_the_pod_without_any_claim(tmp_path: Path) -> None:
    path = saved(tmp_path, *fleet(taints=[a_taint()]), a_pod("p", nodeName="n1", status={"phase": "Running"}))
    run = dra("audit", path, "-o", "json")
    assert [(one["rule"], one["object"]["name"]) for one in orjson.loads(run.out)["items"]] == [("pod-evicted", "p")]
    assert run.code == 0
    assert "warning: the input contains no ResourceClaim: only evicted pods are found" in run.err
    assert "there is nothing to audit" in dra("audit", saved(tmp_path, *fleet(), name="healthy.yaml")).err


def test_whatif_evicts_the_pod_when_the_taint_comes(tmp_path: Path) -> None:
    rule = saved(tmp_path, a_rule(pool="n1", device="gpu-0"), name="rule.yaml")
    run = whatif(tmp_path, [*fleet(), *running()], "--overlay", rule)
    [row] = [line for line in run.out.splitlines() if line.startswith("pod ")]
    assert row.split("   ")[:2] == ["pod default/pod-1", "is evicted, moves"]
    assert row.endswith(f"n1: gpu-0   n2: gpu-0; evicted: {DEVICE}")
    assert run.code == 0
    assert len([line for line in run.err.splitlines() if "evicted" in line]) == 1
    items = orjson.loads(whatif(tmp_path, [*fleet(), *running()], "--overlay", rule, "-o", "json").out)["items"]
    assert [(one["name"], one["what"], one["evicted"]) for one in items] == [("pod default/pod-1", "moved", DEVICE)]
    page = whatif(tmp_path, [*fleet(), *running()], "--overlay", rule, "-o", "html")
    assert "is evicted, moves" in page.out


def test_whatif_evicts_from_a_node_that_becomes_tainted_and_fails_if_there_is_no_other_place(tmp_path: Path) -> None:
    alone = [one for one in fleet() if "n2" not in str(one)]
    run = whatif(tmp_path, [*alone, *running()], "--overlay", "taint:n1:broken:NoExecute")
    assert "is evicted, no longer fits" in run.out
    assert f"evicted: {NODE}" in run.out
    assert run.code == 1
    assert f"default/pod-1 ({NODE})" in run.err


def test_a_pod_that_tolerates_the_taint_for_a_time_is_evicted_and_finds_its_place_again(tmp_path: Path) -> None:
    toleration = {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    alone = [one for one in fleet() if "n2" not in str(one)]
    pod = running(tolerations=[toleration])
    run = whatif(tmp_path, [*alone, *pod], "--overlay", "taint:n1:broken:NoExecute")
    [row] = [line for line in run.out.splitlines() if line.startswith("pod ")]
    assert row.split("   ")[1] == "is evicted"
    assert row.endswith(f"{NODE}, which it tolerates for 300 s")
    assert "Nothing moves." not in run.out


def test_a_pod_that_is_evicted_before_the_change_as_well_is_no_difference(tmp_path: Path) -> None:
    objects = [*fleet(a_tainted_slice(a_taint())), *running()]
    run = whatif(tmp_path, objects, "--overlay", "cordon:n1")
    assert "Nothing moves." in run.out
    assert f"default/pod-1 ({DEVICE})" in run.err


@pytest.mark.parametrize("gates", ["DRADeviceTaintRules=false,DRADeviceTaints=false", "DRADeviceTaintRules=false"])
def test_a_rule_evicts_nobody_where_its_gate_is_off(tmp_path: Path, gates: str) -> None:
    path = saved(tmp_path, *fleet(), a_rule(pool="n1"), *running())
    run = dra("audit", path, "--kubernetes", "1.37", "--feature-gates", gates)
    assert "evicted" not in run.err + run.out
    assert "DRADeviceTaintRules is off" in run.err


def test_a_claim_that_is_reserved_for_another_pod_of_that_name_evicts_nobody() -> None:
    objects = [*fleet(a_tainted_slice(a_taint())), *running(reserved="other")]
    assert list(evictions(inventory_of(*objects), Features.of("1.37"))) == []


@pytest.mark.parametrize(
    ("group", "api_group", "entry", "is_evicted"),
    [
        ("g", "scheduling.k8s.io", {"resourceClaimName": "held"}, True),
        ("g", "scheduling.k8s.io", {"resourceClaimTemplateName": "t"}, True),
        ("g", "scheduling.k8s.io", {"resourceClaimName": "other"}, False),
        ("h", "scheduling.k8s.io", {"resourceClaimName": "held"}, False),
        ("g", "x.example.com", {"resourceClaimName": "held"}, False),
    ],
)
def test_a_claim_of_a_pod_group_evicts_its_pods_that_use_it(
    group: str, api_group: str, entry: Json, *, is_evicted: bool
) -> None:
    consumer = {"apiGroup": api_group, "resource": "podgroups", "name": "g", "uid": "of-group"}
    claim = an_allocated_claim("held", "gpu-0", node="n1", reserved_for=[consumer])
    pod = a_pod(
        entries=[{"name": "dev", **entry}],
        metadata={"uid": "u"},
        status={"phase": "Running", "resourceClaimStatuses": [{"name": "dev", "resourceClaimName": "held"}]},
        nodeName="n1",
        schedulingGroup={"podGroupName": group},
    )
    found = evictions(inventory_of(*fleet(a_tainted_slice(a_taint())), claim, pod), Features.of("1.37"))
    assert [one.pod.name for one in found] == ["pod-1"] * is_evicted


@pytest.mark.parametrize(("release", "is_evicted"), [("1.35", False), ("1.36", False), ("1.37", True), ("1.38", True)])
def test_a_claim_for_extended_resources_evicts_its_pod_from_1_37_on(release: str, *, is_evicted: bool) -> None:
    claim, pod = running()
    claim["metadata"]["annotations"] = {CLAIM_ANNOTATION: "true"}
    del pod["spec"]["resourceClaims"]
    found = evictions(inventory_of(*fleet(a_tainted_slice(a_taint())), claim, pod), Features.of(release))
    assert [one.pod.name for one in found] == ["pod-1"] * is_evicted


def test_a_claim_that_the_spec_does_not_name_evicts_nobody() -> None:
    claim, pod = running()
    del pod["spec"]["resourceClaims"]
    objects = [*fleet(a_tainted_slice(a_taint())), claim, pod]
    assert list(evictions(inventory_of(*objects), Features.of("1.38"))) == []


def test_an_old_generation_evicts_nobody() -> None:
    old = a_tainted_slice(a_taint())
    new = a_slice("new", node="n1", count=1, pool={"name": "n1", "generation": 2, "resourceSliceCount": 1})
    objects = [*fleet(old), new, *running()]
    assert list(evictions(inventory_of(*objects), Features.of("1.37"))) == []


def test_the_first_to_go_is_named_first_and_the_others_are_counted(tmp_path: Path) -> None:
    limit = {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    pods = [a_pod(f"p{number}", nodeName="n1", tolerations=[limit] if number < 2 else []) for number in range(7)]
    run = dra("status", saved(tmp_path, *fleet(taints=[a_taint()]), *pods), "--kubernetes", "1.37")
    [line] = [one for one in run.err.splitlines() if "evicted" in one]
    assert line.startswith("warning: 7 running pods are evicted by NoExecute taints: default/p2 (")
    assert line.endswith(" and 2 more")


FOREVER, MINUTE, HOUR, AT_ONCE = (
    {"key": "broken", "operator": "Exists", "effect": "NoExecute", **lasts}
    for lasts in ({}, {"tolerationSeconds": 60}, {"tolerationSeconds": 3600}, {"tolerationSeconds": -1})
)


@pytest.mark.parametrize(
    ("tolerations", "of_node", "of_device"),
    [
        ([MINUTE, FOREVER], 60, None),
        ([FOREVER, MINUTE], None, None),
        ([HOUR, MINUTE], 3600, 60),
        ([MINUTE, HOUR], 60, 60),
        ([AT_ONCE, MINUTE], 0, 0),
        ([FOREVER], None, None),
        ([], 0, 0),
    ],
)
def test_of_several_tolerations_the_first_counts_for_a_node_and_the_least_for_a_device(
    tolerations: list[Json], of_node: int | None, of_device: int | None
) -> None:
    features = Features.of("1.37")
    on_node = evictions(inventory_of(*fleet(taints=[a_taint()]), *running(tolerations=tolerations)), features)
    on_device = evictions(inventory_of(*fleet(a_tainted_slice(a_taint())), *running(lasts=tolerations)), features)
    assert [one.time_s for one in on_node] == ([] if of_node is None else [of_node])
    assert [one.time_s for one in on_device] == ([] if of_device is None else [of_device])


@pytest.mark.parametrize(("release", "times"), [("1.37", [0]), ("1.38", [])])
def test_a_toleration_without_effect_keeps_a_pod_on_its_device_from_1_38_on(release: str, times: list[int]) -> None:
    lasts = [{"key": "broken", "operator": "Exists"}]
    found = evictions(inventory_of(*fleet(a_tainted_slice(a_taint())), *running(lasts=lasts)), Features.of(release))
    assert [one.time_s for one in found] == times


def tolerating(key: str, operator: str, effect: str, seconds: int | None) -> Json:
    lasts = {"effect": "NoExecute", "tolerationSeconds": seconds} if seconds is not None else {}
    return {"key": key, "operator": operator, "effect": effect, **lasts}


TOLERATIONS = st.lists(
    st.builds(
        tolerating,
        st.sampled_from(("broken", "other")),
        st.sampled_from(("Exists", "Equal")),
        st.sampled_from(("", "NoExecute", "NoSchedule")),
        st.sampled_from((None, 0, 30)),
    ),
    max_size=2,
)


@given(source=st.sampled_from(sorted(TAINTED)), lasts=TOLERATIONS, tolerations=TOLERATIONS)
def test_a_simulation_evicts_the_same_pods(
    tmp_path_factory: pytest.TempPathFactory, source: str, lasts: list[Json], tolerations: list[Json]
) -> None:
    objects = [*TAINTED[source][0], *running(lasts=lasts, tolerations=tolerations)]
    found = evictions(inventory_of(*objects), Features.of("1.36", {"DRADeviceTaintRules": True}))
    folder = tmp_path_factory.mktemp("simulated")
    later = a_trace(folder, {"time": 100, "change": "cordon:n2"})
    run = simulate(folder, objects, "--trace", later, *RULES)
    assert bool(only(run).summary.evictions) == bool(found)
