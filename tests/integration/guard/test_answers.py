"""What the guard lets the API server store, and what not."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.controlplane.contents import ensure_namespace
from tests.controlplane.ours import Guard
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.rest import CLAIM, ApiError, Kind, RestClient
from tests.integration.guard.scene import (
    NAMESPACE,
    OTHER_NAMESPACE,
    a_claim,
    a_result,
    give,
    publish,
    refusal,
    with_devices,
)

pytestmark = pytest.mark.usefixtures("guard")


def test_device_is_given_once(api: RestClient) -> None:
    publish(api, {"name": "a"}, {"name": "b"})
    one, other = a_claim(api, "one"), a_claim(api, "other")
    give(api, one, a_result("a"))
    with pytest.raises(ApiError) as refused:
        give(api, other, a_result("a"))
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    told = 'admission webhook "guard.dra-scheduler.dev" denied the request: device gpu.example.com/pool/a is held by '
    assert refused.value.message == f"{told}claim {NAMESPACE}/one"
    give(api, other, a_result("b"))


def test_claims_of_other_namespaces_are_not_named(api: RestClient) -> None:
    publish(api, {"name": "a"})
    ensure_namespace(api, OTHER_NAMESPACE)
    give(api, a_claim(api, "secret", OTHER_NAMESPACE), a_result("a"))
    told = refusal(api, a_claim(api, "one"), a_result("a"))
    assert told.endswith("device gpu.example.com/pool/a is held by a claim of another namespace")


def test_device_is_free_again_when_it_is_released_and_when_its_claim_is_gone(api: RestClient) -> None:
    publish(api, {"name": "a"})
    one, other, third = a_claim(api, "one"), a_claim(api, "other"), a_claim(api, "third")
    stored = give(api, one, a_result("a"))
    api.replace_status({**stored, "status": {}})
    poll_until(lambda told: not told, lambda: refusal(api, other, a_result("a")), "the device is free")
    stored = give(api, other, a_result("a"))
    # Its finalizer is taken away by hand, although pods may use it: allocators count it no more, nor does the guard.
    api.replace({**stored, "metadata": {**stored["metadata"], "finalizers": []}})
    api.delete(CLAIM, "other", NAMESPACE)
    poll_until(lambda told: not told, lambda: refusal(api, third, a_result("a")), "the device is free")
    give(api, third, a_result("a"))


def test_dry_run_is_judged_and_takes_nothing(api: RestClient) -> None:
    publish(api, {"name": "a"})
    one, other = a_claim(api, "one"), a_claim(api, "other")
    assert refusal(api, one, a_result("a")) == ""
    assert refusal(api, other, a_result("a")) == ""
    give(api, other, a_result("a"))
    assert "is held by claim" in refusal(api, one, a_result("a"))


def test_reservations_and_devices_status_are_not_asked_about(api: RestClient, guard: Guard) -> None:
    publish(api, {"name": "a"})
    stored = give(api, a_claim(api, "one"), a_result("a"))
    before = answers(guard)
    user = {"apiGroup": "example.com", "resource": "users", "name": "second", "uid": "second"}
    stored["status"]["reservedFor"].append(user)
    stored = api.replace_status(stored)
    status = {"driver": "gpu.example.com", "pool": "pool", "device": "a", "conditions": []}
    stored["status"]["devices"] = [status]
    api.replace_status(stored)
    assert answers(guard) == before


def answers(guard: Guard) -> list[str]:
    return [line for line in guard.reported("/metrics").splitlines() if line.startswith("dra_guard_answers_total")]


def test_allocation_cannot_change_and_comes_by_the_status_alone(api: RestClient) -> None:
    """What the API server itself sees to, so that the guard need not."""
    publish(api, {"name": "a"}, {"name": "b"})
    one = a_claim(api, "one")
    made = with_devices({**one, "metadata": {"name": "made", "namespace": NAMESPACE}}, a_result("a"))
    assert "allocation" not in api.create(made).get("status", {})
    assert "allocation" not in api.replace(with_devices(one, a_result("a"))).get("status", {})
    stored = give(
        api, api.get(CLAIM, "one", NAMESPACE) | {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind}, a_result("a")
    )
    assert "field is immutable" in refusal(api, stored, a_result("b"))


@pytest.mark.needs("DRAConsumableCapacity")
def test_shares_fit_into_the_capacity(api: RestClient) -> None:
    capacity = {"memory": {"value": "10Gi"}}
    publish(api, {"name": "a", "allowMultipleAllocations": True, "capacity": capacity})

    def share(number: int, amount: str) -> dict[str, object]:
        return a_result(
            "a", shareID=f"00000000-0000-0000-0000-00000000000{number}", consumedCapacity={"memory": amount}
        )

    give(api, a_claim(api, "one"), share(1, "4Gi"))
    give(api, a_claim(api, "two"), share(2, "6Gi"))
    told = refusal(api, a_claim(api, "three"), share(3, "1Gi"))
    assert told.endswith(
        "device gpu.example.com/pool/a needs more of capacity memory than is left, the rest is held by "
        f"claim {NAMESPACE}/one, claim {NAMESPACE}/two"
    )


@pytest.mark.needs("DRAPartitionableDevices")
def test_partitions_fit_into_the_counters(api: RestClient) -> None:
    parts = [
        {"name": name, "consumesCounters": [{"counterSet": "parts", "counters": {"slices": {"value": amount}}}]}
        for name, amount in (("half-0", "2"), ("half-1", "2"), ("whole", "4"))
    ]
    sets = [{"name": "parts", "counters": {"slices": {"value": "4"}}}]
    publish(api, *parts, name="devices", slices=2)
    publish(api, name="counters", slices=2, sharedCounters=sets)
    give(api, a_claim(api, "one"), a_result("half-0"))
    told = refusal(api, a_claim(api, "two"), a_result("whole"))
    lack = "device gpu.example.com/pool/whole needs more of counter set parts than is left"
    assert told.endswith(f"{lack}, the rest is held by claim {NAMESPACE}/one")
    give(api, a_claim(api, "three"), a_result("half-1"))


def test_admin_access_takes_nothing(api: RestClient) -> None:
    publish(api, {"name": "a"})
    namespace = api.get(Kind("v1", "Namespace"), NAMESPACE)
    namespace["metadata"].setdefault("labels", {})["resource.kubernetes.io/admin-access"] = "true"
    api.replace({"apiVersion": "v1", "kind": "Namespace", **namespace})
    give(api, a_claim(api, "one"), a_result("a"))
    give(api, a_claim(api, "watching", is_admin=True), a_result("a", adminAccess=True))


def test_admin_access_that_the_request_does_not_have_is_refused(api: RestClient) -> None:
    publish(api, {"name": "a"})
    namespace = api.get(Kind("v1", "Namespace"), NAMESPACE)
    namespace["metadata"].setdefault("labels", {})["resource.kubernetes.io/admin-access"] = "true"
    api.replace({"apiVersion": "v1", "kind": "Namespace", **namespace})
    told = refusal(api, a_claim(api, "one"), a_result("a", adminAccess=True))
    assert told.endswith(
        "device gpu.example.com/pool/a of claim guarded/one: adminAccess is set, but request r does not have it"
    )


def test_device_is_in_an_allocation_once(api: RestClient) -> None:
    publish(api, {"name": "a"})
    told = refusal(api, a_claim(api, "one"), a_result("a"), a_result("a"))
    assert "device gpu.example.com/pool/a is allocated to the claim twice" in told


@pytest.mark.needs("DRAConsumableCapacity")
def test_shares_are_judged_by_what_the_device_has_to_share(api: RestClient) -> None:
    capacity = {"memory": {"value": "10Gi"}}
    publish(api, {"name": "whole"}, {"name": "shared", "allowMultipleAllocations": True, "capacity": capacity})

    def share(device: str, number: int, amount: str = "1Gi") -> dict[str, object]:
        consumed = {"consumedCapacity": {"memory": amount}} if device == "shared" else {}
        return a_result(device, shareID=f"00000000-0000-0000-0000-00000000000{number}", **consumed)

    one, two = a_claim(api, "one"), a_claim(api, "two")
    for twice in ((share("whole", 1), share("whole", 2)), (share("shared", 1), share("shared", 1))):
        assert "is allocated to the claim twice" in refusal(api, one, *twice)
    assert refusal(api, one, share("shared", 1), share("shared", 2)) == ""
    assert "consumedCapacity memory is negative: -1Gi" in refusal(api, one, share("shared", 1, "-1Gi"))
    give(api, one, share("whole", 1))
    assert refusal(api, two, share("whole", 2)).endswith("/pool/whole is held by claim guarded/one")


def test_unpublished_device_is_waited_for_and_then_refused(api: RestClient) -> None:
    publish(api, {"name": "a"})
    told = refusal(api, a_claim(api, "one"), a_result("new"))
    assert told.endswith(
        "device gpu.example.com/pool/new cannot be checked: pool gpu.example.com/pool does not publish it, its newest "
        "known generation is 1"
    )


@pytest.mark.needs("resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2")
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_every_version_is_asked_about(api: RestClient, version: str) -> None:
    publish(api, {"name": "a"})
    give(api, a_claim(api, "one"), a_result("a"))
    a_claim(api, "two")
    kind = Kind(f"resource.k8s.io/{version}", "ResourceClaim")
    two = {"apiVersion": kind.api_version, "kind": kind.kind, **api.get(kind, "two", NAMESPACE)}
    assert "is held by claim guarded/one" in refusal(api, two, a_result("a"))


def test_largest_claim_that_the_api_server_stores_gets_a_device(api: RestClient) -> None:
    """Its characters take six bytes each in the review, which has the claim twice: 18.8 MB."""
    publish(api, {"name": "a"})
    left = (3 << 19) - 5_000  # of what etcd stores; the rest is what is around the text
    expressions = [f'"{"<" * min(10_000, left - begin)}" == ""' for begin in range(0, left, 10_000)]
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    requests = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "any", "selectors": selectors[begin : begin + 32]}}
        for number, begin in enumerate(range(0, len(selectors), 32))
    ]
    metadata = {"name": "large", "namespace": NAMESPACE}
    spec = {"devices": {"requests": requests}}
    stored = api.create({"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": metadata, "spec": spec})
    give(api, stored, a_result("a", request="r0"))
    assert "is held by claim guarded/large" in refusal(api, a_claim(api, "one"), a_result("a"))


def test_many_writers_of_one_device_leave_it_to_one(api: RestClient, plane: ControlPlane) -> None:
    publish(api, {"name": "a"})
    claims = [a_claim(api, f"claim-{number}") for number in range(20)]
    with ThreadPoolExecutor(20) as threads:
        told = list(threads.map(lambda claim: refusal(plane.client(), claim, a_result("a"), is_dry=False), claims))
    assert told.count("") == 1
    assert all(one.endswith(f"is held by claim {NAMESPACE}/claim-{told.index('')}") for one in told if one)
