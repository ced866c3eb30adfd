"""What `dra explain` says of evictions: who would go, and why nobody else can make room."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.manifests import Json, a_cluster, a_pod, an_allocated_claim, text_of

ROOT = Path(__file__).parents[4]


def explained(objects: Sequence[Json], *options: str) -> str:
    return dra("explain", "p", "-", *options, stdin=text_of(*objects)).out


def preemption(objects: Sequence[Json], *options: str) -> list[str]:
    """The lines of that part."""
    _, _, after = explained(objects, *options).partition("\npreemption\n")
    return after.splitlines()


def contended(**spec: Any) -> list[Json]:
    """The device of node a is held by a lower pod, that of node b by one of higher priority as well."""
    users = {name: {"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in ("low", "batch", "serving")}
    holders = [
        a_pod(name, claim=claim, metadata={"uid": f"uid-{name}"}, nodeName=node, priority=priority)
        for name, claim, node, priority in (("low", "x", "a", 1), ("batch", "y", "b", 1), ("serving", "y", "b", 20))
    ]
    claims = [
        an_allocated_claim("x", "gpu-0", node="a", reserved_for=[users["low"]]),
        an_allocated_claim("y", "gpu-0", node="b", reserved_for=[users["batch"], users["serving"]]),
    ]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
    }
    budget |= {"spec": {"selector": {}}, "status": {"disruptionsAllowed": 0}}
    waits = a_pod("p", template="one", priority=10, **spec)
    return [*a_cluster("a", "b", count=1), *holders, *claims, budget, waits]


def test_pods_that_would_be_evicted_and_why_nobody_else_can_be_are_told() -> None:
    missing = "request gpu needs 1 device, 0 are left (1 device: 1 is in use (held by default/y))"
    told = preemption(contended())
    assert told == [
        "  evicts from node a: default/low (priority 1)",
        "    their claims come free: default/x",
        "    violates 1 PodDisruptionBudget: default/b",
        "  nobody can make room on 1 node (b)",
        f"    not enough even if 1 pod of lower priority goes: {missing}",
        "    claim default/y is shared with pod default/serving of priority 20",
        "    equal or higher priority: default/serving (20)",
    ]
    assert preemption(contended(), "--node", "b") == told[3:]


def test_what_preemption_would_do_is_named_where_it_is_off() -> None:
    told = preemption(contended(preemptionPolicy="Never"))
    assert told[:3] == [
        "  evicts nobody: not eligible due to preemptionPolicy=Never.",
        "  would fit if",
        "    these pods were evicted from node a: default/low (priority 1)",
    ]


def configured(folder: Path, **settings: str) -> list[str]:
    """The lines of that part, by a configuration of the live scheduler; both pods of lower priority are of team a."""
    file = folder / "config.json"
    kind = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration"}
    file.write_bytes(orjson.dumps({**kind, **settings}))
    objects = [labelled(one) if one["kind"] == "Pod" else one for one in contended()]
    return preemption(objects, f"--config={file}")


def test_configuration_of_the_live_scheduler_says_who_is_evicted(tmp_path: Path) -> None:
    assert configured(tmp_path, preemption="off")[:3] == [
        "  evicts nobody: preemption is off in the configuration",
        "  would fit if",
        "    these pods were evicted from node a: default/low (priority 1)",
    ]
    assert configured(tmp_path, preemption="devices")[0] == "  evicts from node a: default/low (priority 1)"
    for settings in ({"neverPreempt": "team=a"}, {"preemptPodsOf": "own"}):
        assert configured(tmp_path, **settings)[0] == "  nobody can make room on 1 node (a)"


def labelled(pod: Json) -> Json:
    return {**pod, "metadata": {**pod["metadata"], "labels": {"team": "a"}}}


def test_preemption_is_told_to_programs_and_on_the_page() -> None:
    found = orjson.loads(explained(contended(), "-o", "json"))["preemption"]
    assert (found["off"], found["node"], found["claims"], found["violatedBudgets"]) == (
        None,
        "a",
        ["default/x"],
        ["default/b"],
    )
    assert found["victims"] == [{"namespace": "default", "name": "low", "priority": 1}]
    assert [(one["name"], bool(one["reasons"])) for one in found["nodes"]] == [("a", False), ("b", True)]
    assert "claim default/y is shared with pod default/serving" in explained(contended(), "-o", "html")


def test_of_everything_only_who_goes_is_told() -> None:
    run = dra("explain", "--all", "-", stdin=text_of(*contended()))
    assert "  evicts from node a: default/low (priority 1)" in run.out
    assert "nobody can make room" not in run.out


def test_every_field_about_preemption_is_documented() -> None:
    page = (ROOT / "docs" / "explain.md").read_text()
    documented = set(re.findall(r"`(\w+)`", page[page.index("### `preemption`") :]))
    found = orjson.loads(explained(contended(), "-o", "json"))["preemption"]
    assert found.keys() | found["nodes"][0].keys() | found["victims"][0].keys() <= documented
