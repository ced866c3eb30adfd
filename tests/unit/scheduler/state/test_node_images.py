from hypothesis import given
from hypothesis import strategies as st

from allocator.model import Image
from scheduler.core_v1.node import images_of_node, images_of_pod
from scheduler.core_v1.pod import decode_pod
from scheduler.state.node_infos import Images
from tests.unit.scheduler.manifests import Json, a_pod

NAMES = ("a:1", "b:1", "c:1")
names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map(tuple)
images = st.lists(st.builds(Image, names, st.sampled_from([100, 200, 300])), max_size=3).map(tuple)
steps = st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), images)), max_size=12)


@given(steps)
def test_any_history_leaves_what_the_nodes_have(steps: list[tuple[int, tuple[Image, ...] | None]]) -> None:
    index, nodes = Images(), dict[int, tuple[Image, ...]]()
    for number, found in steps:
        if found is None:
            index.remove_node(number)
            nodes.pop(number, None)
        else:
            index.set_node(number, found)
            nodes[number] = found
    for name in NAMES:
        sizes = {number: size for number, found in sorted(nodes.items()) if (size := first_size(found, name))}
        having = sum(1 << number for number in sizes)
        size = int(next(iter(sizes.values())) * (len(sizes) / len(nodes))) if sizes else 0
        assert index.spread_size(name) == ((size, having) if sizes else None)


def first_size(found: tuple[Image, ...], name: str) -> int:
    return next((image.size for image in found if name in image.names), 0)


def test_images_of_a_pod_are_those_of_all_containers_and_of_image_volumes_with_their_tags() -> None:
    spec: Json = {
        "initContainers": [{"name": "init", "image": "registry:5000/i"}],
        "containers": [{"name": "c", "image": "i:v1"}, {"name": "d", "image": "i@sha256:1"}, {"name": "e"}],
        "volumes": [{"name": "v", "image": {"reference": "data"}}, {"name": "w", "emptyDir": {}}],
    }
    expected = ("registry:5000/i:latest", "i:v1", "i@sha256:1", "", "data:latest")
    assert images_of_pod(spec) == expected
    pod, _ = decode_pod(a_pod(**spec))
    assert pod is not None
    assert pod.images == expected


def test_what_is_no_image_of_a_node_is_left_out() -> None:
    listed: list[object] = [
        {"names": ["a:1", 5], "sizeBytes": 10},
        {"names": ["b:1"], "sizeBytes": "10"},
        {"names": "c:1", "sizeBytes": 10},
        {"names": ["d:1"], "sizeBytes": 2**63},
        {"names": ["e:1"], "sizeBytes": -1},
        5,
    ]
    assert images_of_node({"status": {"images": listed}}) == (Image(("a:1",), 10),)
    assert images_of_node({"status": {"images": 5}}) == images_of_node({"status": 5}) == images_of_node({}) == ()


def test_the_same_image_on_many_nodes_is_kept_once() -> None:
    first, second = (images_of_node({"status": {"images": [{"names": ["a:1"], "sizeBytes": 10}]}}) for _ in "ab")
    assert first[0] is second[0]
