"""`dra plan`: what it prints, how groups are read, and what is refused."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import (
    Json,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    an_object,
    text_of,
)


def a_queue(*counts: int) -> list[Json]:
    """Pods with so many devices each."""
    templates = [a_template(f"take-{count}", a_request(count=count)) for count in sorted(set(counts))]
    return [*templates, *(a_pod(f"p-{n}", template=f"take-{count}") for n, count in enumerate(counts))]


def a_group(name: str, count: int, **fields: Any) -> Json:
    """Nodes with so many devices."""
    slices = [a_slice(node="template", count=count)]
    return {"name": name, "node": a_node("template"), "slices": slices, **fields}


REQUIRING = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "p"}}}
        ]
    }
}


def plan(folder: Path, objects: Sequence[Json], groups: Sequence[Json], *options: str) -> Run:
    file = folder / "groups.yaml"
    file.write_text(json.dumps({"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "NodeGroups", "groups": groups}))
    return dra("plan", "-", "--node-groups", file, *options, stdin=text_of(*objects))


def answer(folder: Path, objects: Sequence[Json], groups: Sequence[Json], *options: str) -> Json:
    found: Json = orjson.loads(plan(folder, objects, groups, *options, "-o", "json").out)
    return found


def added(found: Json) -> dict[str, int]:
    return {one["name"]: one["add"] for one in found["groups"]}


def test_the_cheapest_nodes_are_added_by_each_objective(tmp_path: Path) -> None:
    objects = [a_class(), *a_queue(*[1] * 8)]
    groups = [a_group("small", 2, price=1), a_group("large", 8, price=5)]
    by_price = answer(tmp_path, objects, groups)
    assert (added(by_price), by_price["cost"], by_price["lowerBound"], by_price["gap"]) == (
        {"small": 4, "large": 0}, 4, 4, 0,
    )  # fmt: skip
    assert by_price["isBest"]
    assert by_price["order"] == "queue"
    assert {one["node"] for one in by_price["placed"]} == {f"small-{number}" for number in range(1, 5)}
    assert added(answer(tmp_path, objects, groups, "--objective=nodes")) == {"small": 0, "large": 1}
    assert answer(tmp_path, objects, groups, "--objective=devices")["cost"] == 8


def test_plan_is_not_whole_where_pods_of_an_unknown_kind_are_not_known(tmp_path: Path) -> None:
    graph = {**an_object("x.example.com/v1", "Graph", "g"), "spec": {"resourceClaimTemplateName": "take-1"}}
    groups = [a_group("small", 2)]
    assert plan(tmp_path, [a_class(), *a_queue(1)], groups).code == 0
    run = plan(tmp_path, [a_class(), *a_queue(1), graph], groups)
    assert (run.code, "requests claims, but its pods cannot be determined" in run.err) == (1, True)


def test_what_is_free_is_used_first_and_what_is_pending_without_a_pod_counts(tmp_path: Path) -> None:
    objects = [*a_cluster("node-1", count=2), *a_queue(1, 1, 1)]
    assert added(answer(tmp_path, objects, [a_group("more", 4)])) == {"more": 1}
    enough = plan(tmp_path, objects[:-1], [a_group("more", 4)]).out
    assert enough == "Add no node: 2 pods and claims that are pending fit.\n"
    never = plan(tmp_path, [*a_cluster("node-1", count=2), *a_queue(1, 1, 9)], [a_group("more", 4)]).out
    assert "that are pending fit.\n1 other fits on no group.\n\n" in never


def test_least_and_most_are_kept_and_what_they_leave_out_is_told(tmp_path: Path) -> None:
    objects = [a_class(), *a_queue(2, 2, 2)]
    assert added(answer(tmp_path, objects, [a_group("few", 2, least=4)])) == {"few": 4}
    run = plan(tmp_path, objects, [a_group("few", 2, most=2)])
    assert run.code == 1
    assert "No plan was found with which all fit: the groups have no more nodes." in run.out
    assert "pod default/p-2" in run.out
    found = answer(tmp_path, objects, [a_group("few", 2, most=2)])
    assert [one["name"] for one in found["notPlaced"]] == ["pod default/p-2"]
    assert (found["lowerBound"], found["isBest"]) == (None, False)


def test_what_fits_on_no_group_is_named_with_the_nearest_and_what_it_lacks(tmp_path: Path) -> None:
    run = plan(tmp_path, [a_class(), *a_queue(1, 9)], [a_group("two", 2), a_group("four", 4)])
    assert run.code == 1
    [line] = [line for line in run.out.splitlines() if line.startswith("pod default/p-1")]
    assert line.split(maxsplit=3)[2:] == ["four", "request gpu needs 9 devices, 4 are left (4 devices)"]
    assert "Add 1 node: 1 of two." in run.out


def test_what_waits_for_something_else_than_a_node_fits_on_no_group(tmp_path: Path) -> None:
    ending = an_object("v1", "Namespace", "default", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    found = answer(
        tmp_path, [a_class(), *a_queue(1), {**ending, "status": {"phase": "Terminating"}}], [a_group("two", 2)]
    )
    assert (found["nodes"], found["notPlaced"], found["neverFits"]) == (
        0, [], [{"name": "pod default/p-0", "nearestGroup": None, "lacks": "namespace default is being deleted"}],
    )  # fmt: skip
    affine = a_pod("alone", template="take-1", affinity=REQUIRING)
    wanted = a_pod("p-0", template="take-1", metadata={"labels": {"app": "p"}})
    group = a_group("two", 2) | {"node": a_node("template", labels={"kubernetes.io/hostname": "template"})}
    found = answer(tmp_path, [a_class(), a_queue(1)[0], wanted, affine], [group])
    assert (found["nodes"], found["neverFits"]) == (1, [])


def test_an_order_other_than_that_of_the_queue_is_named(tmp_path: Path) -> None:
    """In the order of names, the small ones spread over both nodes, and the large one needs a third."""
    objects = [a_class(), *a_queue(1, 1, 4)]
    groups = [a_group("six", 4, most=2), a_group("dear", 4, price=100)]
    found = answer(tmp_path, objects, groups)
    assert added(found) == {"six": 2, "dear": 0}
    assert found["order"] in ("queue", "largest first")
    assert found["isBest"]


def test_a_group_can_be_a_node_of_the_input_or_a_generated_one(tmp_path: Path) -> None:
    objects = [*a_cluster("node-1", count=2), *a_queue(2, 2)]
    run = dra("plan", "-", "--like=node-1", stdin=text_of(*objects))
    assert run.out.startswith("Add 1 node: 1 of node-1. Then 2 pods and claims that are pending fit.")
    (tmp_path / "mig.jsonl").write_text(dra("generate", "--preset=mig", "--nodes=1", "--pods=0", "--devices=1").out)
    workload = [
        orjson.loads(line) for line in dra(*["generate", "--nodes=1", "--preset=mig", "--pods=9"]).out.splitlines()
    ]
    pending = [one for one in workload if one["kind"] not in ("Node", "ResourceSlice")]
    found = answer(tmp_path, pending, [{"name": "mig", "file": "mig.jsonl", "price": 2}], "--objective=devices")
    assert (found["cost"], found["neverFits"], found["notPlaced"]) == (added(found)["mig"], [], [])
    assert found["lowerBound"] <= found["cost"]


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ({"name": "a"}, "node group a: exactly one of node, file and like has to be set"),
        (
            {"name": "a", "like": "nod-1"},
            "groups.yaml: node group a: like: there is no node 'nod-1' in the input; did you mean node-1?",
        ),
        ({"name": "a", "file": "missing.yaml"}, "missing.yaml"),
        ({"name": "a", "price": -1, "like": "node-1"}, "groups[0].price"),
        ({"name": "a", "cost": 1, "like": "node-1"}, "groups[0].cost"),
        ({"name": "a", "price": "12", "like": "node-1"}, 'groups.yaml: groups[0].price: must be a number (got "12")'),
        ({"name": "a", "price": 1e24, "like": "node-1"}, "groups.yaml: groups[0].price: must be at most 1000000000 ("),
        ({"name": "a", "least": 10**9, "most": 10**9, "like": "node-1"}, "groups[0].least: must be at most 10000 ("),
        ({"name": "a", "most": 10**9, "like": "node-1"}, "groups[0].most: must be at most 10000 (got 1000000000)"),
        ({"name": "A", "like": "node-1"}, "groups.yaml: node group name: must be a DNS subdomain"),
        ({"name": "", "like": "node-1"}, 'groups.yaml: node group name: is required (got "")'),
        ({"name": "a", "like": "node-1", "least": 3, "most": 2}, "node group a: least 3 is more than most 2"),
        ({"name": "a", "like": "node-1", "slices": [{}]}, "node group a: slices can be set with node alone"),
        (
            {"name": "a", "node": a_node("x"), "slices": [a_slice("s", node="y")]},
            "node group a: ResourceSlice s: spec.nodeName has to be x",
        ),
    ],
)
def test_groups_that_cannot_be_used_are_refused_with_name_and_field(tmp_path: Path, group: Json, problem: str) -> None:
    run = plan(tmp_path, [*a_cluster("node-1"), *a_queue(1)], [group])
    assert run.code == 2
    assert problem in run.err


@pytest.mark.parametrize("price", [1e-320, 1e-9, 0.01, 1, 10**9])
def test_the_bound_is_as_close_whatever_the_price_is_counted_in(tmp_path: Path, price: float) -> None:
    found = answer(tmp_path, [a_class(), *a_queue(1, 1, 1)], [a_group("two", 2, price=price)])
    assert (added(found), found["cost"], found["gap"]) == ({"two": 2}, 2 * price, 0)


@pytest.mark.parametrize("options", [("-n", "ml"), ("-l", "app=web"), ("--remove", "-l", "app=web")])
def test_options_that_would_select_nothing_are_refused(options: Sequence[str]) -> None:
    run = dra("plan", "-", "--like=node-1", *options, stdin=text_of(*a_cluster("node-1")))
    assert run.code == 2


def test_groups_are_needed_and_have_names_of_their_own() -> None:
    objects = text_of(*a_cluster("node-1"), *a_queue(1))
    run = dra("plan", "-", stdin=objects)
    assert (run.code, "there is no node group" in run.err) == (2, True)
    twice = dra("plan", "-", "--like=node-1", "--like=node-1", stdin=objects)
    assert (twice.code, "there are two node groups node-1" in twice.err) == (2, True)
    missing = dra("plan", "-", "--like=nod-1", stdin=objects)
    assert "dra: --like: there is no node 'nod-1' in the input; did you mean node-1?" in missing.err


def test_the_bound_is_left_out_with_one_line_where_scipy_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    run = plan(tmp_path, [a_class(), *a_queue(1, 1, 1)], [a_group("two", 2)])
    assert run.code == 0
    assert "Cost (price): 2, no cheaper plan fits all.\nThe lower bound is left out: it needs scipy" in run.out


def test_the_page_has_the_plan_and_the_devices_of_added_nodes(tmp_path: Path) -> None:
    page = plan(tmp_path, [*a_cluster("node-1", count=1), *a_queue(2, 9)], [a_group("two", 2)], "-o", "html").out
    assert "Add 1 node: 1 of two." in page
    assert "two-1" in page
    assert "needs 9 devices" in page
