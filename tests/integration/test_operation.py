"""The scheduler as an operator meets it: probes, metrics, logs, dry runs, missing rights, and its end."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.contents import manifests, restore
from tests.controlplane.fleet import EXAMPLES, publish
from tests.controlplane.identities import IDENTITIES, OURS
from tests.controlplane.ours import Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import StartError
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLAIM, POD, Json, Kind, RestClient
from tests.controlplane.rights import grant

WORLD = EXAMPLES / "scheduler"
SCHEDULED = ("scheduler_schedule_attempts_total", frozenset({"scheduled", "dra-scheduler"}))
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io/v1", "ClusterRole")


@pytest.fixture
def world(plane: ControlPlane, api: RestClient) -> None:
    """Ten nodes with their devices, and our scheduler's rights."""
    grant(api)
    restore(api, manifests(WORLD / "nodes.yaml", WORLD / "classes.yaml"))
    publish(plane, EXAMPLES / "driver" / "ten-nodes.json")


def a_pod(name: str, claim: str, **spec: object) -> Json:
    container = {"name": "main", "image": "image", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": claim}]
    own = {"schedulerName": "dra-scheduler", "containers": [container], "resourceClaims": claims, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": own}


def a_claim(name: str, count: int = 1) -> Json:
    exactly = {"deviceClassName": "gpu.example.com", "count": count}
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    kind = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind}
    return {**kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def create_pods(api: RestClient, *names: str, count: int = 1) -> None:
    """Pods with a claim each, of so many devices."""
    for name in names:
        api.create(a_claim(name, count))
        api.create(a_pod(name, name))


def await_bound(api: RestClient, number: int) -> Sequence[Json]:
    return api.await_all(POD, lambda pods: sum("nodeName" in pod["spec"] for pod in pods) == number)


def condition(pod: Json) -> Mapping[str, str]:
    """The pod's condition PodScheduled; empty where it has none."""
    found = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
    return found[0] if found else {}


def metrics_of(program: Scheduler) -> dict[tuple[str, frozenset[str]], float]:
    """Values by name and the values of the labels."""
    families = text_string_to_metric_families(program.reported("/metrics"))
    return {(s.name, frozenset(s.labels.values())): s.value for family in families for s in family.samples}


def log_lines(program: Scheduler) -> list[Json]:
    return [json.loads(line) for line in program.log.read_text().splitlines()]


@pytest.mark.usefixtures("world")
def test_probes_metrics_and_queue_report_what_happens(plane: ControlPlane, api: RestClient) -> None:
    with scheduler(plane) as program:
        create_pods(api, "a", "b")
        create_pods(api, "too-much", count=9)
        await_bound(api, 2)
        api.await_all(POD, lambda pods: sum(bool(condition(pod)) for pod in pods) == 3)
        # The pods are seen bound by others before the program hears of it.
        program.await_ready(lambda: metrics_of(program).get(SCHEDULED) == 2)
        ready = program.reported("/readyz?verbose").splitlines()
        metrics = metrics_of(program)
        (waiting,) = json.loads(program.reported("/debug/queue"))
    assert ready[-1] == "readyz check passed"
    assert {line.split()[0] for line in ready[:-1]} == {
        *("[+]loop", "[+]leaderElection", "[+]caches", "[+]watches", "[+]credentials", "[+]writes", "[+]lease")
    }
    assert metrics["scheduler_pending_pods", frozenset({"unschedulable"})] == 1
    assert metrics["scheduler_unschedulable_pods", frozenset({"DynamicResources", "dra-scheduler"})] == 1
    assert metrics["dra_scheduler_watch_objects", frozenset({"nodes"})] == 10
    assert (waiting["pod"], waiting["queue"]) == ("default/too-much", "unschedulable")
    assert waiting["message"].startswith("0/10 nodes are available: 10 cannot allocate all claims")


@pytest.mark.usefixtures("world")
def test_every_write_carries_a_version_and_nothing_else_is_written(
    plane: ControlPlane, api: RestClient, proxy: Proxy
) -> None:
    with scheduler(plane, kubeconfig=proxy.kubeconfig(OURS)):
        create_pods(api, "a", "b")
        await_bound(api, 2)
    writes = [request for request in proxy.writes("/namespaces/default/") if not request.path.endswith("/events")]
    assert {(request.method, request.path.rpartition("/namespaces/default/")[2]) for request in writes} == {
        (method, path.format(name))
        for name in ("a", "b")
        for method, path in (
            ("PUT", "resourceclaims/{}"),
            ("PUT", "resourceclaims/{}/status"),
            ("POST", "pods/{}/binding"),
        )
    }
    assert all(request.sent["metadata"]["resourceVersion"] for request in writes)


@pytest.mark.usefixtures("world")
def test_dry_run_decides_and_logs_and_writes_nothing(plane: ControlPlane, api: RestClient, proxy: Proxy) -> None:
    create_pods(api, "a")
    create_pods(api, "too-much", count=9)
    with scheduler(plane, ["--dry-run"], kubeconfig=proxy.kubeconfig(OURS)) as program:
        program.await_ready(lambda: program.log.read_text().count('"default/') >= 2)
    reported = {line["pod"]: line for line in log_lines(program) if "pod" in line}
    assert reported["default/a"]["message"] == "would be bound"
    assert len(reported["default/a"]["devices"]) == 1
    assert reported["default/too-much"]["message"] == "not placed"
    assert proxy.writes() == []


@pytest.mark.usefixtures("world")
def test_sigterm_ends_it_in_order(plane: ControlPlane, api: RestClient) -> None:
    with scheduler(plane) as program:
        create_pods(api, "a")
        await_bound(api, 1)
    assert program.exit_code == 0
    assert log_lines(program)[-1]["message"] == "stopped"


@pytest.mark.usefixtures("world")
def test_log_is_json_and_holds_no_token(plane: ControlPlane, api: RestClient) -> None:
    with scheduler(plane, ["--log-level", "debug"]) as program:
        create_pods(api, "a")
        await_bound(api, 1)
    assert {"level", "logger", "message", "time"} <= set(log_lines(program)[0])
    text = program.log.read_text()
    assert not any(plane.token_file(identity).read_text() in text for identity in IDENTITIES)


@pytest.mark.usefixtures("world")
def test_missing_right_to_bind_claims_makes_it_unready_until_it_is_granted(
    plane: ControlPlane, api: RestClient
) -> None:
    role = {"apiVersion": CLUSTER_ROLE.api_version, "kind": CLUSTER_ROLE.kind, **api.get(CLUSTER_ROLE, OURS.name)}
    rules = [rule for rule in role["rules"] if rule["resources"] != ["resourceclaims/binding"]]
    lacking = api.replace({**role, "rules": rules})
    with scheduler(plane) as program:
        create_pods(api, "a")
        api.await_all(POD, lambda pods: condition(pods[0]).get("reason") == "SchedulerError")
        program.await_ready(lambda: "[-]writes failed" in program.reported("/readyz"))
        unready = program.reported("/readyz")
        assert program.reported("/livez") == "ok"
        api.replace({**role, "metadata": lacking["metadata"]})
        await_bound(api, 1)
        program.await_readyz()  # the pod is seen bound by others before the program hears of it
    assert "resourceclaims/binding" in unready


def test_without_any_right_it_says_so_and_waits_for_them(plane: ControlPlane, api: RestClient) -> None:
    with ExitStack() as stack:
        program = Scheduler(plane)
        stack.callback(program.stop)
        program.await_ready(lambda: "is forbidden" in program.log.read_text())
        assert "is forbidden" in program.reported("/readyz")
        grant(api)
        program.await_readyz()


def ended(program: Scheduler) -> Iterator[Json]:
    """The last words of a program that ends by itself."""
    with pytest.raises(StartError):
        program.await_ready(lambda: False)
    program.stop()
    yield from log_lines(program)


def test_server_that_is_not_there_ends_it_with_a_message(plane: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(plane.kubeconfig(OURS).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    program = Scheduler(plane, kubeconfig=path)
    *_, last = ended(program)
    assert program.exit_code == 1
    assert last["level"] == "error"
    assert "127.0.0.1:1" in last["message"]


@pytest.mark.usefixtures("world")
def test_taken_address_ends_it_with_a_message(plane: ControlPlane) -> None:
    with scheduler(plane) as first:
        address = next(line["message"] for line in log_lines(first) if "/healthz" in line["message"])
        second = Scheduler(plane, ["--health-address", address.rpartition("//")[2]], name="second")
        *_, last = ended(second)
    assert second.exit_code == 1
    assert last["message"].startswith("healthAddress 127.0.0.1:")
    assert "in use" in last["message"]


def test_unknown_field_ends_it_before_it_connects(plane: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: dra-scheduler.dev/v1alpha1\nkind: DraSchedulerConfiguration\npolcy: pack\n")
    program = Scheduler(plane, ["--config", str(path)])
    with pytest.raises(StartError, match='polcy: unknown field \\(got "pack"\\)'):
        program.await_ready(lambda: False)
    program.stop()
    assert program.exit_code == 2


@pytest.mark.usefixtures("world")
def test_only_pods_that_name_it_are_touched(plane: ControlPlane, api: RestClient) -> None:
    with scheduler(plane):
        api.create(a_claim("theirs"))
        api.create(a_pod("theirs", "theirs", schedulerName="default-scheduler"))
        create_pods(api, "ours")
        await_bound(api, 1)
    theirs = api.get(POD, "theirs", "default")
    assert "nodeName" not in theirs["spec"]
    assert not condition(theirs)
    assert "allocation" not in api.get(CLAIM, "theirs", "default").get("status", {})
