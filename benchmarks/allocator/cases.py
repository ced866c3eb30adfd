"""The inputs of the allocator's benchmark, in the format of `benchmarks/peer`: synthetic, the same on every run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]  # an object of resource.k8s.io/v1, or a case made of them

DRIVER = "x"
FEATURES = "1.37"
CLASS = {"metadata": {"name": "x"}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}


def node(name: str) -> Json:
    """A node with its host name as label."""
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}


def slice_of_node(name: str, node_name: str, *, count: int = 1, **spec: object) -> Json:
    """A slice of the pool that is named like its node; spec: devices or sharedCounters."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": pool, "nodeName": node_name, **spec}}


def request(name: str, count: int = 1, selector: str = "", capacity: Mapping[str, str] | None = None) -> Json:
    """A request for a number of devices of the one class."""
    exactly: Json = {"deviceClassName": "x", "allocationMode": "ExactCount", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    if capacity:
        exactly["capacity"] = {"requests": dict(capacity)}
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: Json, match: str = "") -> Json:
    """A claim; match: the attribute that all its devices have to share."""
    devices: Json = {"requests": list(requests)}
    if match:
        devices["constraints"] = [{"matchAttribute": f"{DRIVER}/{match}"}]
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": devices}}


def case(name: str, nodes: Sequence[Json], slices: Sequence[Json], claims: Sequence[Json], **more: object) -> Json:
    """A case of the peer's format."""
    return {
        "name": name,
        "features": FEATURES,
        "nodes": list(nodes),
        "slices": list(slices),
        "deviceClasses": [CLASS],
        "claims": list(claims),
        **more,
    }


def gpu(index: int) -> Json:
    """A plain device."""
    attributes = {
        "type": {"string": "gpu"},
        "index": {"int": index},
        "model": {"string": "H200"},
        "driverVersion": {"version": "1.2.3"},
    }
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def cluster(nodes: int, pods: int) -> Json:
    """Nodes with ten devices each, pods that want one."""
    names = [f"node-{number:05d}" for number in range(nodes)]
    slices = [slice_of_node(f"slice-{name}", name, devices=[gpu(index) for index in range(10)]) for name in names]
    return case(f"{nodes} nodes x 10", [node(n) for n in names], slices, [claim("claim", request("gpu"))], pods=pods)


def grouped(groups: int, each: int, free: Sequence[int]) -> Json:
    """Eight devices of one group wanted; free: how many of each group are not in use."""
    devices = [
        {"name": f"dev-{group:02d}-{number}", "attributes": {"numa": {"int": group}}}
        for group in range(groups)
        for number in range(each)
    ]
    used = [
        {"driver": DRIVER, "pool": "node-0", "device": f"dev-{group:02d}-{number}"}
        for group in range(groups)
        for number in range(free[group], each)
    ]
    return case(
        "8 of one group of 16 groups of 8, 7 free in most",
        [node("node-0")],
        [slice_of_node("slice", "node-0", devices=devices)],
        [claim("claim", request("gpus", 8), match="numa")],
        allocatedState={"allocatedDevices": used, "allocatedSharedDeviceIDs": [], "aggregatedCapacity": []},
    )


def last_never_matches(requests: int, devices: int) -> Json:
    """One attribute over requests of different types, of which the last type never has the value of the others."""
    every = [
        {
            "name": f"t{kind}-{number:03d}",
            "attributes": {"type": {"string": f"t{kind}"}, "numa": {"int": 0 if kind < requests - 1 else 1000}},
        }
        for kind in range(requests)
        for number in range(devices)
    ]
    parts = [every[start : start + 128] for start in range(0, len(every), 128)]
    slices = [slice_of_node(f"slice-{n}", "node-0", count=len(parts), devices=part) for n, part in enumerate(parts)]
    wanted = [
        request(f"req-{kind}", selector=f'device.attributes["{DRIVER}"].type == "t{kind}"') for kind in range(requests)
    ]
    name = f"{requests} requests x {devices} devices with one attribute"
    return case(name, [node("node-0")], slices, [claim("claim", *wanted, match="numa")])


def one_short(requests: int, each: int) -> Json:
    """Requests that want one device more than there is, all together."""
    devices = [gpu(index) for index in range(requests * each - 1)]
    wanted = [request(f"req-{number}", each) for number in range(requests)]
    name = f"{requests} requests of {each} on {len(devices)} devices"
    return case(name, [node("node-0")], [slice_of_node("slice", "node-0", devices=devices)], [claim("claim", *wanted)])


_PLACES: Mapping[str, tuple[int, Sequence[range]]] = {
    "1g": (1, [range(start, start + 1) for start in range(7)]),
    "2g": (2, [range(start, start + 2) for start in (0, 2, 4)]),
    "3g": (3, [range(4), range(4, 8)]),
    "4g": (4, [range(4)]),
    "7g": (7, [range(8)]),
}
"""Profile -> (compute slices that it takes, the memory slices of each place where it can be)."""


def _partitions(number: int) -> Iterator[Json]:
    for profile, (compute, places) in _PLACES.items():
        for place in places:
            counters = {
                "multiprocessors": {"value": str(16 * compute)},
                "copy-engines": {"value": str(compute)},
                **{f"memory-slice-{memory}": {"value": "1"} for memory in place},
            }
            yield {
                "name": f"gpu-{number}-{profile}-{place[0]}",
                "attributes": {"profile": {"string": profile}, "parent": {"string": f"gpu-{number}"}},
                "capacity": {"memory": {"value": f"{10 * len(place)}Gi"}},
                "consumesCounters": [{"counterSet": f"gpu-{number}", "counters": counters}],
            }


def _mig_slices(name: str) -> list[Json]:
    counters = {
        "multiprocessors": {"value": "132"},
        "copy-engines": {"value": "7"},
        **{f"memory-slice-{memory}": {"value": "1"} for memory in range(8)},
    }
    sets = [{"name": f"gpu-{number}", "counters": counters} for number in range(8)]
    devices = [partition for number in range(8) for partition in _partitions(number)]
    parts = [devices[start : start + 56] for start in range(0, len(devices), 56)]
    count = len(parts) + 1
    first = slice_of_node(f"{name}-counters", name, count=count, sharedCounters=sets)
    return [first, *(slice_of_node(f"{name}-{n}", name, count=count, devices=part) for n, part in enumerate(parts))]


def _profile(name: str) -> str:
    return f'device.attributes["{DRIVER}"].profile == "{name}"'


def mig(nodes: int, pods: int) -> Json:
    """Nodes with eight GPUs of 14 possible partitions each, pods that want the smallest."""
    names = [f"node-{number:04d}" for number in range(nodes)]
    slices = [one for name in names for one in _mig_slices(name)]
    wanted = claim("claim", request("part", selector=_profile("1g")))
    return case(f"MIG-like, {nodes} nodes x 112", [node(n) for n in names], slices, [wanted], pods=pods)


def mig_one_too_many() -> Json:
    """57 of 56 smallest partitions, in two claims, since one claim holds 32 devices at most."""
    claims = [claim(f"claim-{count}", request("parts", count, _profile("1g"))) for count in (29, 28)]
    return case("57 MIG slices of 56", [node("node-0")], _mig_slices("node-0"), claims)


def shared(shares: int) -> Json:
    """One device of which many shares are in use, one more wanted."""
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    device = {
        "name": "dev-0",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": f"{shares + 1}Gi", "requestPolicy": policy}},
    }
    wanted = claim("claim", request("share", capacity={"memory": "1Gi"}))
    state = _shares("node-0", "dev", shares, shares)
    slices = [slice_of_node("slice", "node-0", devices=[device])]
    return case(f"one device with {shares} shares", [node("node-0")], slices, [wanted], allocatedState=state)


def shares_elsewhere(shares: int) -> Json:
    """Partitions wanted on a node, while many shares are in use in another pool."""
    wanted = claim("claim", request("part", selector=_profile("1g")))
    state = _shares("elsewhere", "dev", shares, 100)
    name = f"{shares} shares elsewhere"
    return case(name, [node("node-0")], _mig_slices("node-0"), [wanted], allocatedState=state)


def _shares(pool: str, device: str, shares: int, each: int) -> Json:
    ids = [
        {"driver": DRIVER, "pool": pool, "device": f"{device}-{n // each}", "shareID": f"s-{n}"} for n in range(shares)
    ]
    sums = [
        {"driver": DRIVER, "pool": pool, "device": f"{device}-{n}", "capacity": {"memory": f"{each}Gi"}}
        for n in range(-(-shares // each))
    ]
    return {"allocatedDevices": [], "allocatedSharedDeviceIDs": ids, "aggregatedCapacity": sums}


def wanted_of_fewer(count: int) -> Json:
    """One device more wanted than there is."""
    devices = [gpu(index) for index in range(count - 1)]
    slices = [slice_of_node("slice", "node-0", devices=devices)]
    name = f"{count} devices wanted of {count - 1}"
    return case(name, [node("node-0")], slices, [claim("claim", request("gpus", count))])


def hard() -> list[Json]:
    """Cases in which a plain search takes exponential time."""
    return [
        wanted_of_fewer(32),
        last_never_matches(5, 64),
        one_short(3, 8),
        mig_one_too_many(),
        grouped(16, 8, [7] * 15 + [8]),
    ]


def single() -> Json:
    """One claim for one device on one node of ten."""
    return {**cluster(1, 1), "name": "one claim, one device, one node of 10"}


def large_slices(nodes: int) -> Iterator[Json]:
    """Slices of eight devices with twelve attributes each, one of them unique."""
    for number in range(nodes):
        name = f"node-{number:06d}"
        devices = []
        for index in range(8):
            attributes: Json = {f"a{n}": {"string": f"value-{n}"} for n in range(6)}
            attributes |= {
                "uuid": {"string": f"GPU-{number:06d}-{index}"},
                "index": {"int": index},
                "numa": {"int": index // 4},
                "driverVersion": {"version": "570.86.15"},
                "healthy": {"bool": True},
                "model": {"string": "H200" if number % 4 else "H100"},
            }
            devices.append(
                {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}
            )
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            **slice_of_node(f"slice-{name}", name, devices=devices),
        }
