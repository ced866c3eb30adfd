from allocator.model import DeviceID
from scheduler.decision.cluster import Cluster
from tests.builders import DRIVER, POOL, a_claim, a_class, a_node, a_slice, an_allocated_claim, kubernetes, watched

FIRST, SECOND = (DeviceID(DRIVER, POOL, name) for name in ("gpu-0", "gpu-1"))


def a_cluster() -> Cluster:
    cluster = Cluster(kubernetes(), is_ours=lambda _: True)
    cluster.set_class(a_class())
    cluster.set_node(a_node())
    cluster.set_slice(a_slice("gpu-0", "gpu-1"))
    return cluster


def can_place_one(cluster: Cluster) -> bool:
    return bool(cluster.fleet.able([a_claim(name="asked")]))


def test_device_that_is_set_aside_is_nobodys_until_it_is_put_back() -> None:
    cluster = a_cluster()
    aside = cluster.set_aside([FIRST, SECOND])
    assert not can_place_one(cluster)
    cluster.put_back(aside)
    assert can_place_one(cluster)


def test_device_stays_set_aside_when_the_claim_that_had_it_is_shown_to_have_given_it_back() -> None:
    cluster = a_cluster()
    cluster.set_claim(watched(an_allocated_claim("gpu-0", "gpu-1")), 1)
    aside = cluster.set_aside([FIRST, SECOND])
    cluster.set_claim(watched(a_claim(name="holder")), 2)
    assert not can_place_one(cluster)
    cluster.put_back(aside)
    assert can_place_one(cluster)
