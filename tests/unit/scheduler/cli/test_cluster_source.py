"""`-n`, `-A` and `-l` choose what is printed, and never what is counted as in use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from scheduler.cli import live_cluster
from scheduler.cli.ending import KUBECTL_DRA
from scheduler.cli.main import dra as program
from scheduler.client.discovery import Served
from scheduler.input.documents import Place, RawObject
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_request,
    a_slice,
    an_allocated_claim,
    text_of,
)

TRAIN = {"labels": {"app": "train"}}
COMMANDS = ("allocate", "audit", "claims", "explain", "fit", "lint", "status", "whatif")


def held(name: str, device: str, namespace: str, **metadata: Any) -> Json:
    claim = an_allocated_claim(name, device)
    claim["metadata"] = {**claim["metadata"], "namespace": namespace, **metadata}
    return claim


def objects() -> list[Json]:
    """Four devices, of which two are held, and a pod in each of two namespaces that wants two."""
    pods = [
        a_pod("p", claim="want", namespace="ml", metadata=TRAIN),
        a_pod("q", claim="want", namespace="web", metadata={"labels": {"app": "serve"}}),
    ]
    wanted = [a_claim("want", a_request(count=2), namespace=one) for one in ("ml", "web")]
    return [
        a_node(labels={"zone": "a"}),
        a_slice(count=4),
        a_class(),
        held("one", "gpu-0", "ml", **TRAIN),
        held("two", "gpu-1", "web"),
        *wanted,
        *pods,
    ]


def run(command: str, *options: str, given: Sequence[Json] = ()) -> Run:
    return dra(command, "-", *options, stdin=text_of(*(given or objects())))


def json_of(found: Run) -> Any:  # Any: JSON
    return orjson.loads(found.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_on_a_cluster_has_the_same_options(command: str) -> None:
    text = dra(command, "--help").out
    options = ("--kubeconfig FILE", "--context NAME", "-n, --namespace NAME", "-A, --all-namespaces", "-l, --selector")
    assert [one for one in options if one not in text] == []


def names(found: Run) -> list[str]:
    return [f"{one['namespace']}/{one['name']}" for one in json_of(found)["items"]]


def test_claims_are_those_of_the_namespace_with_the_labels() -> None:
    assert names(run("claims", "-o", "json")) == ["ml/one", "ml/want", "web/two", "web/want"]
    assert names(run("claims", "-o", "json", "-n", "ml")) == ["ml/one", "ml/want"]
    assert names(run("claims", "-o", "json", "-l", "app=train")) == ["ml/one"]
    assert names(run("claims", "-o", "json", "-n", "web", "-l", "app")) == []
    assert names(run("claims", "-o", "json", "-n", "web", "-A")) == ["ml/one", "ml/want", "web/two", "web/want"]
    assert "there is no ResourceClaim in namespace web with labels app" in run("claims", "-n", "web", "-l", "app").err


def test_status_counts_devices_that_the_chosen_claims_hold() -> None:
    found = json_of(run("status", "-o", "json", "-n", "web"))
    assert [(one["name"], one["devices"], one["claims"]) for one in found["drivers"]] == [("gpu.example", 1, 1)]
    assert [one["name"] for pool in found["pools"] for one in pool["devices"]] == ["gpu-1"]
    assert [one["name"] for one in found["namespaces"]] == ["web"]
    # What still fits is a matter of the whole cluster: four devices, of which ml holds one more.
    assert found["classes"][0]["largestClaim"] == {"devices": 2, "nodes": ["node-1"]}
    assert "no claim in namespace none holds a device" in run("status", "-n", "none").err


def test_of_a_shared_device_only_the_chosen_holders_are_printed() -> None:
    twice = [*objects(), held("three", "gpu-0", "web")]
    device = run("status", "--by", "device", "-n", "web", given=twice).out.splitlines()[1]
    assert "web/three" in device
    assert "ml/one" not in device


def test_pods_of_other_namespaces_are_placed_all_the_same() -> None:
    assert "1 of 2 placed" in run("allocate").err
    of_web = run("allocate", "-n", "web")
    assert (of_web.code, of_web.out.count("\n")) == (1, 2)
    assert "0 of 1 placed" in of_web.err  # ml's pod comes first, and takes the two free devices
    of_ml = run("allocate", "-l", "app=train")
    assert (of_ml.code, "1 of 1 placed" in of_ml.err) == (0, True)
    assert "no pending pod or claim in namespace none" in run("allocate", "-n", "none").err


def test_explain_all_explains_the_chosen_after_those_before_them() -> None:
    found = run("explain", "--all", "-o", "json", "-n", "web")
    assert [(one["pod"]["name"], one["verdict"]) for one in json_of(found)["items"]] == [("q", "DoesNotFit")]


def test_a_name_without_a_namespace_is_in_that_of_the_option() -> None:
    of_option = dra("explain", "p", "-", "-n", "ml", stdin=text_of(*objects()))
    assert (of_option.code, "ml/p" in of_option.out) == (0, True)
    elsewhere = dra("explain", "web/q", "-", "-n", "ml", stdin=text_of(*objects()))
    assert (elsewhere.code, "web/q is not in the namespace of -n, ml" in elsewhere.err) == (2, True)
    assert "256 more of pod ml/p fit" in dra("fit", "pod/p", "-", "-n", "ml", stdin=text_of(*objects())).out


def test_explain_takes_labels_only_for_all() -> None:
    found = dra("explain", "ml/p", "-", "-l", "app=train", stdin=text_of(*objects()))
    assert (found.code, "-l selects which of --all are explained" in found.err) == (2, True)


def test_fit_lists_nodes_with_the_labels_and_counts_copies_on_all() -> None:
    given = [*objects(), a_node("node-2"), a_slice(node="node-2", count=4)]
    template = a_claim("like", a_request(), namespace="ml")
    found = json_of(dra("fit", "claim/ml/like", "-", "-l", "zone=a", "-o", "json", stdin=text_of(*given, template)))
    assert found["nodes"] == [{"name": "node-1", "copies": 2}]
    assert (found["copies"], found["copiesOnOtherNodes"]) == (6, 4)


def test_fit_refuses_a_manifest_of_another_namespace(tmp_path: Path) -> None:
    pod = saved(tmp_path, a_pod("new", claim="want", namespace="web"), name="pod.yaml")
    found = dra("fit", pod, "-", "-n", "ml", stdin=text_of(*objects()))
    assert (found.code, "pod web/new is not in the namespace of -n, ml" in found.err) == (2, True)


def test_whatif_prints_differences_of_the_chosen() -> None:
    options = ("--overlay", "cordon:node-1", "-o", "json")
    assert json_of(run("whatif", *options))["before"] == {"placed": 1, "notPlaced": 1, "devices": 2}
    found = json_of(run("whatif", *options, "-n", "web"))
    assert (found["before"], found["items"]) == ({"placed": 0, "notPlaced": 1, "devices": 0}, [])
    assert [one["name"] for one in json_of(run("whatif", *options, "-l", "app=train"))["items"]] == ["pod ml/p"]


def rules(found: Run) -> list[str]:
    return [one["rule"] for one in json_of(found)["items"]]


def test_audit_prints_findings_of_the_chosen_and_counts_the_others() -> None:
    given = [*objects(), held("three", "gpu-0", "web"), held("gone", "gpu-9", "web")]
    every = run("audit", "-o", "json", given=given)
    of_ml = run("audit", "-o", "json", "-n", "ml", given=given)
    assert rules(of_ml)[0] == "device-allocated-twice"  # ml holds it, too
    assert "device-not-published" in rules(every)
    assert "device-not-published" not in rules(of_ml)
    hidden = len(rules(every)) - len(rules(of_ml))
    assert f"{hidden} findings are not about objects in namespace ml, and not shown" in of_ml.err
    of_label = run("audit", "-o", "json", "-l", "app=train", given=given)
    assert set(rules(of_label)) == {"device-allocated-twice", "claim-not-reserved", "claim-without-finalizer"}


def test_lint_fails_only_for_the_chosen() -> None:
    given = [*objects(), a_claim("large", a_request(count=9), namespace="ml")]
    assert run("lint", given=given).code == 1
    assert (run("lint", "-n", "ml", given=given).code, run("lint", "-n", "web", given=given).code) == (1, 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_selector_that_is_none_is_refused(command: str) -> None:
    found = run(command, "-l", "app in (")
    assert (found.code, found.out) == (2, "")
    assert "Invalid value for -l: 'app in (' is not key=value" in found.err


def test_whatif_prints_a_warning_once(tmp_path: Path) -> None:
    odd = a_node("odd")
    odd["spec"] = {"taints": [{"key": "a", "effect": "Never"}]}
    given = [*objects(), odd]
    overlay = saved(tmp_path, a_class(expressions=["true"]), name="class.yaml")
    found = run("whatif", "--overlay", str(overlay), given=given)
    lines = [line for line in found.err.splitlines() if line]
    assert any("Never" in line for line in lines)
    assert len(lines) == len(set(lines))


def test_a_namespace_does_not_steer_the_terminal() -> None:
    assert "\x1b" not in run("claims", "-n", "\x1b[31mred").err


# Names, as kubectl takes them


def explained(*arguments: str, given: Sequence[Json] = ()) -> Run:
    return dra("explain", *arguments, "-", stdin=text_of(*(given or objects())))


@pytest.mark.parametrize(
    "written", [["ml/p"], ["pod/ml/p"], ["pod", "ml/p"], ["po", "p", "-n", "ml"], ["pods/p", "-n", "ml"]]
)
def test_explain_takes_a_pod_as_kubectl_does(written: list[str]) -> None:
    assert explained(*written).out.startswith("pod ml/p fits")


def test_a_bare_name_is_that_of_a_pod_or_a_claim() -> None:
    of_claim = explained("want", "-n", "web")
    assert of_claim.out.startswith("pod web/q ")
    assert "claim web/want: pod web/q, which uses it, is explained" in of_claim.err
    assert explained("one", "-n", "ml").out.startswith("claim ml/one fits: is allocated")
    both = [*objects(), a_claim("p", namespace="ml")]
    run = explained("p", "-n", "ml", given=both)
    assert run.out.startswith("pod ml/p fits")
    assert "pod ml/p is explained; claim/ml/p explains the claim of that name" in run.err
    assert "is explained" not in explained("p", "-n", "ml").err


def test_a_file_of_the_name_after_a_word_for_a_kind_is_a_path(tmp_path: Path) -> None:
    path = saved(tmp_path, *objects(), a_pod("job", claim="want", namespace="ml"))
    assert dra("explain", "job", path, "-n", "ml").out.startswith("pod ml/job ")


def a_controlled_pod(name: str, kind: str, owner: str, **fields: Any) -> Json:
    by = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
    pod = a_pod(name, claim="want", namespace="ml", **fields)
    labels = {"pod-template-hash": owner.rpartition("-")[2]}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [by], "labels": labels}}


def test_a_workload_stands_for_its_first_pending_pod() -> None:
    pods = [a_controlled_pod(f"web-7d4-{one}", "ReplicaSet", "web-7d4") for one in "ab"]
    bound = a_controlled_pod("web-7d4-0", "ReplicaSet", "web-7d4", nodeName="node-1")
    given = [*objects(), bound, *pods, a_controlled_pod("db-0", "StatefulSet", "db")]
    run = explained("deploy/web", "-n", "ml", given=given)
    assert run.out.startswith("pod ml/web-7d4-a ")
    assert "Deployment ml/web: pod ml/web-7d4-a is explained, the first of 3 pods" in run.err
    assert explained("sts", "ml/db", given=given).out.startswith("pod ml/db-0 ")
    none = explained("deploy/db", "-n", "ml", given=given)
    assert (none.code, "Deployment ml/db has no pod in the input" in none.err) == (2, True)


# The namespace of the context, for `kubectl dra`


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster with the objects, and a kubeconfig whose contexts have namespaces."""
    contexts = [
        {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
        {"name": "b", "context": {"cluster": "c", "user": "u", "namespace": "web"}},
        {"name": "none", "context": {"cluster": "c", "user": "u"}},
    ]
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "a", "contexts": contexts}
    kubeconfig = {**config, "clusters": [{"name": "c", "cluster": {"server": "https://a"}}], "users": [{"name": "u"}]}
    path = tmp_path / "kubeconfig"
    path.write_bytes(orjson.dumps(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(path))
    given = [RawObject(Place("https://a"), raw, is_named=False) for raw in objects()]
    found = live_cluster.LiveCluster(given, Served("v1.36.3", "1.36", "v1", None), name="context test")
    monkeypatch.setattr(live_cluster, "read_cluster", lambda _: found)


def of_kubectl(*arguments: str, name: str = KUBECTL_DRA) -> Any:
    return CliRunner().invoke(program, list(arguments), prog_name=name)


@pytest.mark.usefixtures("cluster")
def test_kubectl_dra_takes_the_namespace_of_the_context() -> None:
    def listed(*options: str, name: str = KUBECTL_DRA) -> list[str]:
        found = orjson.loads(of_kubectl("claims", "-o", "json", *options, name=name).stdout)
        return [f"{one['namespace']}/{one['name']}" for one in found["items"]]

    assert listed() == ["ml/one", "ml/want"]
    assert listed("--context", "b") == ["web/two", "web/want"]
    assert listed("-n", "web") == ["web/two", "web/want"]
    assert len(listed("-A")) == 4
    assert listed("--context", "none") == []
    assert len(listed(name="dra")) == 4
    assert of_kubectl("explain", "p").stdout.startswith("pod ml/p ")
    assert of_kubectl("explain", "q", "-A", "--context", "b").stdout.startswith("pod web/q ")
    assert of_kubectl("allocate").stderr.endswith("1 of 1 placed\n")
    devices = orjson.loads(of_kubectl("status", "-o", "json").stdout)["drivers"]
    assert [one["devices"] for one in devices] == [4]  # devices are in no namespace


@pytest.mark.usefixtures("cluster")
def test_a_context_that_is_not_there_is_named() -> None:
    run = of_kubectl("claims", "--context", "absent")
    assert (run.exit_code, "absent" in run.stderr) == (2, True)
