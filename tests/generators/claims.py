"""Random classes and claims for the devices of pools.py."""

from tests.generators.draw import DRIVERS, Draw, Json

CLASSES = ("any", "of-a", "model-a")
SELECTORS = (
    'device.driver == "a.example"',
    'device.attributes["a.example"].?model.orValue("") == "a"',
    "device.attributes[device.driver].?numa.orValue(0) == 1",
    'device.attributes["std.example"].?root.orValue("r0") == "r0"',
    'device.capacity[device.driver].?memory.orValue(quantity("0")).compareTo(quantity("2Gi")) >= 0',
    "!device.allowMultipleAllocations",
)
DARING_SELECTORS = ('device.attributes["a.example"].model == "a"', "device.driver", 'semver("x").major() == 1')
DERIVED = (
    'device.attributes["a.example"].?model.orValue("z")',
    "device.attributes[device.driver].?numa.orValue(7)",
    "device.driver",
    "true",
    '["r0", "r1"]',
    'device.attributes["a.example"].model',
    'semver("1.0.0")',
)
ATTRIBUTES: tuple[str, ...] = ("std.example/root", "std.example/root", "a.example/numa", "a.example/numa")
ATTRIBUTES += ("a.example/model", "a.example/firmware", "b.example/numa")
LIST_ATTRIBUTES = ("std.example/roots", "a.example/numas")
DERIVED_ATTRIBUTES = ("derived.example/x", "a.example/numa")
PARAMETERS: tuple[Json, ...] = ({"v": 1}, {"v": 2}, {})


def classes(draw: Draw) -> list[Json]:
    """One class for every device and two for some."""
    selectors = (None, 'device.driver == "a.example"', 'device.attributes[device.driver].?model.orValue("") == "a"')
    return [_class(draw, name, selector) for name, selector in zip(CLASSES, selectors, strict=True)]


def claims(draw: Draw) -> list[Json]:
    """The claims of a pod that are still to be allocated, together."""
    count = draw.pick((1, 2, 2, 3)) if draw.about("SeveralClaims", 0.8) else 1
    return [_claim(draw, i, most_requests=4 - count) for i in range(count)]


def _class(draw: Draw, name: str, selector: str | None) -> Json:
    spec: Json = {"selectors": [{"cel": {"expression": selector}}]} if selector else {}
    if draw.about("Config", 0.5):
        spec["config"] = [{"opaque": _opaque(draw)} for _ in range(draw.pick((1, 1, 2)))]
    return {"metadata": {"name": name}, "spec": spec}


def _opaque(draw: Draw) -> Json:
    return {"driver": draw.pick(DRIVERS), "parameters": draw.pick(PARAMETERS)}


def _claim(draw: Draw, number: int, most_requests: int) -> Json:
    count = draw.rng.randint(1, most_requests) if draw.about("SeveralRequests", 0.8) else 1
    requests = [_request(draw, f"req-{i}") for i in range(count)]
    devices: Json = {"requests": requests}
    names = _names(requests)
    if constraints := _constraints(draw, names):
        devices["constraints"] = constraints
    if draw.about("Config", 0.6):
        devices["config"] = [_config(draw, names) for _ in range(draw.pick((1, 2)))]
    metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"}
    return {"metadata": metadata, "spec": {"devices": devices}}


def _names(requests: list[Json]) -> list[str]:
    """The names by which constraints and configuration may refer to requests."""
    result = []
    for request in requests:
        result.append(request["name"])
        result += [f"{request['name']}/{sub['name']}" for sub in request.get("firstAvailable", ())]
    return result


def _request(draw: Draw, name: str) -> Json:
    if draw.about("PrioritizedList", 0.5):
        return {"name": name, "firstAvailable": [_subrequest(draw, i) for i in range(draw.pick((1, 2, 2, 3)))]}
    exactly = _wanted(draw)
    if draw.about("AdminAccess", 0.4):
        exactly["adminAccess"] = draw.chance(0.85)
    return {"name": name, "exactly": exactly}


def _subrequest(draw: Draw, number: int) -> Json:
    return {"name": f"sub-{number}", **_wanted(draw)}


def _wanted(draw: Draw) -> Json:
    """What requests and subrequests have in common."""
    wanted: Json = {"deviceClassName": draw.pick(("any", "any", "any", *CLASSES)), **_mode(draw)}
    if draw.chance(0.005):
        wanted["deviceClassName"] = draw.pick(("missing", ""))
    if draw.about("Selectors", 0.4):
        expression = draw.pick(DARING_SELECTORS if draw.chance(0.05) else SELECTORS)
        wanted["selectors"] = [{"cel": {"expression": expression}}]
    if draw.about("DeviceTaints", 0.4):
        wanted["tolerations"] = [_toleration(draw) for _ in range(draw.pick((1, 1, 2)))]
    if draw.about("ConsumableCapacity", 0.5):
        wanted["capacity"] = {"requests": _capacity(draw)}
    if draw.about("DerivedAttributes", 0.6):
        wanted["derivedAttributes"] = [{"name": draw.pick(DERIVED_ATTRIBUTES), "expression": draw.pick(DERIVED)}]
    return wanted


def _mode(draw: Draw) -> Json:
    if draw.about("AllMode", 0.2):
        return {"allocationMode": "All"}
    return {"allocationMode": "ExactCount", "count": draw.pick((1, 1, 1, 1, 1, 1, 2, 2, 3))}


def _toleration(draw: Draw) -> Json:
    toleration: Json = {"operator": draw.pick(("Exists", "Exists", "Equal", ""))}
    if toleration["operator"] != "Exists" or draw.chance(0.5):
        toleration["key"] = draw.pick(("maintenance", "broken"))
    if toleration["operator"] != "Exists":
        toleration["value"] = draw.pick(("yes", "no"))
    if draw.chance(0.4):
        toleration["effect"] = draw.pick(("NoSchedule", "NoExecute"))
    return toleration


def _capacity(draw: Draw) -> Json:
    memory = draw.pick(("0", "500Mi", "1Gi", "1Gi", "1536Mi", "2Gi", "3Gi"))
    bandwidth = draw.pick(("1", "1", "2", "1.5", "250m", "1.0005"))
    if draw.chance(0.02):
        return {"memory": draw.pick(("-1", "1e19", "9223372036854775807"))}
    if draw.chance(0.05):
        return {draw.pick(("nosuch", "a.example/memory")): "1"}
    return dict(draw.some((("memory", memory), ("bandwidth", bandwidth)), most=2))


def _constraints(draw: Draw, names: list[str]) -> list[Json]:
    attributes = ATTRIBUTES
    if draw.about("ListTypeAttributes"):
        attributes += LIST_ATTRIBUTES * 3
    if draw.about("DerivedAttributes"):
        attributes += DERIVED_ATTRIBUTES * 4
    kinds = [k for k in ("matchAttribute", "distinctAttribute") if draw.about(k[0].upper() + k[1:], 0.5)]
    return [_constraint(draw, kind, draw.pick(attributes), names) for kind in kinds]


def _constraint(draw: Draw, kind: str, attribute: str, names: list[str]) -> Json:
    constraint: Json = {kind: attribute}
    if draw.chance(0.4):
        constraint["requests"] = draw.some(names, most=2)
    return constraint


def _config(draw: Draw, names: list[str]) -> Json:
    config: Json = {"opaque": _opaque(draw)}
    if draw.chance(0.6):
        config["requests"] = draw.some(names, most=3)
    return config
