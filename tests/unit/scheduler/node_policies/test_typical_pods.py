"""The workload: which shapes are expected, and for how much what was expected at first counts."""

import pytest

from scheduler.node_policies.typical_pods import START_PODS, PodShapes
from scheduler.state.pods import PodRequests, pod_requests
from tests.builders import a_container, a_pod


def requests(cpu: int) -> PodRequests:
    return pod_requests(a_pod(a_container(cpu=f"{cpu}m", memory="1Gi")))


def shares(shapes: PodShapes) -> dict[int, float]:
    return {shape.cpu: share for share, shape in shapes.every()}


def started_with(*cpu: int) -> PodShapes:
    found = PodShapes()
    found.start_with([(requests(one), ()) for one in cpu])
    return found


def test_a_start_is_what_is_expected_until_pods_come() -> None:
    found = started_with(100, 100, 200)
    assert shares(found) == pytest.approx({100: 2 / 3, 200: 1 / 3})
    assert sum(share for share, _ in found.typical()) == pytest.approx(1)
    assert {shape.memory for _, shape in found.every()} == {1 << 30}


def test_pods_that_are_expected_leave_the_start_its_weight() -> None:
    found = started_with(100, 200)
    for number in range(START_PODS):
        found.see(f"pod-{number}", requests(100), ())
    assert shares(found) == pytest.approx({100: 0.75, 200: 0.25})
    assert found.changes > 1


def test_each_pod_of_another_shape_halves_the_weight_of_the_start() -> None:
    found = started_with(100)
    before = found.changes
    for number in range(3):
        found.see(f"pod-{number}", requests(300 + number), ())
    assert found.changes == before + 3
    assert shares(found)[100] == pytest.approx(START_PODS / 8 / (START_PODS / 8 + 3))
    for number in range(3, 20):
        found.see(f"pod-{number}", requests(300 + number), ())
    assert 100 not in shares(found)
    assert sum(shares(found).values()) == pytest.approx(1)


def test_a_start_with_nothing_is_no_start() -> None:
    found = started_with()
    found.see("pod", requests(100), ())
    assert shares(found) == {100: 1.0}


def test_a_pod_counts_once() -> None:
    found = started_with(100)
    for _ in range(5):
        found.see("pod", requests(200), ())
    assert shares(found)[200] == pytest.approx(1 / (START_PODS / 2 + 1))
