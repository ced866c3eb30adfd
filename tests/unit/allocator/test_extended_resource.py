"""Worked by hand after the cases of Kubernetes' extendeddynamicresources_test.go and extendedresourcecache_test.go."""

from collections.abc import Mapping

import pytest

from allocator.model import Container, DeviceClass
from allocator.pod_resources import (
    CLASS_PREFIX,
    Generated,
    classes_by_resource,
    generate,
    is_extended,
)
from cel.values.quantity import Quantity

GPU = "example.com/gpu"
NIC = "example.com/nic"


def amounts(counts: Mapping[str, int | str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(str(count)) for name, count in counts.items()}


def main(name: str = "main", **counts: int) -> Container:
    """A container that lasts, a sidecar or an ordinary one; keywords: gpu, nic, cpu."""
    return Container(name, amounts({NAMES[key]: count for key, count in counts.items()}))


def init(name: str = "init", **counts: int) -> Container:
    """A plain init container."""
    return Container(name, main(name, **counts).requests, is_plain_init=True)


NAMES = {"cpu": "cpu", "gpu": GPU, "nic": NIC}


def a_class(name: str, resource: str = "", created: str = "") -> DeviceClass:
    return DeviceClass(name, extended_resource_name=resource, creation_timestamp=created)


CLASSES = {GPU: a_class("gpu", GPU), NIC: a_class("nic", NIC)}


def counts_of(generated: Generated) -> dict[str, tuple[str, int]]:
    return {request.name: (request.class_name, request.count) for request in generated.requests}


def mappings_of(generated: Generated) -> list[tuple[str, str, str]]:
    return [(one.container, one.resource, one.request) for one in generated.mappings()]


# Which class stands for a resource


def test_a_class_stands_for_the_resource_that_it_names_and_for_the_one_of_its_own_name() -> None:
    found = classes_by_resource([a_class("big", GPU), a_class("plain")])
    assert {name: one.name for name, one in found.items()} == {
        GPU: "big",
        CLASS_PREFIX + "big": "big",
        CLASS_PREFIX + "plain": "plain",
    }


OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("created", "winner"),
    [
        ({"a": OLD, "b": NEW}, "b"),
        ({"a": NEW, "b": OLD}, "a"),
        ({"a": OLD, "b": OLD}, "a"),
        ({"b": OLD, "a": OLD}, "a"),
        ({"a": NEW, "b": ""}, "b"),
        ({"a": "", "b": ""}, "a"),
        ({"a": "2026-01-01T01:00:00+02:00", "b": "2025-12-31T23:30:00Z"}, "b"),
    ],
)
def test_the_newest_class_counts_and_of_equally_old_ones_the_smaller_name(
    created: Mapping[str, str], winner: str
) -> None:
    classes = [a_class(name, GPU, time) for name, time in created.items()]
    assert classes_by_resource(classes)[GPU].name == winner
    assert classes_by_resource(reversed(classes))[GPU].name == winner


def test_a_class_that_lost_its_resource_keeps_the_one_of_its_own_name() -> None:
    found = classes_by_resource([a_class("lost", GPU, OLD), a_class("won", GPU, NEW)])
    assert found[CLASS_PREFIX + "lost"].name == "lost"


@pytest.mark.parametrize("resource", [GPU, CLASS_PREFIX + "gpu"])
def test_names_with_a_domain_of_their_own_are_extended_resources(resource: str) -> None:
    assert is_extended(resource)


@pytest.mark.parametrize(
    "resource", ["cpu", "hugepages-2Mi", "kubernetes.io/x", "a.kubernetes.io/x", f"requests.{GPU}"]
)
def test_the_names_of_kubernetes_are_no_extended_resources(resource: str) -> None:
    assert not is_extended(resource)


# The requests


def test_each_lasting_container_has_a_request_of_its_own_for_each_resource() -> None:
    generated = generate([main("a", gpu=1, nic=2), main("b", nic=3)], CLASSES)
    assert counts_of(generated) == {
        "container-0-request-0": ("gpu", 1),
        "container-0-request-1": ("nic", 2),
        "container-1-request-0": ("nic", 3),
    }
    assert mappings_of(generated) == [
        ("a", GPU, "container-0-request-0"),
        ("a", NIC, "container-0-request-1"),
        ("b", NIC, "container-1-request-0"),
    ]


def test_a_request_is_numbered_among_all_resources_of_its_container_by_name() -> None:
    generated = generate([main("a", cpu=1, nic=1, gpu=1)], {NIC: CLASSES[NIC]})
    assert counts_of(generated) == {"container-0-request-2": ("nic", 1)}


def test_a_resource_of_which_nothing_is_asked_makes_no_request() -> None:
    generated = generate([main("a", gpu=0), main("b", cpu=1)], CLASSES)
    assert (generated.requests, generated.mappings()) == ((), ())


def test_requests_are_sorted_as_text() -> None:
    containers = [main(f"c{number}", gpu=1) for number in range(11)]
    names = [request.name for request in generate(containers, CLASSES).requests]
    assert names == sorted(names)
    assert names.index("container-10-request-0") < names.index("container-2-request-0")


@pytest.mark.parametrize(
    ("containers", "requests", "mappings"),
    [
        pytest.param(
            [init("i", gpu=2), main("m", nic=1)],
            {"container-0-request-0": 2, "container-1-request-0": 1},
            [("i", "container-0-request-0"), ("m", "container-1-request-0")],
            id="nothing to reuse",
        ),
        pytest.param(
            [init("i", gpu=2), main("m", gpu=2)],
            {"container-1-request-0": 2},
            [("m", "container-1-request-0"), ("i", "container-1-request-0")],
            id="all is reused",
        ),
        pytest.param(
            [init("i", gpu=1), main("m", gpu=4)],
            {"container-1-request-0": 4},
            [("m", "container-1-request-0"), ("i", "container-1-request-0")],
            id="more than is needed",
        ),
        pytest.param(
            [init("i", gpu=5), main("m", gpu=2)],
            {"container-0-request-0": 3, "container-1-request-0": 2},
            [("m", "container-1-request-0"), ("i", "container-1-request-0"), ("i", "container-0-request-0")],
            id="the shortfall is a request",
        ),
        pytest.param(
            [init("i", gpu=3), main("a", gpu=2), main("b", gpu=2), main("c", gpu=2)],
            {"container-1-request-0": 2, "container-2-request-0": 2, "container-3-request-0": 2},
            [
                ("a", "container-1-request-0"),
                ("b", "container-2-request-0"),
                ("c", "container-3-request-0"),
                ("i", "container-1-request-0"),
                ("i", "container-2-request-0"),
            ],
            id="no more requests than are needed are reused",
        ),
        pytest.param(
            [init("i", gpu=1), init("j", gpu=2), main("m", nic=1)],
            {"container-1-request-0": 2, "container-2-request-0": 1},
            [("i", "container-1-request-0"), ("j", "container-1-request-0"), ("m", "container-2-request-0")],
            id="the largest shortfall is for all",
        ),
        pytest.param(
            [init("i", gpu=3), init("j", gpu=3), main("m", gpu=1)],
            {"container-0-request-0": 2, "container-2-request-0": 1},
            [
                ("m", "container-2-request-0"),
                ("i", "container-2-request-0"),
                ("i", "container-0-request-0"),
                ("j", "container-2-request-0"),
                ("j", "container-0-request-0"),
            ],
            id="of equal shortfalls the first",
        ),
        pytest.param(
            [init("i", gpu=1), main("sidecar", gpu=1), init("j", gpu=2), main("m", nic=1)],
            {"container-1-request-0": 1, "container-2-request-0": 2, "container-3-request-0": 1},
            [
                ("sidecar", "container-1-request-0"),
                ("i", "container-1-request-0"),
                ("j", "container-2-request-0"),
                ("m", "container-3-request-0"),
            ],
            id="a sidecar lends to those before it and to none after it",
        ),
    ],
)
def test_init_containers_use_the_devices_of_later_containers(
    containers: list[Container], requests: Mapping[str, int], mappings: list[tuple[str, str]]
) -> None:
    generated = generate(containers, CLASSES)
    assert {name: count for name, (_, count) in counts_of(generated).items()} == requests
    assert [(container, request) for container, _, request in mappings_of(generated)] == mappings


def test_resources_are_taken_by_name_and_one_never_uses_the_devices_of_another() -> None:
    implicit = CLASS_PREFIX + "gpu"
    containers = [Container("i", amounts({implicit: 2, GPU: 1}), is_plain_init=True), main("m", gpu=1)]
    generated = generate(containers, {GPU: CLASSES[GPU], implicit: CLASSES[GPU]})
    assert counts_of(generated) == {"container-0-request-0": ("gpu", 2), "container-1-request-0": ("gpu", 1)}
    assert mappings_of(generated) == [
        ("i", implicit, "container-0-request-0"),
        ("m", GPU, "container-1-request-0"),
        ("i", GPU, "container-1-request-0"),
    ]
