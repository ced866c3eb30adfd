import numpy as np
import pytest

from allocator.gates import RELEASES
from allocator.model import Image
from scheduler.core_v1.pod import Pod
from scheduler.plugins.image_locality import image_locality
from scheduler.state.node_infos import NodeInfos
from tests.builders import a_container, a_node, a_pod

MIB = 2**20


def scores(pod: Pod, *nodes: tuple[Image, ...], release: str = "1.37") -> list[int]:
    infos = NodeInfos({})
    for number, images in enumerate(nodes):
        infos.set_node(number, a_node(f"n{number}", images=images))
    return [int(one) for one in image_locality(pod, infos, np.arange(len(nodes)), RELEASES[release])]


def an_image(mib: int, *names: str) -> Image:
    return Image(names or ("i:latest",), mib * MIB)


def a_user_of(*images: str, containers: int = 1) -> Pod:
    return a_pod(*(a_container(f"c{number}") for number in range(containers)), images=images)


@pytest.mark.parametrize(
    ("mib", "score"),
    [(0, 0), (23, 0), (46, 0), (500, 23), (2000, 100), (5000, 100)],
)
def test_an_image_counts_by_its_size_from_23_mib_on_and_up_to_1000_mib(mib: int, score: int) -> None:
    assert scores(a_user_of("i:latest"), (an_image(mib),), ()) == [score, 0]


def test_an_image_counts_the_more_the_more_nodes_have_it() -> None:
    pod = a_user_of("i:latest")
    assert scores(pod, (an_image(500),), (), (), ()) == [10, 0, 0, 0]
    assert scores(pod, *([(an_image(500),)] * 4)) == [48] * 4


def test_images_of_all_containers_add_up_and_so_does_what_they_may_count_for() -> None:
    pod = a_user_of("a:1", "b:1", containers=2)
    images = an_image(600, "a:1"), an_image(600, "b:1")
    assert scores(pod, images, images[:1], images[:1], ()) == [29, 21, 21, 0]


def test_an_image_is_known_by_each_of_its_names() -> None:
    image = an_image(500, "registry/i@sha256:1", "registry/i:v1")
    assert scores(a_user_of("registry/i:v1"), (image,), ()) == [23, 0]
    assert scores(a_user_of("registry/i:v2"), (image,), ()) == [0, 0]


def test_of_several_sizes_of_an_image_that_of_the_first_node_counts() -> None:
    assert scores(a_user_of("i:latest"), (an_image(500),), (an_image(900),)) == [48, 48]
    assert scores(a_user_of("i:latest"), (), (an_image(900),), (an_image(500),)) == [0, 59, 59]


def test_a_pod_whose_images_are_nowhere_is_indifferent() -> None:
    assert scores(a_user_of("i:latest"), (), ()) == [0, 0]
    assert scores(a_pod(), (an_image(500),)) == [0]


@pytest.mark.parametrize(("release", "score"), [("1.36", 100), ("1.37", 49)])
def test_an_image_volume_raises_what_an_image_can_win_from_1_37_on(release: str, score: int) -> None:
    pod = a_user_of("i:latest", "volume:latest")
    assert scores(pod, (an_image(1000),), release=release) == [score]
