"""`dra allocate --preempt`: pods of higher priority get the place of others, which a table names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_slice,
    an_allocated_claim,
    text_of,
)

ROOT = Path(__file__).parents[4]


def allocate(objects: Sequence[Json], *options: str) -> Run:
    return dra("allocate", "-", *options, stdin=text_of(*objects))


def preemptions(objects: Sequence[Json]) -> Any:
    return orjson.loads(allocate(objects, "--preempt", "-o", "json").out)


def a_holder(name: str, *, priority: int, device: str = "gpu-0", node: str = "node-1") -> list[Json]:
    """A pod on the node with a claim of its own name."""
    user = {"resource": "pods", "name": name, "uid": f"uid-{name}"}
    return [
        a_pod(name, claim=name, metadata={"uid": f"uid-{name}"}, nodeName=node, priority=priority),
        an_allocated_claim(name, device, node=node, reserved_for=[user]),
    ]


def in_ml(one: Json) -> Json:
    return {**one, "metadata": {**one["metadata"], "namespace": "ml"}}


def test_example_of_the_documentation_is_what_comes_out() -> None:
    namespaced = [*a_holder("low", priority=1), a_claim("urgent"), a_pod("urgent", claim="urgent", priority=10)]
    objects = [a_node(), a_slice(count=1), a_class(), *map(in_ml, namespaced)]
    page = (ROOT / "docs" / "allocate.md").read_text()
    example = page[page.index("### Preemption") :].partition("```\n")[2].partition("```")[0]
    run = allocate(objects, "--preempt")
    assert run.out == example
    assert run.err == "1 of 1 placed, 1 pod evicted\n"
    assert run.code == 0


def test_nobody_goes_unless_asked_for_nor_for_devices_as_in_kube_scheduler() -> None:
    objects = [*a_cluster(count=1), *a_holder("low", priority=1), a_pod("p", template="one", priority=10)]
    assert allocate(objects).code == 1
    assert "preemptions" not in orjson.loads(allocate(objects, "-o", "json").out)
    strict = allocate(objects, "--preempt", "--strict")
    assert (strict.code, strict.err) == (1, "0 of 1 placed\n")
    assert "EVICTED" not in strict.out


def test_nobody_goes_for_a_pod_that_never_preempts() -> None:
    pod = a_pod("p", template="one", priority=10, preemptionPolicy="Never")
    found = preemptions([*a_cluster(count=1), *a_holder("low", priority=1), pod])
    assert found["preemptions"] == []


def test_each_pod_counts_for_the_next() -> None:
    """The first takes the place of the lowest; the second one cannot take it from the first, which is as high."""
    holders = [*a_holder("a", priority=1), *a_holder("b", priority=2, device="gpu-1")]
    pods = [a_pod(name, template="one", priority=10) for name in ("p", "q", "r")]
    found = preemptions([*a_cluster(count=2), *holders, *pods])
    gone = [(one["pod"]["name"], [victim["name"] for victim in one["victims"]]) for one in found["preemptions"]]
    assert gone == [("p", ["a"]), ("q", ["b"])]
    names = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in found["items"] if one["kind"] == "Pod"}
    assert names == {"p": "node-1", "q": "node-1", "r": None}


def test_claim_that_came_free_can_be_allocated_again() -> None:
    """It is the one of the pod that went, and of one that still waits: its old devices are not told of it any more."""
    pods = [a_pod("p", template="one", priority=10), a_pod("later", claim="low", priority=0)]
    more = [a_node("node-2"), a_slice(node="node-2", count=1)]
    on_first = {"nodeSelector": {"at": "first"}}
    pods[0]["spec"] |= on_first
    node = a_node(labels={"at": "first"})
    found = preemptions([node, *a_cluster(count=1)[1:], *more, *a_holder("low", priority=1), *pods])
    assert [one["claims"] for one in found["preemptions"]] == [["default/low"]]
    claim = next(one for one in found["items"] if one["kind"] == "ResourceClaim" and one["metadata"]["name"] == "low")
    assert [one["pool"] for one in claim["status"]["allocation"]["devices"]["results"]] == ["node-2"]
    assert [one["name"] for one in claim["status"]["reservedFor"]] == ["later"]


def test_pods_that_are_not_shown_have_no_line_of_who_goes() -> None:
    other = {**a_pod("p", template="one", priority=10)}
    run = allocate([*a_cluster(count=1), *a_holder("low", priority=1), other], "--preempt", "-n", "elsewhere")
    assert "EVICTED" not in run.out
