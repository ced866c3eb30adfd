from dataclasses import replace

import pytest

from allocator.explain.text import refusal_text
from allocator.model import DeviceID
from allocator.outcome import DeviceRefusal
from scheduler.decision.cluster import NOT_READY, Cluster
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


@pytest.mark.parametrize("reader", ["default", "", "other"])
def test_who_may_read_no_claim_of_others_reads_why_a_device_is_set_aside(reader: str) -> None:
    held = (("default/holder", 1), (NOT_READY, 1))
    refusal = DeviceRefusal("are in use", 2, category="in use", holders=held)
    holder = "a claim of another namespace" if reader == "other" else "default/holder"
    reason = "set aside: it recently failed to become ready"
    assert refusal_text(refusal, reader=reader) == f"2 are in use (held by {holder}; {reason})"
    assert refusal_text(replace(refusal, number=1, holders=held[1:]), reader=reader) == f"1 is in use ({reason})"
