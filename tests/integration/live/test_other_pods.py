"""Where other pods decide: affinity, spread, Services; and which change of what is there brings a waiting pod back."""

from collections.abc import Mapping

from tests.controlplane.rest import POD, SERVICE, Json
from tests.integration.live.world import NAMESPACE, World, an_object

HOST = "kubernetes.io/hostname"
ZONE = "kind"
"""Of a node `a-0` it is `a`."""

WEB = {"matchLabels": {"app": "web"}}


def a_term(selector: Mapping[str, object], key: str = ZONE, **more: object) -> Json:
    return {"labelSelector": selector, "topologyKey": key, **more}


def near(*terms: Json) -> Json:
    """Required affinity to pods."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def away(*terms: Json) -> Json:
    """Required anti-affinity to pods."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def a_pod(world: World, name: str, labels: Mapping[str, str] | None = None, **spec: object) -> Json:
    """A pod of ours, or one that is on its node already."""
    container = {"name": "c", "image": "none"}
    pod = an_object(POD, name, {"schedulerName": "dra-scheduler", "containers": [container], **spec}, NAMESPACE)
    world.await_seen()
    return world.api.create({**pod, "metadata": {**pod["metadata"], "labels": labels or {}}})


def on(world: World, node: str, name: str, **labels: str) -> None:
    """A pod that is there, of nobody's."""
    a_pod(world, name, labels, nodeName=node, schedulerName="nobody")


def zones(world: World) -> None:
    """Two nodes in zone a, one in zone b."""
    for name in ("a-0", "a-1", "b-0"):
        world.a_node(name)


def await_pods(world: World, number: int) -> None:
    """Return when our scheduler has seen that there are so many pods."""
    world.await_metric('dra_scheduler_watch_objects{resource="pods"}', number)


def test_pod_goes_to_the_zone_of_the_pods_that_it_needs(world: World) -> None:
    zones(world)
    on(world, "b-0", "there", app="web")
    a_pod(world, "pod", affinity=near(a_term(WEB)))
    assert world.node_of() == "b-0"


def test_first_pod_of_its_kind_is_placed_and_the_next_one_beside_it(world: World) -> None:
    zones(world)
    for name in ("first", "second", "third"):
        a_pod(world, name, {"app": "web"}, affinity=near(a_term(WEB, HOST)))
    assert len({world.node_of(name) for name in ("first", "second", "third")}) == 1


def test_pods_that_keep_apart_have_a_node_each(world: World) -> None:
    zones(world)
    for number in range(4):
        a_pod(world, f"pod-{number}", {"app": "web"}, affinity=away(a_term(WEB, HOST)))
        if number < 3:
            world.bound(f"pod-{number}")
    assert {world.node_of(f"pod-{number}") for number in range(3)} == {"a-0", "a-1", "b-0"}
    world.refused("pod-3", "3 node(s) didn't match pod anti-affinity rules")


def test_pods_are_spread_over_zones_and_refused_where_the_skew_would_be_too_large(world: World) -> None:
    zones(world)
    skew = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    for number in range(4):
        a_pod(world, f"pod-{number}", {"app": "web"}, topologySpreadConstraints=[skew])
        world.bound(f"pod-{number}")
    found = sorted(world.node_of(f"pod-{number}")[0] for number in range(4))
    assert found == ["a", "a", "b", "b"]
    here = {"nodeSelector": {"kind": "a"}, "topologySpreadConstraints": [{**skew, "nodeAffinityPolicy": "Ignore"}]}
    a_pod(world, "fits", {"app": "web"}, **here)
    world.bound("fits")
    a_pod(world, "pod", {"app": "web"}, **here)
    world.refused("pod", "2 node(s) didn't match pod topology spread constraints")


def test_pods_of_a_service_are_spread_where_they_do_not_say_how(world: World) -> None:
    """The other node has less room, and is better all the same."""
    zones(world)
    for number in range(3):
        on(world, "a-0", f"there-{number}", app="web")
    for node in ("a-1", "b-0"):
        requests = {"resources": {"requests": {"cpu": "30"}}}
        container = {"name": "c", "image": "none", **requests}
        a_pod(world, f"large-{node}", nodeName=node, schedulerName="nobody", containers=[container])
    a_pod(world, "alone", {"app": "web"})
    assert world.node_of("alone") == "a-0"
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    world.api.create(an_object(SERVICE, "web", spec, NAMESPACE))
    seen = 'dra_scheduler_watch_objects{resource="services"}'
    world.await_metric(seen, len(world.api.list(SERVICE)))
    a_pod(world, "served", {"app": "web"})
    assert world.node_of("served") != "a-0"


# What brings a waiting pod back


def test_pod_that_is_needed_brings_back_the_one_that_needs_it(world: World) -> None:
    zones(world)
    a_pod(world, "pod", affinity=near(a_term(WEB)))
    world.refused("pod", "3 node(s) didn't match pod affinity rules")
    world.await_queue("pod", queue="unschedulable")
    on(world, "b-0", "there", app="web")
    assert world.node_of() == "b-0"


def test_pod_that_is_in_the_way_and_goes_brings_back_the_one_that_it_kept_away(world: World) -> None:
    """It matches one of two terms."""
    world.a_node("a-0")
    on(world, "a-0", "there", app="web")
    a_pod(world, "pod", affinity=away(a_term(WEB), a_term({"matchLabels": {"app": "other"}})))
    world.refused("pod", "1 node(s) didn't match pod anti-affinity rules")
    world.await_queue("pod", queue="unschedulable")
    world.delete_pod("there")
    assert world.node_of() == "a-0"


def test_last_match_that_goes_brings_back_a_pod_that_is_the_first_of_its_kind_then(world: World) -> None:
    world.a_node("a-0", allocatable={"pods": "1"})
    world.a_node("b-0")
    on(world, "a-0", "there", app="web")
    a_pod(world, "pod", {"app": "web"}, affinity=near(a_term(WEB)))
    world.refused("pod", "didn't match pod affinity rules")
    world.await_queue("pod", queue="unschedulable")
    world.delete_pod("there")
    world.bound()


def test_pod_that_has_nothing_to_do_with_a_waiting_one_does_not_bring_it_back(world: World) -> None:
    zones(world)
    for number in range(2):
        on(world, "b-0", f"there-{number}", app="other")
    a_pod(world, "pod", affinity=near(a_term(WEB)))
    before = world.await_queue("pod", queue="unschedulable")
    attempts = world.attempts("unschedulable")
    assert attempts > 0
    for number in range(2):
        world.delete_pod(f"there-{number}")
    await_pods(world, 1)
    assert world.queue()["pod"] == before
    assert world.attempts("unschedulable") == attempts


def test_pods_of_other_namespaces_count_by_the_labels_of_those(world: World) -> None:
    zones(world)
    metadata = {"name": "blue", "labels": {"team": "blue"}}
    world.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    term = a_term(WEB, namespaceSelector={"matchLabels": {"team": "blue"}})
    a_pod(world, "pod", affinity=near(term))
    world.refused("pod", "3 node(s) didn't match pod affinity rules")
    world.await_queue("pod", queue="unschedulable")
    spec = {"schedulerName": "nobody", "nodeName": "b-0", "containers": [{"name": "c", "image": "none"}]}
    pod = an_object(POD, "there", spec, "blue")
    world.api.create({**pod, "metadata": {**pod["metadata"], "labels": {"app": "web"}}})
    assert world.node_of() == "b-0"
