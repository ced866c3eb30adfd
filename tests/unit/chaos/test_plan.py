"""A round follows from its seed alone, and over many of them everything goes wrong that can."""

from collections import Counter

from tests.chaos.objects import KINDS, PORTS, SPREAD, SPREAD_PODS
from tests.chaos.plan import WAYS, planned


def test_round_of_a_seed_is_the_same_each_time_and_another_for_another() -> None:
    assert planned(7) == planned(7)
    assert planned(7) != planned(8)


def test_every_way_and_every_target_has_its_turn() -> None:
    met = {(fault.way, fault.target) for seed in range(3000) for fault in planned(seed).faults}
    assert met == {(way, target) for way, (_, targets) in WAYS.items() for target in targets}


def test_no_two_faults_of_a_round_have_one_target() -> None:
    for seed in range(200):
        faults = planned(seed).faults
        assert len({fault.target for fault in faults}) == len(faults) > 0
        assert all(0 <= fault.begins < fault.ends <= len(planned(seed).steps) for fault in faults)


def test_every_round_has_pods_of_every_kind_and_more_that_want_a_port_than_there_are() -> None:
    for seed in range(50):
        coming = Counter(step.arrival.kind for step in planned(seed).steps if step.act == "come")
        assert coming.keys() == {*KINDS, SPREAD, "scarce"}
        assert coming["scarce"] > PORTS
        assert coming[SPREAD] == SPREAD_PODS
        assert any(step.act != "come" for step in planned(seed).steps)
