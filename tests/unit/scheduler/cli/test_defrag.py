from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from allocator.gates import Features
from scheduler.defrag.movable import MoveRules
from scheduler.defrag.search import Defragmentation, SearchLimits
from scheduler.defrag.targets import ToFit
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output.defrag_report import DefragReport
from scheduler.output.report import TEXT, rendered
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_cluster,
    a_pod,
    a_request,
    a_template,
    a_volume,
    a_volume_claim,
    an_allocated_claim,
    an_object,
    text_of,
    volumes_of,
)
from tests.unit.scheduler.scenario import inventory_of


def defrag(objects: Sequence[Json], *options: str | Path) -> Run:
    return dra("defrag", "-", *options, stdin=text_of(*objects))


def answer_of(run: Run) -> Json:
    found: Json = orjson.loads(run.out)
    return found


def moves_of(run: Run) -> list[tuple[str, str, str]]:
    """(pod, from, to) of each move."""
    return [
        (one["name"], *(f"{one[end]['node']}: {', '.join(names_of(one[end]))}" for end in ("from", "to")))
        for one in answer_of(run)["moves"]
    ]


def names_of(place: Mapping[str, Any]) -> list[str]:
    return [one.rpartition("/")[2] for one in place["devices"]]


def a_running_pod(
    name: str, *devices: str, node: str = "node-1", owner: str = "ReplicaSet", started: int = 0, **more: Any
) -> list[Json]:
    """A pod that its controller makes again, and the claim of its template, which has the devices."""
    claim = an_allocated_claim(f"{name}-dev", *devices, node=node)
    controller = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    claim["metadata"] |= {"uid": f"uid-{name}-dev", "ownerReferences": [controller]}
    claim["spec"] = a_claim("", a_request(count=len(devices)))["spec"]
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "work", "uid": "uid-work", "controller": True}]
    metadata = {"uid": f"uid-{name}", "ownerReferences": owners if owner else [], **more.pop("metadata", {})}
    status = {
        "phase": "Running",
        "startTime": f"2026-11-01T00:00:0{started}Z",
        "resourceClaimStatuses": [{"name": "dev", "resourceClaimName": f"{name}-dev"}],
    }
    pod = a_pod(name, template="some", metadata=metadata, status=status, nodeName=node, **more)
    return [claim, pod]


def wanting(count: int, name: str = "wanting", **more: Any) -> list[Json]:
    """A pending pod that asks for so many devices."""
    return [a_template(f"t-{name}", a_request(count=count)), a_pod(name, template=f"t-{name}", **more)]


def two_nodes(count: int = 2) -> list[Json]:
    return [*a_cluster("node-1", "node-2", count=count), a_template("some")]


def one_free_on_each(**more: Any) -> list[Json]:
    """Two nodes of two devices, one of which each is free: nothing takes two on one node."""
    first, second = a_running_pod("a", "gpu-0", **more), a_running_pod("b", "gpu-0", node="node-2", owner="")
    return [*two_nodes(), *first, *second]


def test_one_pod_moves_and_the_target_has_its_node() -> None:
    run = defrag([*one_free_on_each(), *wanting(2)], "--for", "wanting")
    assert run.code == 0
    assert run.out.splitlines() == [
        "pod default/wanting: 1 move (the best plan)",
        "",
        "Another scheduler places pods again, and may choose other places: default-scheduler (1 pod)",
        "",
        "STEP   EVICT                      PRIORITY   FROM            TO",
        "   1   pod default/a                     0   node-1: gpu-0   node-2: gpu-1",
        "   -   then pod default/wanting          0   -               node-1: gpu-0, gpu-1",
        "",
        "CLASS   LARGEST BLOCK   THEN",
        "gpu                 1      2",
    ]


def test_what_is_won_is_the_largest_block() -> None:
    run = defrag(one_free_on_each(), "--largest", "gpu", "-o", "json")
    assert run.code == 0
    assert moves_of(run) == [("a", "node-1: gpu-0", "node-2: gpu-1")]
    assert answer_of(run)["blocks"] == [{"class": "gpu", "before": 1, "after": 2}]


def test_nodes_are_emptied() -> None:
    run = defrag(one_free_on_each(), "--free-nodes", "1", "-o", "json")
    assert run.code == 0
    assert (moves_of(run), answer_of(run)["emptyNodes"]) == ([("a", "node-1: gpu-0", "node-2: gpu-1")], ["node-1"])
    run = defrag(one_free_on_each(), "--free-nodes", "2", "-o", "json")
    assert (run.code, answer_of(run)["hasPlan"]) == (1, False)


def test_pod_that_makes_room_for_one_that_moves_goes_first() -> None:
    """What leaves node-1 has two devices, and fits only on node-2 when one has left that; node-3 has room for one."""
    nodes = ["node-1", "node-2", "node-3"]
    objects = [*a_cluster(*nodes, count=3), a_template("some")]
    objects += a_running_pod("two", "gpu-0", "gpu-1", node="node-1")
    objects += a_running_pod("one", "gpu-0", node="node-2")
    objects += a_running_pod("stays", "gpu-1", node="node-2", owner="")
    objects += a_running_pod("fixed", "gpu-0", "gpu-1", node="node-3", owner="")
    run = defrag([*objects, *wanting(3)], "--for", "wanting", "--policy", "pack", "-o", "json")
    assert moves_of(run) == [
        ("one", "node-2: gpu-0", "node-3: gpu-2"),
        ("two", "node-1: gpu-0, gpu-1", "node-2: gpu-0, gpu-2"),
    ]
    assert answer_of(run)["isBest"]


def test_lowest_priority_goes_then_fewest_devices_then_who_started_last() -> None:
    objects = [*a_cluster("node-1", "node-2", "node-3", "node-4", count=4), a_template("some")]
    for number, (priority, devices, started) in enumerate([(1, 1, 9), (0, 2, 9), (0, 1, 1), (0, 1, 2)], 1):
        names = [f"gpu-{index}" for index in range(devices)]
        node = f"node-{number}"
        objects += a_running_pod(f"p{number}", *names, node=node, started=started, priority=priority)
        objects += a_running_pod(f"q{number}", *[f"gpu-{index}" for index in range(devices, 2)], node=node, owner="")[
            : 2 * (devices < 2)
        ]
    run = defrag([*objects, *wanting(3, priority=5)], "--for", "wanting", "-o", "json")
    assert [name for name, _, _ in moves_of(run)] == ["p4"]


def test_target_that_fits_needs_no_move() -> None:
    run = defrag([*one_free_on_each(), *wanting(1)], "--for", "wanting")
    assert run.code == 0
    assert run.out.splitlines()[0] == "pod default/wanting: nothing has to move"


def test_copies_and_templates_are_targets(tmp_path: Path) -> None:
    objects = [*one_free_on_each(), a_template("two", a_request(count=2))]
    assert moves_of(defrag(objects, "--for", "template/two", "-o", "json"))[0][0] == "a"
    assert defrag(objects, "--for", "template/two", "--replicas", "2").code == 1
    manifest = saved(tmp_path, a_pod("new", template="two"))
    assert moves_of(defrag(objects, "--for", manifest, "-o", "json"))[0][0] == "a"
    claim = a_claim("c", a_request(count=2))
    assert moves_of(defrag([*objects, claim], "--for", "claim/c", "-o", "json"))[0][0] == "a"


def a_budget(allowed: int, name: str = "of-web") -> Json:
    budget = an_object("policy/v1", "PodDisruptionBudget", name, "default")
    return {
        **budget,
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


WEB = {"labels": {"app": "web"}}


@pytest.mark.parametrize(
    ("rule", "reason", "more", "objects"),
    [
        ("no-controller", "no controller makes it again", {"owner": ""}, []),
        ("daemonset", "belongs to its node by DaemonSet default/work", {"owner": "DaemonSet"}, []),
        ("job", "would lose its run: Job default/work (--move-jobs allows it)", {"owner": "Job"}, []),
        (
            "static",
            "is a static pod: its kubelet runs it from a file",
            {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
            [],
        ),
        ("terminating", "is terminating", {"metadata": {"deletionTimestamp": "2026-11-01T00:00:00Z"}}, []),
        (
            "annotation",
            "its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is false",
            {"metadata": {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}},
            [],
        ),
        (
            "annotation",
            "its annotation dra-scheduler.dev/movable is false",
            {"metadata": {"annotations": {"dra-scheduler.dev/movable": "false"}}},
            [],
        ),
        (
            "local-storage",
            "volume scratch is on its node, and is lost with it (emptyDir)",
            {"volumes": [{"name": "scratch", "emptyDir": {}}]},
            [],
        ),
        (
            "local-storage",
            "volume logs is a directory of its node (hostPath)",
            {"volumes": [{"name": "logs", "hostPath": {"path": "/logs"}}]},
            [],
        ),
        (
            "node-volume",
            "only its node reaches the volume of PersistentVolumeClaim default/data",
            {"volumes": volumes_of("data")},
            [
                a_volume("pv", node="node-1", phase="Bound", claimRef={"name": "data", "namespace": "default"}),
                a_volume_claim(volume="pv"),
            ],
        ),
        ("priority", "has priority 7, and the target 5", {"priority": 7}, []),
        (
            "budget",
            "PodDisruptionBudget default/of-web allows no disruption now",
            {"metadata": WEB},
            [a_budget(0)],
        ),
        (
            "budget",
            "several PodDisruptionBudgets select it (default/of-web, default/other): nobody can evict it",
            {"metadata": WEB},
            [a_budget(1), a_budget(1, "other")],
        ),
    ],
)
def test_rule_that_forbids_a_move_is_named(rule: str, reason: str, more: Json, objects: Sequence[Json]) -> None:
    labels = [
        {**one, "metadata": {**one["metadata"], "labels": {"kubernetes.io/hostname": one["metadata"]["name"]}}}
        if one["kind"] == "Node"
        else one
        for one in one_free_on_each(**more)
    ]
    run = defrag([*labels, *objects, *wanting(2, priority=5)], "--for", "wanting", "-o", "json")
    assert run.code == 1
    found = {pod["name"]: (pod["rule"], pod["reason"]) for one in answer_of(run)["blockers"] for pod in one["pods"]}
    assert found["a"] == (rule, reason)


@pytest.mark.parametrize(
    ("option", "more"),
    [("--move-jobs", {"owner": "Job"}), ("--any-priority", {"priority": 7})],
)
def test_options_lift_rules(option: str, more: Json) -> None:
    """By a policy that does not put the pod back where it was: nothing is kept from one of higher priority."""
    objects = [*one_free_on_each(**more), *wanting(2, priority=5)]
    asked = ("--for", "wanting", "--policy", "pack")
    assert defrag(objects, *asked).code == 1
    assert defrag(objects, *asked, option).code == 0


def test_memory_is_no_local_storage() -> None:
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    assert defrag([*one_free_on_each(volumes=volumes), *wanting(2)], "--for", "wanting").code == 0


def test_only_what_the_user_selects_moves() -> None:
    objects = [*one_free_on_each(metadata=WEB), *wanting(2)]
    assert defrag(objects, "--for", "wanting", "--movable", "app=web").code == 0
    run = defrag(objects, "--for", "wanting", "--movable", "app!=web", "-o", "json")
    rules = {pod["name"]: pod["rule"] for one in answer_of(run)["blockers"] for pod in one["pods"]}
    assert (run.code, rules["a"]) == (1, "selector")
    run = defrag(objects, "--for", "default/wanting", "-n", "default", "--max-moves", "0")
    assert run.code == 1


def test_shared_claim_does_not_move() -> None:
    objects = one_free_on_each()
    claim = next(one for one in objects if one["metadata"]["name"] == "a-dev")
    claim["status"]["reservedFor"].append({"resource": "pods", "name": "c", "uid": "uid-c"})
    objects.append(a_pod("c", claim="a-dev", metadata={"uid": "uid-c"}, nodeName="node-1"))
    run = defrag([*objects, *wanting(2)], "--for", "wanting", "-o", "json")
    rules = {pod["name"]: (pod["rule"], pod["reason"]) for one in answer_of(run)["blockers"] for pod in one["pods"]}
    assert rules["a"] == ("shared-claim", "shares claim default/a-dev with default/c")


def test_budgets_hold_over_the_whole_plan() -> None:
    """Two pods have to leave node-1, and the budget allows one disruption."""
    objects = [*a_cluster("node-1", "node-2", count=2), a_template("some")]
    objects += [*a_running_pod("a", "gpu-0", metadata=WEB), *a_running_pod("b", "gpu-1", metadata=WEB)]
    assert defrag([*objects, a_budget(2), *wanting(2), a_pod("x", nodeName="node-2")], "--free-nodes", "1").code == 0
    objects += a_running_pod("stays", node="node-2", owner="")[1:]
    run = defrag([*objects, a_budget(1)], "--free-nodes", "1", "-o", "json")
    assert (run.code, answer_of(run)["hasPlan"]) == (1, False)
    assert defrag([*objects, a_budget(2)], "--free-nodes", "1").code == 0


def test_page_marks_the_devices_before_and_after() -> None:
    run = defrag([*one_free_on_each(), *wanting(2)], "--for", "wanting", "-o", "html")
    assert run.code == 0
    assert "pod default/wanting: 1 move (the best plan)" in run.out
    assert "Devices after the change" in run.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "one of --for, --largest and --free-nodes"),
        (["--for", "wanting", "--largest", "gpu"], "one of --for, --largest and --free-nodes"),
        (["--largest", "gpus"], "--largest: there is no DeviceClass gpus; did you mean gpu?"),
        (["--for", "a"], "pod default/a is on node node-1 already"),
        (["--for", "claim/a-dev"], "claim default/a-dev has its devices already"),
        (["--for", "wantin"], "pod default/wantin is not in the input"),
        (["--free-nodes", "1", "--replicas", "2"], "--replicas needs --for"),
        (["--for", "wanting", "--replicas", "1000000000"], "not in the range 1<=x<=10000"),
        (["--for", "wanting", "--timeout", "nan"], "'nan' is not a number that can be counted with"),
        (["--for", "wanting", "--timeout", "inf"], "'inf' is not a number that can be counted with"),
        (["--for", "wanting", "-l", "app=web"], "--movable selects the pods"),
        (["--for", "wanting", "--apply"], "--apply takes one pod of a cluster"),
    ],
)
def test_what_cannot_be_asked_is_said(options: list[str], message: str) -> None:
    run = defrag([*one_free_on_each(), *wanting(2)], *options)
    assert run.code == 2
    assert message in run.err


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (a_pod("waits", template="one", schedulingGates=[{"name": "x.io/later"}]), "scheduling is gated by x.io/later"),
        (a_pod("waits", template="xyz"), "claim template default/xyz does not exist"),
    ],
)
def test_target_that_waits_for_something_else_has_no_plan(pod: Json, reason: str) -> None:
    run = defrag([*one_free_on_each(), pod], "--for", "waits", "-o", "json")
    answer = answer_of(run)
    assert (run.code, answer["subject"], answer["hasPlan"], answer["hopeless"]) == (
        1, "pod default/waits", False, reason,
    )  # fmt: skip


def test_what_is_not_looked_at_for_the_target_is_told() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    run = defrag([*one_free_on_each(), *wanting(1, volumes=volumes)], "--for", "wanting")
    assert "volumes of 1 pod are not checked against them" in run.err


def test_target_that_no_move_can_help_is_told_what_every_node_lacks() -> None:
    run = dra("defrag", "manifests/examples/fleet", "--for", "research/wish", "-o", "json")
    answer = answer_of(run)
    assert (run.code, answer["hasPlan"], answer["blockers"]) == (1, False, [])
    assert "no node has 5 devices for request gpus" in answer["hopeless"]


def test_target_whose_search_ends_before_it_is_known_is_not_told_that_it_fits_nowhere() -> None:
    inventory = inventory_of(*a_cluster(), a_claim("c", a_request(count=2)))
    claims = Claims(inventory)
    cluster = cluster_of(inventory, claims, (), Features.of("1.36"), budget_steps=0)
    target = ToFit(None, (claims.objects["default", "c"].claim,))
    answer = Defragmentation(cluster, MoveRules(), SearchLimits()).fit([target])
    assert answer.hopeless == ""
    assert answer.undecided.startswith("no answer after ")
    told = rendered(DefragReport("claim default/c", answer, most=5), TEXT)
    assert "whether it would fit if no pod were on any node is not known: no answer after " in told


def test_why_there_is_no_plan_says_what_was_not_allowed_and_not_tried() -> None:
    objects = [*one_free_on_each(), *wanting(2)]
    forbidden = defrag(objects, "--for=wanting", "--max-moves=0", "-o", "json")
    assert forbidden.code == 1
    reasons = {pod["name"]: pod["reason"] for one in answer_of(forbidden)["blockers"] for pod in one["pods"]}
    assert reasons == {
        "a": "fits elsewhere alone, but no plan of up to 0 moves was found",
        "b": "no controller makes it again",
    }
    copies = defrag(objects, "--for=wanting", "--replicas=2")
    assert copies.out.splitlines()[0].endswith(
        ": no plan of up to 5 moves; the search ended before it had tried everything: there may be one"
    )
