"""`dra plan --remove`: which nodes could go, and what keeps the others."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from scheduler.planning.node_removal import NodeRemover
from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.cli.test_defrag import a_running_pod, wanting
from tests.unit.scheduler.manifests import Json, a_cluster, a_template, an_allocated_claim, an_object, text_of


def remove(objects: Sequence[Json], *options: str) -> Run:
    return dra("plan", "-", "--remove", *options, stdin=text_of(*objects))


def answer(objects: Sequence[Json], *options: str) -> Json:
    found: Json = orjson.loads(remove(objects, *options, "-o", "json").out)
    return found


def gone(found: Json) -> list[str]:
    return [one["node"] for one in found["removed"]]


def moves(found: Json) -> list[tuple[str, str, str]]:
    return [(m["name"], m["from"]["node"], m["to"]["node"]) for one in found["removed"] for m in one["moves"]]


def rules(found: Json) -> dict[str, list[tuple[str, str]]]:
    return {one["node"]: [(why.get("name", ""), why["rule"]) for why in one["because"]] for one in found["kept"]}


def nodes(number: int, count: int = 2) -> list[Json]:
    return [*a_cluster(*[f"node-{n}" for n in range(1, number + 1)], count=count), a_template("some")]


def test_empty_nodes_go_and_the_pod_of_the_emptiest_one_moves() -> None:
    objects = [*nodes(3), *a_running_pod("a", "gpu-0"), *a_running_pod("b", "gpu-0", node="node-2", owner="")]
    run = remove(objects)
    assert run.code == 0
    assert run.out.splitlines() == [
        "Remove 2 nodes: node-3, node-1. 1 pod moves. No further node can go.",
        "Another scheduler places pods again, and may choose other places: default-scheduler (1 pod)",
        "",
        "STEP   EVICT           PRIORITY   FROM            TO",
        "   1   pod default/a          0   node-1: gpu-0   node-2: gpu-1",
        "",
        "NODE STAYS   BECAUSE OF      RULE            WHY                            AND MORE",
        "node-2       pod default/b   no-controller   no controller makes it again",
    ]


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"owner": "Job"}, "job"),
        ({"owner": ""}, "no-controller"),
        ({"metadata": {"annotations": {"dra-scheduler.dev/movable": "false"}}}, "annotation"),
    ],
)
def test_rules_of_moves_keep_a_node(more: dict[str, Any], rule: str) -> None:
    found = answer([*nodes(2), *a_running_pod("a", "gpu-0", **more)])
    assert (gone(found), rules(found)) == (["node-2"], {"node-1": [("a", rule)]})


def test_jobs_move_if_they_may_and_pods_that_are_not_selected_stay() -> None:
    objects = [*nodes(2), *a_running_pod("a", "gpu-0", owner="Job"), *a_running_pod("b", "gpu-0", node="node-2")]
    assert gone(answer(objects)) == ["node-2"]
    assert gone(answer(objects, "--move-jobs")) == ["node-1"]
    assert rules(answer(objects, "--movable=app=web"))["node-2"] == [("b", "selector")]
    assert rules(answer(objects, "-n", "other"))["node-2"] == [("b", "namespace")]


def test_pods_of_daemonsets_keep_no_node_and_a_control_plane_stays() -> None:
    objects = [*nodes(2), *a_running_pod("a", "gpu-0", owner="DaemonSet")]
    assert sorted(gone(answer(objects))) == ["node-1", "node-2"]
    for one in objects:
        if one["kind"] == "Node" and one["metadata"]["name"] == "node-1":
            one["metadata"].setdefault("labels", {})["node-role.kubernetes.io/control-plane"] = ""
    found = answer(objects)
    assert (gone(found), rules(found)) == (["node-2"], {"node-1": [("", "control-plane")]})
    assert "the node" in remove(objects).out


def test_pods_that_fit_nowhere_else_keep_their_nodes() -> None:
    full = [*a_running_pod("a", "gpu-0", "gpu-1"), *a_running_pod("b", "gpu-0", "gpu-1", node="node-2")]
    run = remove([*nodes(2), *full])
    assert run.code == 1
    assert run.out.startswith("Remove no node.")
    assert rules(answer([*nodes(2), *full])) == {"node-1": [("a", "no-place")], "node-2": [("b", "no-place")]}
    two = [one for name, gpu in (("a", "gpu-0"), ("b", "gpu-1")) for one in a_running_pod(name, gpu)]
    fixed = a_running_pod("c", "gpu-0", node="node-2", owner="")
    found = answer([*nodes(2), *two, *fixed])
    assert rules(found)["node-1"] == [("a", "no-place"), ("b", "no-place")]
    assert found["kept"][0]["because"][0]["reason"] == "fits elsewhere alone, but not together with the others"


def test_budgets_hold_over_the_whole_plan() -> None:
    metadata = {"labels": {"app": "web"}}
    objects = [*nodes(3, count=4)]
    for number in (1, 2, 3):
        objects += a_running_pod(f"p{number}", "gpu-0", node=f"node-{number}", metadata=metadata)
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    budget = {**an_object("policy/v1", "PodDisruptionBudget", "web", "default"), "spec": spec}
    assert len(gone(answer(objects))) == 2
    found = answer([*objects, {**budget, "status": {"disruptionsAllowed": 1}}])
    assert len(gone(found)) == 1
    assert {rule for some in rules(found).values() for _, rule in some} == {"budget"}
    found = answer([*objects, {**budget, "status": {"disruptionsAllowed": 0}}])
    assert gone(found) == []


def test_pending_pods_have_their_room_first_and_claims_of_nobody_stay() -> None:
    found = answer([*nodes(2), *wanting(2)])
    assert [rule for some in rules(found).values() for rule in some] == [("wanting", "pending")]
    found = answer([*nodes(2), an_allocated_claim("alone", "gpu-0", node="node-1")])
    assert (gone(found), rules(found)) == (["node-2"], {"node-1": [("alone", "claim")]})


def four_that_spread() -> list[Json]:
    """The fewest pods first: each pod goes to the emptiest node, and would have to move on from there."""
    objects = nodes(4, count=4)
    for number in range(1, 5):
        objects += a_running_pod(f"p{number}", "gpu-0", node=f"node-{number}")
    return objects


def test_no_pod_moves_twice_if_its_nodes_are_cordoned_first() -> None:
    found = answer(four_that_spread(), "--policy=spread")
    assert len(gone(found)) == 3
    assert sorted(found["closedFirst"]) == sorted(gone(found))
    assert len(moves(found)) == len({name for name, _, _ in moves(found)}) == 3
    assert {to for _, _, to in moves(found)} == rules(found).keys()
    assert "Cordon these before the first pod moves: node-" in remove(four_that_spread(), "--policy=spread").out


def test_pods_move_twice_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeRemover, "_straight", lambda _self, _numbers: None)
    found = answer(four_that_spread(), "--policy=spread")
    assert (len(gone(found)), found["closedFirst"]) == (3, [])
    assert len(moves(found)) > 3
    last = {name: to for name, _, to in moves(found)}
    assert set(last.values()) == rules(found).keys()


def test_the_page_has_the_steps_and_what_keeps_nodes() -> None:
    objects = [*nodes(3), *a_running_pod("a", "gpu-0"), *a_running_pod("b", "gpu-0", node="node-2", owner="")]
    page = remove(objects, "-o", "html").out
    assert "Remove 2 nodes: node-3, node-1." in page
    assert "no controller makes it again" in page
    assert "pod default/a" in page


def test_no_node_can_go_for_sure_where_pods_are_not_known() -> None:
    unknown = {**an_object("x.example.com/v1", "Graph", "g"), "spec": {"resourceClaimTemplateName": "some"}}
    run = remove([*nodes(2), *a_running_pod("a", "gpu-0"), unknown])
    assert (run.code, run.out.startswith("Remove 1 node: ")) == (1, True)
    assert "warning: no Pod of the input has a node: nodes count as empty" not in run.err


def test_nodes_that_are_empty_because_the_input_has_no_pod_are_told() -> None:
    run = remove(nodes(2))
    assert (run.code, run.out.startswith("Remove 2 nodes: ")) == (0, True)
    assert "warning: no Pod of the input has a node: nodes count as empty" in run.err


@pytest.mark.parametrize(
    "options",
    [
        ("--remove", "--like=node-1"),
        ("--remove", "--objective=nodes"),
        ("--like=node-1", "--move-jobs"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: Sequence[str]) -> None:
    run = dra("plan", "-", *options, stdin=text_of(*nodes(1)))
    assert run.code == 2
    assert "--remove" in run.err
