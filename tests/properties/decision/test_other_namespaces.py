"""No text that the people of a namespace can read names claims or pods of another one.

They read the condition and events of their pods, what kube-scheduler reports of the extender's answers, events of their
claims, and the guard's refusals. All other namespaces are filled with names that occur in none of them.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from allocator.gates import Features
from allocator.model import Claim
from allocator.policies import policy_of
from scheduler.attempt.claim_objects import ClaimRef
from scheduler.attempt.steps.claims import given_up, lost_to
from scheduler.cli.verify_scheduling import case_of
from scheduler.core_v1.node import Namespace
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.filters import LABEL
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Failed, NotPlaced
from scheduler.decision.why_not import diagnosis_of
from scheduler.extender.bind import NotBound
from scheduler.extender.verbs import Undecided, filter_nodes
from scheduler.guard.ledger import Ledger, Update
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.state.claims import Waiting, full
from tests.builders import a_user, amounts, watched
from tests.generators.workloads import NAMESPACES
from tests.generators.worlds import cases
from tests.properties.allocator.instances import ABOUT
from tests.properties.extender.worlds import World, worlds

OTHER = "other-tenant"
HIDDEN = "confidential"
POLICIES = ("first-fit", "spread", "fgd", "fill-value")
"""Of those that look at one node, and of those that look at the workload of everybody."""

EACH = 6


def secret(claim: Claim, name: str) -> Claim:
    return replace(claim, namespace=OTHER, name=f"{HIDDEN}-{name}", uid=f"uid-{HIDDEN}-{name}")


def secret_pod(name: str, *claims: Claim, node: str = "") -> Pod:
    user = a_user(f"{HIDDEN}-{name}", *(claim.name for claim in claims), node_name=node)
    return replace(user, namespace=OTHER)


def filled(world: World) -> tuple[Cluster, list[Claim]]:
    """The cluster, in which the other namespace has all that is held; and what that is."""
    cluster = replace(world, held=()).cluster()
    cluster.set_namespace(Namespace(OTHER, {LABEL: "true"}))
    for node in world.instance.nodes:
        cluster.set_node(replace(node, allocatable=amounts(pods="110")))
    theirs = [secret(claim, f"held-{number}") for number, (claim, _) in enumerate(world.held)]
    for number, claim in enumerate(theirs):
        user = secret_pod(f"user-{number}", claim, node="node-0")
        cluster.set_claim(watched(claim, users=[user]), 1)
        cluster.set_pod(user)
    return cluster, theirs


def of_decisions(cluster: Cluster, world: World) -> Iterator[str]:
    """Of conditions and events, after the other namespace has asked the same."""
    asked = [secret(claim, f"asked-{number}") for number, (claim, _) in enumerate(world.own)]
    for claim in asked:
        cluster.set_claim(watched(claim), 1)
    for pod, claims in (
        (secret_pod("asking", *asked), asked),
        (world.pod, [claim for claim, _ in world.own]),
    ):
        found = decide(cluster, pod, claims)
        if pod.namespace != OTHER:
            yield from texts(found)


def texts(found: object) -> Iterator[str]:
    match found:
        case NotPlaced():
            yield found.refusal.message
            yield found.everywhere
        case Failed():
            yield found.reason


def of_the_extender(cluster: Cluster, world: World) -> Iterator[str]:
    try:
        found = filter_nodes(cluster, world.pod, world.names)
    except (Undecided, NotBound) as error:
        yield str(error)
    else:
        yield from (*found.failed.values(), *found.unresolvable.values())


def of_the_guard(cluster: Cluster, theirs: list[Claim]) -> Iterator[str]:
    """Once asked about claims that are made up, once about claims that the watch has shown."""
    mine = [
        replace(claim, namespace="default", name=f"mine-{number}", uid=f"uid-mine-{number}")
        for number, claim in enumerate(theirs)
    ]
    for is_known in (False, True):
        for claim in mine:
            if is_known:
                cluster.set_claim(watched(replace(claim, allocation=None)), 1)
            refusal = Ledger(cluster).refusal(Update(claim, 1))
            yield refusal.message if refusal else ""


def of_lost_races(cluster: Cluster, theirs: list[Claim]) -> Iterator[str]:
    """Of attempts that lose their devices, and of the events of claims that have the same devices."""
    binder = cast("Any", SimpleNamespace(time=SimpleNamespace(random=lambda: 0.5)))
    for number, claim in enumerate(theirs):
        mine = replace(claim, namespace="default", name=f"mine-{number}", uid=f"uid-mine-{number}")
        user = a_user(f"user-{number}", mine.name, node_name="node-0")
        cluster.set_claim(watched(mine, users=[user]), 2)
        cluster.set_pod(user)
        key = ClaimRef(mine.namespace, mine.name, mine.uid)
        for rival in cluster.rival_claims.of(mine.uid):
            if rival.namespace == OTHER:
                yield lost_to(rival, key).reason
                yield given_up(rival, key, binder).reason
    for violation in cluster.violations():
        if any(claim.namespace == "default" for claim in violation.claims):
            yield violation.text_for("default")


def check(world: World, seen: dict[str, int]) -> None:
    cluster, theirs = filled(world)
    for door, found in (
        ("guard", list(of_the_guard(cluster, theirs))),
        ("decisions", list(of_decisions(cluster, world))),
        ("extender", list(of_the_extender(cluster, world))),
        ("races", list(of_lost_races(cluster, theirs))),
    ):
        assert not [text for text in found if HIDDEN in text or OTHER in text]
        seen[door] = seen.get(door, 0) + sum("of another namespace" in text or "of other" in text for text in found)


@pytest.mark.parametrize("policy", POLICIES)
def test_no_text_names_what_another_namespace_has(policy: str) -> None:
    seen: dict[str, int] = {}
    for aspect in ABOUT:
        worlds(aspect).hold_for(
            f"names-{policy}", EACH, lambda world: check(replace(world, policy=policy_of(policy)), seen)
        )
    assert all(seen[door] for door in ("guard", "decisions", "races")), seen


def test_no_filter_names_what_another_namespace_has() -> None:
    """Pods that keep each other away by affinity, ports, volumes, quota of nodes and claims."""
    refused = 0
    for number, raw in enumerate(cases(Random(7), 150)):  # noqa: S311 - cases of a test
        case = case_of({**raw, "id": number, "expected": {"preFilter": {"code": "Success"}}})
        pod, claims = case.pod, Claims(case.inventory)
        cluster = cluster_of(case.inventory, claims, case.inventory.pods, Features.of("1.36"), assumes_room=False)
        foreign = {name for name in NAMESPACES if name != pod.namespace}
        foreign |= {one.name for one in case.inventory.pods if one.namespace in foreign}
        found = cluster.claims_of(pod)
        if isinstance(found, Waiting):
            told = [found.reason]
        else:
            own = [one.claim for one in found]
            rejected = diagnosis_of(cluster, pod, own, full(pod, found)).rejected
            told = [*texts(decide(cluster, pod, own, full(pod, found))), *(one.reason for _, one in rejected)]
        words = set(re.findall(r"[a-z0-9.-]+", " ".join(told)))
        assert not words & foreign, told
        refused += bool(told)
    assert refused > 50
