from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from scheduler.offline import copies
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_cluster,
    a_pod,
    a_pod_template,
    a_request,
    a_template,
    a_workload,
    an_allocated_claim,
    text_of,
)


def fit(subject: str, objects: Sequence[Json], *options: str) -> Run:
    return dra("fit", subject, "-", *options, stdin=text_of(*objects))


def cluster(count: int = 3) -> list[Json]:
    """Two nodes with so many devices each, and templates for one and for two devices."""
    return [*a_cluster("node-1", "node-2", count=count), a_template("one"), a_template("two", a_request(count=2))]


def test_copies_of_a_pod_fit_until_the_devices_are_used_up() -> None:
    run = fit("pod/default/p", [*cluster(), a_pod("p", template="two")])
    assert run.code == 0
    head, _, _, first, second, _, next_one = run.out.splitlines()
    assert head == "2 more of pod default/p fit"
    assert [first.split(), second.split()] == [["node-1", "1"], ["node-2", "1"]]
    assert next_one.startswith(
        "The next one: 0/2 nodes: no node has 2 devices for request gpu, the most is 1, on node-1"
    )


def test_what_is_allocated_is_not_free() -> None:
    held = an_allocated_claim("held", "gpu-0", "gpu-1", "gpu-2")
    assert fit("pod/default/p", [*cluster(), held, a_pod("p", template="two")]).out.startswith("1 more of ")


def test_pods_that_are_pending_are_left_out() -> None:
    pending = [a_pod(f"other-{number}", template="one") for number in range(6)]
    assert fit("pod/default/p", [*cluster(), *pending, a_pod("p", template="one")]).out.startswith("6 more of ")


def test_copies_of_a_running_pod_get_claims_of_their_own() -> None:
    running = a_pod("p", template="one", nodeName="node-1", metadata={"uid": "uid-p"}, status={"phase": "Running"})
    assert fit("pod/default/p", [*cluster(), running]).out.startswith("6 more of ")


def test_a_file_of_whose_claims_some_are_used_by_no_known_pod_is_no_success(tmp_path: Path) -> None:
    body = {"replicas": 1, "template": a_pod_template("one", containers=[{"name": "main"}])}
    known = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": body}
    partly = {**known, "spec": {**body, "sidecar": {"resourceClaimTemplateName": "two"}}}
    assert fit(str(saved(tmp_path, known)), cluster()).code == 0
    run = fit(str(saved(tmp_path, partly)), cluster())
    assert (run.code, run.out.splitlines()[0].split()[0]) == (1, "6")
    assert "some of its pods cannot be determined" in run.err


def test_copies_share_a_claim_that_the_pod_names() -> None:
    run = fit("pod/default/p", [*cluster(), a_claim("c"), a_pod("p", claim="c")], "--replicas", "10")
    assert run.out.startswith("10 more of pod default/p fit")
    assert run.out.splitlines()[3].split() == ["node-1", "10"]


def test_copies_of_a_claim_and_of_a_template() -> None:
    assert fit("template/default/two", cluster()).out.startswith("2 more of template default/two fit")
    held = an_allocated_claim("held", "gpu-0")
    assert fit("claim/default/held", [*cluster(), held]).out.startswith("5 more of claim default/held fit")


def test_a_file_is_the_pod_that_it_creates(tmp_path: Path) -> None:
    workload = saved(tmp_path, a_workload("Deployment", "work", replicas=7))
    run = dra("fit", workload, saved(tmp_path, *cluster(), name="cluster.yaml"))
    assert run.out.startswith("6 more of Deployment default/work fit")
    several = saved(tmp_path, a_pod("a"), a_pod("b"), name="several.yaml")
    refused = dra("fit", several, saved(tmp_path, *cluster(), name="cluster.yaml"))
    assert refused.code == 2
    assert (
        "one object that creates pods or one group of pods, but contains 2 (pod default/a, pod default/b" in refused.err
    )


def test_replicas_is_a_number_that_has_to_fit() -> None:
    objects = [*cluster(), a_pod("p", template="one")]
    enough = fit("pod/default/p", objects, "--replicas", "6")
    assert (enough.code, "The next one" in enough.out) == (0, False)
    assert fit("pod/default/p", objects, "--replicas", "7").code == 1
    refused = fit("pod/default/p", objects, "--replicas", "0")
    assert refused.code == 2
    assert "'0' is neither a number above 0 nor max" in refused.err


def test_json_has_the_nodes_and_the_reason() -> None:
    found = orjson.loads(fit("pod/default/p", [*cluster(), a_pod("p", template="two")], "-o", "json").out)
    assert (found["kind"], found["subject"], found["copies"]) == ("Fit", "pod default/p", 2)
    assert found["nodes"] == [{"name": "node-1", "copies": 1}, {"name": "node-2", "copies": 1}]
    assert found["next"]["reason"].startswith("0/2 nodes: no node has 2 devices")


def test_what_takes_no_device_is_cut_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MOST_COPIES", 12)
    run = fit("claim/default/admin", [*cluster(), a_claim("admin", a_request(adminAccess=True))])
    assert run.out.startswith("at least 12 more of claim default/admin fit\n")
    assert run.code == 0


def test_nothing_that_fits_is_no_success() -> None:
    run = fit("pod/default/p", [*cluster(count=1), a_pod("p", template="two")])
    assert (run.code, run.out.splitlines()[0]) == (1, "0 more of pod default/p fit")


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("pod/default/absent", "pod default/absent is not in the input"),
        ("claim/default/absent", "claim default/absent is not in the input"),
        ("template/default/absent", "template default/absent is not in the input"),
        ("template/default/ones", "template default/ones is not in the input; did you mean default/one?"),
        ("claim/default/mien", "claim default/mien is not in the input; did you mean default/mine?"),
        ("node/default/absent", "node/default/absent: node is not pod, claim or template"),
        ("absent.yaml", "absent.yaml does not exist"),
    ],
)
def test_a_subject_that_is_not_there_is_named(subject: str, problem: str) -> None:
    run = fit(subject, [*cluster(), a_claim("mine")])
    assert run.code == 2
    assert f"dra: {problem}\n" in run.err
