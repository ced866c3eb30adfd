"""Claims that are hard to satisfy, within the limits of the API: some by design, any number at random.

Each is a node with its devices and the claims of one pod, the same for one name or seed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any, Final

from allocator.candidates import MAX_RESULTS
from allocator.cluster.snapshot import Snapshot
from allocator.gates import RELEASES, Features
from allocator.model import (
    Alternative,
    Attribute,
    Claim,
    Constraint,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    Node,
    Reach,
    Request,
    Slice,
)
from allocator.policies.hardware import NUMA_NODE, PCIE_ROOT
from cel.values.quantity import Quantity

DRIVER: Final = "cliff.example.com"
NODE: Final = Node("node-0")
FEATURES: Final = Features.of("1.37", dict.fromkeys(RELEASES["1.37"].gates, True))
MOST_OF_SLICE: Final = 128
MOST_OF_CONSUMING_SLICE: Final = 64
KINDS: Final = ("plain", "places", "counters", "shares", "lists", "alternatives", "selectors")


@dataclass(frozen=True, slots=True)
class HardCase:
    """A node and the claims of a pod."""

    name: str
    slices: tuple[Slice, ...]
    claims: tuple[Claim, ...]

    def snapshot(self) -> Snapshot:
        """With one class, which accepts every device."""
        return Snapshot.of(self.slices, [DeviceClass("any")], [], FEATURES)


def designed() -> list[HardCase]:
    """Those by design: each is about one thing that takes long."""
    return [
        _clique("clique", 0, 8, 400, 8),
        _clique("3,000 twins before a clique", 3000, 5, 126, 15),
        _many_claims(),
        _shares(),
        _partitions("partitions of 64 sizes", 64),
        _partitions("partitions of 1,000 sizes", 1000),
        _places(),
        _costly_selector(),
    ]


def drawn(seed: int, number: int) -> Iterator[HardCase]:
    """So many at random."""
    for index in range(number):
        yield _drawn(f"random {seed}/{index}", Random(f"{seed} {index}"))  # noqa: S311 - no secret


# -- objects


def _slices(devices: Sequence[Device], sets: Sequence[CounterSet] = ()) -> tuple[Slice, ...]:
    most = MOST_OF_CONSUMING_SLICE if sets else MOST_OF_SLICE
    chunks = [devices[start : start + most] for start in range(0, len(devices), most)]
    counters = [sets[start : start + 8] for start in range(0, len(sets), 8)]
    number, reach = len(chunks) + len(counters), Reach(node_name=NODE.name)
    return (
        *(Slice(f"devices-{n:04}", DRIVER, "pool", 1, number, reach, tuple(own)) for n, own in enumerate(chunks)),
        *(
            Slice(f"sets-{n:04}", DRIVER, "pool", 1, number, reach, (), counter_sets=tuple(own))
            for n, own in enumerate(counters)
        ),
    )


def _device(number: int, attributes: Mapping[str, Attribute] | None = None, **more: Any) -> Device:
    return Device(f"device-{number:05}", DRIVER, "pool", attributes=dict(attributes or {}), **more)


def _request(name: str, *selectors: str, count: int = 1, **more: Any) -> Request:
    return Request(name, (Alternative(name, "any", selectors, count=count, **more),))


def _claim(name: str, requests: Sequence[Request], constraints: Sequence[Constraint] = ()) -> Claim:
    return Claim("default", name, f"uid-{name}", tuple(requests), tuple(constraints))


def _of_group(group: int) -> str:
    return f"device.attributes['{DRIVER}'].group == {group}"


# -- by design


def _clique(name: str, twins: int, groups: int, of_group: int, values: int) -> HardCase:
    """A device of each group, each two with one value in common; behind the first come twins, which are all alike."""
    draw, pairs = Random(1), list(combinations(range(groups), 2))  # noqa: S311 - no secret
    devices = [
        {"group": ("int", group)}
        | {f"p{one}x{other}": ("int", draw.randrange(values)) for one, other in pairs if group in (one, other)}
        for group in range(groups)
        for _ in range(of_group)
    ]
    draw.shuffle(devices)
    devices += [{"group": ("int", 99)}] * twins
    requests = [_request(f"g{group}", _of_group(group)) for group in range(groups)]
    between = [_request(f"t{number}", _of_group(99)) for number in range(32 - groups if twins else 0)]
    constraints = [Constraint((f"g{a}", f"g{b}"), match_attribute=f"{DRIVER}/p{a}x{b}") for a, b in pairs]
    claim = _claim("claim", [requests[0], *between, *requests[1:]], constraints[:32])
    return HardCase(name, _slices([_device(n, own) for n, own in enumerate(devices)]), (claim,))


def _many_claims() -> HardCase:
    """60 claims with 31 devices each, then one that cannot be satisfied, which first takes a search to see."""
    last = _clique("", 0, 6, 60, 7)
    plain = [_device(10_000 + number, {"group": ("int", 99)}) for number in range(2000)]
    members = [device for slice_ in last.slices for device in slice_.devices]
    requests = [_request(f"r{number}", _of_group(99)) for number in range(31)]
    claims = [_claim(f"claim-{number}", requests) for number in range(60)]
    return HardCase("61 claims", _slices([*members, *plain]), (*claims, *last.claims))


def _shares() -> HardCase:
    """32 shares of different sizes that nearly fit on 12 devices."""
    draw, names = Random(2), ("a", "b", "c")  # noqa: S311 - no secret
    devices = [
        _device(
            number,
            allow_multiple_allocations=True,
            capacity={name: Quantity.of(draw.randint(1000, 1040)) for name in names},
        )
        for number in range(12)
    ]
    requests = [
        _request(f"r{number}", capacity={name: Quantity.of(draw.randint(300, 450)) for name in names})
        for number in range(32)
    ]
    return HardCase("shares that nearly fit", _slices(devices), (_claim("claim", requests),))


def _partitions(name: str, sizes: int) -> HardCase:
    """32 partitions that nearly fit, of counter sets of 32 counters."""
    draw = Random(3)  # noqa: S311 - no secret
    sets = [CounterSet(f"set-{n}", {f"c{k}": Quantity.of(10**6) for k in range(32)}) for n in range(8)]
    devices = [
        _device(
            number,
            consumes_counters=(
                CounterConsumption(
                    f"set-{number % 8}", {f"c{k}": Quantity.of(draw.randint(200_000, 400_000)) for k in range(32)}
                ),
            ),
        )
        for number in range(sizes)
    ]
    requests = [_request(f"r{number}") for number in range(32)]
    return HardCase(name, _slices(devices, sets), (_claim("claim", requests),))


def _places() -> HardCase:
    """3,000 devices, each on a PCIe root of its own, before a clique."""
    clique = _clique("", 0, 5, 126, 15)
    members = [device for slice_ in clique.slices for device in slice_.devices]
    alone: list[Device] = [
        _device(10_000 + n, {"group": ("int", 99), PCIE_ROOT: ("string", f"pci{n}"), NUMA_NODE: ("int", n % 8)})
        for n in range(3000)
    ]
    (claim,) = clique.claims
    first, *others = claim.requests
    between = [_request(f"t{number}", _of_group(99)) for number in range(27)]
    return HardCase(
        "3,000 PCIe roots",
        _slices([*members, *alone]),
        (_claim("claim", [first, *between, *others], claim.constraints),),
    )


def _costly_selector() -> HardCase:
    """A selector near the limit of what it may cost, on 128 devices that differ in what it reads."""
    loops = "lists.range(90).all(a, lists.range(90).all(b, lists.range(8).all(c, a + b + c >= 0)))"
    devices = [_device(number, {"group": ("int", number)}) for number in range(128)]
    selector = f"{loops} && device.attributes['{DRIVER}'].group >= 0"
    return HardCase("selector near its limit", _slices(devices), (_claim("claim", [_request("r0", selector)]),))


# -- at random


def _drawn(name: str, draw: Random) -> HardCase:
    kinds = [kind for kind in KINDS if draw.random() < 0.4] or ["plain"]
    number = draw.choice((8, 64, 128, 128, 512, 3000))
    sets = [CounterSet(f"set-{n}", _amounts(draw, 8, 10**6, 2 * 10**6)) for n in range(draw.choice((1, 8)))]
    devices = [_drawn_device(draw, kinds, index) for index in range(number)]
    claims = [_drawn_claim(draw, kinds, f"claim-{index}") for index in range(draw.choice((1, 1, 2, 8)))]
    return HardCase(
        f"{name} ({', '.join(kinds)})", _slices(devices, sets if "counters" in kinds else ()), tuple(claims)
    )


def _amounts(draw: Random, number: int, least: int, most: int) -> dict[str, Quantity]:
    return {f"c{index}": Quantity.of(draw.randint(least, most)) for index in range(number)}


def _drawn_device(draw: Random, kinds: Sequence[str], number: int) -> Device:
    attributes: dict[str, Attribute] = {f"a{n}": ("int", draw.randrange(2 + 2 * n)) for n in range(8)}
    attributes |= {"group": ("int", draw.randrange(8)), "serial": ("string", f"s{number}")}
    more: dict[str, Any] = {}
    if "places" in kinds:
        attributes |= {PCIE_ROOT: ("string", f"pci{draw.randrange(64)}"), NUMA_NODE: ("int", draw.randrange(8))}
    if "lists" in kinds:
        attributes["listed"] = ("ints", tuple(sorted(draw.sample(range(100), 16))))
    if "counters" in kinds:
        more["consumes_counters"] = (CounterConsumption("set-0", _amounts(draw, 8, 10**4, 10**6)),)
    if "shares" in kinds:
        more |= {"allow_multiple_allocations": True, "capacity": _amounts(draw, 4, 800, 1000)}
    return _device(number, attributes, **more)


def _drawn_claim(draw: Random, kinds: Sequence[str], name: str) -> Claim:
    names = [f"r{number}" for number in range(draw.choice((4, 16, 32)))]
    most = MAX_RESULTS // len(names)
    requests = [_drawn_request(draw, kinds, one, most) for one in names]
    attributes = ["a0", "a1", "a2", "a5", "group", *(["listed"] if "lists" in kinds else [])]
    make: Sequence[Callable[[tuple[str, ...], str], Constraint]] = (
        lambda own, attribute: Constraint(own, match_attribute=attribute),
        lambda own, attribute: Constraint(own, distinct_attribute=attribute),
    )
    constraints = [
        draw.choice(make)(
            tuple(sorted(draw.sample(names, draw.choice((2, 3, 4))))), f"{DRIVER}/{draw.choice(attributes)}"
        )
        for _ in range(draw.choice((0, 4, 16, 32)))
    ]
    return _claim(name, requests, constraints)


def _drawn_request(draw: Random, kinds: Sequence[str], name: str, most: int) -> Request:
    number = 8 if "alternatives" in kinds else 1
    every = [_drawn_alternative(draw, kinds, f"{name}/s{n}" if number > 1 else name, most) for n in range(number)]
    return Request(name, tuple(every), is_first_available=number > 1)


def _drawn_alternative(draw: Random, kinds: Sequence[str], name: str, most: int) -> Alternative:
    own = f"device.attributes['{DRIVER}']"
    selectors = [
        draw.choice((_of_group(draw.randrange(8)), f"{own}.a{draw.randrange(8)} != {draw.randrange(4)}", "true"))
    ]
    if "selectors" in kinds:
        length = draw.choice((10, 100, 400))
        selectors.append(f"lists.range({length}).exists(i, {own}.serial.endsWith(string(i))) || {own}.a0 >= 0")
    more: dict[str, Any] = {"capacity": _amounts(draw, 2, 100, 500)} if "shares" in kinds else {}
    return Alternative(name, "any", tuple(selectors), count=min(most, draw.choice((1, 1, 1, 2))), **more)
