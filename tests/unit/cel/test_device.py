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
def test_name_with_domain_wins(names: tuple[str, str]) -> None:
    amounts = {"a": Quantity.parse("1"), "d.io/a": Quantity.parse("2")}
    device = bound(cel.PlainDevice("d.io", {name: ("string", name) for name in names}, {n: amounts[n] for n in names}))
    assert read(device, "d.io", "a") == "d.io/a"
    assert device.amount("d.io", "a", "d.io/a") == Quantity.parse("2")
    assert list(device.entries("attributes", "d.io").items()) == [("a", "d.io/a")]
    assert list(device.entries("capacity", "d.io").items()) == [("a", Quantity.parse("2"))]


def read(device: BoundDevice, domain: str, name: str) -> object:
    return device.attribute(domain, name, f"{domain}/{name}")


def test_attributes_become_values_of_their_kind() -> None:
    device = bound(device_from_json(JSON))
    assert read(device, "d.io", "v") == Semver.parse("1.2.3")
    assert read(device, "d.io", "l") == List(["a", "b"])
    assert read(device, "other.io", "s") == "x"
    assert read(device, "other.io", "v") is device.amount("other.io", "s", "other.io/s") is MISSING
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


# -- attributes that are read on demand, since 1.38


UNREADABLE = cel.PlainDevice(
    "d.io",
    {"v": ("version", "1.x"), "n": ("", None), "l": ("ints", ()), "s": ("string", "a")},
    {"c": Quantity.parse("1")},
)
HERE = 'device.attributes["d.io"]'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", True),
        (f'{HERE}.s == "a"', True),
        (f'"v" in {HERE}', False),
        (f'"s" in {HERE}', True),
        (f"{HERE}.size() == 4", True),
        (f'{HERE}.exists(k, k == "v")', True),
        (f"{HERE}.map(k, k).size() == 4", True),
        (f"{HERE}.all(k, v, k.size() == 1)", True),
        (f"{HERE}.v.isLessThan(semver('2.0.0')) || true", True),
        (f"has({HERE}.v) && false", False),
        (f"cel.bind(x, {HERE}.v, true)", True),
        (f"false ? {HERE}.l == [] : true", True),
    ],
)
def test_an_attribute_that_cannot_be_read_fails_nothing_that_does_not_read_it(expression: str, expected: bool) -> None:  # noqa: FBT001
    assert cel.compile(expression, cel.V1_38).evaluate(UNREADABLE) is expected
    with pytest.raises(cel.EvalError) as before:
        cel.compile(expression, cel.V1_37).evaluate(UNREADABLE)
    assert before.value.phase == "device"


@pytest.mark.parametrize("name", ["v", "n", "l"])
@pytest.mark.parametrize(
    "expression",
    [
        f"{HERE}.NAME == 1",
        f'{HERE}["NAME"] == 1',
        f"has({HERE}.NAME)",
        f"{HERE}.?NAME.hasValue()",
        f'{HERE}[?"NAME"].hasValue()',
        f"{HERE} == {HERE}",
        f"{HERE}.exists(k, v, k == 'NAME' && v == 1)",
        "cel.bind(x, device.attributes, x['d.io'].NAME == 1)",
    ],
)
def test_taking_the_value_of_an_attribute_that_cannot_be_read_is_a_runtime_error(expression: str, name: str) -> None:
    with pytest.raises(cel.EvalError, match=r"^attribute .: value is invalid or its type is not supported") as raised:
        cel.compile(expression.replace("NAME", name), cel.V1_38).evaluate(UNREADABLE)
    assert raised.value.phase == "runtime"


def test_without_a_driver_names_without_domain_are_not_found() -> None:
    device = cel.PlainDevice("", {"a": ("int", 1)})
    for expression, expected in (
        ("device.attributes.size() == 1", True),
        ('"" in device.attributes', False),
        ('device.attributes[""].size() == 0', True),
        ('has(device.attributes[""].a)', False),
    ):
        assert cel.compile(expression, cel.V1_38).evaluate(device) is expected, expression


def test_a_single_value_comes_before_a_list_since_1_38() -> None:
    raw = {"driver": "d.io", "attributes": {"a": {"ints": [1, 2], "string": "x"}}}
    assert device_from_json(raw, on_demand=True).attributes["a"] == ("string", "x")
    assert device_from_json(raw).attributes["a"] == ("ints", (1, 2))


# -- what else expressions answer since 1.38


@pytest.mark.parametrize(
    ("expression", "since"),
    [
        ('1.0 < double("NaN")', False),
        ('double("NaN") >= 1.0', False),
        ('dyn(double("NaN")) < dyn("a")', False),
        ('quantity("9223372036854775807").isInteger()', True),
        ('quantity("-9223372036854775808").asInteger() < 0', True),
        ('quantity("10000000000000000000").isInteger()', False),
        ('quantity("9223372036854775807").sub(quantity("1")).asInteger() > 0', True),
        ('quantity("9223372036854775807").sub(1).isInteger()', True),
        ('quantity("1000000000000000000").add(quantity("1000000000000000000")).isInteger()', True),
        ('quantity("9223372036854775807").add(quantity("1")).isInteger()', False),
        ('quantity("9223372036854775807").add(1).isInteger()', False),
        ('quantity("9223372036854775807").sub(quantity("1m")).isInteger()', False),
        ('dyn("").exists(x, true)', False),
        ('dyn(b"").all(i, x, false)', True),
        ('quantity("1Pi").isInteger()', False),
        ('quantity("8Ei").isInteger()', False),
        ('cidr("10.0.0.0/8").isMask()', True),
        ('cidr("10.1.0.0/8").isMask()', False),
        ('cidr("fd00::1/8").isMask()', False),
    ],
)
def test_answers_since_1_38(expression: str, since: bool) -> None:  # noqa: FBT001
    assert cel.compile(expression, cel.V1_38).evaluate(cel.PlainDevice("d.io")) is since


def test_answers_before_1_38() -> None:
    device = cel.PlainDevice("d.io")
    with pytest.raises(cel.EvalError, match="NaN values cannot be ordered"):
        cel.compile('1.0 < double("NaN")', cel.V1_37).evaluate(device)
    assert not cel.compile('quantity("9223372036854775807").isInteger()', cel.V1_37).evaluate(device)
    with pytest.raises(cel.CompileError, match="undeclared reference to 'isMask'"):
        cel.compile('cidr("10.0.0.0/8").isMask()', cel.V1_37)
