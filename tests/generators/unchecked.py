"""Cases with objects that the API server would refuse, but that a dump or a store of old may hold.

Each is a case of `cases.py` with some changes; what kube-scheduler does with such objects is defined by its code alone.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from random import Random

from tests.generators.cases import case
from tests.generators.draw import Json

AMOUNTS = (
    "0",
    "1",
    "+1",
    "01",
    "1000m",
    "500m",
    "2",
    "3",
    "1k",
    "1e3",
    "1Ki",
    "0.5Gi",
    "512Mi",
    "1Gi",
    "2Gi",
    "-1",
    "1n",
)
BAD_ATTRIBUTES: Sequence[Json] = ({}, {"version": "x"}, {"version": "1.2"}, {"ints": []}, {"strings": ["r0", "r0"]})
SELECTIONS: Sequence[Json] = (
    {"allNodes": True},
    {"nodeName": "node-0"},
    {"perDeviceNodeSelection": True},
    {"nodeSelector": {"nodeSelectorTerms": []}},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {}]}},
    {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Odd"}]}]}},
)


def unchecked_cases(rng: Random, count: int) -> list[Json]:
    """Numbered cases, each with one to three kinds of changes."""
    return [{"name": f"case-{i}", **unchecked_case(rng)} for i in range(count)]


def unchecked_case(rng: Random) -> Json:
    """A case with one to three kinds of changes."""
    changed = deepcopy(case(rng))
    for change in rng.sample(CHANGES, rng.choice((1, 1, 2, 3))):
        change(rng, changed)
    return changed


def _devices(changed: Json) -> Iterator[Json]:
    for slice_ in changed["slices"]:
        yield from slice_["spec"].get("devices", ())


def _wanted(changed: Json) -> Iterator[Json]:
    for claim in changed["claims"]:
        for request in claim["spec"]["devices"]["requests"]:
            yield from ([request["exactly"]] if "exactly" in request else request["firstAvailable"])


def _contradict_counts(rng: Random, changed: Json) -> None:
    for slice_ in changed["slices"]:
        if rng.random() < 0.4:
            slice_["spec"]["pool"]["resourceSliceCount"] = rng.choice((1, 2, 2, 3))
    # The reference believes the one that it sees first, and we the first by name.
    changed["slices"].sort(key=lambda slice_: slice_["metadata"]["name"])


def _select_twice(rng: Random, changed: Json) -> None:
    for slice_ in changed["slices"]:
        if rng.random() < 0.5 and "sharedCounters" not in slice_["spec"]:
            slice_["spec"] |= deepcopy(rng.choice(SELECTIONS))


def _spoil_attributes(rng: Random, changed: Json) -> None:
    for device in _devices(changed):
        if rng.random() < 0.3:
            name = rng.choice(("firmware", "std.example/root", "serial"))
            device.setdefault("attributes", {})[name] = deepcopy(rng.choice(BAD_ATTRIBUTES))


def _spoil_capacity(rng: Random, changed: Json) -> None:
    for device in _devices(changed):
        if rng.random() < 0.5:
            bounds = {name: rng.choice(AMOUNTS) for name in ("min", "max") if rng.random() < 0.7}
            policy: Json = {"default": rng.choice(AMOUNTS)}
            valid: Sequence[Json] = ({"validRange": bounds}, {"validValues": [rng.choice(AMOUNTS), "1Gi"]}, {})
            policy |= rng.choice(valid)
            device["capacity"] = {"memory": {"value": rng.choice(("4Gi", *AMOUNTS)), "requestPolicy": policy}}
            device["allowMultipleAllocations"] = rng.random() < 0.7


def _ask_oddly(rng: Random, changed: Json) -> None:
    for wanted in _wanted(changed):
        if "capacity" in wanted and rng.random() < 0.8:
            wanted["capacity"] = {"requests": {"memory": rng.choice(AMOUNTS)}}


def _charge_twice(rng: Random, changed: Json) -> None:
    for device in _devices(changed):
        if device.get("consumesCounters") and rng.random() < 0.5:
            device["consumesCounters"].append(deepcopy(rng.choice(device["consumesCounters"])))
            device["consumesCounters"][-1].pop("compatibilityGroups", None)


def _give_counters_back(rng: Random, changed: Json) -> None:
    for device in _devices(changed):
        for consumption in device.get("consumesCounters", ()):
            if rng.random() < 0.3:
                consumption["counters"]["cores"] = {"value": rng.choice(("-1", "-4", "0"))}


def _tell_failures_alone(rng: Random, changed: Json) -> None:
    for device in _devices(changed):
        if rng.random() < 0.3:
            device["bindingFailureConditions"] = ["failed"]


def _count_oddly(rng: Random, changed: Json) -> None:
    for wanted in _wanted(changed):
        if rng.random() < 0.3:
            wanted["count"] = rng.choice((0, 0, 33, 2**62))


def _ask_in_both_forms(rng: Random, changed: Json) -> None:
    request = rng.choice(changed["claims"])["spec"]["devices"]["requests"][0]
    request["exactly"] = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}


def _derive_nothing(rng: Random, changed: Json) -> None:
    for wanted in _wanted(changed):
        if "derivedAttributes" in wanted and rng.random() < 0.5:
            wanted["derivedAttributes"][0]["expression"] = rng.choice(("", "[]", "null"))


def _leave_out_the_node(rng: Random, changed: Json) -> None:
    if rng.random() < 0.3:
        changed["nodes"], changed["node"] = [], None


CHANGES: Sequence[Callable[[Random, Json], None]] = (
    *(_contradict_counts, _select_twice, _spoil_attributes, _spoil_capacity, _ask_oddly, _charge_twice),
    _give_counters_back,
    *(_tell_failures_alone, _count_oddly, _ask_in_both_forms, _derive_nothing, _leave_out_the_node),
)
