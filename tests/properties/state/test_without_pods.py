"""A cluster without some pods decides as one that was made anew without them, and is afterwards what it was."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allocator.api.allocation import Consumer
from allocator.gates import Features
from allocator.model import Claim, CounterConsumption, CounterSet
from cel.values.quantity import Quantity
from scheduler.cli.verify_scheduling import FIELDS
from scheduler.core_v1.pod import Pod
from scheduler.decision.cluster import Cluster
from scheduler.decision.pod_cycle import decide
from scheduler.decision.schedule_result import Placed
from scheduler.decision.time_limits import DecisionTimeLimit, TooLong
from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import take_inventory
from scheduler.offline.input_claims import Claims
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.state.claims import Waiting, full
from tests.builders import (
    a_claim,
    a_class,
    a_container,
    a_device,
    a_node,
    a_request,
    a_slice,
    a_user,
    amounts,
    everywhere,
    kubernetes,
    on_node,
    watched,
)
from tests.generators.worlds import case
from tests.properties.state.contents import Contents, contents, differences

Json = dict[str, Any]  # Any: the JSON of an API object

CASES = 80


def answer(cluster: Cluster, pod: Pod) -> object:
    """What becomes of the pod, in full."""
    found = cluster.claims_of(pod)
    if isinstance(found, Waiting):
        return found.reason
    return decide(cluster, pod, [one.claim for one in found], full(pod, found))


def held(cluster: Cluster) -> Contents:
    """What the cluster holds, once its fleet has caught up."""
    cluster.fleet.refresh()
    return contents(cluster)


# -- nodes, volumes, affinity, nominations: the worlds of kube-scheduler's plugins


@dataclass
class Reserved:
    """Pods that were decided, with what they got, in their order."""

    placed: list[tuple[Pod, Placed]] = field(default_factory=list)

    def decide(self, cluster: Cluster, pods: Iterable[Pod]) -> None:
        for pod in pods:
            result = answer(cluster, pod)
            if isinstance(result, Placed):
                cluster.reserve(pod, result)
                self.placed.append((pod, result))

    def again(self, cluster: Cluster, gone: Collection[str]) -> None:
        for pod, placed in self.placed:
            if pod.uid not in gone:
                cluster.reserve(pod, placed)


def loaded(objects: Json) -> tuple[Cluster, Sequence[Pod], Pod]:
    """The cluster, its pods, and the one to be placed."""
    listed = deepcopy({name: one for name, one in objects.items() if name != "pod"})
    listed["pods"].append(deepcopy(objects["pod"]))
    raw = (
        RawObject(
            Place(f"{name}[{number}]"), {**one, "apiVersion": FIELDS[name].api_version, "kind": FIELDS[name].kind}
        )
        for name, found in listed.items()
        for number, one in enumerate(found)
    )
    inventory = take_inventory(raw, features=Features.of("1.36"))
    own = inventory.pods[-1]
    cluster = cluster_of(inventory, Claims(inventory), inventory.pods, Features.of("1.36"), assumes_room=False)
    return cluster, inventory.pods[:-1], own


def objects_without(objects: Json, pods: Sequence[Pod], gone: Collection[str]) -> Json:
    """The same world as its controllers leave it when these pods have gone."""
    names = {(pod.namespace, pod.name): pod for pod in pods}
    live = {pod.uid for pod in pods if pod.uid not in gone and not pod.is_over}

    def stays(raw: Json) -> bool:
        metadata = raw["metadata"]
        pod = names.get((metadata["namespace"], metadata["name"]))
        return pod is None or pod.uid not in gone

    changed = deepcopy({**objects, "pods": [one for one in objects["pods"] if stays(one)]})
    for claim in changed.get("resourceClaims", ()):
        users = claim.get("status", {}).get("reservedFor", [])
        left = [user for user in users if user["uid"] not in gone]
        if len(left) < len(users):
            claim["status"]["reservedFor"] = left
            if not any(user["uid"] in live for user in left):
                claim["status"] = {}
    return changed


def in_flight(cluster: Cluster, pods: Sequence[Pod]) -> set[str]:
    """The pods (uids) in flight; asserts that each is known as a user of all its claims."""
    flying = [one.uid for one in pods if cluster.pods.assumed_pod(one.uid)]
    of_pods = {one.uid: cluster.claims.of_pod(one) for one in pods}
    for claim in {uid for uids in of_pods.values() for uid in uids}:
        assert cluster.claims.users_in_flight(claim, cluster.pods) == {uid for uid in flying if claim in of_pods[uid]}
    return set(flying)


def test_without_pods_it_decides_as_one_made_anew_without_them() -> None:
    changed: Counter[bool] = Counter()
    for seed in range(CASES):
        rng = Random(seed)  # noqa: S311 - not for secrets
        objects = case(rng)
        cluster, pods, own = loaded(objects)
        reserved = Reserved()
        reserved.decide(cluster, [pod for pod in pods if not pod.node_name and not pod.is_over])
        counted = [pod.uid for pod in pods if cluster.pods.known(pod.uid)]
        some = rng.sample(counted, rng.randint(0, len(counted)))
        half = len(some) // 2
        all_there, before = answer(cluster, own), held(cluster)
        with cluster.without(some[:half]), cluster.without(some[half:]):
            without, now = answer(cluster, own), in_flight(cluster, pods)
        anew, _, _ = loaded(objects_without(objects, pods, some))
        reserved.again(anew, some)
        assert now == in_flight(anew, [one for one in pods if one.uid not in some]), f"seed {seed}"
        assert without == answer(anew, own), f"seed {seed}"
        assert differences(before, held(cluster)) == [], f"seed {seed}"
        assert answer(cluster, own) == all_there, f"seed {seed}"
        changed[without != all_there] += 1
    assert min(changed.values()) >= CASES // 8, f"too little happens: {changed}"


# -- devices: whole ones, partitions of one counter, shares of one capacity, and those of all nodes


NODES = ("node-0", "node-1")
KINDS_OF_DEVICES = ("whole", "part", "shared", "remote")


def q(text: str) -> Quantity:
    return Quantity.parse(text)


def a_kind(kind: str, name: str, **more: Any) -> Any:
    return a_device(f"{kind}-{name}", {"kind": kind}, **more)


def hardware(node: str) -> list[Any]:
    parts = [
        a_kind("part", str(size), consumes_counters=(CounterConsumption("all", {"memory": q(str(size))}),))
        for size in (1, 2, 3)
    ]
    sets = (CounterSet("all", {"memory": q("4")}),)
    shared = a_kind("shared", "0", capacity={"memory": "10"}, allow_multiple_allocations=True)
    reach = on_node(node)
    return [
        a_slice(a_kind("whole", "0"), a_kind("whole", "1"), shared, name=f"w-{node}", pool=f"w-{node}", reach=reach),
        a_slice(name=f"c-{node}", pool=f"p-{node}", reach=reach, counter_sets=sets, slice_count=2),
        a_slice(*parts, name=f"p-{node}", pool=f"p-{node}", reach=reach, slice_count=2),
    ]


def wanting(kind: str, count: int) -> Any:
    selector = f'device.attributes["gpu.example"].kind == "{kind}"'
    if kind == "shared":
        return a_request("gpus", 1, selector, capacity={"memory": q(str(3 * count))})
    return a_request("gpus", count, selector)


@dataclass
class DeviceWorld:
    """Pods that share claims. shown: those that the watch shows on their nodes, others are in flight."""

    claims: dict[str, Claim]
    pods: list[Pod]
    others: Mapping[str, tuple[Consumer, ...]]
    """Who else some claims are reserved for."""
    placed: dict[str, Placed] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)

    def made(self) -> Cluster:
        cluster = Cluster(kubernetes(), is_ours=lambda _: True)
        cluster.set_class(a_class())
        for node in NODES:
            cluster.set_node(a_node(node, allocatable=amounts(cpu="4", memory="4Gi", pods="6")))
            for slice_ in hardware(node):
                cluster.set_slice(slice_)
        remote = [a_kind("remote", str(number)) for number in range(2)]
        cluster.set_slice(a_slice(*remote, name="remote", pool="remote", reach=everywhere()))
        return cluster

    def run(self, shows: Sequence[int]) -> Cluster:
        """Place the pods one after the other. shows: whether each is shown then, and whether it ends."""
        cluster = self.made()
        for claim in self.claims.values():
            cluster.set_claim(watched(claim), 1)
        for pod, how in zip(self.pods, shows, strict=True):
            cluster.set_pod(pod)
            result = answer(cluster, pod)
            if not isinstance(result, Placed):
                continue
            cluster.reserve(pod, result)
            if how:
                self._show(cluster, replace(pod, node_name=result.node, is_deleting=how == 2), result)
            else:
                self.placed[pod.uid] = result
        return cluster

    def _show(self, cluster: Cluster, pod: Pod, placed: Placed) -> None:
        rest = iter(placed.allocations)
        for claim in placed.claims:
            self.claims[claim.name] = claim if claim.allocation else replace(claim, allocation=next(rest))
        self.pods = [pod if one.uid == pod.uid else one for one in self.pods]
        self.shown.add(pod.uid)
        for name in {claim.name for claim in placed.claims}:
            cluster.set_claim(watched_claim(self.claims[name], self.users(name, ())), 2 + len(self.shown))
        cluster.set_pod(pod)
        cluster.bound(pod.uid)

    def users(self, claim: str, gone: Collection[str]) -> list[Consumer]:
        naming = [pod for pod in self.pods if pod.uid in self.shown and claim in {one.name for one in pod.claims}]
        own = [Consumer("", "pods", pod.name, pod.uid) for pod in naming if pod.uid not in gone]
        return [*own, *self.others.get(claim, ())]

    def anew(self, gone: Collection[str], kept: Collection[str] = ()) -> Cluster:
        """Made of what is there when these pods have gone. kept: claims that stay allocated all the same."""
        cluster = self.made()
        live = {pod.uid for pod in self.pods if pod.uid not in gone and not pod.is_deleting}
        flying = [pod for pod in self.pods if pod.uid in self.placed and pod.uid not in gone]
        for name, claim in self.claims.items():
            left = self.users(name, gone)
            is_used = any(user.resource != "pods" or user.uid in live for user in left)
            is_used |= any(name in {one.name for one in pod.claims} for pod in flying)
            is_free = len(left) < len(self.users(name, ())) and not is_used
            is_free &= name not in kept
            now = replace(claim, allocation=None) if is_free else claim
            cluster.set_claim(watched_claim(now, [] if is_free else left), 1)
        for pod in self.pods:
            if pod.uid not in gone:
                cluster.set_pod(pod)
        for pod in flying:
            cluster.reserve(pod, self.placed[pod.uid])
        return cluster


def watched_claim(claim: Claim, users: Iterable[Consumer]) -> Any:
    return replace(watched(claim), reserved_for=tuple(users))


STRANGERS = (Consumer("", "pods", "gone", "uid-gone"), Consumer("scheduling.k8s.io", "podgroups", "gang", "uid-gang"))


@st.composite
def device_worlds(draw: st.DrawFn) -> tuple[DeviceWorld, list[int]]:
    names = [f"c{number}" for number in range(draw(st.integers(1, 2)))]
    kinds = st.sampled_from(KINDS_OF_DEVICES)
    claims = {name: a_claim(wanting(draw(kinds), draw(st.integers(1, 2))), name=name) for name in names}
    others = draw(
        st.dictionaries(st.sampled_from(names), st.sampled_from(STRANGERS).map(lambda one: (one,)), max_size=1)
    )
    some = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
    pods = [
        replace(a_user(f"p{number}", *draw(some)), containers=(a_container(cpu=draw(st.sampled_from("1112"))),))
        for number in range(draw(st.integers(1, 6)))
    ]
    return DeviceWorld(claims, pods, others), draw(st.lists(st.sampled_from((0, 1, 1, 2)), min_size=6, max_size=6))


subsets = st.lists(st.integers(0, 5), max_size=6, unique=True)


@given(device_worlds(), subsets, st.integers(0, 6), st.sampled_from(KINDS_OF_DEVICES), st.integers(1, 2))
@settings(max_examples=120)
def test_without_pods_their_claims_are_as_in_a_cluster_made_anew(
    made: tuple[DeviceWorld, list[int]], some: list[int], half: int, kind: str, count: int
) -> None:
    world, shows = made
    cluster = world.run(shows[: len(world.pods)])
    gone = [world.pods[number].uid for number in some if number < len(world.pods)]
    own = a_claim(wanting(kind, count), name="own")
    probes = [a_user("new", *names) for names in ((), ("own",), *((name,) for name in world.claims))]
    cluster.set_claim(watched(own), 1)
    all_there, before = [answer(cluster, pod) for pod in probes], held(cluster)
    with cluster.without(gone[:half]), cluster.without(gone[half:]):
        without = [answer(cluster, pod) for pod in probes]
    anew = world.anew(gone)
    anew.set_claim(watched(own), 1)
    assert without == [answer(anew, pod) for pod in probes]
    assert differences(before, held(cluster)) == []
    assert [answer(cluster, pod) for pod in probes] == all_there


@given(device_worlds(), subsets, st.sampled_from(KINDS_OF_DEVICES), st.sets(st.sampled_from(("c0", "c1"))))
@settings(max_examples=60)
def test_claims_that_do_not_come_free_keep_their_devices_without_users(
    made: tuple[DeviceWorld, list[int]], some: list[int], kind: str, kept: set[str]
) -> None:
    world, shows = made
    cluster = world.run(
        [max(how, 1) for how in shows[: len(world.pods)]]
    )  # what is in flight may be its claim's only user
    gone = [world.pods[number].uid for number in some if number < len(world.pods)]
    own = a_claim(wanting(kind, 1), name="own")
    cluster.set_claim(watched(own), 1)
    probe, uids = a_user("new", "own"), {world.claims[name].uid for name in kept if name in world.claims}
    all_there, before = answer(cluster, probe), held(cluster)
    with cluster.without(gone, lambda uid: uid not in uids):
        without = answer(cluster, probe)
    anew = world.anew(gone, kept)
    anew.set_claim(watched(own), 1)
    assert without == answer(anew, probe)
    assert differences(before, held(cluster)) == []
    assert answer(cluster, probe) == all_there


@given(device_worlds(), st.sampled_from(KINDS_OF_DEVICES))
@settings(max_examples=40)
def test_released_claims_are_as_in_a_cluster_where_they_have_no_devices(
    made: tuple[DeviceWorld, list[int]], kind: str
) -> None:
    world, shows = made
    cluster = world.run([max(how, 1) for how in shows[: len(world.pods)]])
    own = a_claim(wanting(kind, 2), name="own")
    cluster.set_claim(watched(own), 1)
    live = {pod.uid for pod in world.pods if not pod.is_deleting}
    expected = {
        claim.uid
        for name, claim in world.claims.items()
        if claim.allocation and (users := world.users(name, ()))
        if all(user.resource == "pods" and user.uid not in live for user in users)
    }
    unused = [uid for uid, _ in cluster.claims.unused(cluster.is_live)]
    assert set(unused) == expected
    probe, before = a_user("new", "own"), held(cluster)
    with cluster.released(unused):
        without = answer(cluster, probe)
    anew = world.anew(())
    for name, claim in world.claims.items():
        if claim.uid in expected:
            anew.set_claim(watched_claim(replace(claim, allocation=None), world.users(name, ())), 2)
    anew.set_claim(watched(own), 1)
    assert without == answer(anew, probe)
    assert differences(before, held(cluster)) == []


# -- a decision whose time ends while pods are taken away


def test_it_is_what_it_was_when_the_time_ends_at_any_look() -> None:
    for seed in range(CASES // 8):
        cluster, pods, own = loaded(case(Random(seed)))  # noqa: S311 - not for secrets
        Reserved().decide(cluster, [pod for pod in pods if not pod.node_name and not pod.is_over])
        counted = [pod.uid for pod in pods if cluster.pods.known(pod.uid)]
        answer(cluster, own)
        before = held(cluster)
        looks = 0
        while is_cut(cluster, counted, after=looks):
            looks += 1
            assert differences(before, held(cluster)) == [], f"seed {seed}, look {looks}"
        assert looks >= len(counted), f"seed {seed}"


def is_cut(cluster: Cluster, pods: Collection[str], after: int) -> bool:
    """Whether taking the pods away looks at the time more often than that; the time is over then."""
    ticks = count()
    clock, cluster.time_limit = cluster.time_limit, DecisionTimeLimit(lambda: float(next(ticks)), after + 0.5)
    try:
        with cluster.time_limit.limited(), cluster.without(pods):
            return False
    except TooLong:
        return True
    finally:
        cluster.time_limit = clock
