"""The control plane itself: its profiles, identities and components, and that it comes and goes as it should."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from allocator.gates import CONSUMABLE_CAPACITY, DEVICE_TAINTS
from tests.controlplane.binaries import Binaries
from tests.controlplane.contents import clear, manifests, restore
from tests.controlplane.identities import ADMIN, OURS, STOCK
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.polling import PollTimeoutError
from tests.controlplane.process import StartError
from tests.controlplane.profiles import ALL, BETA, DEFAULT, GA, RELEASE
from tests.controlplane.rest import CLAIM, POD, SLICE, ApiError, Json, Kind, RestClient
from tests.integration.conftest import FLEET, Planes, is_decided
from tests.unit.allocator.api.raw_objects import a_rule, a_slice_of, a_taint

OLDER = Kind("resource.k8s.io/v1beta1", "ResourceSlice")
RULE = Kind("resource.k8s.io/v1beta2", "DeviceTaintRule")


def test_default_profile_serves_v1_alone_and_knows_beta_fields(binaries: Binaries, tmp_path: Path) -> None:
    with ControlPlane(binaries, tmp_path, DEFAULT) as plane:
        api = plane.client()
        assert api.serves(SLICE)
        assert not api.serves(OLDER)
        assert "taints" in kept_of_device(api, taints=[a_taint()])
        server = urlsplit(plane.server)
    with socket.socket() as probe:
        assert probe.connect_ex((server.hostname, server.port)) != 0


def test_profile_ga_drops_beta_fields(binaries: Binaries, tmp_path: Path) -> None:
    with ControlPlane(binaries, tmp_path, GA) as plane:
        kept = kept_of_device(plane.client(), taints=[a_taint()], allowMultipleAllocations=True)
    assert ("taints" in kept) == (DEVICE_TAINTS not in BETA)
    assert ("allowMultipleAllocations" in kept) == (CONSUMABLE_CAPACITY not in BETA)


def test_profile_all_serves_every_version_and_knows_alpha_fields(planes: Planes) -> None:
    api = planes.of(ALL).client()
    assert api.serves(OLDER) == (RELEASE < "1.38")
    assert api.serves(RULE)
    assert "attributes" in kept_of_device(api, attributes={"a": {"ints": [1]}})


def kept_of_device(api: RestClient, **fields: object) -> Json:
    """What the server keeps of a device."""
    kept: Json = api.create(a_slice_of(**fields), is_dry=True)["spec"]["devices"][0]
    return kept


def test_component_that_does_not_start_is_reported_and_the_others_are_stopped(
    binaries: Binaries, tmp_path: Path
) -> None:
    plane = ControlPlane(binaries, tmp_path, flags={"kube-apiserver": ["--no-such-flag"]})
    with pytest.raises(StartError, match=r"(?s)kube-apiserver ended.*kube-apiserver\.log.*--no-such-flag"):
        plane.__enter__()
    assert plane.running() == []


def test_identities_have_their_own_rights(plane: ControlPlane) -> None:
    assert plane.client(ADMIN).list(SLICE) == plane.client(STOCK).list(SLICE) == []
    with pytest.raises(ApiError) as refused:
        plane.client(OURS).list(SLICE)
    assert refused.value.status == 403
    assert "system:serviceaccount:kube-system:dra-scheduler" in refused.value.message


def test_scheduler_on_demand_decides_every_pod_of_the_fleet_and_stops(plane: ControlPlane, api: RestClient) -> None:
    restore(api, manifests(FLEET))
    plane.start_scheduler({"clientConnection": {"qps": 5000, "burst": 5000}})
    decided = api.await_all(POD, lambda pods: len(pods) == 9 and sum(map(is_decided, pods)) == 9)
    # A pod that comes late may find that others took what only it needs: its own order decides how many it places.
    placed = {pod["metadata"]["name"] for pod in decided if "nodeName" in pod["spec"]}
    assert placed
    assert "wish" not in placed
    plane.stop("kube-scheduler")
    assert "kube-scheduler" not in plane.running()
    assert plane.failed() == ""


def test_controllers_make_pods_of_workloads_and_claims_of_templates(api: RestClient) -> None:
    restore(api, manifests(FLEET))
    made = api.await_all(CLAIM, lambda claims: sum("generateName" in c["metadata"] for c in claims) == 6)
    owners = {claim["metadata"]["ownerReferences"][0]["kind"] for claim in made if "generateName" in claim["metadata"]}
    assert owners == {"Pod"}


def test_clearing_leaves_nothing_that_a_test_put_there(plane: ControlPlane, api: RestClient) -> None:
    restore(api, manifests(FLEET))
    api.create({**a_rule(), "apiVersion": RULE.api_version})
    clear(plane)
    # The controller of a ReplicaSet that is deleted may just have made one more pod, which garbage collection ends.
    for kind in (CLAIM, POD, SLICE, RULE):
        api.await_all(kind, lambda left: not left)


def test_waiting_in_vain_is_reported(api: RestClient) -> None:
    with pytest.raises(PollTimeoutError, match="Pod: not within 0 s"):
        api.await_all(POD, lambda _: False, timeout_s=0)


def test_free_port_is_given_to_nobody_but_who_asks_for_just_this_one() -> None:
    (port,) = free_ports(1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    socket.create_server(("127.0.0.1", port)).close()
