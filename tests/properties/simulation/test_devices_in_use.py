"""Whatever happens on a simulated fleet, no device has two claims, and claims with devices have a pod on a node."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from allocator.gates import DEFAULT_RELEASE, DEVICE_TAINT_RULES, Features
from allocator.policies import policy_of
from scheduler.core_v1.pod import Pod
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import Placement
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.plugins.profile import Profile
from scheduler.simulation.changes import Appears, ChangingFleet, InvalidChange, PodArrives, PodGoes, SimulationEvent
from scheduler.simulation.engine import Attempted, Follower, Simulation
from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_slice,
    a_template,
    an_object,
)

FEATURES = Features.of(DEFAULT_RELEASE, {DEVICE_TAINT_RULES: True})
CHANGES = (
    *("drain:n0", "uncordon:n0", "fail:n1", "recover:n1", "taint:n0:t:NoExecute", "untaint:n0:t"),
    *("remove:node/n1", "add:n0:1", "remove:devicetaintrule/rule"),
)


def a_request(count: int = 1, **exactly: Any) -> Json:
    return {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count, **exactly}}


def patient(seconds: int) -> Json:
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    return a_template("patient", a_request(tolerations=[toleration]))


def a_slice_of(node: str, draw: Random) -> Json:
    taints = draw.choice([[], [], [{"key": "k", "effect": "NoExecute"}]])
    return a_slice(node=node, devices=[{"name": f"gpu-{n}", "taints": taints} for n in range(draw.randint(0, 4))])


def a_rule(draw: Random) -> Json:
    spec = {"deviceSelector": draw.choice([{}, {"pool": "n0"}]), "taint": {"key": "k", "effect": "NoExecute"}}
    return {**an_object("resource.k8s.io/v1beta2", "DeviceTaintRule", "rule"), "spec": spec}


def a_user(name: str, draw: Random) -> Json:
    priority = draw.choice([0, 0, 5, 10])
    if draw.random() < 0.2:
        return a_pod(name, claim="shared", metadata={"uid": name}, priority=priority)
    return a_pod(name, template=draw.choice(["one", "two", "patient"]), metadata={"uid": name}, priority=priority)


class OnlyLower(Follower):
    """Sees that nobody is evicted by preemption for whom it is not worth it."""

    def __init__(self) -> None:
        self.victims: list[Pod] = []

    def evicted(self, pod: Pod, lost_s: float, *, by_preemption: bool = False, by_move: bool = False) -> None:
        assert lost_s >= 0
        self.victims += [pod] * by_preemption

    def decided(self, found: Attempted) -> int:
        """How many pods have gone for this one."""
        victims, self.victims = self.victims, []
        assert not victims or found.node, "pods have gone in vain"
        assert all((one.priority or 0) < (found.pod.priority or 0) for one in victims)
        return len(victims)


def read(*objects: Json) -> Inventory:
    found = take_inventory([RawObject(Place("generated"), one) for one in objects], features=FEATURES)
    assert not found.errors, found.errors
    return found


class Happenings:
    """What happens, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)  # noqa: S311 - not for secrets
        nodes = ["n0", "n1", "n2"]
        slices = [a_slice_of(name, self.draw) for name in nodes]
        templates = [a_template("one"), a_template("two", a_request(2)), patient(7)]
        self.inventory = read(*map(a_node, nodes), *slices, a_class(), *templates, a_claim("shared", a_request()))
        self.fleet = ChangingFleet.of(self.inventory)
        self.events: list[tuple[float, SimulationEvent]] = []
        time_s = 0.0
        for number in range(self.draw.randint(5, 40)):
            time_s += self.draw.choice([0.0, 1.0, 5.0, 30.0])
            self.events += [(time_s, event) for event in self._some(f"p{number}")]

    def _some(self, name: str) -> list[SimulationEvent]:
        kind = self.draw.random()
        if kind < 0.5:
            return [PodArrives(read(a_user(name, self.draw)).pods[0], self.draw.choice([None, 0.0, 5.0, 50.0]))]
        if kind < 0.6:
            return [PodGoes(f"p{self.draw.randint(0, int(name[1:]))}")]
        if kind < 0.8:
            try:
                return [*self.fleet.change(self.draw.choice(CHANGES))]
            except InvalidChange:  # such as a node that is gone
                return []
        return self._seen(self._applied())

    def _applied(self) -> SimulationEvent:
        match self.draw.randint(0, 2):
            case 0:
                return Appears(read(a_slice_of(self.draw.choice(["n0", "n1"]), self.draw)).slices[0])
            case 1:
                return Appears(read(a_rule(self.draw)).taint_rules[0])
            case _:
                return Appears(read(a_node("n1")).nodes[0])

    def _seen(self, event: SimulationEvent) -> list[SimulationEvent]:
        self.fleet.see([event])
        return [event]


@pytest.mark.parametrize("policy", ["first-fit", "fgd"])
@pytest.mark.parametrize("seed", range(60))
def test_devices_are_in_use_once_and_by_pods_that_have_a_node(seed: int, policy: str) -> None:
    given = Happenings(seed)
    claims = Claims(given.inventory)
    cluster = cluster_of(given.inventory, claims, (), FEATURES, profiles=(Profile(policy=policy_of(policy)),))

    follower = OnlyLower()

    def check(found: Attempted) -> None:
        follower.decided(found)
        held = {
            (claim.namespace, claim.name): placed.pod.uid
            for placed in simulation.placed.values()
            if placed.pod
            for claim in placed.claims
        }
        allocated = {key: one for key, one in claims.objects.items() if one.claim.allocation}
        assert allocated.keys() == held.keys()
        assert all(uid in {user.uid for user in allocated[key].reserved_for} for key, uid in held.items())
        results = [
            one for found in allocated.values() if found.claim.allocation for one in found.claim.allocation.results
        ]
        assert max(Counter(one.id for one in results).values(), default=0) <= 1

    simulation = Simulation(Placement(cluster, claims, given.inventory.namespaces), check, follower)
    simulation.run(given.events)


def test_pods_do_go_for_others_in_these_runs() -> None:
    victims = 0

    class Counting(Follower):
        def evicted(self, pod: Pod, lost_s: float, *, by_preemption: bool = False, by_move: bool = False) -> None:
            del pod, lost_s, by_move
            nonlocal victims
            victims += by_preemption

    for seed in range(20):
        given = Happenings(seed)
        claims = Claims(given.inventory)
        placement = Placement(cluster_of(given.inventory, claims, (), FEATURES), claims, given.inventory.namespaces)
        Simulation(placement, lambda _: None, Counting()).run(given.events)
    assert victims > 5
