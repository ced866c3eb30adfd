"""What is applied to pods whose status has lost entries, or has hollow ones."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from scheduler.client.connection import Api
from scheduler.client.errors import ApiError, ApiStatus
from scheduler.core_v1.pod import Pod, PodClaim
from scheduler.decision.cluster import Cluster
from scheduler.kinds import MANAGER
from scheduler.repair import _STATUS_TRIES, ClaimStatuses
from scheduler.state.cluster_changes import PodChanged
from tests.builders import a_claim, a_pod, a_result, an_allocated_claim, kubernetes, watched

TURNS = 50
"""Of the event loop: more than one write takes."""

Statuses = Mapping[str, str | None]


class ClaimStatusesApplied:
    """Stands where the API server is: shows the pod, and takes down what is applied, as entry and claim.

    conflicts: so many writes are refused, since the pod has changed. node: of the pod.
    """

    def __init__(self, conflicts: int = 0, node: str = "") -> None:
        self.node = node
        self.entries: list[dict[str, str]] = []
        self.stored: Statuses = {}
        self.conflicts = conflicts

    async def request(self, method: str, path: str, **call: Any) -> dict[str, Any]:
        if method == "GET":
            return raw_of(self.stored, self.node)
        assert (method, call["query"]["fieldManager"]) == ("PATCH", MANAGER)
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError("PATCH", 409, ApiStatus("Conflict", "the object has been modified"))
        entries = call["body"]["status"]["resourceClaimStatuses"]
        self.entries.append({one["name"]: one["resourceClaimName"] for one in entries})
        return {}


def raw_of(statuses: Statuses, node: str) -> dict[str, Any]:
    """The pod as it is stored; an entry with an empty name is one that is hollow."""
    owned: dict[str, object] = {f'k:{{"name":"{entry}"}}': {} for entry, name in statuses.items() if name == ""}
    fields = {"f:status": {"f:resourceClaimStatuses": owned}}
    entries = [{"name": entry, **({"resourceClaimName": name} if name else {})} for entry, name in statuses.items()]
    metadata = {"namespace": "default", "name": "pod", "uid": "uid-pod", "resourceVersion": "7"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "managedFields": [{"manager": MANAGER, "fieldsV1": fields}]},
        "spec": {
            "nodeName": node,
            "resourceClaims": [{"name": name, "resourceClaimTemplateName": "t"} for name in statuses],
        },
        "status": {"resourceClaimStatuses": entries},
    }


def a_user(statuses: Statuses) -> Pod:
    """A pod with an entry of a template for each."""
    return a_pod(claims=tuple(PodClaim(name, template_name="t") for name in statuses), claim_statuses=statuses)


def applied(
    *seen: Statuses,
    claims: tuple[str, ...] = (),
    is_ours: bool = True,
    stored: Statuses | None = None,
    conflicts: int = 0,
    node: str = "",
    held: tuple[str, ...] = (),
) -> list[dict[str, str]]:
    """What is applied while the pod is seen with these statuses, one after the other.

    claims: those that are there. stored: what the pod has when it is read; by default what was seen last. node: of the
    pod. held: the claims that are allocated and reserved for it.
    """
    cluster, api = Cluster(kubernetes(), is_ours=lambda _: True), ClaimStatusesApplied(conflicts, node)
    for name in claims:
        claim = an_allocated_claim(a_result(), name=name) if name in held else a_claim(name=name)
        users = [a_pod()] if name in held else []
        cluster.set_claim(watched(replace(claim, uid=f"uid-{name}"), owner="uid-pod", users=users), 1)

    async def act() -> None:
        statuses = ClaimStatuses(cast(Api, api), cluster, lambda _: is_ours)
        running = asyncio.create_task(statuses.run())
        old: Pod | None = None
        for one in seen:
            new = replace(a_user(one), node_name=node)
            api.stored = one if stored is None else stored
            statuses.on_event(PodChanged(old, new))
            old = new
            for _ in range(TURNS):
                await asyncio.sleep(0)
        running.cancel()

    asyncio.run(act())
    return api.entries


def test_entry_that_is_lost_is_put_back_beside_the_others_while_its_claim_is_there() -> None:
    before, after = {"a": "claim-a", "b": "claim-b"}, {"b": "claim-b"}
    assert applied(before, after, claims=("claim-a", "claim-b")) == [before]
    assert applied(before, after, claims=("claim-b",)) == []
    assert applied(before, after, claims=("claim-a", "claim-b"), is_ours=False) == []


def test_hollow_entry_gets_the_claim_again_that_it_had() -> None:
    before, after = {"a": "claim-a", "b": "claim-b"}, {"a": "", "b": "claim-new"}
    assert applied(before, after, claims=("claim-a", "claim-new")) == [{"a": "claim-a", "b": "claim-new"}]


def test_hollow_entry_is_given_up_where_its_claim_is_gone_or_not_known() -> None:
    hollow = {"a": "", "b": "claim-b"}
    assert applied({**hollow, "a": "claim-a"}, hollow, claims=("claim-b",)) == [{"b": "claim-b"}]
    assert applied(hollow, claims=("claim-a", "claim-b")) == [{"b": "claim-b"}]


def test_entry_that_needs_no_claim_is_never_taken_into_our_name() -> None:
    before = {"a": "claim-a", "b": "claim-b", "none": None}
    assert applied(before, claims=("claim-a", "claim-b")) == []
    after = {"b": "claim-b", "none": None}
    assert applied(before, after, claims=("claim-a", "claim-b")) == [{"a": "claim-a", "b": "claim-b"}]


def test_pod_that_is_bound_with_a_claim_names_it_again_after_another_was_made() -> None:
    before, after = {"a": "claim-a", "b": "claim-b"}, {"a": "claim-a", "b": "claim-new"}
    claims, held = ("claim-a", "claim-b", "claim-new"), ("claim-a", "claim-b")
    assert applied(before, after, claims=claims, node="n", held=held) == [before]
    assert applied(before, after, claims=claims, held=held) == []
    assert applied(before, after, claims=claims, node="n", held=("claim-a",)) == []
    assert applied(before, after, claims=claims, node="n", held=(*held, "claim-new")) == []
    assert applied(before, after, claims=claims, node="n", held=held, stored=before) == []


def test_what_is_stored_by_now_decides_and_not_what_was_seen() -> None:
    before, after = {"a": "claim-a", "b": "claim-b"}, {"b": "claim-b"}
    assert applied(before, after, claims=("claim-a", "claim-b"), stored=before) == []
    assert applied(before, after, claims=("claim-a", "claim-b"), stored={"a": "claim-a"}) == [before]
    anew = {"b": "claim-new"}
    assert applied(before, after, claims=("claim-a", "claim-new"), stored=anew) == [{"a": "claim-a", "b": "claim-new"}]


def test_pod_that_changes_meanwhile_is_read_again() -> None:
    before, after = {"a": "claim-a", "b": "claim-b"}, {"b": "claim-b"}
    assert applied(before, after, claims=("claim-a", "claim-b"), conflicts=_STATUS_TRIES - 1) == [before]
    assert applied(before, after, claims=("claim-a", "claim-b"), conflicts=_STATUS_TRIES) == []
