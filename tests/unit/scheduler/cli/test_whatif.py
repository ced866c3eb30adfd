from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from allocator.pod_resources import CLAIM_ANNOTATION
from scheduler.cli.main import dra as program
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_pod,
    a_template,
    an_allocated_claim,
    an_object,
    owned_by,
    text_of,
)


def whatif(objects: Sequence[Json], *options: str | Path) -> Run:
    return dra("whatif", "-", *options, stdin=text_of(*objects))


def rows(run: Run) -> list[list[str]]:
    """(name, what, before, after) of each line of the table."""
    lines = run.out.split("\n\n")[1].splitlines()[1:]
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines]


def a_running_pod(name: str = "p", device: str = "gpu-0", node: str = "node-1") -> list[Json]:
    """A pod with its node, and its claim, which holds a device."""
    claim = an_allocated_claim(f"{name}-claim", device, node=node)
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    pod = a_pod(name, claim=f"{name}-claim", metadata={"uid": f"uid-{name}"}, nodeName=node)
    return [claim, pod]


def two_nodes(count: int = 1) -> list[Json]:
    return [*a_cluster("node-1", "node-2", count=count), a_template("one")]


def test_pods_of_a_node_that_is_drained_go_elsewhere() -> None:
    run = whatif([*two_nodes(), *a_running_pod()], "--overlay", "drain:node-1")
    assert run.code == 0
    assert rows(run) == [["pod default/p", "moves", "node-1: gpu-0", "node-2: gpu-0"]]


@pytest.mark.parametrize("change", ["drain:node-1", "fail:node-1", "remove:node/node-1", "taint:node-1:a:NoExecute"])
def test_input_whose_pods_all_lose_their_node_is_not_said_to_lack_them(change: str, tmp_path: Path) -> None:
    room = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "8"}}
    objects = [{**one, "status": room} if one["kind"] == "Node" else one for one in [*two_nodes(), *a_running_pod()]]
    raw = CliRunner().invoke(program, ["whatif", str(saved(tmp_path, *objects)), "--overlay", change], prog_name="dra")
    assert "moves" in raw.stdout
    assert "no Pod has a node" not in raw.stderr


@pytest.mark.parametrize("change", ["drain", "fail", "remove"])
def test_pod_is_known_by_its_name_where_its_claim_is_reserved_for_it_without_a_uid(change: str) -> None:
    claim, pod = a_running_pod()
    del claim["status"]["reservedFor"][0]["uid"], pod["metadata"]["uid"]
    run = whatif([*two_nodes(), claim, pod], "--overlay", f"{change}:{'node/' * (change == 'remove')}node-1")
    assert rows(run) == [["pod default/p", "moves", "node-1: gpu-0", "node-2: gpu-0"]]
    assert run.code == 0


def test_a_pod_that_finds_no_other_place_is_a_failure() -> None:
    objects = [*two_nodes(), *a_running_pod(), *a_running_pod("q", node="node-2")]
    run = whatif(objects, "--overlay", "drain:node-1")
    assert run.code == 1
    [[name, what, before, after]] = rows(run)
    assert (name, what, before) == ("pod default/p", "no longer fits", "node-1: gpu-0")
    assert after.startswith("0/2 nodes: ")


def a_budget(name: str, app: str) -> Json:
    budget = an_object("policy/v1", "PodDisruptionBudget", name, "default")
    return {
        **budget,
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": 0},
    }


def test_who_would_go_for_a_pod_to_come_is_named(tmp_path: Path) -> None:
    claim, pod = a_running_pod()
    pod["metadata"]["labels"] = {"app": "web"}
    objects = [*a_cluster("node-1", count=1), a_template("one"), claim, pod, a_budget("of-web", "web")]
    urgent = saved(tmp_path, a_pod("urgent", template="one", priority=10))
    run = whatif(objects, "--overlay", urgent)
    ((name, what, _, after),) = rows(run)
    assert (name, what) == ("pod default/urgent", "is new")
    assert after.endswith("; preemption would evict default/p from node-1, which violates default/of-web")
    (item,) = orjson.loads(whatif(objects, "--overlay", urgent, "-o", "json").out)["items"]
    assert item["preemption"] == {
        "node": "node-1",
        "victims": ["default/p"],
        "violatedBudgets": ["default/of-web"],
    }
    (item,) = orjson.loads(whatif(objects, "--overlay", urgent, "--strict", "-o", "json").out)["items"]
    assert item["preemption"] is None


def test_nobody_would_go_for_a_pod_of_the_same_priority(tmp_path: Path) -> None:
    objects = [*a_cluster("node-1", count=1), a_template("one"), *a_running_pod()]
    run = whatif(objects, "--overlay", saved(tmp_path, a_pod("urgent", template="one")), "-o", "json")
    (item,) = orjson.loads(run.out)["items"]
    assert item["preemption"] is None


def test_more_nodes_place_what_is_pending() -> None:
    pending = [a_pod(f"p-{number}", template="one") for number in range(3)]
    run = whatif([*two_nodes(), *pending], "--overlay", "add:node-1:1")
    assert run.code == 0
    assert [row[2] for row in rows(run) if row[1] == "fits now"] == ["not placed"]
    assert [line.split() for line in run.out.splitlines()[:4]] == [
        ["BEFORE", "AFTER"],
        ["placed", "2", "3"],
        ["not", "placed", "1", "0"],
        ["devices", "2", "3"],
    ]


def test_a_claim_that_is_released_makes_room() -> None:
    objects = [*a_cluster(count=1), *a_running_pod(), a_claim("c"), a_pod("waiting", claim="c")]
    run = whatif(objects, "--release", "default/p-claim")
    assert run.code == 0
    assert ["pod default/waiting", "fits now", "not placed", "node-1: gpu-0"] in rows(run)
    assert "pod default/p" in {row[0] for row in rows(run) if row[1] == "is gone"}


def test_an_edited_object_replaces_that_of_the_input(tmp_path: Path) -> None:
    nothing = saved(tmp_path, a_class(expressions=["false"]))
    run = whatif([*a_cluster(), a_claim("c"), a_pod("p", claim="c")], "--overlay", nothing)
    assert run.code == 1
    assert rows(run)[0][:3] == ["pod default/p", "no longer fits", "node-1: gpu-0"]


def test_another_policy_is_compared() -> None:
    pending = [a_pod(f"p-{number}", template="one") for number in range(2)]
    run = whatif([*two_nodes(count=2), *pending], "--policy", "spread")
    assert run.code == 0
    assert [row[:2] for row in rows(run)] == [["pod default/p-1", "moves"]]


def test_a_change_without_effect_is_said_to_have_none() -> None:
    run = whatif([*two_nodes(), *a_running_pod()], "--overlay", "cordon:node-2")
    assert run.out.endswith("\n\nNothing moves.\n")


def test_json_has_devices_and_reasons() -> None:
    objects = [*two_nodes(), *a_running_pod(), *a_running_pod("q", node="node-2")]
    found = orjson.loads(whatif(objects, "--overlay", "drain:node-1", "-o", "json").out)
    assert found["before"] == {"placed": 2, "notPlaced": 0, "devices": 2}
    assert found["after"] == {"placed": 1, "notPlaced": 1, "devices": 1}
    assert found["differences"] == {"lost": 1, "gone": 0, "evicted": 0, "moved": 0, "gained": 0, "new": 0}
    [item] = found["items"]
    assert (item["name"], item["what"]) == ("pod default/p", "lost")
    assert item["before"] == {"node": "node-1", "devices": [f"{DRIVER}/node-1/gpu-0"], "reason": None}
    assert item["after"]["node"] is None
    assert item["after"]["reason"].startswith("0/2 nodes: ")


def an_unknown_object(**spec: str) -> Json:
    """An object whose pods are not known; a claim in its spec says that they need devices."""
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def test_pods_that_are_not_known_are_no_success() -> None:
    unknown = an_unknown_object(resourceClaimTemplateName="one")
    objects = [*two_nodes(), *a_running_pod()]
    before = whatif([*objects, unknown], "--overlay", "cordon:node-2")
    assert (before.code, before.out.splitlines()[-1]) == (1, "Nothing moves.")
    assert "its pods cannot be determined and are not placed" in before.err
    assert whatif([*objects, an_unknown_object()], "--overlay", "cordon:node-2").code == 0


def test_pods_that_only_the_change_brings_and_are_not_known_are_no_success(tmp_path: Path) -> None:
    added = saved(tmp_path, an_unknown_object(resourceClaimTemplateName="one"))
    assert whatif([*two_nodes(), *a_running_pod()], "--overlay", added).code == 1


def test_the_claims_of_a_pod_group_are_those_of_pods_that_name_it() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}
    group = {**an_object("scheduling.k8s.io/v1alpha2", "PodGroup", "g", "default"), "spec": spec}
    run = whatif([*two_nodes(), *a_running_pod(), group], "--overlay", "cordon:node-2")
    assert (run.code, "cannot be determined" in run.err) == (0, False)


def a_pod_with_an_extended_resource() -> list[Json]:
    """A running pod, and the claim that kube-scheduler has made for its extended resource."""
    claim, _ = a_running_pod()
    claim["metadata"] |= {**owned_by("Pod", "p", "uid-p"), "annotations": {CLAIM_ANNOTATION: "true"}}
    one = {"example.com/gpu": "1"}
    container = {"name": "main", "resources": {"requests": one, "limits": one}}
    return [claim, a_pod("p", metadata={"uid": "uid-p"}, nodeName="node-1", containers=[container])]


@pytest.mark.parametrize(("nodes", "what"), [(["node-1"], "no longer fits"), (["node-1", "node-2"], "moves")])
def test_a_running_pod_with_an_extended_resource_has_a_place_to_lose(nodes: list[str], what: str) -> None:
    cluster = [one for one in a_cluster(*nodes, count=1) if one["kind"] != "DeviceClass"]
    objects = [*cluster, a_class(extendedResourceName="example.com/gpu"), *a_pod_with_an_extended_resource()]
    run = whatif(objects, "--overlay", "drain:node-1")
    assert [row[:3] for row in rows(run)] == [["pod default/p", what, "node-1: gpu-0"]]
    assert run.code == int(what == "no longer fits")


def test_a_release_ends_only_the_pods_of_the_claim_where_nobody_has_a_uid() -> None:
    objects = [*two_nodes(count=2), *a_running_pod("p"), *a_running_pod("q", "gpu-1")]
    for one in objects:
        one["metadata"].pop("uid", "")
        for user in one.get("status", {}).get("reservedFor", ()):
            del user["uid"]
    run = whatif(objects, "--release", "default/p-claim")
    assert {row[0] for row in rows(run) if row[1] == "is gone"} == {"pod default/p"}


def test_a_claim_like_the_one_that_is_not_there_is_suggested() -> None:
    run = whatif([*two_nodes(), a_claim("mine")], "--release", "default/mien")
    assert (run.code, run.err) == (
        2,
        "dra: --release: claim default/mien is not in the input; did you mean default/mine?\n",
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--overlay", "cordon:node-1"), "nothing is compared: there is no pod with claims in the input"),
        ((), "Nothing is changed: use --overlay, --release or --policy."),
        (("--release", "default/absent"), "--release: claim default/absent is not in the input"),
        (("--overlay", "drain:absent"), "there is no node 'absent'"),
        (("--overlay", "absent.yaml"), "absent.yaml"),
        (("--overlay", "drian:node-1"), "'drian:node-1' is neither a file nor a change"),
        (("--overlay", "drian:node-1"), "did you mean drain?"),
    ],
)
def test_a_change_that_cannot_be_made_is_named(options: tuple[str, ...], problem: str) -> None:
    run = whatif(two_nodes(), *options)
    assert run.code == 2
    assert problem in run.err


def test_pods_of_one_workload_that_one_reason_refuses_share_a_line() -> None:
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}]
    pods = []
    for number in range(6):
        pod = a_pod(f"j-{number}", template="one")
        pods.append({**pod, "metadata": {**pod["metadata"], "ownerReferences": owner}})
    given = text_of(*a_cluster(count=6), *pods)
    run = dra("whatif", "-", "--overlay", "cordon:node-1", stdin=given)
    [row] = rows(run)
    places = "; ".join(f"node-1: gpu-{number}" for number in range(4))
    assert row[:3] == ["pod default/j-0 and 5 more", "no longer fits", f"{places}; and 2 more"]
    assert len(rows(dra("whatif", "-", "--overlay", "cordon:node-1", "-o", "wide", stdin=given))) == 6
