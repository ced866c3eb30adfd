"""Random cases for an allocator: a small cluster, what is in use of it, and claims to allocate.

A case has the format of `benchmarks/peer` (README.md there). It is small on purpose: with few devices and few values,
the interesting coincidences are frequent. Which aspects it may be about is chosen by name (draw.py).
"""

from collections.abc import Collection
from random import Random

from tests.generators.claims import claims, classes
from tests.generators.draw import ALL, DRIVERS, FEATURES, GATES_OFF, ON_BY_DEFAULT, Draw, Json
from tests.generators.pools import nodes, slices

# What no object of a case can do without; for making a case smaller.
_OF_OBJECTS = {
    "metadata",
    "name",
    "spec",
    "claims",
    "deviceClasses",
    "features",
    "nodes",
    "slices",
    "key",
    "value",
    "operator",
}
_OF_POOLS = {"driver", "pool", "generation", "resourceSliceCount", "allNodes", "nodeName", "nodeSelector", "effect"}
_OF_SELECTION = {"perDeviceNodeSelection", "nodeSelectorTerms", "values", "default", "counterSet", "counters"}
_OF_REQUESTS = {"requests", "exactly", "firstAvailable", "deviceClassName", "allocationMode", "count"}
_OF_CHOICES = {"cel", "expression", "matchAttribute", "distinctAttribute", "opaque", "parameters"}
ESSENTIAL = _OF_OBJECTS | _OF_POOLS | _OF_SELECTION | _OF_REQUESTS | _OF_CHOICES

DeviceID = tuple[str, str, str]


def case(rng: Random, aspects: Collection[str] = ALL) -> Json:
    """A case about some of the aspects: each is left out as often as not, so that few and many of them meet."""
    share = rng.choice((0.2, 0.5, 0.8))
    draw = Draw(rng, frozenset(a for a in aspects if rng.random() < share * (0.2 if a == GATES_OFF else 1)))
    features = _features(draw)
    all_nodes = nodes(draw)
    all_slices = slices(draw, all_nodes)
    return {
        "implementation": "experimental",
        "features": features,
        "nodes": all_nodes,
        "slices": all_slices,
        "deviceClasses": classes(draw),
        "claims": claims(draw),
        "allocatedState": _state(draw, all_slices, has_shares=features["ConsumableCapacity"]),
    }


def cases(rng: Random, count: int, aspects: Collection[str] = ALL) -> list[Json]:
    """Numbered cases."""
    return [{"name": f"case-{i}", **case(rng, aspects)} for i in range(count)]


def _features(draw: Draw) -> dict[str, bool]:
    """The features of the aspects are on; where the case is about gates that are off, only some of them.

    Those that are on by default are on in half of the other cases too: unused, they must not matter.
    """
    return {
        feature: not draw.about(GATES_OFF, 0.3)
        if draw.about(feature)
        else feature in ON_BY_DEFAULT and draw.chance(0.5)
        for feature in FEATURES
    }


def _state(draw: Draw, all_slices: list[Json], *, has_shares: bool) -> Json:
    """What is in use: devices, shares with what they consume, and devices that are gone.

    has_shares: where the feature is off, kube-scheduler takes every share for the whole device.
    """
    state: Json = {"allocatedDevices": [], "allocatedSharedDeviceIDs": [], "aggregatedCapacity": []}
    if not draw.about("InUse"):
        return state
    for device in _devices(all_slices):
        if has_shares and draw.about("ConsumableCapacity", 0.3):
            _add_shares(draw, state, device)
        elif draw.chance(0.15):
            state["allocatedDevices"].append(device)
    if draw.chance(0.05):
        state["allocatedDevices"].append({"driver": "a.example", "pool": "pool-0", "device": "gone"})
    return state


def _devices(all_slices: list[Json]) -> list[Json]:
    """Each device once, in an order that does not depend on that of the slices."""
    ids: set[DeviceID] = {
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
        for one in all_slices
        for device in one["spec"].get("devices", ())
    }
    return [{"driver": driver, "pool": pool, "device": device} for driver, pool, device in sorted(ids)]


def _add_shares(draw: Draw, state: Json, device: Json) -> None:
    for number in range(draw.pick((1, 1, 2))):
        state["allocatedSharedDeviceIDs"].append({**device, "shareID": f"share-{number}"})
    if draw.chance(0.9):
        consumed = (("memory", draw.pick(("512Mi", "1Gi", "2Gi"))), ("bandwidth", draw.pick(("1", "500m"))))
        state["aggregatedCapacity"].append({**device, "capacity": dict(draw.some(consumed, most=2))})


def spelled_anew(rng: Random, case: Json) -> Json:
    """The case with capacities by their full names here and there: a name without domain is the driver's.

    A request has each of them once: where it has both spellings, the reference's answer depends on the order of a map.
    """
    for one in case["slices"]:
        for device in one["spec"].get("devices", ()):
            if "capacity" in device:
                device["capacity"] = _spelled(rng, device["capacity"], one["spec"]["driver"])
    for used in case["allocatedState"]["aggregatedCapacity"]:
        used["capacity"] = _spelled(rng, used["capacity"], used["driver"])
    for claim in case["claims"]:
        for request in claim["spec"]["devices"]["requests"]:
            for wanted in (request.get("exactly", {}), *request.get("firstAvailable", ())):
                if "capacity" in wanted:
                    asked = wanted["capacity"]["requests"]
                    wanted["capacity"] = {"requests": _spelled(rng, asked, rng.choice(DRIVERS), both=0)}
    return case


def _spelled(rng: Random, capacity: Json, driver: str, both: float = 0.1) -> Json:
    """Some of the names with the domain. both: how often a name has both spellings."""
    found: Json = {}
    for name, amount in capacity.items():
        full = name if "/" in name else f"{driver}/{name}"
        names = (full, name) if rng.random() < both else (full if rng.random() < 0.4 else name,)
        found |= dict.fromkeys(names, amount)
    return found
