"""Groups of pods: placed whole with their devices, or not at all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.faults import Answer, FaultsCut, Forward, Meeting, refuse
from tests.controlplane.identities import OURS
from tests.controlplane.ours import Scheduler, scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.profiles import ALL, RELEASE
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLAIM, POD, SLICE, Json, Kind
from tests.extent import chosen, is_nightly, part
from tests.integration.live.test_preemption import CLASSES, a_user, deleted, is_ending
from tests.integration.live.world import (
    DRIVER,
    EVENT,
    NAMESPACE,
    PRIORITY,
    SCHEDULER,
    World,
    a_request,
    is_allocated,
    is_free,
    reported,
    results_of,
    settings_file,
    some_devices,
    users_of,
)

PROFILE = ALL
COUNTED = "counted"
"""A capacity of the devices that count for the limit; others do not have it."""

LIMIT = {"name": "few", "namespaces": {"names": [NAMESPACE]}, "count": {"capacity": COUNTED}, "most": 7}
SETTINGS = {"groupsOf": ["LeaderWorkerSet"], "limits": [LIMIT]}
GROUP = Kind(f"scheduling.k8s.io/{'v1alpha2' if RELEASE == '1.36' else 'v1beta1'}", "PodGroup")
CONDITION = "PodGroupScheduled" if RELEASE == "1.36" else "PodGroupInitiallyScheduled"
ATTEMPTS = 'dra_scheduler_pod_group_attempts_total{{result="{}"}}'


@pytest.fixture
def classes(world: World) -> Iterator[None]:
    """Pods of three priorities."""
    for name, value in CLASSES.items():
        world.a_priority(name, value)
    yield
    for name in CLASSES:
        world.api.delete(PRIORITY, name)


@pytest.fixture
def groups(world: World) -> Iterator[World]:
    """The world, whose groups go at the end."""
    yield world
    for pod in world.api.list(POD, NAMESPACE):
        world.delete_pod(pod["metadata"]["name"])
    for name in [one["metadata"]["name"] for one in world.api.list(GROUP, NAMESPACE)]:
        # Its finalizer keeps a group for as long as its pods need, and these are gone.
        world.api.change(GROUP, name, NAMESPACE, unprotected)
        world.api.delete(GROUP, name, NAMESPACE)


def unprotected(group: Json) -> Json:
    return {**group, "metadata": {**group["metadata"], "finalizers": []}}


def a_group(world: World, minimum: int, name: str = "gang", *, priority: str = "", **annotations: str) -> Json:
    """annotations: of ours, by their names with underscores."""
    fields: Json = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if priority:
        fields["priorityClassName"] = priority
    ours = {f"dra-scheduler.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": ours}
    return world.api.create({"apiVersion": GROUP.api_version, "kind": GROUP.kind, "metadata": metadata, "spec": fields})


def a_member(world: World, name: str, *claims: str, group: str = "gang", devices: int = 1, **spec: Any) -> None:
    """A pod of the group, by default with a claim of its own for so many devices."""
    if not claims and devices:
        world.a_claim(f"of-{name}", a_request(count=devices))
        claims = (f"of-{name}",)
    world.a_pod(name, *claims, schedulingGroup={"podGroupName": group}, **spec)


def members(world: World, *names: str, **fields: Any) -> None:
    for name in names:
        a_member(world, name, **fields)


def condition(group: Json) -> Json | None:
    found = (group.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == CONDITION), None)


def says(groups: Sequence[Json], status: str, text: str) -> bool:
    return any(
        (one := condition(group)) and one["status"] == status and text in one.get("message", "") for group in groups
    )


def told(world: World, status: str, text: str = "") -> Json:
    """The condition of the only group, as soon as it has this status and text."""
    found = world.api.await_all(GROUP, partial(says, status=status, text=text), NAMESPACE)
    said = condition(found[0])
    assert said is not None
    return said


def waits(world: World, name: str) -> None:
    """The pod is held for others of its group."""
    world.await_queue(name, queue="gated")


def bound(world: World) -> dict[str, str]:
    pods = world.api.list(POD, NAMESPACE)
    return {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods if "nodeName" in one["spec"]}


def allocated(world: World) -> list[str]:
    return [one["metadata"]["name"] for one in world.api.list(CLAIM, NAMESPACE) if is_allocated(one)]


def test_members_wait_until_there_are_as_many_as_needed(groups: World) -> None:
    groups.a_cluster(devices=3)
    a_group(groups, 3)
    members(groups, "a", "b")
    for name in ("a", "b"):
        waits(groups, name)
    assert bound(groups) == {}
    assert allocated(groups) == []
    a_member(groups, "c")
    for name in ("a", "b", "c"):
        groups.bound(name)
    said = told(groups, "True")
    assert said["reason"] == "Scheduled"
    # None was bound before the last one had its devices.
    writes = groups.proxy.writes(r"/(binding|resourceclaims/of-.*/status)$")
    assert [one.path.rpartition("/")[2] for one in writes] == ["status"] * 3 + ["binding"] * 3


def test_group_that_does_not_fit_takes_nothing_and_says_what_is_missing(groups: World) -> None:
    groups.a_cluster(devices=2)
    a_group(groups, 3)
    members(groups, "a", "b", "c")
    for name in ("a", "b", "c"):
        found = groups.refused(name, "pod group live/gang does not fit: 3 of 3 pods have to fit at once: 2 of 3 fit")
        assert "pod c: 0/1 nodes are available: 1 cannot allocate all claims" in found["message"]
        assert found["reason"] == "Unschedulable"
    assert told(groups, "False", "2 of 3 fit")["reason"] == "Unschedulable"
    assert bound(groups) == {}
    assert allocated(groups) == []
    assert groups.proxy.writes(r"/resourceclaims/") == []
    # The last device comes.
    groups.api.delete(SLICE, "node-0.gpu.example")
    groups.a_slice("node-0", *[{"name": f"gpu-{number}"} for number in range(3)])
    for name in ("a", "b", "c"):
        groups.bound(name)
    told(groups, "True")


def test_group_fits_within_a_limit_as_a_whole_or_takes_nothing(groups: World) -> None:
    groups.a_class()
    groups.a_node("node-0")
    groups.a_slice("node-0", *[{"name": f"gpu-{number}", "capacity": {COUNTED: {"value": "1"}}} for number in range(8)])
    a_group(groups, 4)
    members(groups, *"abcd", devices=2)  # each alone is within the limit of 7
    for name in "abcd":
        groups.refused(name, "pod group live/gang does not fit: 4 of 4 pods have to fit at once: 3 of 4 fit")
    assert bound(groups) == {}
    assert allocated(groups) == []
    assert groups.proxy.writes(r"/resourceclaims/") == []
    lower(groups, 3)
    groups.api.await_all(POD, lambda _: len(bound(groups)) == 3, NAMESPACE)
    assert sum(len(results_of(one)) for one in groups.api.list(CLAIM, NAMESPACE)) == 6


def test_as_many_as_fit_are_bound_if_that_is_enough_and_the_last_one_later(groups: World) -> None:
    groups.a_cluster(devices=2)
    a_group(groups, 2)
    members(groups, "a", "b")
    for name in ("a", "b"):
        groups.bound(name)
    a_member(groups, "c")
    groups.refused("c", "cannot allocate all claims")
    assert told(groups, "True")["reason"] == "Scheduled"
    groups.delete_pod("a")
    groups.bound("c")
    told(groups, "True")


def test_group_may_come_after_its_pods(groups: World) -> None:
    groups.a_cluster(devices=2)
    members(groups, "a", "b")
    for name in ("a", "b"):
        waits(groups, name)
    a_group(groups, 2)
    for name in ("a", "b"):
        groups.bound(name)


def test_small_members_leave_the_large_one_the_only_node_that_has_room_for_it(groups: World) -> None:
    groups.a_class()
    for name, number in (("big-node", 2), ("small-node", 1)):
        groups.a_node(name)
        groups.a_slice(name, *[{"name": f"gpu-{one}"} for one in range(number)])
    a_group(groups, 2)
    a_member(groups, "a-small", devices=1)
    a_member(groups, "b-large", devices=2)
    assert groups.node_of("b-large") == "big-node"
    assert groups.node_of("a-small") == "small-node"


def test_members_share_a_claim(groups: World) -> None:
    groups.a_cluster(nodes=2)
    a_group(groups, 3)
    groups.a_claim("shared")
    for name in ("a", "b", "c"):
        a_member(groups, name, "shared")
    assert len({groups.node_of(name) for name in ("a", "b", "c")}) == 1
    assert len(users_of(groups.claim("shared"))) == 3


def test_members_of_unequal_priority_are_refused_by_name(groups: World, classes: None) -> None:
    del classes
    groups.a_cluster(devices=2)
    a_group(groups, 2)
    a_member(groups, "a", priorityClassName="low")
    a_member(groups, "b", priorityClassName="high")
    text = "all pods in a single pod group should have the same priority as the pod group's priority"
    assert groups.refused("a", text)["reason"] == "SchedulerError"
    assert told(groups, "False", text)["reason"] == "SchedulerError"
    assert bound(groups) == {}


def test_two_groups_with_room_for_one_do_not_share_it(groups: World) -> None:
    groups.a_cluster(devices=2)
    for group in ("one", "two"):
        a_group(groups, 2, group)
    for name in ("a", "b"):
        for group in ("one", "two"):
            a_member(groups, f"{group}-{name}", group=group)
    groups.api.await_all(POD, lambda pods: sum("nodeName" in one["spec"] for one in pods) == 2, NAMESPACE)
    placed = {name.partition("-")[0] for name in bound(groups)}
    assert len(placed) == 1
    (other,) = {"one", "two"} - placed
    groups.refused(f"{other}-a", "0 of 2 fit")


def test_one_that_is_refused_by_the_server_costs_all_what_they_took(groups: World) -> None:
    groups.a_cluster(devices=2)
    a_group(groups, 2)
    denied = refuse(403, "Forbidden", 'admission webhook "keeper" denied the request')
    rule = groups.proxy.on("PUT", r"/resourceclaims/of-b/status$", denied, times=None)
    members(groups, "a", "b")
    rule.met.wait()
    assert "pod live/b of group live/gang: " in groups.refused("a", "denied the request")["message"]
    groups.api.await_all(CLAIM, lambda claims: not any(map(is_allocated, claims)), NAMESPACE)
    assert bound(groups) == {}
    groups.proxy.forget_rules()
    for name in ("a", "b"):
        groups.bound(name)


def test_member_with_a_gate_delays_the_others(groups: World) -> None:
    groups.a_cluster(devices=2)
    a_group(groups, 2)
    a_member(groups, "a")
    a_member(groups, "b", schedulingGates=[{"name": "example.com/wait"}])
    found = groups.refused("a", "pod live/b: scheduling is gated by example.com/wait")
    assert found["reason"] == "SchedulingGated"
    groups.leave_gates("b")
    for name in ("a", "b"):
        groups.bound(name)


def test_lower_minimum_places_at_once_what_is_there(groups: World) -> None:
    groups.a_cluster(devices=2)
    a_group(groups, 3)
    members(groups, "a", "b")
    for name in ("a", "b"):
        waits(groups, name)
    lower(groups, 2)
    for name in ("a", "b"):
        groups.bound(name)


def lower(world: World, minimum: int) -> None:
    """The group needs fewer members. In v1alpha2 the field cannot change, and the group is made again."""
    if RELEASE != "1.36":
        spec: Mapping[str, object] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        world.api.change(GROUP, "gang", NAMESPACE, lambda group: {**group, "spec": {**group["spec"], **spec}})
        return
    world.api.change(GROUP, "gang", NAMESPACE, unprotected)
    world.api.delete(GROUP, "gang", NAMESPACE)
    world.api.await_all(GROUP, lambda groups: not groups, NAMESPACE)
    a_group(world, minimum)


def test_group_stays_in_one_domain(groups: World) -> None:
    groups.a_class()
    for zone, number in (("a", 3), ("b", 4)):
        for one in range(number):
            name = f"{zone}-{one}"  # `a_node` labels it with what is before the dash
            groups.a_node(name)
            groups.a_slice(name, {"name": "gpu-0"})
    a_group(groups, 4, topology_required="kind")
    members(groups, "a", "b", "c", "d")
    assert {groups.node_of(name).partition("-")[0] for name in ("a", "b", "c", "d")} == {"b"}


def test_devices_of_one_request_are_of_one_rail_over_all_members(groups: World) -> None:
    groups.a_class()
    for number in range(4):
        # The first device of a node is of the one rail or of the other: who takes the first that fits mixes them.
        groups.a_node(f"node-{number}")
        rails = [{"name": f"nic-{one}", "attributes": {"rail": {"int": (number + one) % 2}}} for one in range(2)]
        groups.a_slice(f"node-{number}", *rails)
    terms = ",".join(f"{request}={DRIVER}/rail" for request in ("in", "out"))
    a_group(groups, 4, match_attribute=terms)
    names = ["a", "b", "c", "d"]
    for name in names:
        groups.a_claim(f"of-{name}", a_request("in"), a_request("out"))
        a_member(groups, name, f"of-{name}")
    assert len({groups.node_of(name) for name in names}) == 4
    rails_of: dict[str, set[int]] = {"in": set(), "out": set()}
    for name in names:
        for result in results_of(groups.claim(f"of-{name}")):
            place = int(result["pool"].removeprefix("node-")) + int(result["device"].removeprefix("nic-"))
            rails_of[result["request"]].add(place % 2)
    assert sorted(map(sorted, rails_of.values())) == [[0], [1]]


SIZE = chosen("LARGE_GROUP", 32, 256)


def test_large_group_that_fits_in_one_way_is_placed_and_refused_with_one_device_fewer(groups: World) -> None:
    """The last member needs nine devices, the others eight; a node has 64, the first one has 65."""
    groups.a_class()
    names = [f"m-{number:03}" for number in range(SIZE)]
    for number in range(SIZE // 8):
        groups.a_node(f"node-{number:02}")
        groups.a_slice(f"node-{number:02}", *some_devices(64))
    a_group(groups, SIZE)
    for name in names[:-1]:
        a_member(groups, name, devices=8)
    a_member(groups, names[-1], devices=9)
    groups.refused(names[0], f"{SIZE} of {SIZE} pods have to fit at once: {SIZE - 1} of {SIZE} fit")
    assert bound(groups) == {}
    assert allocated(groups) == []
    groups.api.delete(SLICE, f"node-00.{DRIVER}")
    groups.a_slice("node-00", *some_devices(65))
    groups.api.await_all(POD, lambda pods: sum("nodeName" in one["spec"] for one in pods) == SIZE, NAMESPACE)
    assert groups.node_of(names[-1]) == "node-00"
    assert groups.metric(ATTEMPTS.format("search_ended")) == 0


def a_marked_pod(world: World, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
    """A pod with a claim of its own whose labels and annotations say which group it is in."""
    world.a_claim(f"of-{name}")
    world.await_seen()
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations}
    claims = [{"name": "own", "resourceClaimName": f"of-{name}"}]
    spec = {"schedulerName": SCHEDULER, "containers": [{"name": "c", "image": "none"}], "resourceClaims": claims}
    world.api.create({"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": spec})


@pytest.mark.parametrize(
    ("label", "annotation"),
    [
        ("dra-scheduler.dev/group", "dra-scheduler.dev/group-min"),
        ("leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/size"),
    ],
)
def test_groups_without_an_object_of_their_own(world: World, label: str, annotation: str) -> None:
    world.a_cluster(devices=2)
    a_marked_pod(world, "a", {label: "gang"}, {annotation: "2"})
    waits(world, "a")
    a_marked_pod(world, "b", {label: "gang"}, {annotation: "2"})
    for name in ("a", "b"):
        world.bound(name)
    assert world.metric(ATTEMPTS.format("scheduled")) >= 1


def test_member_whose_binding_fails_after_others_are_bound_keeps_its_devices(groups: World) -> None:
    groups.a_cluster(devices=2)
    a_group(groups, 2)
    denied = refuse(403, "Forbidden", 'admission webhook "keeper" denied the request')
    rule = groups.proxy.on("POST", r"/pods/b/binding$", denied, times=6)
    members(groups, "a", "b")
    groups.bound("a")
    rule.met.wait()
    groups.bound("b")
    assert len(groups.proxy.writes(r"/resourceclaims/of-b/status$")) == 1


# -- what takes time


def some_of_a_job(world: World, *names: str) -> None:
    """Pods of a JobSet that starts its jobs one after the other; label and annotation say that it is six pods."""
    for name in names:
        a_marked_pod(world, name, {"dra-scheduler.dev/group": "job"}, {"dra-scheduler.dev/group-min": "6"})


@pytest.mark.skipif(not is_nightly(), reason="the event comes after two minutes")
def test_group_whose_later_pods_wait_for_the_first_ones_says_after_two_minutes_what_is_missing(world: World) -> None:
    world.a_cluster(devices=6)
    some_of_a_job(world, "driver-0", "driver-1")
    assert world.refused("driver-0")["reason"] == "SchedulingGated"  # after ten seconds
    text = f"waiting for 4 of 6 pods of group {NAMESPACE}/job to be created"  # others are of groups of other tests
    (event, *_) = poll_until(
        bool, lambda: [one for one in world.api.list(EVENT, NAMESPACE) if one["note"] == text], "an event"
    )
    assert event["reason"] == "PodGroupWaiting"
    assert bound(world) == {}
    some_of_a_job(world, *(f"worker-{number}" for number in range(4)))
    for name in ("driver-0", "driver-1", *(f"worker-{number}" for number in range(4))):
        world.bound(name)


def has_an_answer(pod: Json) -> bool:
    return "nodeName" in pod["spec"] or reported(pod) is not None


def test_room_that_frees_is_held_for_a_group_that_has_waited_for_long(
    groups: World, plane: ControlPlane, proxy: Proxy, tmp_path: Path
) -> None:
    """Singles come and go on one of two devices: without that there is never room for two pods."""
    groups.a_cluster(devices=2)
    file = settings_file(tmp_path, schedulerName="holding", groupReservationSeconds=8)
    with scheduler(plane, [f"--config={file}"], kubeconfig=proxy.kubeconfig(OURS), name="holding"):
        for name in ("keeper", "single-0"):
            groups.a_claim(f"of-{name}")
            groups.a_pod(name, f"of-{name}", schedulerName="holding")
            groups.bound(name)
        a_group(groups, 2)
        members(groups, "a", "b", schedulerName="holding")
        groups.refused("a", "0 of 2 fit")
        for number in count(1):
            single = f"single-{number}"
            groups.delete_pod(f"single-{number - 1}")
            groups.a_claim(f"of-{single}")
            groups.a_pod(single, f"of-{single}", schedulerName="holding")
            if "nodeName" not in groups.pod_when(single, has_an_answer)["spec"]:
                break
        assert number > 1  # while it had not waited for long, it held nothing
        assert set(bound(groups)) == {"keeper"}
        groups.delete_pod("keeper")
        for name in ("a", "b"):
            groups.bound(name)
        for name in ("a", "b"):
            groups.delete_pod(name)
        groups.bound(single)


# -- kill -9


GANG = tuple(f"member-{number}" for number in range(8))
WRITES = 3 * len(GANG)
"""Of each member: its claim is marked, and allocated, and the pod is bound."""

Run = Callable[[str], AbstractContextManager[Scheduler]]


@pytest.fixture
def run(plane: ControlPlane, proxy: Proxy, tmp_path: Path) -> Run:
    """Starts a scheduler that may be killed."""
    file = settings_file(tmp_path, schedulerName="mortal")

    def started(name: str) -> AbstractContextManager[Scheduler]:
        return scheduler(plane, [f"--config={file}"], kubeconfig=proxy.kubeconfig(OURS), name=name)

    return started


class CutAfter:
    """So many writes reach the API server, and none after them."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.met = Meeting()

    async def __call__(self, forward: Forward) -> Answer:
        if self._left > 0:
            self._left -= 1
            return await forward()
        self.met.happen()
        raise FaultsCut


def killed_after(world: World, run: Run, writes: int) -> None:
    """A gang of eight comes, and the scheduler dies after so many of its writes."""
    world.a_cluster(nodes=2, devices=4)
    cut = CutAfter(writes)
    world.proxy.on("PUT", r"/resourceclaims/", cut, times=None)
    world.proxy.on("POST", r"/binding$", cut, times=None)
    with run("killed") as program:
        a_group(world, len(GANG))
        for name in GANG:
            a_member(world, name, schedulerName="mortal")
        cut.met.wait()
        program.kill()
    world.proxy.forget_rules()
    assert len(world.proxy.requests) > 0


def has_nothing(claims: Sequence[Json]) -> bool:
    return all(map(is_free, claims))


@pytest.mark.parametrize("writes", part(range(WRITES), 2))
def test_gang_of_a_process_that_was_killed_between_two_writes_is_bound_whole_by_the_next_one(
    groups: World, run: Run, writes: int
) -> None:
    killed_after(groups, run, writes)
    with run("started"):
        for name in GANG:
            groups.bound(name)
    claims = groups.api.list(CLAIM, NAMESPACE)
    devices = [(one["pool"], one["device"]) for claim in claims for one in results_of(claim)]
    assert len(set(devices)) == len(devices) == len(GANG)
    told(groups, "True")


@pytest.mark.parametrize("writes", part(range(2 * len(GANG)), 1))
def test_gang_of_a_killed_process_that_has_no_room_any_more_keeps_nothing(groups: World, run: Run, writes: int) -> None:
    killed_after(groups, run, writes)
    groups.api.change(Kind("v1", "Node"), "node-1", "", lambda node: {**node, "spec": {"unschedulable": True}})
    with run("started"):
        groups.refused(GANG[-1], "of 8 fit")
        groups.api.await_all(CLAIM, has_nothing, NAMESPACE)
    assert bound(groups) == {}


def test_gang_of_a_killed_process_that_lacks_a_member_by_then_keeps_nothing(groups: World, run: Run) -> None:
    killed_after(groups, run, 12)
    groups.delete_pod(GANG[0])
    with run("started"):
        groups.api.await_all(CLAIM, has_nothing, NAMESPACE)
        assert bound(groups) == {}


# -- preemption


def low_ones(world: World, number: int) -> list[str]:
    """Pods of low priority, each with one of the devices."""
    names = [f"low-{one}" for one in range(number)]
    for name in names:
        a_user(world, name, "low")
        world.bound(name)
    return names


def when_ending(world: World, number: int) -> list[str]:
    """The pods that are to end, as soon as they are so many."""
    found = world.api.await_all(POD, lambda pods: sum(map(is_ending, pods)) >= number, NAMESPACE)
    return [one["metadata"]["name"] for one in found if is_ending(one)]


@pytest.mark.usefixtures("classes")
def test_group_takes_the_places_of_as_few_as_it_needs(groups: World) -> None:
    groups.a_cluster(nodes=2, devices=2)
    low_ones(groups, 3)
    a_group(groups, 3, priority="high")
    for name in ("a", "b", "c"):
        a_member(groups, name, priorityClassName="high")
    victims = when_ending(groups, 2)
    assert len(victims) == 2
    assert told(groups, "False", "found a placement for podgroup, preempting 2 victims")["reason"] == "Unschedulable"
    for name in victims:
        groups.delete_pod(name)
    for name in ("a", "b", "c"):
        groups.bound(name)
    told(groups, "True")
    assert sorted(deleted(groups)) == sorted(victims)


@pytest.mark.usefixtures("classes")
def test_rival_of_the_same_priority_gets_nothing_of_what_comes_free_for_a_group(groups: World) -> None:
    groups.a_cluster(devices=2)
    low_ones(groups, 2)
    a_group(groups, 2, priority="high")
    for name in ("a", "b"):
        a_member(groups, name, priorityClassName="high")
    when_ending(groups, 2)
    a_user(groups, "rival", "high")
    groups.delete_pod("low-0")
    groups.claim_when("of-low-0", is_free)
    groups.refused("rival")
    assert list(bound(groups)) == ["low-1"]
    groups.delete_pod("low-1")
    for name in ("a", "b"):
        groups.bound(name)
    groups.refused("rival")


@pytest.mark.usefixtures("classes")
def test_nobody_goes_for_a_group_that_would_not_fit_all_the_same(groups: World) -> None:
    groups.a_cluster(devices=2)
    low_ones(groups, 2)
    a_group(groups, 3, priority="high")
    for name in ("a", "b", "c"):
        a_member(groups, name, priorityClassName="high")
    groups.refused("c", "pod group preemption: No preemption victims found for incoming preemptor")
    assert deleted(groups) == []


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize("evictions", part((0, 1, 2), 1))
def test_group_of_a_process_that_was_killed_while_it_evicted_gets_its_places(
    groups: World, run: Run, evictions: int
) -> None:
    groups.a_cluster(devices=3)
    low_ones(groups, 3)
    cut = CutAfter(evictions)
    with run("killed") as program:
        groups.proxy.on("DELETE", r"/pods/low-", cut, times=None)
        a_group(groups, 2, priority="high")
        for name in ("a", "b"):
            a_member(groups, name, priorityClassName="high", schedulerName="mortal")
        if evictions < 2:
            cut.met.wait()
        else:
            when_ending(groups, 2)
        program.kill()
    groups.proxy.forget_rules()
    with run("started"):
        victims = when_ending(groups, 2)
        for name in victims:
            groups.delete_pod(name)
        for name in ("a", "b"):
            groups.bound(name)
    assert len(set(deleted(groups))) == 2


@pytest.mark.usefixtures("classes")
def test_single_of_higher_priority_beside_a_group_leaves_none_of_it_bound(groups: World) -> None:
    groups.a_cluster(devices=3)
    a_group(groups, 3, priority="low")
    members(groups, "a", "b", priorityClassName="low")
    a_user(groups, "single", "high")
    groups.bound("single")
    a_member(groups, "c", priorityClassName="low")
    groups.refused("a", "2 of 3 fit")
    assert list(bound(groups)) == ["single"]
    assert allocated(groups) == ["of-single"]


needs_composites = pytest.mark.skipif(RELEASE < "1.37", reason="CompositePodGroups are served from 1.37 on")
COMPOSITE = Kind(f"scheduling.k8s.io/{'v1alpha3' if RELEASE == '1.37' else 'v1beta1'}", "CompositePodGroup")
COMPOSITE_CONDITION = "CompositePodGroupInitiallyScheduled"


@pytest.fixture
def trees(groups: World) -> Iterator[World]:
    """The world, whose groups of groups go at the end."""
    yield groups
    for name in [one["metadata"]["name"] for one in groups.api.list(COMPOSITE, NAMESPACE)]:
        groups.api.change(COMPOSITE, name, NAMESPACE, unprotected)
        groups.api.delete(COMPOSITE, name, NAMESPACE)


def a_tree(world: World, minimum: int, **children: int) -> None:
    """A group of groups, of which so many are placed; and by name the PodGroups in it, with their minimums."""
    ref = {"workloadName": "llm", "templateName": "t"}
    of_tree = {"schedulingPolicy": {"gang": {"minGroupCount": minimum}}, "workloadRef": ref}
    metadata = {"name": "tree", "namespace": NAMESPACE}
    world.api.create(
        {"apiVersion": COMPOSITE.api_version, "kind": COMPOSITE.kind, "metadata": metadata, "spec": of_tree}
    )
    for name, least in children.items():
        policy = {"schedulingPolicy": {"gang": {"minCount": least}}, "workloadRef": ref}
        world.api.create(
            {
                "apiVersion": GROUP.api_version,
                "kind": GROUP.kind,
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {**policy, "parentCompositePodGroupName": "tree"},
            }
        )


def tree_says(found: Sequence[Json], status: str, text: str) -> bool:
    conditions = [one for tree in found for one in (tree.get("status") or {}).get("conditions") or ()]
    return any(
        (one["type"], one["status"]) == (COMPOSITE_CONDITION, status) and text in one.get("message", "")
        for one in conditions
    )


@needs_composites
def test_groups_of_a_group_of_groups_are_placed_together_or_none_of_them_is(trees: World) -> None:
    trees.a_cluster(devices=2)
    a_tree(trees, 2, left=2, right=1)
    members(trees, "a", "b", group="left")
    waits(trees, "a")
    assert bound(trees) == {}
    members(trees, "c", group="right")
    fit = "3 of 3 pods have to fit at once: 2 of 3 fit; pod c of PodGroup right: "
    text = f"CompositePodGroup {NAMESPACE}/tree does not fit: {fit}"
    trees.api.await_all(COMPOSITE, partial(tree_says, status="False", text=text), NAMESPACE)
    assert bound(trees) == {}
    assert allocated(trees) == []
    trees.a_node("another")
    trees.a_slice("another", *some_devices(1))
    for name in ("a", "b", "c"):
        trees.bound(name)
    trees.api.await_all(COMPOSITE, partial(tree_says, status="True", text=""), NAMESPACE)
    trees.api.await_all(GROUP, all_are_scheduled, NAMESPACE)


def all_are_scheduled(found: Sequence[Json]) -> bool:
    return all((one := condition(group)) is not None and one["status"] == "True" for group in found)


@needs_composites
def test_group_of_a_tree_without_a_place_places_nobody_where_the_others_are_enough(trees: World) -> None:
    trees.a_cluster(devices=3)
    a_tree(trees, 1, left=2, right=2)
    members(trees, "c", "d", group="right")
    members(trees, "a", "b", group="left")
    trees.api.await_all(COMPOSITE, partial(tree_says, status="True", text=""), NAMESPACE)
    trees.api.await_all(POD, lambda pods: sum("nodeName" in one["spec"] for one in pods) == 2, NAMESPACE)
    (other,) = {frozenset("ab"), frozenset("cd")} - {frozenset(bound(trees))}
    for name in other:
        trees.refused(name, f"pod {max(other)} of PodGroup")
    assert len(allocated(trees)) == 2


@needs_composites
def test_group_of_groups_may_come_after_its_pods(trees: World) -> None:
    trees.a_cluster(devices=2)
    members(trees, "a", group="left")
    members(trees, "b", group="right")
    waits(trees, "a")
    a_tree(trees, 2, left=1, right=1)
    for name in ("a", "b"):
        trees.bound(name)
