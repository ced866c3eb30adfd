import pytest

import cel
from cel.device import BoundDevice, device_from_json
from cel.values.quantity import Quantity
from cel.values.semver import Semver
from cel.values.values import MISSING, List

JSON = {
    "driver": "d.io",
    "allowMultipleAllocations": True,
    "attributes": {
        "i": {"int": 1},
        "other.io/s": {"string": "x"},
        "v": {"version": "1.2.3"},
        "l": {"strings": ["a", "b"]},
        "several": {"bool": True, "string": "x", "ints": [2]},
    },
    "capacity": {"memory": {"value": "1Gi"}},
}


def bound(device: cel.DeviceLike, *, has_lists: bool = True) -> BoundDevice:
    return BoundDevice(device, has_lists=has_lists)


def test_json_becomes_kinds_and_values() -> None:
    device = device_from_json(JSON)
    assert device.driver == "d.io"
    assert device.allow_multiple_allocations
    assert device.attributes["l"] == ("strings", ("a", "b"))
    assert device.attributes["several"] == ("ints", (2,))
    assert device.capacity["memory"] == Quantity.parse("1Gi")


def test_without_lists_the_first_single_value_counts() -> None:
    device = device_from_json(JSON, has_lists=False)
    assert device.attributes["several"] == ("bool", True)
    assert device.attributes["l"] == ("", None)


@pytest.mark.parametrize(
    "data", [[], "d", {"attributes": []}, {"attributes": {"a": 1}}, {"capacity": {"m": {"value": "x"}}}]
)
def test_what_is_no_device_is_refused(data: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        device_from_json(data)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a", ("d.io", "a")), ("x.io/a", ("x.io", "a")), ("x/a/b", ("x", "a/b")), ("/a", ("", "a")), ("x/", ("x", ""))],
)
def test_name_is_split_at_its_first_slash(name: str, expected: tuple[str, str]) -> None:
    domain, identifier = expected
    device = cel.PlainDevice("d.io", {name: ("int", 1)}, {name: Quantity.parse("1")})
    for table, value in (("attributes", 1), ("capacity", Quantity.parse("1"))):
        assert list(bound(device).entries(table, domain).items()) == [(identifier, value)]


@pytest.mark.parametrize("names", [("a", "d.io/a"), ("d.io/a", "a")])
def test_name_without_domain_wins(names: tuple[str, str]) -> None:
    device = cel.PlainDevice("d.io", {name: ("string", name) for name in names})
    assert bound(device).attribute("d.io", "a") == "a"
    assert list(bound(device).entries("attributes", "d.io").items()) == [("a", "a")]


def test_attributes_become_values_of_their_kind() -> None:
    device = bound(device_from_json(JSON))
    assert device.attribute("d.io", "v") == Semver.parse("1.2.3")
    assert device.attribute("d.io", "l") == List(["a", "b"])
    assert device.attribute("other.io", "s") == "x"
    assert device.attribute("other.io", "v") is device.amount("other.io", "s") is MISSING
    assert list(device.entries("attributes", "other.io").items()) == [("s", "x")]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (("", None), "attribute a: unsupported attribute value"),
        (("version", "1.2"), "attribute a: parse semantic version: No Major.Minor.Patch elements found"),
        (("versions", ("1.2.3", "x")), "attribute a: parse semantic version"),
        (("int", 2**63), "attribute a: not an int64"),
        (("int", True), "attribute a: not an int64"),
        (("ints", 1), "attribute a: not a tuple"),
    ],
)
def test_one_bad_attribute_fails_every_expression(attribute: tuple[str, object], message: str) -> None:
    device = cel.PlainDevice("d.io", {"a": attribute})
    with pytest.raises(cel.EvalError, match="attribute a") as caught:
        cel.compile("true").evaluate(device)
    assert caught.value.phase == "device"
    assert message in caught.value.message


def test_lists_are_not_read_in_1_36() -> None:
    device = cel.PlainDevice("d.io", {"a": ("ints", (1,))})
    assert cel.compile("true").evaluate(device)
    outcome = cel.compile("true", cel.V1_36).run(device)
    assert outcome.error is not None
    assert outcome.error.phase == "device"


def test_device_is_converted_once_for_all_programs() -> None:
    device = device_from_json(JSON)
    assert cel.bind_device(device) is cel.bind_device(device)
    assert cel.bind_device(cel.bind_device(device)) is cel.bind_device(device)
    with pytest.raises(ValueError, match="another version"):
        cel.compile("true", cel.V1_36).evaluate(cel.bind_device(device))


def test_bad_device_is_bad_every_time() -> None:
    device = cel.PlainDevice("d.io", {"a": ("", None)})
    for _ in range(2):
        with pytest.raises(cel.EvalError, match="unsupported attribute value"):
            cel.bind_device(device)
