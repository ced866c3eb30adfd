"""Devices that agree in what is read get the same answers; what is not read tells none apart."""

from collections.abc import Sequence

import pytest

import cel
from allocator.cluster.snapshot import ReadKey
from allocator.model import Device
from tests.builders import DRIVER, a_device, a_slice, version

ALL = "device == device"
A = f"device.attributes['{DRIVER}'].a == 1"
OF_DRIVER = f"device.attributes['{DRIVER}'].size() == 1"
MEMORY = f"has(device.capacity['{DRIVER}'].memory)"
ALL_CAPACITY = "device.capacity.size() == 1"
NOTHING = "true"


def read_by(*expressions: str, attributes: Sequence[str] = ()) -> ReadKey:
    return ReadKey.of_programs([cel.compile(text).reads for text in expressions], attributes)


@pytest.mark.parametrize(
    ("expressions", "names", "has_all", "has_capacity"),
    [
        ([], [], False, False),
        ([NOTHING], [], False, False),
        (["device.driver == 'x'"], [], False, False),
        ([A], ["a"], False, False),
        ([A, f"device.attributes['{DRIVER}'].b == 1"], ["a", "b"], False, False),
        ([OF_DRIVER], [], True, False),
        ([A, OF_DRIVER], ["a"], True, False),
        (["device.attributes.size() == 1"], [], True, False),
        ([MEMORY], [], False, True),
        ([ALL_CAPACITY], [], False, True),
        ([A, MEMORY], ["a"], False, True),
        ([ALL], [], True, True),
        ([A, ALL], ["a"], True, True),
    ],
)
def test_what_is_read_is_what_expressions_name(
    expressions: list[str], names: list[str], *, has_all: bool, has_capacity: bool
) -> None:
    key = read_by(*expressions)
    assert key.names == tuple((DRIVER, name, f"{DRIVER}/{name}") for name in names)
    assert (key.has_all, key.has_capacity) == (has_all, has_capacity)
    assert key.of_attributes == (bool(names) or has_all)


def test_attributes_of_constraints_are_read_too() -> None:
    key = read_by(A, attributes=[f"{DRIVER}/b"])
    assert [qualified for _, _, qualified in key.names] == [f"{DRIVER}/a", f"{DRIVER}/b"]
    assert not key.has_all


PLAIN = a_device("x", {"a": 1, "b": 1}, capacity={"memory": "1Gi"})


@pytest.mark.parametrize(
    ("other", "distinguished_by"),
    [
        (a_device("y", {"a": 1, "b": 1}, capacity={"memory": "1Gi"}), []),
        (a_device("x", {"a": 2, "b": 1}, capacity={"memory": "1Gi"}), [A, OF_DRIVER, ALL]),
        (a_device("x", {"a": version("1.0.0"), "b": 1}, capacity={"memory": "1Gi"}), [A, OF_DRIVER, ALL]),
        (a_device("x", {f"{DRIVER}/a": 1, "b": 1}, capacity={"memory": "1Gi"}), [A, OF_DRIVER, ALL]),
        (a_device("x", {"a": 1, "b": 2}, capacity={"memory": "1Gi"}), [OF_DRIVER, ALL]),
        (a_device("x", {"a": 1}, capacity={"memory": "1Gi"}), [OF_DRIVER, ALL]),
        (a_device("x", {"a": 1, "b": 1}, capacity={"memory": "2Gi"}), [MEMORY, ALL_CAPACITY, ALL]),
        (a_device("x", {"a": 1, "b": 1}, capacity={"memory": "1073741824000m"}), [MEMORY, ALL_CAPACITY, ALL]),
        (a_device("x", {"a": 1, "b": 1}, capacity={"cores": "1Gi"}), [MEMORY, ALL_CAPACITY, ALL]),
        (
            a_device("x", {"a": 1, "b": 1}, capacity={"memory": "1Gi"}, allow_multiple_allocations=True),
            [NOTHING, A, OF_DRIVER, MEMORY, ALL_CAPACITY, ALL],
        ),
    ],
)
def test_devices_are_distinguished_by_expressions_that_read_what_they_differ_in(
    other: Device, distinguished_by: list[str]
) -> None:
    every = [NOTHING, A, OF_DRIVER, MEMORY, ALL_CAPACITY, ALL]
    assert [text for text in every if read_by(text).of(PLAIN) != read_by(text).of(other)] == distinguished_by


@pytest.mark.parametrize("text", [A, OF_DRIVER, MEMORY, ALL])
def test_slice_whose_devices_may_differ_in_what_is_read_is_looked_into(text: str) -> None:
    assert read_by(text).distinguishes(a_slice(PLAIN))
    assert not read_by(NOTHING).distinguishes(a_slice(PLAIN))
    assert read_by(NOTHING).distinguishes(a_slice(a_device(allow_multiple_allocations=True)))
