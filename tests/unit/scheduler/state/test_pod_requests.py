import sys
from collections.abc import Mapping

import pytest

from allocator.model import Container
from scheduler.core_v1.pod import Pod
from scheduler.state import pods as module
from scheduler.state.pods import MOST, USUAL_REQUESTS, PodRequests, is_counted, pod_requests
from tests.builders import a_container, a_pod, amounts
from tests.builders import an_init_container as init

MI = 2**20
GI = 2**30


def sidecar(**requests: str) -> Container:
    return a_container("sidecar", **requests)


def counted(pod: Pod) -> Mapping[str, int]:
    return pod_requests(pod).amounts


@pytest.mark.parametrize(
    ("containers", "cpu"),
    [
        ([], 0),
        ([a_container(cpu="1")], 1000),
        ([a_container(cpu="1"), a_container(cpu="500m")], 1500),
        ([init(cpu="2"), a_container(cpu="1")], 2000),
        ([init(cpu="1"), a_container(cpu="1"), a_container(cpu="1")], 2000),
        ([init(cpu="2"), init(cpu="3"), a_container(cpu="1")], 3000),
        ([sidecar(cpu="1"), a_container(cpu="1")], 2000),
        ([sidecar(cpu="1"), init(cpu="3"), a_container(cpu="1")], 4000),
        ([init(cpu="3"), sidecar(cpu="1"), a_container(cpu="1")], 3000),
        ([sidecar(cpu="1"), init(cpu="2"), sidecar(cpu="2"), init(cpu="1"), a_container(cpu="1")], 4000),
        ([sidecar(cpu="1"), init(cpu="2"), sidecar(cpu="2"), init(cpu="2"), a_container(cpu="1")], 5000),
        ([init(cpu="2"), init(memory="1Gi"), a_container(cpu="1")], 2000),
    ],
)
def test_a_pod_requests_the_most_that_its_containers_hold_at_one_time(containers: list[Container], cpu: int) -> None:
    assert counted(a_pod(*containers)).get("cpu", 0) == cpu


def test_each_resource_has_a_largest_moment_of_its_own() -> None:
    pod = a_pod(init(cpu="2", memory="1Gi"), init(cpu="1", memory="3Gi"), a_container(cpu="1500m", memory="2Gi"))
    assert counted(pod) == {"cpu": 2000, "memory": 3 * GI}


def test_overhead_comes_on_top_of_all_else() -> None:
    pod = a_pod(init(cpu="2"), a_container(cpu="1"), overhead=amounts(cpu="250m", memory="64Mi"))
    assert counted(pod) == {"cpu": 2250, "memory": 64 * MI}


def test_what_the_pod_requests_as_a_whole_takes_the_place_of_its_containers_requests() -> None:
    pod = a_pod(a_container(cpu="1", memory="1Gi"), budget=amounts(cpu="4"), overhead=amounts(cpu="1"))
    assert counted(pod) == {"cpu": 5000, "memory": GI}


def test_a_pod_as_a_whole_has_requests_of_cpu_memory_and_huge_pages_only() -> None:
    pod = a_pod(
        a_container(ephemeral_storage="1"), budget={**amounts(ephemeral_storage="9"), **amounts(hugepages_2Mi="4Mi")}
    )
    assert counted(pod) == {"ephemeral-storage": 1, "hugepages-2Mi": 4 * MI}


def test_fractions_are_added_exactly_and_rounded_up_once() -> None:
    pod = a_pod(a_container(cpu="100u", memory="100m"), a_container(cpu="901u", memory="901m"))
    assert counted(pod) == {"cpu": 2, "memory": 2}
    assert counted(a_pod(a_container(cpu="400u"), a_container(cpu="600u"))) == {"cpu": 1}


def test_a_resource_of_which_nothing_is_requested_is_not_there() -> None:
    assert counted(a_pod(a_container(cpu="0", gpu__gpu="0"))) == {}


@pytest.mark.parametrize(
    ("resource", "counts"),
    [
        ("cpu", True),
        ("memory", True),
        ("ephemeral-storage", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-csi-x", True),
        ("example.com/gpu", True),
        ("kubernetes.io/batch-cpu", True),
        ("pods", False),
        ("storage", False),
    ],
)
def test_nodes_count_the_resources_that_kubernetes_counts(resource: str, *, counts: bool) -> None:
    assert is_counted(resource) is counts


def test_amounts_beyond_all_measure_count_as_the_most() -> None:
    assert counted(a_pod(a_container(memory="9Ei"), a_container(memory="9Ei"))) == {"memory": MOST}


def scored(pod: Pod) -> tuple[int, int]:
    found: PodRequests = pod_requests(pod)
    return found.scored_cpu, found.scored_memory


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(), (0, 0)),
        (a_pod(a_container()), (100, 200 * MI)),
        (a_pod(a_container(), a_container()), (200, 400 * MI)),
        (a_pod(a_container(cpu="1"), a_container()), (1100, 400 * MI)),
        (a_pod(a_container(cpu="0", memory="0")), (0, 0)),
        (a_pod(init(cpu="50m"), a_container()), (100, 200 * MI)),
        (a_pod(sidecar(), a_container(cpu="1", memory="1Gi")), (1100, GI + 200 * MI)),
        (a_pod(a_container(), overhead=amounts(cpu="1")), (1100, 200 * MI)),
        (a_pod(a_container(), budget=amounts(cpu="2", memory="1Gi")), (2000, GI)),
        (a_pod(a_container(), budget=amounts(cpu="2")), (2000, 200 * MI)),
        (a_pod(a_container(cpu="1"), a_container(), budget=amounts(memory="1Gi")), (1000, GI)),
        (a_pod(a_container(), budget=amounts(ephemeral_storage="1")), (100, 200 * MI)),
    ],
)
def test_for_scores_a_silent_container_counts_for_a_little(pod: Pod, expected: tuple[int, int]) -> None:
    assert scored(pod) == expected


def test_nothing_is_kept_of_pods_with_thousands_of_requests() -> None:
    """The end of such a pod would leave megabytes of them behind."""
    many = a_pod(containers=tuple(a_container(cpu=f"{number}m") for number in range(1, USUAL_REQUESTS)))
    kept = module._requests.cache_info().currsize
    assert counted(many)["cpu"] == sum(range(1, USUAL_REQUESTS))
    assert module._requests.cache_info().currsize == kept


def test_a_pod_is_not_kept_where_its_requests_are_remembered() -> None:
    """It may be megabytes, and gone for long."""
    pod = a_pod(a_container(cpu="1"))
    before = sys.getrefcount(pod)
    pod_requests(pod)
    assert sys.getrefcount(pod) == before
