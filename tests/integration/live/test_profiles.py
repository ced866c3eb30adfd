"""Several scheduler names in one process: pods that ask for the same go where their own profile says."""

from tests.controlplane.rest import Json
from tests.integration.live.world import SCHEDULER, World

PACKING, ROOMY, ANYWHERE, TIDY = "packing", "roomy", "anywhere", "tidy"
STRATEGY = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
SETTINGS: Json = {
    "profiles": [
        {"schedulerName": SCHEDULER},
        {
            "schedulerName": PACKING,
            "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": STRATEGY}],
        },
        {
            "schedulerName": ROOMY,
            "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 100}]}},
        },
        {"schedulerName": ANYWHERE, "plugins": {"multiPoint": {"disabled": [{"name": "NodeUnschedulable"}]}}},
        {"schedulerName": TIDY, "policy": "pack"},
    ]
}
PREFERRED: Json = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["used"]}]},
            }
        ]
    }
}


def one_used_of_two(world: World) -> None:
    """Half of the cpu of `used-0` is taken by a pod of nobody's."""
    for name in ("empty-0", "used-0"):
        world.a_node(name)
    world.a_pod("there", schedulerName="nobody", nodeName="used-0", requests={"cpu": "48"})


def test_strategies_of_profiles_fill_nodes_or_spread_over_them(world: World) -> None:
    one_used_of_two(world)
    for profile in (SCHEDULER, PACKING):
        world.a_pod(profile, schedulerName=profile, requests={"cpu": "1"})
    assert world.node_of(SCHEDULER) == "empty-0"
    assert world.node_of(PACKING) == "used-0"


def test_weights_of_profiles_decide_between_what_a_pod_prefers_and_room(world: World) -> None:
    one_used_of_two(world)
    for profile in (SCHEDULER, ROOMY):
        world.a_pod(profile, schedulerName=profile, requests={"cpu": "1"}, affinity=PREFERRED)
    assert world.node_of(SCHEDULER) == "used-0"
    assert world.node_of(ROOMY) == "empty-0"


def test_plugin_that_a_profile_switches_off_refuses_none_of_its_pods_and_goes_on_for_others(world: World) -> None:
    world.a_node(unschedulable=True)
    for profile in (SCHEDULER, ANYWHERE):
        world.a_pod(profile, schedulerName=profile)
    assert world.node_of(ANYWHERE) == "node-0"
    world.refused(SCHEDULER, "1 node(s) were unschedulable")


def test_policies_of_profiles_choose_devices_of_nodes_in_use_or_nodes_with_more_room(world: World) -> None:
    world.a_cluster(nodes=2, devices=3)
    world.a_claim("there")
    world.a_pod("there", "there", nodeSelector={"kubernetes.io/hostname": "node-1"}, requests={"cpu": "48"})
    world.bound("there")
    for profile, node in ((TIDY, "node-1"), (SCHEDULER, "node-0")):
        world.a_claim(profile)
        world.a_pod(profile, profile, schedulerName=profile, requests={"cpu": "1"})
        assert world.node_of(profile) == node


def test_pod_whose_scheduler_has_no_profile_is_left_alone(world: World) -> None:
    world.a_cluster()
    for name in ("theirs", "claimed"):
        world.a_claim(name)
    theirs = world.a_pod("theirs", "theirs", schedulerName="default-scheduler")
    world.a_pod("claimed", "claimed", schedulerName=PACKING)
    assert world.devices_of("claimed") == ["node-0/gpu-0"]
    assert world.pod("theirs")["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    assert "theirs" not in world.queue()
    assert world.proxy.writes(r"theirs") == []


def test_attempts_are_counted_and_reported_by_the_profile_of_the_pod(world: World) -> None:
    """Prometheus sees who schedules, and `kubectl describe pod` who has said so."""
    world.a_node(unschedulable=True)
    refused, scheduled = (world.attempts("unschedulable", PACKING), world.attempts("scheduled", ANYWHERE))
    world.a_pod("waiting", schedulerName=PACKING)
    world.await_queue("waiting", queue="unschedulable")
    world.a_pod("placed", schedulerName=ANYWHERE)
    for pod, reason, profile in (("waiting", "FailedScheduling", PACKING), ("placed", "Scheduled", ANYWHERE)):
        (event,) = world.events(pod, reason)
        assert event["reportingController"] == profile
        assert event["reportingInstance"].startswith(f"{profile}-")
    assert world.attempts("unschedulable", PACKING) == refused + 1
    assert world.attempts("scheduled", ANYWHERE) == scheduled + 1
    waiting = 'scheduler_unschedulable_pods{{plugin="NodeUnschedulable",profile="{}"}}'
    assert world.metric(waiting.format(PACKING)) == 1
    assert world.metric(waiting.format(SCHEDULER)) == 0
