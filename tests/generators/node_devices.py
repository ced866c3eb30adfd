"""Random devices, one slice a node, and the claims of pods, allocated where the pod has a node."""

from collections import Counter

from tests.generators.draw import Draw, Json

DRIVER = "gpu.example"
MAX_DEVICES = 3


class Devices:
    """Gives claims to pods and remembers them, and which devices they have."""

    def __init__(self, draw: Draw, nodes: list[str]) -> None:
        self.draw = draw
        self.counts = {node: draw.rng.randint(0, MAX_DEVICES) for node in nodes}
        self.used: Counter[str] = Counter()
        self.claims: list[Json] = []

    def give(self, pod: Json) -> None:
        """A claim, to some of the pods."""
        if not self.draw.about("Devices", 0.6):
            return
        claim, node = self._claim(pod), pod["spec"].get("nodeName") or self._allocated_before()
        if node:
            self._allocate(claim, pod, node)
        if pod["spec"].get("nodeName") and "status" not in claim:  # it would not be there
            return
        pod["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": claim["metadata"]["name"]}]
        if self.draw.chance(0.93):
            self.claims.append(claim)

    def objects(self) -> Json:
        """Classes, slices and claims."""
        if "Devices" not in self.draw.aspects:
            return {}
        return {
            "deviceClasses": [_class("gpu", f"device.driver == '{DRIVER}'"), _class("never", "false")],
            "resourceSlices": [_slice(node, count) for node, count in self.counts.items()],
            "resourceClaims": self.claims,
        }

    def _allocated_before(self) -> str:
        """The node for whose device the claim of a pod without one was allocated, if any."""
        return self.draw.pick(list(self.counts)) if self.draw.chance(0.15) else ""

    def _claim(self, pod: Json) -> Json:
        name, metadata = f"c-{pod['metadata']['name']}", pod["metadata"]
        own = {"name": name, "namespace": metadata["namespace"], "uid": name}
        return {"metadata": own, "spec": {"devices": {"requests": [{"name": "r", **self._request()}]}}}

    def _request(self) -> Json:
        if self.draw.chance(0.3):
            ranks = [("two", "gpu", 2), ("none", "never", 1), ("one", "gpu", 1)]
            some = self.draw.some(ranks, most=3)
            return {"firstAvailable": [{"name": name, **_asked(of, count)} for name, of, count in some]}
        return {"exactly": _asked(self.draw.pick(("gpu",) * 9 + ("never",)), self.draw.pick((1, 1, 1, 2)))}

    def _allocate(self, claim: Json, pod: Json, node: str) -> None:
        """Give it the next device of the node, if one is left; only the claims of one device are allocated."""
        if self.used[node] == self.counts.get(node, 0):
            return
        claim["spec"]["devices"]["requests"] = [{"name": "r", "exactly": _asked("gpu", 1)}]
        result = {"request": "r", "driver": DRIVER, "pool": node, "device": f"g{self.used[node]}"}
        own = {"key": "metadata.name", "operator": "In", "values": [node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [own]}]}
        claim["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}
        if pod["spec"].get("nodeName"):
            user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            claim["status"]["reservedFor"] = [user]
        self.used[node] += 1


def _asked(of: str, count: int) -> Json:
    return {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}


def _class(name: str, expression: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def _slice(node: str, count: int) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"g{number}"} for number in range(count)]
    own = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"s-{node}"}, "spec": own}
