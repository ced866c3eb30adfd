"""Random devices as v1 JSON within the API's limits, the odd ones included.

All devices share one vocabulary of domains and attributes, each with a usual type, so that an expression
written for the vocabulary often finds what it asks for, sometimes in another type, sometimes not at all.
Source: limits of resource.k8s.io/v1 Device.
"""

from random import Random
from typing import Any

Json = dict[str, Any]  # Any: the JSON of an API object

DRIVERS = ("gpu.example.com", "gpu.example.com", "gpu.example.com", "gpu.example.com", "d.io", "x")
OTHER_DOMAINS = ("resource.kubernetes.io", "two.example.org")

# The usual type of each attribute; the kinds are the field names of a v1 DeviceAttribute.
ATTRIBUTES: dict[str, str] = {
    "model": "string",
    "name": "string",
    "endpoint": "string",
    "index": "int",
    "big": "int",
    "numa": "int",
    "healthy": "bool",
    "off": "bool",
    "driverVersion": "version",
    "fw": "version",
    "vlans": "ints",
    "tags": "strings",
    "flags": "bools",
    "supported": "versions",
}
CAPACITIES = ("memory", "cores", "bandwidth", "zero", "odd")
ODD_NAMES = ("a.b/c/d", "d.io/in", "in", "for", "null", "_x1")

TEXTS = (
    "",
    "a",
    "H100-PCIe",
    "A100",
    "1.2.3",
    "10.0.0.1",
    "2001:db8::1",
    "10.0.0.0/8",
    "https://user@example.com:8443/a/b?x=1&x=2",
    "ünïcödé-名前-😀",
    "a,b,,c",
    "  padded\t",
    "80Gi",
    "true",
    "42",
    "-7",
    "1h30m",
    "2024-02-29T12:34:56Z",
    "550.0.0",
    "0000:3b:00.0",
    "É",
    "e\u0301",
    "%s",
)
INTS = (0, 1, -1, 2, 3, 7, 42, 80, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
VERSIONS = ("0.0.0", "1.0.0", "1.2.3", "1.10.0", "535.104.5", "550.0.0-beta.2", "1.0.0+build.5", "2.0.0-rc.1+x")
BAD_VERSIONS = ("1.2", "v1.0.0", "01.0.0", "")
QUANTITIES = (
    "0",
    "1",
    "80Gi",
    "40Gi",
    "81920Mi",
    "1.5Gi",
    "500m",
    "0.132k",
    "132",
    "1e3",
    "1E",
    "1Ei",
    "100Ei",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "12e18",
    "0.1n",
    "999Gi",
    "1Pi",
)

MAX_ENTRIES = 32


def device(rng: Random) -> Json:
    """A device as a selector sees it: driver, attributes, capacity, allowMultipleAllocations."""
    result: Json = {"driver": rng.choice(DRIVERS)}
    attributes = _attributes(rng, result["driver"])
    capacity = _capacity(rng)
    if attributes or rng.random() < 0.5:
        result["attributes"] = attributes
    if capacity or rng.random() < 0.5:
        result["capacity"] = capacity
    if rng.random() < 0.5:
        result["allowMultipleAllocations"] = rng.random() < 0.6
    return result


def devices(rng: Random, count: int) -> list[Json]:
    """Devices for one set of expressions, of which the first is empty but for its driver."""
    return [{"driver": DRIVERS[0]}, *(device(rng) for _ in range(count - 1))]


def value(rng: Random, kind: str) -> Any:
    """A value of an attribute of this kind, often one at a boundary."""
    if kind.endswith("s"):
        return [value(rng, kind[:-1]) for _ in range(rng.choice((1, 1, 2, 3, 5)))]
    match kind:
        case "int":
            return rng.choice(INTS)
        case "bool":
            return rng.random() < 0.5
        case "version":
            return rng.choice(VERSIONS)
    return rng.choice(TEXTS)


def _attributes(rng: Random, driver: str) -> Json:
    share = rng.choice((0.0, 0.6, 0.95, 0.95, 1.0))
    chosen = {
        _name(rng, driver, attribute): _attribute(rng, kind)
        for attribute, kind in ATTRIBUTES.items()
        if rng.random() < share
    }
    if rng.random() < 0.15:
        chosen |= {name: _attribute(rng, "string") for name in rng.sample(ODD_NAMES, 2)}
    return _without_clash(chosen, driver)


def _name(rng: Random, driver: str, identifier: str) -> str:
    """Mostly without a domain, which means the driver's own."""
    draw = rng.random()
    if draw < 0.8:
        return identifier
    return f"{driver if draw < 0.9 else rng.choice(OTHER_DOMAINS)}/{identifier}"


def _without_clash(named: Json, driver: str) -> Json:
    """Drops `id` beside `driver/id`, of which the reference keeps a random one."""
    return {name: v for name, v in named.items() if f"{driver}/{name}" not in named}


def _attribute(rng: Random, kind: str) -> Json:
    draw = rng.random()
    if draw < 0.1:
        kind = rng.choice(tuple(ATTRIBUTES.values()))
    if draw > 0.997:
        return _broken_attribute(rng)
    attribute = {kind: value(rng, kind)}
    if draw > 0.98:  # a reader that knows no lists sees the scalar
        attribute |= {kind.removesuffix("s"): value(rng, kind.removesuffix("s"))}
    return attribute


def _broken_attribute(rng: Random) -> Json:
    """What validation should have kept out: no value, an empty list, no version."""
    return rng.choice(({}, {"ints": []}, {"version": rng.choice(BAD_VERSIONS)}, {"versions": ["1.0.0", "1"]}))


def _capacity(rng: Random) -> Json:
    share = rng.choice((0.0, 0.9, 1.0))
    names = [name for name in CAPACITIES if rng.random() < share]
    return {
        (name if rng.random() < 0.8 else f"{rng.choice(OTHER_DOMAINS)}/{name}"): {"value": rng.choice(QUANTITIES)}
        for name in names
    }
