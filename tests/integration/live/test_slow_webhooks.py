"""A webhook that takes long: its pods wait for as long as the API server does and say so, and nobody else waits."""

from threading import Event

from tests.controlplane.rest import CLAIM, POD, Json
from tests.controlplane.webhook import Webhook
from tests.integration.live.world import SCHEDULER, World, a_request, an_object, reported

SETTINGS = {"bindingConcurrency": 4}
SLOW, GOOD = 12, 6
NAMESPACE = "slow"
HELD_S = 25


def a_slow_pod(world: World, name: str) -> None:
    """A pod and its claim of the same name."""
    world.api.create(an_object(CLAIM, name, {"devices": {"requests": [a_request()]}}, NAMESPACE))
    claims = [{"name": "claim", "resourceClaimName": name}]
    spec = {"schedulerName": SCHEDULER, "containers": [{"name": "c", "image": "none"}], "resourceClaims": claims}
    world.api.create(an_object(POD, name, spec, NAMESPACE))


def slow_pods(world: World) -> list[Json]:
    return world.api.list(POD, NAMESPACE)


def are_told(world: World) -> bool:
    """Whether some pods say that they wait for an answer, and the others that they wait for these."""
    messages = [(reported(pod) or {}).get("message", "") for pod in slow_pods(world)]
    begins = f"waiting for the API server's answer to a write of claim {NAMESPACE}/"
    answers = sum(message.startswith(begins) for message in messages)
    share = messages.count(f"writes in namespace {NAMESPACE} take long, and its pods are tried 2 at a time")
    return answers > 0 and share > 0 and answers + share == SLOW


def test_pods_behind_a_slow_webhook_wait_for_it_and_say_so_and_delay_no_other(world: World) -> None:
    """It answers long after four seconds; more pods wait for it than may write at a time."""
    answered = Event()

    def wait(request: Json) -> Json:
        if request["resource"]["resource"] == "resourceclaims":
            answered.wait(HELD_S)
        return {}

    world.a_cluster(nodes=2, devices=SLOW)
    with Webhook(world.plane, [NAMESPACE], wait):
        for number in range(SLOW):
            a_slow_pod(world, f"slow-{number}")
        for number in range(GOOD):
            world.a_claim(f"good-{number}")
            world.a_pod(f"good-{number}", f"good-{number}")
        for number in range(GOOD):
            world.bound(f"good-{number}")
        world.program.await_ready(lambda: are_told(world))
        assert world.metric('scheduler_pending_pods{queue="in_flight"}') > 0
        answered.set()
        world.api.await_all(POD, lambda pods: all("nodeName" in pod["spec"] for pod in pods), NAMESPACE)
    assert world.metric('dra_scheduler_rollbacks_total{reason="retry"}') == 0
