import pytest

from scheduler.core_v1.pod import Pod
from scheduler.core_v1.pod_volumes import Disk, PodVolumes
from scheduler.core_v1.storage_objects import ONE_POD
from scheduler.plugins.plugin import Refusal, RefusedPod
from scheduler.plugins.volume_restrictions import IN_USE, NO_DISK, VOLUME_RESTRICTIONS
from scheduler.state.cluster_changes import Event, GivenBack, NodeChanged, PersistentVolumeClaimChanged, PodChanged
from scheduler.state.pods import pod_requests
from tests.builders import a_node, a_pod
from tests.storage import a_bound_pvc, a_pod_with, a_pvc
from tests.unit.scheduler.plugins.world import a_world, before, left, said

SHARED = frozenset({"ReadWriteMany"})
SINGLE = frozenset({ONE_POD})


def with_disks(*disks: Disk, name: str = "p", **more: str) -> Pod:
    return a_pod(name=name, volumes=PodVolumes(disks=disks), **more)


def google(*, reads: bool = False) -> Disk:
    return Disk("gcePersistentDisk", ("d",), reads)


def test_a_claim_that_is_not_there_refuses_every_node() -> None:
    assert before(VOLUME_RESTRICTIONS, a_world(), a_pod_with("v")) == 'persistentvolumeclaim "v" not found'


def test_ephemeral_volumes_are_not_looked_at() -> None:
    assert left(VOLUME_RESTRICTIONS, a_world(), a_pod_with(ephemeral="scratch")) == ["a1", "a2", "b1"]


def test_a_claim_for_one_pod_keeps_others_from_every_node_until_that_pod_ends() -> None:
    world = a_world()
    world.volumes.set_claim(a_bound_pvc(access_modes=SINGLE))
    assert left(VOLUME_RESTRICTIONS, world, a_pod_with("v")) == ["a1", "a2", "b1"]
    world.set_pod(a_pod_with("v", name="q", node_name="a1"))
    assert said(VOLUME_RESTRICTIONS, world, a_pod_with("v")) == {node: ([IN_USE], True) for node in ("a1", "a2", "b1")}
    world.remove_pod("uid-q")
    assert left(VOLUME_RESTRICTIONS, world, a_pod_with("v")) == ["a1", "a2", "b1"]


@pytest.mark.parametrize(
    ("modes", "user"),
    [(SHARED, a_pod_with("v", name="q", node_name="a1")), (SINGLE, a_pod_with("u", name="q", node_name="a1"))],
)
def test_other_claims_and_other_modes_are_shared(modes: frozenset[str], user: Pod) -> None:
    world = a_world()
    world.volumes.set_claim(a_bound_pvc(access_modes=modes))
    world.set_pod(user)
    assert left(VOLUME_RESTRICTIONS, world, a_pod_with("v")) == ["a1", "a2", "b1"]


@pytest.mark.parametrize(
    ("held", "asked", "is_refused"),
    [
        (google(), google(), True),
        (google(reads=True), google(), True),
        (google(), google(reads=True), True),
        (google(reads=True), google(reads=True), False),
        (google(), Disk("gcePersistentDisk", ("other",)), False),
        (Disk("iscsi", ("d",)), google(), False),
        (Disk("rbd", ("m1", "pool", "image")), Disk("rbd", ("m1", "pool", "image")), True),
        (Disk("rbd", ("m1", "pool", "image")), Disk("rbd", ("m2", "pool", "image")), False),
    ],
)
def test_a_disk_is_shared_only_by_pods_that_read(held: Disk, asked: Disk, *, is_refused: bool) -> None:
    world = a_world()
    world.set_pod(with_disks(held, name="q", node_name="a1"))
    found = said(VOLUME_RESTRICTIONS, world, with_disks(asked))
    assert found == ({"a1": ([NO_DISK], True)} if is_refused else {})


def test_a_disk_is_free_once_the_last_pod_with_it_is_gone() -> None:
    world = a_world()
    for name in ("q", "r"):
        world.set_pod(with_disks(google(), name=name, node_name="a1"))
    world.remove_pod("uid-q")
    assert said(VOLUME_RESTRICTIONS, world, with_disks(google()))
    world.remove_pod("uid-r")
    assert not said(VOLUME_RESTRICTIONS, world, with_disks(google()))


def is_helped(event: Event, pod: Pod) -> bool:
    hint = VOLUME_RESTRICTIONS.reason.hints.get(type(event))
    refusal = Refusal(frozenset({VOLUME_RESTRICTIONS.reason}), pod_requests(pod))
    return bool(hint and hint(RefusedPod(pod, refusal), event))


def test_the_end_of_a_pod_helps_those_that_it_shares_a_claim_or_a_disk_with() -> None:
    user, holder = a_pod_with("v", name="q", node_name="a1"), with_disks(google(), name="q", node_name="a1")
    elsewhere = Pod("other", "q", node_name="a1", volumes=holder.volumes)
    assert is_helped(PodChanged(user, None), a_pod_with("v"))
    assert not is_helped(PodChanged(user, user), a_pod_with("v"))
    assert not is_helped(PodChanged(user, None), a_pod_with("u"))
    assert is_helped(PodChanged(holder, None), with_disks(google()))
    assert is_helped(PodChanged(elsewhere, None), with_disks(google())), "a disk knows no namespaces"
    assert is_helped(GivenBack(user), a_pod_with("v"))
    assert not is_helped(GivenBack(user), a_pod_with("u"))


def test_a_claim_that_comes_and_a_node_that_comes_help() -> None:
    assert is_helped(PersistentVolumeClaimChanged(None, a_pvc("v")), a_pod_with("v"))
    assert not is_helped(PersistentVolumeClaimChanged(a_pvc("v"), a_bound_pvc("v")), a_pod_with("v"))
    assert not is_helped(PersistentVolumeClaimChanged(None, a_pvc("u")), a_pod_with("v"))
    assert is_helped(NodeChanged(None, a_node()), a_pod_with("v"))
