"""Claims whose users have all ended: they are found whatever comes first, and looked at only if they may be some."""

from collections.abc import Callable
from itertools import permutations

import pytest

from scheduler.decision.cluster import Cluster
from tests.builders import NODE, a_class, a_node, a_user, an_allocated_claim, kubernetes, watched

FEW = 5


def a_cluster() -> Cluster:
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_class(a_class())
    cluster.set_node(a_node())
    return cluster


def unused(cluster: Cluster) -> list[str]:
    return [claim.name for _, claim in cluster.claims.unused(cluster.is_live)]


@pytest.mark.parametrize("is_claim_first", [True, False])
def test_claims_with_a_live_user_are_not_looked_at(*, is_claim_first: bool) -> None:
    cluster, asked = a_cluster(), list[str]()
    pods = [a_user(f"p{number}", f"c{number}", node_name=NODE) for number in range(FEW)]
    for pod in () if is_claim_first else pods:
        cluster.set_pod(pod)
    for number, pod in enumerate(pods):
        cluster.set_claim(watched(an_allocated_claim(f"gpu-{number}", name=f"c{number}"), users=[pod]), 1)
    for pod in pods if is_claim_first else ():
        cluster.set_pod(pod)

    def is_live(uid: str) -> bool:
        asked.append(uid)
        return cluster.is_live(uid)

    assert list(cluster.claims.unused(is_live)) == []
    assert asked == []
    cluster.remove_pod(pods[0].uid)
    assert [claim.name for _, claim in cluster.claims.unused(is_live)] == ["c0"]
    assert asked == [pods[0].uid]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_user_that_terminates_is_none_whatever_comes_first(order: tuple[int, ...]) -> None:
    cluster, pod = a_cluster(), a_user("p", "c", node_name=NODE)
    claim = watched(an_allocated_claim("gpu-0", name="c"), users=[pod])
    is_ending = False

    def sees_pod() -> None:
        cluster.set_pod(pod.changed(is_deleting=is_ending))

    def ends() -> None:
        nonlocal is_ending
        is_ending = True
        if cluster.pods.known(pod.uid) is not None:
            sees_pod()

    steps: list[Callable[[], object]] = [sees_pod, lambda: cluster.set_claim(claim, 1), ends]
    for step in order:
        steps[step]()
        unused(cluster)
    assert unused(cluster) == ["c"]
