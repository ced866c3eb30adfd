"""A rate counts only if what was written is right: every pod has a device of its own, on its node."""

from collections import Counter
from collections.abc import Iterable

from benchmarks.endtoend.filters import misplaced
from benchmarks.endtoend.workload import Asks, Json, number_of


class WrongState(Exception):
    """What was placed is not right; the message names what."""


def check(pods: Iterable[Json], claims: Iterable[Json]) -> None:
    """Raises Wrong unless each pod's claim has one device, of the pool of the pod's node, reserved, taken only once."""
    by_name = {claim["metadata"]["name"]: claim for claim in claims}
    devices = Counter(_device(pod, by_name) for pod in pods)
    if taken := [device for device, number in devices.items() if number > 1]:
        raise WrongState(f"{len(taken)} devices are allocated more than once, among them {taken[0]}")


def check_places(asks: Asks, pods: Iterable[Json]) -> None:
    """Raises WrongState unless all pods, which are bound, lie as they asked."""
    places = [(number_of(pod["metadata"]["name"]), number_of(pod["spec"]["nodeName"])) for pod in pods]
    if problem := misplaced(asks, places):
        raise WrongState(problem)


def _device(pod: Json, claims: dict[str, Json]) -> tuple[str, str]:
    """Pool and name of the pod's device."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
    claim = claims[pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]]
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    found = [(result["pool"], result["device"]) for result in results]
    if len(found) != 1 or found[0][0] != node:
        raise WrongState(f"pod {name} on node {node}: its claim {claim['metadata']['name']} has the devices {found}")
    consumers = [consumer["uid"] for consumer in status.get("reservedFor") or ()]
    if consumers != [pod["metadata"]["uid"]]:
        raise WrongState(f"pod {name}: its claim {claim['metadata']['name']} is reserved for {consumers}")
    return found[0]
