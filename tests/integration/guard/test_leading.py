"""Who answers, how the API server finds it, and what becomes of what was allowed and not stored."""

import json
import subprocess
from pathlib import Path
from threading import Thread

import pytest

from tests.controlplane.contents import manifests, restore
from tests.controlplane.door import Door
from tests.controlplane.guarded import MANIFESTS, WEBHOOK, WEBHOOKS
from tests.controlplane.identities import DRIVER as ANYBODY
from tests.controlplane.identities import GUARD
from tests.controlplane.ours import Guard
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import Json, Kind, RestClient
from tests.integration.access import await_rights, rights
from tests.integration.guard.scene import (
    NAMESPACE,
    a_claim,
    a_result,
    await_answers,
    give,
    publish,
    refusal,
    serve,
)

ENDPOINTS = Kind("discovery.k8s.io/v1", "EndpointSlice")
PUBLISHED = ("Service", "EndpointSlice")
WITHIN_S = 60.0


def test_standby_is_ready_and_refuses(plane: ControlPlane, api: RestClient, guard: Guard, way: Door) -> None:
    publish(api, {"name": "a"})
    bundle = api.get(WEBHOOKS, WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"]
    standby = Guard(plane, free_ports(1)[0], guard.options, name="standby")
    try:
        standby.await_readyz()
        assert "warn: leaderElection: stands by" in standby.reported("/readyz?verbose")
        assert 'leader_election_master_status{name="dra-guard"} 0.0' in standby.reported("/metrics")
        # Its certificate is not the one that the API server trusts: nothing that it could say would count.
        way.lead_to(standby.port)
        assert "failed calling webhook" in refusal(api, a_claim(api, "one"), a_result("a"))
        assert api.get(WEBHOOKS, WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"] == bundle
        guard.stop()
        await_answers(plane)
        assert "no answers for" not in standby.log.read_text()
        assert refusal(api, a_claim(api, "two"), a_result("a")) == ""
    finally:
        standby.stop()


def test_what_was_allowed_and_not_answered_in_time_keeps_its_device_until_that_is_known(
    plane: ControlPlane, api: RestClient, guard: Guard, way: Door
) -> None:
    """The API server gives up on the answer, and refuses; the guard cannot know that yet."""
    publish(api, {"name": "a"}, {"name": "b"}, {"name": "c"})
    one, two = a_claim(api, "one"), a_claim(api, "two")
    told: list[str] = []
    way.hold_answers()
    asking = Thread(target=lambda: told.append(refusal(plane.client(), one, a_result("a"), is_dry=False)))
    asking.start()
    assert way.was_held.wait(WITHIN_S)
    asking.join()
    way.let_answers_pass()
    assert "failed calling webhook" in told[0]
    assert "device gpu.example.com/pool/a is held by claim guarded/one" in refusal(api, two, a_result("a"))
    assert '"secondsLeft"' in guard.reported("/debug/queue")
    give(api, one, a_result("b"))  # the same claim tries again: what was allowed before can never be stored now
    poll_until(lambda said: not said, lambda: refusal(api, two, a_result("a")), "the device is free")


def test_what_was_allowed_and_never_stored_is_forgotten_in_time(
    plane: ControlPlane, api: RestClient, guard: Guard, way: Door
) -> None:
    publish(api, {"name": "a"})
    one, two = a_claim(api, "one"), a_claim(api, "two")
    way.hold_answers()
    asking = Thread(target=lambda: refusal(plane.client(), one, a_result("a"), is_dry=False))
    asking.start()
    assert way.was_held.wait(WITHIN_S)
    asking.join()
    way.let_answers_pass()
    poll_until(lambda said: not said, lambda: refusal(api, two, a_result("a")), "the device is free")
    assert "1 updates were allowed and never stored" in guard.log.read_text()


def test_api_server_asks_again_where_the_claim_has_changed_meanwhile(
    plane: ControlPlane, api: RestClient, guard: Guard, way: Door
) -> None:
    """A write without a resourceVersion: what the guard allowed first is void, and it is asked for the next version."""
    publish(api, {"name": "a"})
    one = a_claim(api, "one")
    blind = {**one, "metadata": {**one["metadata"], "resourceVersion": ""}}
    told: list[str] = []
    way.hold_answers()
    asking = Thread(target=lambda: told.append(refusal(plane.client(), blind, a_result("a"), is_dry=False)))
    asking.start()
    assert way.was_held.wait(WITHIN_S)
    api.replace({**one, "metadata": {**one["metadata"], "annotations": {"changed": "meanwhile"}}})
    way.let_answers_pass()
    asking.join()
    assert told == [""]
    assert 'dra_guard_answers_total{answer="allowed"} 2.0' in guard.reported("/metrics")


def test_leader_publishes_certificate_and_address_and_does_so_again(
    plane: ControlPlane, api: RestClient, way: Door
) -> None:
    service, slices = map(manifests_of, PUBLISHED)
    restore(api, [service, slices])
    (port,) = free_ports(1)
    guard = serve(plane, way, port, "--publish-endpoint=dra-guard", "--pod-ip=10.1.2.3")
    try:
        found = poll_until(lambda one: bool(one.get("endpoints")), lambda: the_slice(api), "the address is there")
        assert [one["addresses"] for one in found["endpoints"]] == [["10.1.2.3"]]
        assert [one["port"] for one in found["ports"]] == [port]
        webhooks = api.get(WEBHOOKS, WEBHOOK)
        webhooks["webhooks"][0]["clientConfig"].pop("caBundle")
        api.replace(webhooks)
        api.replace({**the_slice(api), "endpoints": []})
        await_answers(plane)
        poll_until(lambda one: bool(one.get("endpoints")), lambda: the_slice(api), "the address is there again")
    finally:
        guard.stop()
        api.delete(ENDPOINTS, "dra-guard", "kube-system")
        api.delete(Kind("v1", "Service"), "dra-guard", "kube-system")


@pytest.mark.parametrize("how", ["--server-side=false", "--server-side=true"])
def test_manifests_that_are_applied_again_keep_the_address(
    plane: ControlPlane, api: RestClient, way: Door, kubectl: Path, how: str
) -> None:
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*map(manifests_of, PUBLISHED)]}).encode()
    command: list[str | Path] = [kubectl, f"--kubeconfig={plane.kubeconfig()}", "apply", how, "--filename=-"]
    subprocess.run(command, check=True, input=objects)
    guard = serve(plane, way, free_ports(1)[0], "--publish-endpoint=dra-guard", "--pod-ip=10.1.2.3")
    try:
        before = poll_until(lambda one: bool(one.get("endpoints")), lambda: the_slice(api), "the address is there")
        subprocess.run(command, check=True, input=objects)
        assert the_slice(api) == before
    finally:
        guard.stop()
        api.delete(ENDPOINTS, "dra-guard", "kube-system")
        api.delete(Kind("v1", "Service"), "dra-guard", "kube-system")


def the_slice(api: RestClient) -> Json:
    return api.get(ENDPOINTS, "dra-guard", "kube-system")


def manifests_of(kind: str) -> Json:
    (found,) = (one for one in manifests(MANIFESTS / "guard.yaml") if one["kind"] == kind)
    return dict(found)


def test_guard_may_do_what_it_needs_and_nothing_else(plane: ControlPlane, api: RestClient) -> None:
    anybody = {namespace: rights(plane, ANYBODY, namespace) for namespace in (NAMESPACE, "kube-system")}
    restore(api, manifests(MANIFESTS / "rbac.yaml"))
    everywhere = {
        *(
            ("resource.k8s.io", kind, verb, "")
            for kind in ("resourceclaims", "resourceslices")
            for verb in ("list", "watch")
        ),
        *(
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations", verb, "dra-guard")
            for verb in ("get", "patch")
        ),
        ("authentication.k8s.io", "tokenreviews", "create", ""),
        ("authorization.k8s.io", "subjectaccessreviews", "create", ""),
    }
    at_home = {
        *(("coordination.k8s.io", "leases", verb, "dra-guard") for verb in ("get", "update")),
        ("coordination.k8s.io", "leases", "create", ""),
        *(("discovery.k8s.io", "endpointslices", verb, "dra-guard") for verb in ("get", "update")),
    }
    await_rights(plane, GUARD, "kube-system", everywhere | at_home)
    assert rights(plane, GUARD, "kube-system") - anybody["kube-system"] == everywhere | at_home
    assert rights(plane, GUARD, NAMESPACE) - anybody[NAMESPACE] == everywhere


@pytest.mark.usefixtures("plane")
def test_api_server_takes_what_kustomize_builds(api: RestClient, kubectl: Path, tmp_path: Path) -> None:
    path = tmp_path / "built.yaml"
    subprocess.run([kubectl, "kustomize", MANIFESTS, "--output", path], check=True)
    for one in manifests(path):
        if one["kind"] != "ServiceAccount":  # which may be there of a test before
            assert api.create(one, is_dry=True)["metadata"]["name"].startswith("dra-guard")
