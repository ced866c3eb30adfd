"""`-o html` of the subcommands: the answer of the table in words, and the devices that it is about in the map."""

from collections.abc import Sequence
from html import unescape

import pytest

from tests.unit.scheduler.cli.command import Run, dra
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
    an_allocated_claim,
    text_of,
)
from tests.unit.scheduler.output.pages import answer_of, data_of, tables_of


def page(command: Sequence[str], objects: Sequence[Json], *options: str) -> Run:
    run = dra(*command, "-", *options, "-o", "html", stdin=text_of(*objects))
    assert run.code in (0, 1), run.err
    return run


def table(command: Sequence[str], objects: Sequence[Json], *options: str) -> Run:
    return dra(*command, "-", *options, stdin=text_of(*objects))


def two_nodes(count: int = 2) -> list[Json]:
    templates = [a_template("one"), a_template("two", a_request(count=2))]
    return [*a_cluster("node-1", "node-2", count=count), *templates, an_allocated_claim("held", "gpu-0")]


def devices(run: Run) -> dict[str, list[str]]:
    """The rows of the map, by device."""
    data = data_of(run.out)
    assert data["map"]["table"] == "devices"
    return {row[0].removeprefix(f"{DRIVER}/"): row[1:] for row in tables_of(run.out)["devices"]}


def test_claims_are_listed_with_the_devices_that_they_hold() -> None:
    other = an_allocated_claim("other", "gpu-1")
    other["metadata"]["namespace"] = "ml"
    objects = [*two_nodes(), other, a_claim("waiting")]
    run = page(["claims"], objects)
    assert answer_of(run.out) == ["3 claims are in the input: 2 allocated, 1 pending.", "They hold 2 devices."]
    assert {row[1]: row[2] for row in tables_of(run.out)["claims"]} == {
        "held": "allocated",
        "waiting": "pending",
        "other": "allocated",
    }
    assert sorted(devices(run)) == ["node-1/gpu-0", "node-1/gpu-1"]
    run = page(["claims"], objects, "-n", "ml")
    assert answer_of(run.out) == ["1 claim is in namespace ml: 1 allocated.", "It holds 1 device."]
    assert devices(run)["node-1/gpu-1"][2] == "ml/other"
    assert answer_of(page(["claims"], objects, "-n", "nobody").out)[0] == "0 claims are in namespace nobody."


def test_fit_marks_what_the_copies_take() -> None:
    command = ["fit", "pod/default/p"]
    objects = [*two_nodes(), a_pod("p", template="two")]
    run = page(command, objects)
    assert run.code == table(command, objects).code == 0
    first, next_one = answer_of(run.out)
    assert first == "1 more of pod default/p fits."
    assert next_one in table(command, objects).out
    assert tables_of(run.out)["nodes"] == [["node-2", "1"]]
    assert {name: (row[1], row[-1]) for name, row in devices(run).items()} == {
        "node-1/gpu-0": ("allocated", "-"),
        "node-1/gpu-1": ("free", "-"),
        "node-2/gpu-0": ("allocated", "taken"),
        "node-2/gpu-1": ("allocated", "taken"),
    }


def test_whatif_marks_what_is_taken_released_and_gone() -> None:
    running = a_pod("p", claim="held", metadata={"uid": "uid-p"}, nodeName="node-1")
    held = an_allocated_claim("held", "gpu-0")
    held["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    objects = [*a_cluster("node-1", "node-2", "node-3", count=1), held, running]
    command = ["whatif"]
    run = page(command, objects, "--overlay", "drain:node-1", "--overlay", "remove:node/node-3")
    assert answer_of(run.out) == [
        "1 pod or claim moves.",
        "Placed: 1 before, 1 after.",
        "Not placed: 0 before, 0 after.",
        "Devices: 1 before, 1 after.",
    ]
    moves = [["pod default/p", "moves", "node-1: gpu-0", "node-2: gpu-0"]]
    assert tables_of(run.out)["differences"] == moves
    assert {name: (row[1], row[-1]) for name, row in devices(run).items()} == {
        "node-1/gpu-0": ("free", "released"),
        "node-2/gpu-0": ("allocated", "taken"),
        "node-3/gpu-0": ("gone", "gone"),
    }


def test_whatif_without_differences_says_so() -> None:
    run = page(["whatif"], [*two_nodes(), a_pod("p", template="one")], "--policy", "first-fit")
    assert answer_of(run.out)[0] == "Nothing moves."


def test_explain_shows_what_each_check_says_of_each_device() -> None:
    objects = [*two_nodes(), a_pod("p", template="two"), an_allocated_claim("more", "gpu-1", node="node-2")]
    command = ["explain", "default/p"]
    run = page(command, objects)
    assert run.code == 1
    head = table(command, objects).out.splitlines()[0]
    assert [unescape(one) for one in answer_of(run.out)] == [f"{head}."]
    shown = devices(run)
    assert shown["node-1/gpu-0"][-2:] == ["gpu: in use", "1"]
    assert shown["node-1/gpu-1"][-2:] == ["gpu: left", "✓"]
    assert shown["node-2/gpu-0"][-2:] == ["-", "-"]
    answers = tables_of(run.out)["nodes"]
    assert [row[:3] for row in answers] == [
        ["node-1", "cannot (described above)", "DynamicResources"],
        ["node-2", "cannot", "DynamicResources"],
    ]
    for line in table(command, objects).out.splitlines()[1:]:
        assert line.strip() in unescape(run.out)


def test_explain_marks_what_would_be_taken() -> None:
    run = page(["explain", "default/p"], [*two_nodes(), a_pod("p", template="two")])
    assert run.code == 0
    assert devices(run)["node-2/gpu-1"][-2:] == ["gpu: left; taken", "★"]
    answers = {row[0]: row[1:4] for row in tables_of(run.out)["nodes"]}
    assert answers["node-2"] == ["can (described above)", "-", "-"]


def test_explain_all_lists_everything_that_waits() -> None:
    pods = [a_pod("a", template="two"), a_pod("b", template="two"), a_pod("c", template="one")]
    run = page(["explain", "--all"], [*two_nodes(), *pods])
    assert run.code == 1
    assert answer_of(run.out)[0] == "2 of 3 fit."
    explained = tables_of(run.out)["explained"]
    assert [row[:3] for row in explained] == [
        ["pod default/a", "fits", "node-2"],
        ["pod default/b", "does not fit", "node-1"],
        ["pod default/c", "fits", "node-1"],
    ]
    assert run.out.count("<details>") == 3
    state, holder = devices(run)["node-2/gpu-0"][1:3]
    assert state == "allocated"
    assert holder.startswith("default/a-")


def test_lint_shows_findings_and_which_class_selects_what() -> None:
    objects = [*a_cluster(count=1), a_claim("c", a_request(selectors=[{"cel": {"expression": "device.driver =="}}]))]
    run = page(["lint"], objects)
    assert run.code == 1
    assert answer_of(run.out) == [f"{run.err.strip()}."]
    [finding] = [row for row in tables_of(run.out)["findings"] if row[0] == "error"]
    assert finding[1] == "ResourceClaim default/c"
    assert finding[4] == "invalid-object"
    assert finding[5].startswith("standard input, document ")
    assert "does not compile" in unescape(run.out.partition("<pre")[2])
    assert devices(run) == {"node-1/gpu-0": ["node-1", "selected", "gpu"]}
    found = {row[0]: row[2] for row in tables_of(run.out)["rules"]}
    assert found["invalid-object"] == "1"
    assert found["near-limit"] == "0"


def test_lint_of_manifests_alone_has_no_map() -> None:
    run = page(["lint"], [a_claim("c")])
    assert data_of(run.out)["map"] is None


def test_audit_shows_findings_and_who_holds_devices() -> None:
    run = page(["audit"], [*two_nodes(), an_allocated_claim("again", "gpu-0")])
    assert run.code == 1
    assert "device-allocated-twice" in [row[4] for row in tables_of(run.out)["findings"]]
    assert devices(run)["node-1/gpu-0"][2] == "default/again,default/held"


@pytest.mark.parametrize("command", [["cel", "true"], ["allocate"]])
def test_subcommands_without_a_page_say_so(command: list[str]) -> None:
    run = dra(*command, "-", "-o", "html", stdin=text_of(*two_nodes()))
    assert run.code == 2
    assert "'html' is not one of" in run.err


NODES_OF_DEVICES = {
    **dict.fromkeys(("status", "claims", "audit", "lint", "explain --all"), ()),
    "fit": ("pod/default/p",),
    "explain": ("default/p",),
    "whatif": ("--policy", "first-fit"),
}
"""Every subcommand whose page has a map, and what it is asked."""


@pytest.mark.parametrize("command", NODES_OF_DEVICES)
def test_devices_of_the_network_name_their_nodes_and_closed_nodes_say_why(command: str) -> None:
    taint = {"key": "broken", "value": "fan", "effect": "NoSchedule"}
    nodes = [a_node("node-1", unschedulable=True), a_node("node-2", taints=[taint]), a_node("node-3")]
    everywhere = a_slice("all", node="fabric", count=1, allNodes=True)
    two = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    zone = a_slice("zone", node="zone-a", count=1, nodeSelector={"nodeSelectorTerms": [two]})
    nodes[1]["metadata"]["labels"] = nodes[2]["metadata"]["labels"] = {"zone": "a"}
    used = [an_allocated_claim(name, "gpu-0", node=name) for name in ("fabric", "zone-a")]
    waiting = [a_template("one"), a_pod("p", template="one")]
    run = page([*command.split(), *NODES_OF_DEVICES[command]], [*nodes, everywhere, zone, a_class(), *used, *waiting])
    assert devices(run)["fabric/gpu-0"][0] == "3 nodes: node-1, node-2, node-3"
    assert devices(run)["zone-a/gpu-0"][0] == "2 nodes: node-2, node-3"
    closed = [row[:2] for row in tables_of(run.out)["closed"]]
    assert closed == [["node-1", "cordoned"], ["node-2", "taint broken=fan:NoSchedule"]]
    assert data_of(run.out)["map"]["nodes"] == "closed"


@pytest.mark.parametrize("command", ["audit", "lint"])
def test_a_node_of_devices_that_is_not_there_any_more_is_marked(command: str) -> None:
    objects = [one for one in two_nodes() if one["kind"] != "Node" or one["metadata"]["name"] != "node-2"]
    assert tables_of(page([command], objects).out)["closed"] == [["node-2", "removed: there is no such Node"]]
    without_nodes = [one for one in objects if one["kind"] != "Node"]
    assert tables_of(page([command], without_nodes).out)["closed"] == []


def test_a_removed_node_is_marked() -> None:
    run = page(["whatif"], [*two_nodes(), a_pod("p", template="one")], "--overlay", "remove:node/node-2")
    assert tables_of(run.out)["closed"] == [["node-2", "removed", "-"]]


def test_devices_stand_by_kind_and_place_and_with_what_is_cut_from_the_same() -> None:
    numa = {"resource.kubernetes.io/numaNode": {"int": 1}, "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"}}
    consumed = [{"counterSet": "board-0", "counters": {"memory": {"value": "1Gi"}}}]
    typed = {f"{DRIVER}/type": {"string": "mig"}, **numa}
    found: list[Json] = [
        {"name": "nic-7", "attributes": numa},
        {"name": "part-0", "attributes": typed, "consumesCounters": consumed},
        {"name": "plain"},
    ]
    counters = [{"name": "board-0", "counters": {"memory": {"value": "4Gi"}}}]
    slices = [a_slice(devices=found), a_slice("counters", sharedCounters=counters, devices=[])]
    for number, one in enumerate(slices):
        one["spec"]["pool"]["resourceSliceCount"] = len(slices)
        one["metadata"]["name"] = f"slice-{number}"
    del slices[1]["spec"]["devices"]
    shown = devices(page(["status"], [a_node(), *slices, a_class()]))
    assert shown["node-1/nic-7"][-3:] == ["nic", "NUMA 1, pci0000:00", "-"]
    assert shown["node-1/part-0"][-3:] == ["mig", "NUMA 1, pci0000:00", "board-0"]
    assert shown["node-1/plain"][-3:] == ["plain", "-", "-"]


def test_a_node_that_only_the_change_closes_was_open_before() -> None:
    run = page(["whatif"], [*two_nodes(), a_pod("p", template="one")], "--overlay", "drain:node-2")
    assert tables_of(run.out)["closed"] == [["node-2", "cordoned", "-"]]


def of_one_workload(*names: str) -> list[Json]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": True}
    return [a_pod(name, template="many", metadata={"ownerReferences": [owner], "uid": name}) for name in names]


def test_pods_of_one_workload_with_one_reason_are_one_row_that_names_each() -> None:
    pods = of_one_workload("train-0", "train-1", "train-2")
    run = page(["explain", "--all"], [*two_nodes(), a_template("many", a_request(count=9)), *pods, a_pod("a")])
    rows = [row for row in tables_of(run.out)["explained"] if row[1] != "fits"]
    assert [row[:2] for row in rows] == [["pod default/train-0 and 2 more", "does not fit"]]
    node = rows[0][2]
    assert rows[0][4] == [[f"pod default/train-{number}", "", node, ""] for number in range(3)]
    assert run.out.count("pod default/train-0 and 2 more does not fit") == 1
    text = table(["explain", "--all"], [*two_nodes(), a_template("many", a_request(count=9)), *pods, a_pod("a")]).out
    assert "pod default/train-0 and 2 more does not fit" in text


def test_pods_of_one_workload_that_fit_no_longer_are_one_row_that_says_where_each_was() -> None:
    pods = of_one_workload("train-0", "train-1")
    objects = [*a_cluster("node-1", "node-2", count=1), a_template("many"), *pods]
    removed = ("--overlay", "remove:node/node-1", "--overlay", "remove:node/node-2")
    (row,) = tables_of(page(["whatif"], objects, *removed).out)["differences"]
    assert row[:2] == ["pod default/train-0 and 1 more", "no longer fits"]
    assert [member[:3] for member in row[4]] == [
        ["pod default/train-0", "", "node-1: gpu-0"],
        ["pod default/train-1", "", "node-2: gpu-0"],
    ]
