import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from allocator.policies import NAMES
from scheduler.cli.printing import Progress
from scheduler.input.yaml_1_1 import MAX_DEPTH, documents
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    a_workload,
    an_allocated_claim,
    an_object,
    owned_by,
    text_of,
)

ROOT = Path(__file__).parents[4]
NOTHING_WAITS = "0 of 0 placed: no pending pod or claim in the input\n"


def allocate(objects: Sequence[Json], *options: str) -> Run:
    """Objects through standard input."""
    return dra("allocate", "-", *options, stdin=text_of(*objects))


def placed(run: Run) -> list[list[str]]:
    """(pod, claim, node, request, device) of each line of the table."""
    return [line.split() for line in run.out.splitlines()[1:]]


def items_of(run: Run) -> list[Any]:
    items = orjson.loads(run.out)["items"]
    assert isinstance(items, list)
    return items


# What is done, and the exit code


def test_a_cluster_and_what_is_waiting_may_stand_in_files_folders_and_standard_input(tmp_path: Path) -> None:
    node, *rest = a_cluster()
    folder = tmp_path / "folder"
    folder.mkdir()
    saved(folder, *rest, name="cluster.yaml")
    run = dra("allocate", saved(tmp_path, node), folder, "-", stdin=text_of(a_pod("p", claim="c"), a_claim("c")))
    assert run.code == 0
    assert placed(run) == [["default/p", "default/c", "node-1", "gpu", f"{DRIVER}/node-1/gpu-0"]]
    assert run.err == "1 of 1 placed\n"


def test_exit_code_0_says_that_everything_was_placed() -> None:
    assert allocate([*a_cluster(), a_pod("p", template="one"), a_claim("c")]).code == 0


def test_exit_code_1_says_that_something_was_not() -> None:
    run = allocate([*a_cluster(count=1), a_pod("p", template="one"), a_pod("q", template="one")])
    assert run.code == 1
    assert run.err == "1 of 2 placed\n"


def test_exit_code_0_where_there_is_nothing_to_place() -> None:
    run = allocate([*a_cluster(), a_pod("p")])
    assert (run.code, run.err) == (0, NOTHING_WAITS)


def test_workloads_stand_for_their_pods() -> None:
    run = allocate([*a_cluster(count=4), a_workload("Job", "train", parallelism=2), a_workload("DaemonSet", "agent")])
    assert [row[0] for row in placed(run)] == ["default/agent-node-1", "default/train-0", "default/train-1"]


def test_the_newer_release_writes_configuration_its_own_way() -> None:
    config = [{"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}]
    objects = [a_node(), a_class(config=config), a_slice(), a_claim("c")]
    requests = {}
    for release in ("1.36", "1.37"):
        (claim,) = items_of(allocate(objects, "-o", "json", "--kubernetes", release))
        requests[release] = claim["status"]["allocation"]["devices"]["config"][0].get("requests")
    assert requests == {"1.36": ["gpu"], "1.37": None}


def a_taint_rule() -> Json:
    spec = {"deviceSelector": {"device": "gpu-0"}, "taint": {"key": "broken", "effect": "NoSchedule"}}
    return {**an_object("resource.k8s.io/v1", "DeviceTaintRule", "rule"), "spec": spec}


@pytest.mark.parametrize(
    ("options", "device"),
    [
        ((), "gpu-1"),
        (("--kubernetes", "1.36"), "gpu-0"),
        (("--feature-gates", "DRADeviceTaintRules=false"), "gpu-0"),
        (("--kubernetes", "1.36", "--feature-gates", "DRADeviceTaintRules=true"), "gpu-1"),
        (("--feature-gates", " DRAListTypeAttributes=True , DRADeviceTaintRules=FALSE"), "gpu-0"),
    ],
)
def test_gates_are_those_of_the_release_with_single_ones_on_top(options: tuple[str, ...], device: str) -> None:
    run = allocate([*a_cluster(), a_taint_rule(), a_claim("c")], *options)
    assert placed(run)[0][-1] == f"{DRIVER}/node-1/{device}"


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ("Frobnicate=true", "Kubernetes 1.37 has no gate 'Frobnicate'"),
        ("DRADeviceTaints", "'DRADeviceTaints' is not NAME=true or NAME=false"),
        ("DRADeviceTaints=maybe", "is not NAME=true or NAME=false"),
        ("DRADeviceTaints=false,DRADeviceTaintRules=true", "DRADeviceTaintRules needs DRADeviceTaints, which is off"),
    ],
)
def test_gates_that_make_no_sense_are_bad_input(gates: str, message: str) -> None:
    run = allocate(a_cluster(), "--feature-gates", gates)
    assert run.code == 2
    assert message in " ".join(run.err.split())


def test_the_features_in_force_are_shown_when_asked_for() -> None:
    run = allocate(a_cluster(), "-v", "--strict", "--kubernetes", "1.34", "--feature-gates", "DRAAdminAccess=false")
    expected = "features in force: Kubernetes 1.34, strict: DRAPrioritizedList, DRAResourceClaimDeviceStatus"
    assert run.err.splitlines()[0] == expected


# Selections


def test_one_pod_is_placed_as_if_it_came_first() -> None:
    objects = [*a_cluster(count=1), *(a_pod(name, template="one") for name in "abc")]
    run = allocate(objects, "--pod", "default/c")
    assert run.code == 0
    assert [row[0] for row in placed(run)] == ["default/c"]
    assert [row[0] for row in placed(allocate(objects, "--pod", "c"))] == ["default/c"]


def test_a_virtual_pod_can_be_asked_for_by_its_name() -> None:
    run = allocate([*a_cluster(count=1), a_workload("Job", "train", parallelism=3)], "--pod", "default/train-2")
    assert [row[0] for row in placed(run)] == ["default/train-2"]


def test_a_claim_selects_the_pods_that_use_it() -> None:
    objects = [*a_cluster(), a_claim("c"), a_pod("a", template="one"), a_pod("b", claim="c")]
    assert placed(allocate(objects, "--claim", "default/c")) == [
        ["default/b", "default/c", "node-1", "gpu", f"{DRIVER}/node-1/gpu-0"]
    ]


def test_a_claim_that_no_pod_uses_is_placed_alone() -> None:
    objects = [*a_cluster(), a_claim("c"), a_claim("d"), a_pod("a", template="one")]
    assert [row[:2] for row in placed(allocate(objects, "--claim", "default/d"))] == [["-", "default/d"]]


def test_the_claim_of_a_template_can_be_asked_for_by_its_name() -> None:
    objects = [*a_cluster(), *(a_pod(name, template="one", metadata={"uid": name}) for name in "ab")]
    names = {row[0]: row[1] for row in placed(allocate(objects))}
    assert placed(allocate(objects, "--claim", names["default/b"])) == [
        ["default/b", names["default/b"], "node-1", "gpu", f"{DRIVER}/node-1/gpu-0"]
    ]


def test_the_claim_of_a_template_keeps_its_name_for_a_pod_without_a_uid() -> None:
    objects = [*a_cluster(), a_pod("p", template="one")]
    name = placed(allocate(objects))[0][1]
    assert placed(allocate(objects, "--claim", name))[0][1] == name


def test_only_the_node_that_is_asked_for_is_looked_at() -> None:
    objects = [*a_cluster("n1", "n2"), a_pod("p", template="one")]
    assert [row[2] for row in placed(allocate(objects, "--node", "n2"))] == ["n2"]


def test_devices_in_use_count_for_a_selection_too() -> None:
    objects = [*a_cluster(), an_allocated_claim("held", "gpu-0"), a_pod("p", template="one")]
    assert placed(allocate(objects, "--pod", "p"))[0][-1] == f"{DRIVER}/node-1/gpu-1"


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--pod", "ml/none", "dra: pod ml/none is not in the input"),
        ("--pod", "none", "dra: pod default/none is not in the input"),
        (
            "--claim",
            "ml/none",
            "dra: claim ml/none is neither in the input nor created from a template for a pod in it",
        ),
        ("--node", "none", "dra: node none is not in the input"),
    ],
)
def test_what_is_asked_for_and_not_there_is_bad_input(option: str, name: str, message: str) -> None:
    run = allocate([*a_cluster(), a_pod("p", template="one")], option, name)
    assert (run.code, run.out, run.err) == (2, "", message + "\n")


def test_a_claim_that_is_being_deleted_is_not_placed() -> None:
    dying = a_claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert allocate([*a_cluster(), dying]).err == NOTHING_WAITS
    run = allocate([*a_cluster(), dying], "--claim", "c")
    assert (run.code, placed(run)) == (1, [["-", "default/c", "is", "being", "deleted"]])


def test_a_claim_that_is_not_there_is_bad_input_beside_a_pod_too() -> None:
    assert allocate([*a_cluster(), a_pod("p", template="one")], "--pod", "p", "--claim", "none").code == 2


def test_a_pod_and_a_claim_that_are_asked_for_together_must_belong_together() -> None:
    objects = [*a_cluster(), a_claim("c"), a_claim("d"), a_pod("p", claim="c")]
    assert [row[:2] for row in placed(allocate(objects, "--pod", "p", "--claim", "c"))] == [["default/p", "default/c"]]
    run = allocate(objects, "--pod", "p", "--claim", "d")
    assert (run.code, run.err) == (2, "dra: pod default/p does not use claim default/d\n")


def test_of_two_pods_of_one_name_the_living_one_is_placed() -> None:
    over = a_pod("db-0", metadata=owned_by("StatefulSet", "db"), status={"phase": "Failed"})
    run = allocate([*a_cluster(), over, a_workload("StatefulSet", "db")], "--pod", "db-0")
    assert (run.code, placed(run)[0][0]) == (0, "default/db-0")


def test_a_pod_that_is_finished_is_not_placed() -> None:
    objects = [*a_cluster(), a_pod("p", template="one", status={"phase": "Succeeded"})]
    assert allocate(objects, "--pod", "p").code != 0


# What is printed


OBJECTS = [
    *a_cluster("n1", "n2", count=2),
    a_claim("unused"),
    *(a_pod(name, template="one", metadata={"uid": name}) for name in "cab"),
]


def test_json_and_yaml_hold_the_same_list() -> None:
    json, yaml = allocate(OBJECTS, "-o", "json"), allocate(OBJECTS, "-o", "yaml")
    assert [value for _, value in documents(yaml.out)] == [orjson.loads(json.out)]


def test_the_list_holds_claims_with_their_status_and_pods_with_their_node() -> None:
    items = items_of(allocate(OBJECTS, "-o", "json"))
    assert [item["kind"] for item in items] == ["ResourceClaim"] * 4 + ["Pod"] * 3
    assert [item["spec"]["nodeName"] for item in items[4:]] == ["n1", "n1", "n2"]
    assert all(item["status"]["allocation"] for item in items[:4])


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_what_was_printed_can_be_read_again_and_has_nothing_left_to_place(output: str, tmp_path: Path) -> None:
    path = tmp_path / "out.yaml"
    path.write_text(allocate(OBJECTS, "-o", output).out)
    cluster = saved(tmp_path, *a_cluster("n1", "n2", count=2))
    run = dra("allocate", cluster, path)
    assert (run.code, run.err) == (0, NOTHING_WAITS)


def test_names_are_sorted_and_of_what_was_placed_only() -> None:
    objects = [
        *a_cluster(count=1),
        a_claim("c"),
        a_pod("b", claim="c"),
        a_pod("a", claim="c"),
        a_pod("z", template="one"),
    ]
    run = allocate(objects, "-o", "name")
    assert run.out.splitlines() == ["pod/default/a", "pod/default/b", "resourceclaim.resource.k8s.io/default/c"]


def test_no_name_is_printed_where_nothing_was_placed() -> None:
    assert allocate([*a_cluster(), a_pod("p", claim="none")], "-o", "name").out == ""


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "name"])
def test_the_order_of_the_input_does_not_change_the_output(output: str) -> None:
    first, second = (allocate(objects, "-o", output) for objects in (OBJECTS, OBJECTS[::-1]))
    assert first == second
    assert first.out


@pytest.mark.parametrize("output", ["table", "wide"])
def test_there_is_no_colour_where_nobody_looks(output: str) -> None:
    run = allocate([*a_cluster(), a_pod("p", claim="none")], "-o", output)
    assert "claim default/none does not exist" in run.out
    assert "\x1b" not in run.out


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_output_ends_with_one_line_end(output: str) -> None:
    out = allocate(OBJECTS, "-o", output).out
    assert out.endswith("\n")
    assert not out.endswith("\n\n")


def test_text_of_other_languages_passes_through() -> None:
    pod = a_pod("p", template="one", metadata={"uid": "p", "annotations": {"note": "grün 🚀 節"}})
    for output in ("json", "yaml"):
        ((_, value),) = documents(allocate([*a_cluster(), pod], "-o", output).out)
        assert isinstance(value, dict)
        assert value["items"][-1]["metadata"]["annotations"]["note"] == "grün 🚀 節"


def unread(value: object, output: str) -> Run:
    """The run for a pod with a field that no decision depends on."""
    pod = a_pod("p", claim="c", metadata={"uid": "p"}, unread=value)
    return allocate([*a_cluster(), a_claim("c"), pod], "-o", output)


PASSING: list[object] = [2**63, 1e300, 0.1, "yes", "01", {"": None}, [[]]]


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("value", PASSING)
def test_a_value_that_no_decision_depends_on_passes_through(output: str, value: object) -> None:
    assert read_back(unread(value, output)) == value


def read_back(run: Run) -> object:
    ((_, back),) = documents(run.out)
    assert isinstance(back, dict)
    return back["items"][-1]["spec"]["unread"]


def test_a_number_beyond_64_bits_passes_through() -> None:
    assert read_back(unread(2**64, "yaml")) == read_back(unread(2**64, "json")) == 2**64


def test_text_that_looks_like_a_base_passes_through() -> None:
    assert read_back(unread("0o_", "yaml")) == "0o_"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_value_that_can_be_read_is_never_nested_too_deeply_to_be_printed(output: str) -> None:
    around = 2  # the pod and its spec
    deepest = unread(orjson.loads("[" * (MAX_DEPTH - around) + "]" * (MAX_DEPTH - around)), output)
    assert deepest.code == 0
    assert deepest.out.count("[" if output == "json" else "-") >= MAX_DEPTH - around
    deeper = unread(orjson.loads("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)), output)
    assert deeper.code == 2
    assert f"more than {MAX_DEPTH} levels of nesting" in deeper.err


# What is said on standard error


def test_other_kinds_are_counted_and_named() -> None:
    others = [
        an_object("v1", "ConfigMap", "a"),
        an_object("v1", "ConfigMap", "b"),
        an_object("apps.example/v1", "App", "c"),
    ]
    run = allocate([*a_cluster(), *others])
    assert run.code == 0
    assert run.err.splitlines()[0] == "ignored: 1 App (apps.example), 2 ConfigMap (core)"


def test_kinds_that_are_needed_and_missing_are_named() -> None:
    run = allocate([a_pod("p", template="one")])
    assert "warning: the input contains no Node, no ResourceSlice, no DeviceClass" in run.err.splitlines()


def test_an_input_without_any_object_is_bad_input() -> None:
    assert dra("allocate", "-").code == 2


def test_a_file_without_any_object_is_a_warning_beside_others() -> None:
    run = dra("allocate", "-", stdin="---\n# nothing\n")
    assert run.err.splitlines() == [
        "warning: standard input: contains no objects",
        "dra: the input contains no objects",
    ]


def test_pods_that_only_name_their_priority_class_come_in_its_order() -> None:
    urgent = {**an_object("scheduling.k8s.io/v1", "PriorityClass", "urgent"), "value": 10}
    pods = [a_pod("a", template="one"), a_pod("b", template="one", priorityClassName="urgent")]
    run = allocate([*a_cluster(count=1), urgent, *pods])
    assert placed(run)[0][:3:2] == ["default/b", "node-1"]
    run = allocate([*a_cluster(count=1), *pods])
    assert run.err.splitlines()[0] == (
        "warning: the input contains no PriorityClass urgent: the priority of 1 pod counts as 0"
    )
    assert placed(run)[0][:3:2] == ["default/a", "node-1"]


def test_pods_that_ask_for_more_than_is_looked_at_are_counted_once() -> None:
    pods = [a_pod(name, template="one", schedulingGroup={"podGroupName": "g"}) for name in "ab"]
    bound = a_pod("c", claim="c", nodeName="node-1", schedulingGroup={"podGroupName": "g"})
    run = allocate([*a_cluster(), *pods, an_allocated_claim("c", "gpu-0"), bound])
    assert run.err.splitlines()[0] == "warning: without a PodGroup in the input, pod groups are ignored (2 pods)"
    assert allocate([*a_cluster(), *pods], "--pod", "a").err.splitlines()[0].endswith("pod groups are ignored (1 pod)")


def test_a_namespace_that_would_permit_admin_access_and_is_not_there_is_named() -> None:
    run = allocate([*a_cluster(), a_claim("c", a_request(adminAccess=True))])
    assert run.code == 0
    assert run.err.splitlines()[0] == (
        "warning: the input contains no Namespace default: "
        "its label resource.kubernetes.io/admin-access, which admin access needs, is not checked"
    )


def test_a_workload_that_stands_for_no_pod_is_named_with_the_reason() -> None:
    run = allocate([*a_cluster(), a_workload("Job", "train", suspend=True)])
    assert "Job default/train is suspended: no pods are placed for it" in run.err.splitlines()


def test_an_unknown_field_is_a_warning_and_its_device_is_not_used() -> None:
    devices = [{"name": "gpu-0", "flavour": "sweet"}, {"name": "gpu-1"}]
    run = allocate([a_node(), a_class(), a_slice("s", devices=devices), a_claim("c")])
    assert run.err.splitlines()[0] == (
        "warning: standard input, document 3: ResourceSlice s: spec.devices[0].flavour: unknown field; "
        "the object that contains it is not used"
    )
    assert placed(run)[0][-1] == f"{DRIVER}/node-1/gpu-1"
    assert run.code == 0


@pytest.mark.parametrize(
    "devices",
    [
        {"requests": [a_request(flavour="sweet")]},
        {"requests": [{**a_request(), "flavour": "sweet"}]},
        {"requests": [a_request()], "constraints": [{"matchAttribute": "a.example/b", "flavour": "sweet"}]},
        {"requests": [a_request()], "flavour": "sweet"},
    ],
)
def test_an_unknown_field_that_could_change_the_decision_keeps_a_claim_from_being_placed(devices: Json) -> None:
    device = {"name": "gpu-0", "attributes": {"a.example/b": {"int": 1}}}
    run = allocate([a_node(), a_class(), a_slice(devices=[device]), {**a_claim("c"), "spec": {"devices": devices}}])
    assert run.code == 1
    assert "flavour" in run.out


def test_only_the_table_is_on_standard_output() -> None:
    run = allocate([*a_cluster(), an_object("v1", "ConfigMap", "a"), a_pod("p", claim="none")], "-o", "json")
    assert orjson.loads(run.out)["kind"] == "List"
    assert len(run.err.splitlines()) == 2


# Progress


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_is_silent_for_the_first_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    with Progress(clock) as progress:
        clock.now += 0.99
        progress.show(5, 10)
    assert capsys.readouterr() == ("", "")


def test_progress_is_reported_after_a_second_and_then_every_five_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    clock = _Clock()
    with Progress(clock) as progress:
        for done in range(1, 14):
            clock.now += 1.0
            progress.show(done, 20)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["placing: 1 of 20", "placing: 6 of 20", "placing: 11 of 20"]


def test_progress_on_a_terminal_is_one_line_that_is_wiped_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    clock = _Clock()
    with Progress(clock) as progress:
        for done in (1, 2):
            clock.now += 1.0
            progress.show(done, 20)
    err = capsys.readouterr().err
    assert "\n" not in err
    assert err.split("\r\x1b[K") == ["", "placing: 1 of 20", "placing: 2 of 20", ""]


def test_alike_nodes_are_counted_in_the_table_and_reported_one_by_one_in_the_wide_one() -> None:
    objects = [*a_cluster("a", "b", "c"), a_claim("c", a_request(count=3)), an_allocated_claim("h", "gpu-0", node="b")]
    _, line = allocate(objects).out.splitlines()
    assert line.endswith("0/3 nodes: no node has 3 devices for request gpu, the most is 2, on a (of 2 devices)")
    _, first, *rest = allocate(objects, "-o", "wide").out.splitlines()
    assert first.split() == line.split()
    assert [reported.split()[0] for reported in rest] == ["a:", "b:", "c:"]
    assert rest[1].endswith("1 is left (2 devices: 1 is in use (held by default/h))")


def test_an_overlay_replaces_and_adds(tmp_path: Path) -> None:
    base = saved(tmp_path, *a_cluster(count=1), a_claim("c", a_request(count=2)), name="base.yaml")
    assert dra("allocate", base).code == 1
    overlay = saved(tmp_path, a_claim("c", a_request(count=1)), name="overlay.yaml")
    run = dra("allocate", base, "--overlay", overlay)
    assert run.code == 0
    assert placed(run) == [["-", "default/c", "node-1", "gpu", f"{DRIVER}/node-1/gpu-0"]]


def test_exit_code_1_where_an_unknown_kind_asks_for_claims() -> None:
    graph = {**an_object("x.example.com/v1", "Graph", "g"), "spec": {"a": {"resourceClaims": [{"name": "gpu"}]}}}
    run = allocate([*a_cluster(), a_pod("p", template="one"), graph])
    assert run.code == 1
    assert "Graph g: requests claims" in run.err
    assert allocate([*a_cluster(), a_pod("p", template="one"), graph], "--pod", "p").code == 0


def test_warning_of_a_gate_that_is_off_names_the_option_that_turns_it_on() -> None:
    devices = [{"name": "a", "taints": [{"key": "k", "effect": "NoSchedule"}]}]
    run = dra("allocate", "-", "--kubernetes", "1.34", stdin=text_of(a_node(), a_class(), a_slice(devices=devices)))
    assert "DRADeviceTaints is off (--feature-gates DRADeviceTaints=true turns it on): taints of devices" in run.err


# A request that ends the attempt on a node


@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("capacity", [{"memory": "10Gi"}, {"cores": "16"}])
def test_selector_that_fails_on_a_device_that_is_too_small_keeps_no_other_pod_from_it(
    policy: str, capacity: Json
) -> None:
    shared = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"cores": {"value": "8"}}}
    fails = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "x"'}}]
    objects = [
        *(a_node(), a_slice(devices=[shared]), a_class()),
        a_template("broken", a_request(selectors=fails, capacity={"requests": capacity})),
        a_template("whole", a_request(capacity={"requests": {"cores": "2"}})),
        *(a_pod("a", template="broken"), a_pod("b", template="whole")),
    ]
    run = allocate(objects, "--policy", policy)
    assert run.code == 1
    [[refused, *reason], [name, _, node, *_]] = placed(run)
    assert (refused, name, node) == ("default/a", "default/b", "node-1")
    assert "no such key: model" in " ".join(reason)


def test_pods_without_claims_are_ignored_with_a_warning() -> None:
    run = allocate([*a_cluster(), a_pod("a"), a_pod("b", template="one")])
    assert (run.code, len(placed(run))) == (0, 1)
    warning = "warning: pending pods without claims are ignored, and take no room on nodes (1 pod)"
    assert warning in run.err.splitlines()
