"""Pods whose status loses the names of their claims, as the controller that made these goes on to do once it began."""

from collections.abc import Sequence
from functools import partial

import pytest

from scheduler.kinds import MANAGER
from tests.controlplane.ours import scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLAIM, POD, Json, RestClient
from tests.integration.live.crowd import (
    GPU,
    NAMESPACE,
    NET,
    a_pod,
    await_placed,
    emptied,
    furnished,
    listed,
    lose_names,
    send,
    wrongs,
)

DRIVERS = (GPU, NET, "disk.example.com")
ENTRIES = {f"c{number}" for number, _ in enumerate(DRIVERS)}


fleet = furnished(1, 1, DRIVERS)
api = emptied()


@pytest.mark.parametrize("entry", sorted(ENTRIES))
def test_pod_that_names_its_claims_by_turns_is_placed_and_names_them_all(
    plane: ControlPlane, api: RestClient, entry: str
) -> None:
    send(plane, [a_pod("pod", *DRIVERS)])
    claims = lose_names(api, entry)
    with scheduler(plane, name="mends"):
        (pod,) = await_placed(api, 1)
    assert listed(pod) == claims
    assert wrongs(api) == []
    assert {
        field["manager"] for field in pod["metadata"]["managedFields"] if "resourceClaimStatuses" in str(field)
    } == {
        "ResourceClaimController",
        MANAGER,
    }


def test_pod_whose_claims_are_made_anew_one_after_the_other_is_placed_with_all_of_them(
    plane: ControlPlane, api: RestClient
) -> None:
    """The controller gives up what it owned of the first when it makes the second: an entry without a claim is left."""
    gated = a_pod("pod", *DRIVERS)
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    send(plane, [gated])
    first = lose_names(api, "c0")
    with scheduler(plane, name="mends"):
        api.await_all(POD, lambda pods: listed(pods[0]).keys() == ENTRIES, NAMESPACE)
        for entry in ("c0", "c1"):
            api.delete(CLAIM, first[entry], NAMESPACE)
            api.await_all(POD, partial(is_made_anew, entry, first[entry]), NAMESPACE)
        api.change(POD, "pod", NAMESPACE, lambda pod: {**pod, "spec": {**pod["spec"], "schedulingGates": []}})
        await_placed(api, 1)
    assert wrongs(api) == []


def is_made_anew(entry: str, old: str, pods: Sequence[Json]) -> bool:
    """Whether all entries of the only pod have a claim, and that one another than the old."""
    names = listed(pods[0])
    return names.keys() == ENTRIES and names[entry] != old


def test_pod_that_is_bound_names_its_claim_again_after_its_controller_has_made_a_second_one(
    plane: ControlPlane, api: RestClient
) -> None:
    """As a controller does that saw neither the first claim nor the status, since the API server has just started."""
    with scheduler(plane, name="mends"):
        send(plane, [a_pod("pod", GPU)])
        (pod,) = await_placed(api, 1)
        (first,) = listed(pod).values()
        claim = api.get(CLAIM, first, NAMESPACE)
        metadata = {key: claim["metadata"][key] for key in ("namespace", "annotations", "ownerReferences")}
        kind = {"apiVersion": CLAIM.api_version, "kind": CLAIM.kind}
        annotations = {"resource.kubernetes.io/pod-claim-name": "c0"}
        api.create(
            {**kind, "metadata": {**metadata, "name": "second", "annotations": annotations}, "spec": claim["spec"]}
        )
        second = [{"name": "c0", "resourceClaimName": "second"}]
        api.change_status(
            POD, "pod", NAMESPACE, lambda pod: {**pod, "status": {**pod["status"], "resourceClaimStatuses": second}}
        )
        api.await_all(POD, lambda pods: listed(pods[0]) == {"c0": first}, NAMESPACE)
    (user,) = api.get(CLAIM, first, NAMESPACE)["status"]["reservedFor"]
    assert user["uid"] == pod["metadata"]["uid"]
