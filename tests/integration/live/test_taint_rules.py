"""What a cluster does not have as it comes, but by gates and versions of the API: DeviceTaintRules."""

from tests.controlplane.profiles import ALL
from tests.controlplane.rest import Kind
from tests.integration.live.world import World, a_request

PROFILE = ALL
RULE = Kind("resource.k8s.io/v1beta2", "DeviceTaintRule")


def test_rule_taints_devices_until_it_is_deleted(world: World) -> None:
    world.a_cluster(nodes=2)
    taint = {"key": "example.com/maintenance", "effect": "NoSchedule"}
    selector = {"pool": "node-0"}
    spec = {"deviceSelector": selector, "taint": taint}
    world.api.create({"apiVersion": RULE[0], "kind": RULE[1], "metadata": {"name": "rule"}, "spec": spec})
    world.await_metric('dra_scheduler_watch_objects{resource="devicetaintrules"}', 1)
    for name in ("first", "second"):
        world.a_claim(name)
    world.a_pod("first", "first")
    assert world.devices_of("first") == ["node-1/gpu-0"]
    world.a_pod("second", "second")
    world.refused("second", "2 cannot allocate all claims")
    world.api.delete(RULE, "rule")
    assert world.devices_of("second") == ["node-0/gpu-0"]


def test_claim_that_tolerates_the_taint_of_a_rule_gets_the_device(world: World) -> None:
    world.a_cluster()
    spec = {"deviceSelector": {"driver": "gpu.example"}, "taint": {"key": "example.com/slow", "effect": "NoSchedule"}}
    world.api.create({"apiVersion": RULE[0], "kind": RULE[1], "metadata": {"name": "rule"}, "spec": spec})
    world.await_metric('dra_scheduler_watch_objects{resource="devicetaintrules"}', 1)
    world.a_claim("claim", a_request(tolerations=[{"key": "example.com/slow", "operator": "Exists"}]))
    world.a_pod("pod", "claim")
    assert world.devices_of() == ["node-0/gpu-0"]
