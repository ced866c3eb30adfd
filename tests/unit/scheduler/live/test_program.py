"""Which pods wait for the scheduler."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from scheduler.core_v1.pod import Pod
from scheduler.live.program import Scheduler
from tests.builders import a_pod

BOUND = a_pod(node_name="node-0", scheduler_name="ours")


def waits(pod: Pod, *, allocates: bool = True, needs: bool = False, is_placed: bool = False) -> bool:
    configuration = SimpleNamespace(scheduler_name="ours", allocate_prescheduled=allocates)
    parts = SimpleNamespace(
        _configuration=configuration,
        _is_ours=lambda pod: pod.scheduler_name == "ours",
        _queue=SimpleNamespace(get=lambda _: None),
        _cluster=SimpleNamespace(pods=SimpleNamespace(is_placed=lambda _: is_placed)),
        _is_being_allocated=lambda _: False,
        _prescheduled={pod.uid} if needs else set(),
    )
    return Scheduler._waits(cast(Scheduler, parts), pod)


@pytest.mark.parametrize(
    ("allocates", "needs", "expected"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_pod_with_a_node_waits_while_it_needs_devices_and_somebody_gives_them(
    *, allocates: bool, needs: bool, expected: bool
) -> None:
    assert waits(BOUND, allocates=allocates, needs=needs) is expected


def test_pod_without_a_node_waits_unless_it_is_anothers_over_or_placed_by_now() -> None:
    pod = replace(BOUND, node_name="")
    assert waits(pod)
    assert not waits(replace(pod, scheduler_name="other"))
    assert not waits(replace(pod, phase="Succeeded"))
    assert not waits(pod, is_placed=True)


@pytest.mark.parametrize(("name", "expected"), [("a", True), ("b", True), ("c", False)])
def test_pods_of_every_profile_are_ours(name: str, *, expected: bool) -> None:
    parts = SimpleNamespace(_names=frozenset("ab"))
    assert Scheduler._is_ours(cast(Scheduler, parts), a_pod(scheduler_name=name)) is expected
