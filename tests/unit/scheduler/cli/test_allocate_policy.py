"""`dra allocate --policy`: other devices and nodes, of those that are possible."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from scheduler.simulation.result import result_of
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
    an_allocated_claim,
    text_of,
)

POLICIES_PAGE = Path(__file__).parents[4] / "docs/policies.md"


def allocate(objects: Sequence[Json], *options: str) -> Run:
    return dra("allocate", "-", "-o", "wide", *options, stdin=text_of(*objects))


def nodes(run: Run) -> dict[str, str]:
    """The node of each pod."""
    return {line.split()[0].removeprefix("default/"): line.split()[2] for line in run.out.splitlines()[1:]}


def amounts(cpu: str) -> Json:
    return {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}


def devices(run: Run) -> list[str]:
    return [word.rpartition("/")[2] for line in run.out.splitlines()[1:] for word in line.split() if "/gpu-" in word]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("first-fit", {"p": "n1", "q": "n1"}),
        ("pack", {"p": "n2", "q": "n1"}),
        ("spread", {"p": "n1", "q": "n3"}),
        ("least-fragmentation", {"p": "n2", "q": "n1"}),
    ],
)
def test_pods_go_to_the_node_that_the_policy_finds_best(policy: str, expected: dict[str, str]) -> None:
    held = an_allocated_claim("held", "gpu-0", node="n2")
    pods = [a_pod(name, template="one") for name in "pq"]
    run = allocate([*a_cluster("n1", "n2", "n3", count=2), held, *pods], "--policy", policy)
    assert run.code == 0
    assert nodes(run) == expected


def test_first_fit_is_the_default() -> None:
    objects = [*a_cluster("n1", "n2"), *(a_pod(name, template="one") for name in "pqr")]
    assert allocate(objects).out == allocate(objects, "--policy", "first-fit").out


def test_topology_takes_the_attribute_that_is_named() -> None:
    boards = [{"name": f"gpu-{n}", "attributes": {"board": {"int": n % 2}}} for n in range(4)]
    claim, pod = a_claim("c", a_request(count=2)), a_pod("p", claim="c")
    objects = [a_node(), a_class(), a_slice(devices=boards), claim, pod]
    assert devices(allocate(objects)) == ["gpu-0", "gpu-1"]
    assert devices(allocate(objects, "--policy", f"topology:{DRIVER}/board")) == ["gpu-0", "gpu-2"]


@pytest.mark.parametrize(
    ("policy", "problem"),
    [("best", "'best' is not among the policies: first-fit"), ("pack:a/b", "policy pack takes no attributes")],
)
def test_what_is_no_policy_is_bad_input(policy: str, problem: str) -> None:
    run = allocate(a_cluster(), "--policy", policy)
    assert run.code == 2
    assert "Invalid value for '--policy'" in run.err
    assert problem in run.err


PROFILES = """\
apiVersion: dra-scheduler.dev/v1alpha1
kind: DraSchedulerConfiguration
profiles:
- schedulerName: first
- {schedulerName: packing, policy: pack}
"""


@pytest.mark.parametrize(("name", "node"), [("first", "n1"), ("packing", "n2"), ("unknown", "n1")])
def test_pods_are_placed_by_the_profile_that_they_name(tmp_path: Path, name: str, node: str) -> None:
    (tmp_path / "config.yaml").write_text(PROFILES)
    pod = a_pod("p", template="one")
    pod["spec"]["schedulerName"] = name
    held = an_allocated_claim("held", "gpu-0", node="n2")
    objects = [*a_cluster("n1", "n2", count=2), held, pod]
    run = allocate(objects, "--config", str(tmp_path / "config.yaml"))
    assert nodes(run) == {"p": node}
    explained = dra("explain", "default/p", "-", "--config", str(tmp_path / "config.yaml"), stdin=text_of(*objects))
    assert f"node {node}" in explained.out.splitlines()[0]


def test_policy_goes_before_the_files(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(PROFILES.partition("profiles:")[0])
    held = an_allocated_claim("held", "gpu-0", node="n2")
    objects = [*a_cluster("n1", "n2", count=2), held, a_pod("p", template="one")]
    options = ("--config", str(tmp_path / "config.yaml"))
    assert nodes(allocate(objects, *options)) == {"p": "n1"}
    assert nodes(allocate(objects, *options, "--policy", "pack")) == {"p": "n2"}


def test_policy_goes_before_the_files_with_its_attributes(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(PROFILES.partition("profiles:")[0])
    boards = [{"name": f"gpu-{n}", "attributes": {"board": {"int": n % 2}}} for n in range(4)]
    objects = [a_node(), a_class(), a_slice(devices=boards), a_claim("c", a_request(count=2)), a_pod("p", claim="c")]
    options = ("--config", str(tmp_path / "config.yaml"), "--policy", f"topology:{DRIVER}/board")
    assert devices(allocate(objects, *options)) == ["gpu-0", "gpu-2"]


@pytest.mark.parametrize(("policy", "node"), [("SmallestFirst", "n2"), ("KeepCpu", "n2")])
@pytest.mark.parametrize("command", ["allocate", "simulate"])
def test_a_policy_of_ones_own_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, policy: str, node: str
) -> None:
    first, second, _ = re.findall(r"^```python\n(.*?)^```", POLICIES_PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "documented_policies.py").write_text(f"{first}\n{second}")
    monkeypatch.syspath_prepend(str(tmp_path))
    large, small = ([{"name": "gpu-0", "capacity": {"memory": {"value": size}}}] for size in ("80Gi", "40Gi"))
    objects = [
        *({**a_node(name), "status": amounts(cpu)} for name, cpu in (("n1", "4"), ("n2", "16"))),
        a_class(),
        a_slice(node="n1", devices=large),
        a_slice(node="n2", devices=small),
        a_claim("c"),
        a_pod("p", claim="c"),
    ]
    option = ("--policy", f"documented_policies:{policy}")
    if command == "allocate":
        assert nodes(allocate(objects, *option)) == {"p": node}
    else:
        run = dra("simulate", "-", *option, "--explain", "default/p", "-o", "json", stdin=text_of(*objects))
        assert [one.node for one in result_of(run.out).scenarios[0].explained] == [node]


def test_configuration_that_cannot_be_used_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(PROFILES.replace("pack", "best"))
    run = allocate(a_cluster(), "--config", str(tmp_path / "config.yaml"))
    assert run.code == 2
    assert "profiles[1].policy: 'best' is not among the policies" in run.err
