"""What is remembered of a selector is what it says of each device, however devices are written and ordered."""

from itertools import permutations

from hypothesis import example, given, settings
from hypothesis import strategies as st

import cel
from allocator.allocate import allocate
from allocator.bits import bits
from allocator.cluster.snapshot import Selection, Selectors, Snapshot
from allocator.fleet.fleet import Fleet
from allocator.gates import Features
from allocator.model import Claim, Device, Node
from allocator.outcome import Allocated, AllocationError
from tests.builders import DRIVER, a_claim, a_device, a_node, a_request, a_slice, a_snapshot, on_node

X, AMOUNT = f'device.attributes["{DRIVER}"].x', f'device.capacity["{DRIVER}"].memory'
SAYS = "google.protobuf.StringValue{{value: dyn({})}}"
EXPRESSIONS = [
    "true",
    "device.allowMultipleAllocations",
    f"has({X}) && type({X}) == int",
    f"type({X}) == bool || {X} == 1",
    f'{X} == "1"',
    f'{X} == semver("1.0.0")',
    f'{SAYS.format(X)} == "1.0.0+b"',
    f'{SAYS.format(AMOUNT)} == "1Ki"',
    f'{SAYS.format(AMOUNT)} == "01Ki"',
    f'{AMOUNT} == quantity("1Ki")',
    f"{AMOUNT}.isInteger()",
    f'{AMOUNT}.add(quantity("1")) == quantity("1025") && {SAYS.format(f"{AMOUNT}.add(1)")} == "1025"',
    f"size({X}) == 2 && {X}[0] == 1",
    f'dyn({X}).exists(x, x == "a")',
    f'device.attributes["{DRIVER}"].size() == 1',
    f'"memory" in device.capacity["{DRIVER}"]',
    'device.attributes["other.example"].x == 1',
]
VALUES: dict[str, tuple[object, ...]] = {
    "int": (0, 1, True, 1.0, "1", None, 2**63, -(2**63), float("nan"), [1], {}),
    "bool": (True, False, 1, 0, "true"),
    "string": ("", "1", "a", 1, None, ["a"]),
    "version": ("1.0.0", "1.0.0+a", "1.0.0+b", "1", 1, (), []),
    "ints": ((), (1, 2), (True, 2), (1.0, 2), [1, 2], (2**63,), None),
    "bools": ((True,), (1,)),
    "strings": (("a",), ("a", "b"), ("a", 1), "ab", ({},)),
    "versions": (("1.0.0",), ("1.0.0+a",), ("1",)),
    "": (None, 1),
    "unknown": (1,),
}
ATTRIBUTES = [None, *[(kind, value) for kind, values in VALUES.items() for value in values]]
AMOUNTS = [
    None,
    "1024",
    "1Ki",
    "01Ki",
    "+1Ki",
    "1.024k",
    "1024.0",
    "1024000m",
    "1024e0",
    "1.0Ki",
    "0",
    "0Ki",
    "-1",
    "1n",
]
NAMES = ["x", f"{DRIVER}/x", "other.example/x"]


@st.composite
def written(draw: st.DrawFn) -> Device:
    attributes = {name: draw(st.sampled_from(ATTRIBUTES)) for name in draw(st.sets(st.sampled_from(NAMES), max_size=2))}
    amount = draw(st.sampled_from(AMOUNTS))
    return a_device(
        attributes={name: attribute for name, attribute in attributes.items() if attribute is not None},
        capacity={} if amount is None else {"memory": amount},
        allow_multiple_allocations=draw(st.booleans()),
    )


def said(expression: str, device: Device, environment: cel.Environment) -> bool | None:
    """What the selector says of the device alone; None where it fails."""
    try:
        return cel.compile(expression, environment).evaluate(device)
    except cel.EvalError:
        return None


def capable(text: str) -> Device:
    return a_device(capacity={"memory": text})


def attributed(kind: str, value: object) -> Device:
    return a_device(attributes={"x": (kind, value)})


@given(st.lists(written(), min_size=2, max_size=3), st.sampled_from(EXPRESSIONS), st.sampled_from(["1.37", "1.36"]))
@settings(max_examples=400)
@example([capable("1024"), capable("1Ki")], EXPRESSIONS[7], "1.37")
@example([capable("01Ki"), capable("1Ki")], EXPRESSIONS[8], "1.37")
@example([attributed("int", 1), attributed("int", True)], "true", "1.37")
@example([attributed("ints", (1, 2)), attributed("ints", (True, 2))], EXPRESSIONS[12], "1.37")
@example([attributed("string", "1"), attributed("string", ["a"])], "true", "1.37")
def test_memo_says_of_each_device_what_the_selector_says_of_it_alone(
    devices: list[Device], expression: str, release: str
) -> None:
    features = Features.of(release)
    environment = features.environment
    for ordered in permutations(devices):
        snapshot = a_snapshot(a_slice(*ordered), features=features)
        members = snapshot.view(a_node()).devices
        alone = [said(expression, device, environment) for device in members]
        expected = Selection(
            sum((answer is True) << place for place, answer in enumerate(alone)),
            sum((answer is None) << place for place, answer in enumerate(alone)),
        )
        assert Selectors(environment).select(expression, snapshot.view(a_node())) == expected


@given(st.lists(written(), min_size=2, max_size=4), st.sampled_from(EXPRESSIONS))
@settings(max_examples=200)
@example([capable("1024"), capable("1Ki")], EXPRESSIONS[7])
@example([attributed("int", 1), attributed("int", True)], "true")
def test_nodes_whose_devices_are_written_otherwise_are_asked_for_themselves(
    devices: list[Device], expression: str
) -> None:
    nodes = [a_node(f"n{number}") for number in range(len(devices))]
    slices = [
        a_slice(device, name=node.name, pool=node.name, reach=on_node(node.name))
        for device, node in zip(devices, nodes, strict=True)
    ]
    claim = a_claim(a_request("gpus", 1, expression))
    able = set(bits(Fleet(a_snapshot(*slices), nodes).able([claim])))
    assert able == {n for n, node in enumerate(nodes) if gets(a_snapshot(slices[n]), node, claim)}


def gets(snapshot: Snapshot, node: Node, claim: Claim) -> bool:
    try:
        return isinstance(allocate(snapshot, node, [claim]), Allocated)
    except AllocationError:
        return False
