"""The checker can fail: each rule has a history by hand that breaks it, beside one that does not."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import count

import pytest

from tests.controlplane.rest import Json
from tests.soak.checker import HELD_TWICE, WITHOUT_DEVICES, Checker
from tests.soak.facts import PROTECTION
from tests.soak.inventory import PublishedDevices, inventory_of, quantity
from tests.soak.revisions import Revision

NODE, OTHER = "node-0", "node-1"


def a_slice(driver: str, node: str, *devices: Json, counters: str = "") -> Json:
    reach = {"nodeName": node} if node else {"allNodes": True}
    shared = [{"name": "chip", "counters": {"memory": {"value": counters}}}] if counters else []
    return {
        "spec": {
            "driver": driver,
            "pool": {"name": node or "all"},
            **reach,
            "devices": list(devices),
            "sharedCounters": shared,
        }
    }


def a_part(name: str, memory: str) -> Json:
    return {"name": name, "consumesCounters": [{"counterSet": "chip", "counters": {"memory": {"value": memory}}}]}


def the_inventory() -> PublishedDevices:
    shared = {"name": "nic", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "100G"}}}
    return inventory_of(
        [
            a_slice("gpu", NODE, {"name": "gpu-0"}, {"name": "gpu-1"}),
            a_slice("gpu", OTHER, {"name": "gpu-0"}),
            a_slice("fabric", "", {"name": "port"}),
            a_slice("nic", NODE, shared),
            a_slice(
                "part",
                NODE,
                a_part("whole", "80Gi"),
                a_part("half-0", "40Gi"),
                a_part("half-1", "40Gi"),
                counters="80Gi",
            ),
        ]
    )


class Watched:
    """A checker that is told a history by hand."""

    def __init__(self) -> None:
        self.checker = Checker(the_inventory(), lambda namespace: namespace == "team")
        self._versions = count(1)
        self.clock = 0.0

    @property
    def rules(self) -> list[str]:
        return [wrong.rule for wrong in self.checker.wrongs]

    @property
    def texts(self) -> str:
        return "\n".join(wrong.text for wrong in self.checker.wrongs)

    def claim(
        self, name: str, *results: Json, users: Iterable[str] = (), is_gone: bool = False, is_protected: bool = False
    ) -> None:
        status: Json = {"reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users]}
        if results:
            status["allocation"] = {"devices": {"results": list(results)}}
        finalizers = [PROTECTION] if is_protected else []
        self._tell("ResourceClaim", name, is_gone, finalizers, status=status)

    def pod(
        self,
        name: str,
        *claims: str,
        node: str = "",
        phase: str = "",
        made: Mapping[str, str] | None = None,
        extended: str = "",
        is_gone: bool = False,
    ) -> None:
        entries: list[Json] = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        entries += [{"name": entry, "resourceClaimTemplateName": "any"} for entry in ("made",) if made is not None]
        statuses = [{"name": entry, "resourceClaimName": claim} for entry, claim in (made or {}).items()]
        status: Json = {"phase": phase, "resourceClaimStatuses": statuses}
        if extended:
            status["extendedResourceClaimStatus"] = {"resourceClaimName": extended, "requestMappings": []}
        self._tell("Pod", name, is_gone, spec={"nodeName": node, "resourceClaims": entries}, status=status)

    def bound(self, name: str, *claims: str, node: str = NODE) -> None:
        self.pod(name, *claims)
        self.pod(name, *claims, node=node)

    def _tell(
        self,
        kind: str,
        name: str,
        is_gone: bool,  # noqa: FBT001
        finalizers: Iterable[str] = (),
        **fields: object,
    ) -> None:
        version = next(self._versions)
        metadata = {"namespace": "team", "name": name, "uid": name, "finalizers": list(finalizers)}
        self.checker.feed(Revision(version, self.clock, is_gone, {"kind": kind, "metadata": metadata, **fields}))


def a_result(driver: str, device: str, pool: str = NODE, **fields: object) -> Json:
    return {"request": "r", "driver": driver, "pool": pool, "device": device, **fields}


GPU = a_result("gpu", "gpu-0")


@pytest.fixture
def reported() -> Watched:
    return Watched()


def test_pod_with_its_device_is_right_from_its_first_revision_to_its_last(reported: Watched) -> None:
    reported.claim("claim")
    reported.pod("pod", "claim")
    reported.claim("claim", GPU, users=["pod"])
    reported.pod("pod", "claim", node=NODE)
    reported.pod("pod", "claim", node=NODE, phase="Succeeded")
    reported.claim("claim")
    reported.pod("pod", "claim", node=NODE, phase="Succeeded", is_gone=True)
    reported.claim("claim", is_gone=True)
    assert reported.rules == []
    assert reported.checker.revisions == 8


@pytest.mark.parametrize("is_protected", [True, False])
def test_claim_that_goes_although_it_is_protected_is_no_violation(
    reported: Watched,
    is_protected: bool,  # noqa: FBT001
) -> None:
    reported.claim("claim")
    reported.claim("claim", GPU, users=["pod"], is_protected=is_protected)
    reported.claim("claim", is_gone=True)
    reported.bound("pod", "claim")
    assert reported.rules == ([] if is_protected else [WITHOUT_DEVICES])


def test_device_of_two_bound_pods_is_held_twice(reported: Watched) -> None:
    for name in ("one", "two"):
        reported.claim(name, GPU, users=[f"pod-{name}"])
        reported.bound(f"pod-{name}", name)
    assert reported.rules == [HELD_TWICE]
    assert reported.texts == "device gpu/node-0/gpu-0 is held by bound pods of claims team/one and team/two"


def test_device_that_two_claims_have_and_one_bound_pod_uses_is_held_once(reported: Watched) -> None:
    reported.claim("one", GPU, users=["pod-one"])
    reported.bound("pod-one", "one")
    reported.claim("two", GPU, users=["pod-two"])
    reported.pod("pod-two", "two")
    reported.claim("two")
    assert reported.rules == []


@pytest.mark.parametrize("end", ["ended", "gone"])
def test_device_of_a_pod_that_has_ended_is_free(reported: Watched, end: str) -> None:
    reported.claim("one", GPU, users=["pod-one"])
    reported.bound("pod-one", "one")
    reported.pod("pod-one", "one", node=NODE, phase="Failed", is_gone=end == "gone")
    reported.claim("two", GPU, users=["pod-two"])
    reported.bound("pod-two", "two")
    assert reported.rules == []


def test_device_that_is_given_on_within_one_claim_is_free_for_another(reported: Watched) -> None:
    reported.claim("one", GPU, users=["pod-one"])
    reported.bound("pod-one", "one")
    reported.claim("one", a_result("gpu", "gpu-1"), users=["pod-one"])
    reported.claim("two", GPU, users=["pod-two"])
    reported.bound("pod-two", "two")
    assert reported.rules == []


def test_pods_that_share_a_claim_hold_its_device_once(reported: Watched) -> None:
    reported.claim("claim", GPU, users=["one", "two"])
    reported.bound("one", "claim")
    reported.bound("two", "claim")
    assert reported.rules == []


def test_admin_access_takes_no_device_from_anybody(reported: Watched) -> None:
    reported.claim("admin", a_result("gpu", "gpu-0", adminAccess=True), users=["operator"])
    reported.bound("operator", "admin")
    reported.claim("claim", GPU, users=["pod"])
    reported.bound("pod", "claim")
    assert reported.rules == []


def test_shares_are_right_until_the_capacity_is_used_up(reported: Watched) -> None:
    for number, wrong in enumerate([0, 0, 1]):
        share = a_result("nic", "nic", shareID=str(number), consumedCapacity={"bandwidth": "50G"})
        reported.claim(f"claim-{number}", share, users=[f"pod-{number}"])
        reported.bound(f"pod-{number}", f"claim-{number}")
        assert reported.rules == [HELD_TWICE] * wrong
    assert reported.texts.startswith("of device nic/node-0/nic 150000000000 of 100000000000 bandwidth is held")


def test_capacity_that_is_given_back_is_there_again(reported: Watched) -> None:
    for number in range(5):
        share = a_result("nic", "nic", shareID=str(number), consumedCapacity={"bandwidth": "100G"})
        reported.claim("claim", share, users=[f"pod-{number}"])
        reported.bound(f"pod-{number}", "claim")
        reported.pod(f"pod-{number}", "claim", node=NODE, is_gone=True)
        reported.claim("claim")
    assert reported.rules == []


def test_parts_are_right_until_the_counters_are_used_up(reported: Watched) -> None:
    for device, wrong in (("half-0", 0), ("half-1", 0), ("whole", 1)):
        reported.claim(device, a_result("part", device), users=[f"pod-{device}"])
        reported.bound(f"pod-{device}", device)
        assert reported.rules == [HELD_TWICE] * wrong
    assert reported.texts.startswith("of counter part/node-0/chip/memory 171798691840 of 85899345920 is held")


def test_device_that_is_in_no_slice_is_reported(reported: Watched) -> None:
    reported.claim("claim", a_result("gpu", "gpu-9"), users=["pod"])
    reported.bound("pod", "claim")
    assert HELD_TWICE in reported.rules
    assert "claim team/claim holds device gpu/node-0/gpu-9, which is in no slice" in reported.texts


def test_pod_that_is_bound_before_its_claim_is_allocated_is_reported(reported: Watched) -> None:
    reported.claim("claim")
    reported.bound("pod", "claim")
    assert reported.rules == [WITHOUT_DEVICES]
    assert reported.texts == "pod team/pod (pod) is on node-0, and its claim claim is not allocated"


def test_pod_that_loses_its_allocation_while_it_runs_is_reported_once(reported: Watched) -> None:
    reported.claim("claim", GPU, users=["pod"])
    reported.bound("pod", "claim")
    reported.claim("claim", users=["pod"])
    reported.claim("claim")
    reported.pod("pod", "claim", node=NODE)
    assert reported.rules == [WITHOUT_DEVICES]


def test_pod_that_loses_its_allocation_twice_is_reported_twice(reported: Watched) -> None:
    reported.claim("claim", GPU, users=["pod"])
    reported.bound("pod", "claim")
    for _ in range(2):
        reported.claim("claim", users=["pod"])
        reported.claim("claim", GPU, users=["pod"])
    assert reported.rules == [WITHOUT_DEVICES] * 2


def test_pod_whose_reservation_is_another_s_is_reported(reported: Watched) -> None:
    reported.claim("claim", GPU, users=["pod", "other"])
    reported.bound("pod", "claim")
    reported.claim("claim", GPU, users=["other"])
    assert reported.texts == "pod team/pod (pod) is on node-0, and its claim claim is reserved for other"


def test_pod_whose_claim_is_gone_is_reported(reported: Watched) -> None:
    reported.claim("claim", GPU, users=["pod"])
    reported.bound("pod", "claim")
    reported.claim("claim", GPU, users=["pod"], is_gone=True)
    assert reported.texts == "pod team/pod (pod) is on node-0, and its claim claim is not there"


def test_pod_on_a_node_that_its_device_does_not_reach_is_reported(reported: Watched) -> None:
    reported.claim("claim", GPU, users=["pod"])
    reported.bound("pod", "claim", node=OTHER)
    assert reported.texts.endswith("has devices that do not reach it: gpu/node-0/gpu-0")


def test_device_of_the_fabric_reaches_every_node(reported: Watched) -> None:
    reported.claim("claim", a_result("fabric", "port", "all"), users=["pod"])
    reported.bound("pod", "claim", node=OTHER)
    assert reported.rules == []


def test_claim_whose_name_the_status_has_lost_is_still_the_pod_s(reported: Watched) -> None:
    reported.claim("of-pod", GPU, users=["pod"])
    reported.pod("pod", made={"made": "of-pod"})
    reported.pod("pod", made={}, node=NODE)
    assert reported.rules == []
    reported.claim("of-pod", users=["pod"])
    assert reported.texts.endswith("its claim of-pod is not allocated")


def test_pod_that_is_bound_before_its_claim_is_made_is_reported(reported: Watched) -> None:
    reported.pod("pod", made={})
    reported.pod("pod", made={}, node=NODE)
    assert reported.texts.endswith("its entry made has no claim")


def test_pod_that_came_with_its_node_may_lack_devices_and_holds_those_it_has(reported: Watched) -> None:
    reported.claim("mine")
    reported.pod("early", "mine", node=NODE)
    assert reported.rules == []
    reported.claim("mine", GPU, users=["early"])
    reported.claim("other", GPU, users=["pod"])
    reported.bound("pod", "other")
    assert reported.rules == [HELD_TWICE]


def test_wait_begins_when_all_claims_are_there_and_ends_with_the_node(reported: Watched) -> None:
    reported.pod("pod", made={})
    reported.claim("of-pod")
    reported.clock = 1.0
    reported.pod("pod", made={"made": "of-pod"})
    reported.clock = 2.5
    (wait,) = reported.checker.waited()
    assert (wait.ready_s, wait.bound_s, reported.checker.unbound()) == (1.0, None, 1)
    reported.pod("pod", made={"made": "of-pod"}, node=NODE)
    (wait,) = reported.checker.waited()
    assert (wait.ready_s, wait.bound_s, reported.checker.unbound()) == (1.0, 2.5, 0)


@pytest.mark.parametrize(
    ("text", "number"),
    [("80Gi", 80 * 2**30), ("100G", 10**11), ("1500m", Fraction(3, 2)), ("7", 7), ("0.5", Fraction(1, 2))],
)
def test_quantity_is_exact(text: str, number: Fraction) -> None:
    assert quantity(text) == number


def test_quantity_of_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="12e3"):
        quantity("12e3")


def test_slice_whose_reach_is_not_known_is_refused() -> None:
    spec = {"driver": "gpu", "pool": {"name": "p"}, "nodeSelector": {}}
    with pytest.raises(ValueError, match="pool p"):
        inventory_of([{"spec": spec}])


def test_claim_of_extended_resources_is_one_of_the_pods_own(reported: Watched) -> None:
    reported.claim("made", GPU, users=["pod"])
    reported.pod("pod", extended="made")
    reported.pod("pod", extended="made", node=NODE)
    assert reported.rules == []
    reported.claim("made", GPU, users=["other"])
    assert reported.rules == [WITHOUT_DEVICES]
