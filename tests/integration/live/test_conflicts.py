"""The whole program behind a connection that goes wrong: every pod is placed, nothing is taken twice or left over."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from tests.controlplane.faults import (
    HALF_A_LINE,
    Fault,
    HangUp,
    Hold,
    Stream,
    Then,
    cut_before,
    error_event,
    lose_answer,
    meanwhile,
    refuse,
    send_twice,
    withhold_answer,
)
from tests.controlplane.identities import OURS
from tests.controlplane.ours import Scheduler
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.proxy import Proxy, Request
from tests.controlplane.rest import CLAIM, POD, Json, Kind, RestClient
from tests.integration.attempt.conftest import await_right
from tests.integration.attempt.scene import POD_ITSELF
from tests.integration.live.crowd import (
    BIND,
    GPU,
    NAMESPACE,
    W1,
    W2,
    WITHIN_S,
    a_claim,
    a_pod,
    await_placed,
    empty,
    furnish,
    placed,
    refused,
    send,
    wrongs,
)
from tests.integration.live.world import reported

NODES, DEVICES, PODS = 4, 3, 8
ROLE = Kind("rbac.authorization.k8s.io/v1", "ClusterRole")

WRITES = (W1, W2, BIND)

TRIES = 12
"""More than one attempt makes of one write."""

NAMES = [f"pod-{number}" for number in range(PODS)]


@dataclass(frozen=True, slots=True)
class Scene:
    """A fleet, and our scheduler, which reaches the API server through the proxy."""

    plane: ControlPlane
    api: RestClient
    proxy: Proxy
    program: Scheduler

    def place(self, *names: str) -> None:
        """The pods come, and get nodes."""
        send(self.plane, [a_pod(name, GPU) for name in names])
        await_placed(self.api, len(names))

    def metrics(self) -> str:
        return self.program.reported("/metrics")

    def await_readyz(self, text: str) -> None:
        """Wait until /readyz says so."""
        self.program.await_ready(lambda: text in self.program.reported("/readyz?verbose"), WITHIN_S)


@pytest.fixture(scope="module")
def shared(plane: ControlPlane, proxy: Proxy, program: Scheduler) -> Scene:
    """One for all tests: what one fault leaves behind in the program would be found by the next test."""
    furnish(plane.client(), NODES, DEVICES)
    return Scene(plane, plane.client(), proxy, program)


@pytest.fixture
def scene(shared: Scene) -> Iterator[Scene]:
    yield shared
    shared.proxy.forget_rules()
    found = wrongs(shared.api)
    empty(shared.plane)
    assert found == []
    assert [str(write) for write in shared.proxy.writes() if not is_guarded(write)] == []


def is_guarded(write: Request) -> bool:
    """Whether the write can only change what was read before; an event is new each time."""
    return write.path.startswith("/apis/events.k8s.io/") or bool(write.sent["metadata"].get("resourceVersion"))


def test_every_write_of_claims_and_pods_names_the_version_that_it_builds_on(scene: Scene) -> None:
    scene.place(*NAMES)
    send(scene.plane, [a_pod(f"more-{number}", GPU) for number in range(NODES * DEVICES)])
    scene.api.await_all(POD, lambda pods: len(refused(pods)) == PODS, NAMESPACE, WITHIN_S)
    kinds = {(write.method, write.path.rpartition("/")[2]) for write in scene.proxy.writes("/pods/")}
    assert kinds == {("POST", "binding"), ("PATCH", "status")}
    assert all(is_guarded(write) for write in scene.proxy.writes())


FAULTS: Mapping[str, tuple[Fault, int]] = {
    "conflict": (refuse(409, "Conflict"), 1),
    "conflict again and again": (refuse(409, "Conflict"), TRIES),
    "done, and then a conflict": (send_twice(409, "Conflict"), PODS),
    "put off": (refuse(429, "TooManyRequests", retry_after_s=0), 3),
    "put off again and again": (refuse(429, "TooManyRequests", retry_after_s=0), TRIES),
    "server in trouble": (refuse(500, "InternalError"), 1),
    "server in trouble again and again": (refuse(500, "InternalError"), TRIES),
    "server in trouble though it was done": (send_twice(500, "InternalError"), PODS),
    "answer lost, done": (lose_answer, PODS),
    "answer lost, not done": (cut_before, 2),
    "answer lost again and again, not done": (cut_before, TRIES),
    "no answer for long, done": (HangUp(2, is_done=True), 1),
    "no answer for long, not done": (HangUp(2, is_done=False), 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_pod_is_placed_though_each_of_its_writes_may_go_wrong(scene: Scene, fault: str) -> None:
    wrong, times = FAULTS[fault]
    rules = [scene.proxy.on(*write, wrong, times=times) for write in WRITES]
    scene.place(*NAMES)
    assert all(rule.matched >= times for rule in rules)


def test_pod_whose_binding_is_stored_and_not_answered_is_known_to_be_bound_without_a_call(scene: Scene) -> None:
    """The watch shows it: nobody waits until the call's time is up, to read the pod then."""
    rule, before = scene.proxy.on(*BIND, withhold_answer), len(scene.proxy.requests)
    scene.place("pod")
    rule.met.wait()
    poll_until(lambda shown: "dra_scheduler_bindings_in_flight 0" in shown, scene.metrics, "no attempt under way")
    reads = [one for one in scene.proxy.requests[before:] if one.method == "GET"]
    assert [one for one in reads if re.search(POD_ITSELF, one.path)] == []


def test_pod_says_that_nobody_knows_whether_it_is_bound_and_is_bound_once_that_is_known(scene: Scene) -> None:
    scene.proxy.on(*BIND, refuse(500, "InternalError"), times=None)
    scene.proxy.on("GET", POD_ITSELF, refuse(503, "ServiceUnavailable"), times=None)
    send(scene.plane, [a_pod("pod", GPU)])
    (pod,) = scene.api.await_all(POD, lambda pods: any(map(reported, pods)), NAMESPACE)
    said = f"it is not known yet whether pod {NAMESPACE}/pod is bound to node node-"
    assert (reported(pod) or {})["message"].startswith(said)
    scene.proxy.forget_rules()
    await_placed(scene.api, 1)


def test_pod_says_that_it_waits_for_its_claims_to_be_shown(scene: Scene) -> None:
    """The watch has fallen silent since they were written, and a list of them is not answered."""
    hold = Hold()
    scene.proxy.on("GET", "/resourceclaims$", hold, where=lambda request: not request.is_watch, times=None)
    scene.proxy.on(*W2, meanwhile(lambda: scene.proxy.silence_watches("/resourceclaims$")))
    send(scene.plane, [a_pod("pod", GPU)])
    (pod,) = scene.api.await_all(POD, lambda pods: any(map(reported, pods)), NAMESPACE)
    awaited = "waiting for the API server to show its claims as they were written, and those of others"
    assert (reported(pod) or {})["message"] == awaited
    hold.release()
    scene.proxy.cut_watches()
    await_placed(scene.api, 1)


def test_pod_follows_its_claim_where_somebody_else_allocates_it_between_our_writes(scene: Scene) -> None:
    def allocate() -> None:
        (claim,) = scene.api.list(CLAIM, NAMESPACE)
        scene.api.replace_status({**claim, "status": {"allocation": an_allocation("node-3", "dev-2")}})

    rule = scene.proxy.on(*W2, meanwhile(allocate))
    scene.place("pod")
    rule.met.wait()
    (pod,) = scene.api.list(POD, NAMESPACE)
    assert pod["spec"]["nodeName"] == "node-3"


def an_allocation(node: str, device: str) -> Json:
    """As another scheduler writes it, on that node alone."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    results = [{"request": "r", "driver": GPU, "pool": node, "device": device}]
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}


def test_pod_gets_another_device_where_somebody_else_takes_its_own_between_our_writes(scene: Scene) -> None:
    rival = scene.api.create(a_claim("rival"))
    taken: list[Json] = []

    def take() -> None:
        wanted = json.loads(scene.proxy.writes(W2[1])[-1].body)["status"]["allocation"]
        taken.extend(wanted["devices"]["results"])
        user = {"resource": "pods", "name": "theirs", "uid": theirs["metadata"]["uid"]}
        scene.api.replace_status({**rival, "status": {"allocation": wanted, "reservedFor": [user]}})

    theirs = scene.api.create(a_pod("theirs", scheduler="theirs"))
    rule = scene.proxy.on(*W2, meanwhile(take))
    scene.place("pod")
    rule.met.wait()
    ours = [claim for claim in scene.api.list(CLAIM, NAMESPACE) if claim["metadata"]["name"] != "rival"]
    (result,) = ours[0]["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) != (taken[0]["pool"], taken[0]["device"])
    scene.api.delete(CLAIM, "rival", NAMESPACE)
    scene.api.delete(POD, "theirs", NAMESPACE)


@pytest.mark.needs("DRAResourceClaimGranularStatusAuthorization")
def test_without_the_right_to_bind_claims_readyz_says_so_and_nothing_is_left_on_claims(scene: Scene) -> None:
    role = {"apiVersion": ROLE.api_version, "kind": ROLE.kind, **scene.api.get(ROLE, "dra-scheduler")}
    rules = [rule for rule in role["rules"] if rule["resources"] != ["resourceclaims/binding"]]
    scene.api.replace({**role, "metadata": {"name": "dra-scheduler"}, "rules": rules})
    await_right(scene.plane.client(OURS), resource="resourceclaims", subresource="binding", is_given=False)
    send(scene.plane, [a_pod(name, GPU) for name in NAMES])
    scene.await_readyz("[-]writes failed")
    assert "resourceclaims/binding" in scene.program.reported("/readyz")
    scene.api.await_all(CLAIM, lambda claims: not any(map(is_marked, claims)), NAMESPACE, WITHIN_S)
    assert placed(scene.api.list(POD, NAMESPACE)) == []

    scene.api.replace({**role, "metadata": {"name": "dra-scheduler"}})
    await_placed(scene.api, PODS)
    scene.await_readyz("[+]writes ok")


def is_marked(claim: Json) -> bool:
    """Whether something of an attempt is on the claim."""
    return bool(claim["metadata"].get("finalizers") or claim.get("status"))


COMPACTED = refuse(410, "Expired", "too old resource version")


def is_resumed(request: Request) -> bool:
    """Whether it is a watch that goes on from a version."""
    return request.is_watch and "resourceVersion" in request.query


@pytest.mark.parametrize("which", ["", "/resourceclaims", "/pods"])
def test_attempt_goes_on_though_watches_are_cut_in_the_middle_of_it(scene: Scene, which: str) -> None:
    held = Hold()
    rule = scene.proxy.on(*W2, held, times=None)
    send(scene.plane, [a_pod(name, GPU) for name in NAMES])
    rule.met.wait()
    poll_until(bool, lambda: scene.proxy.cut_watches(which), "watches")
    held.release()
    await_placed(scene.api, PODS)


def test_attempt_goes_on_though_the_watch_of_claims_falls_silent(scene: Scene) -> None:
    held = Hold()
    rule = scene.proxy.on(*W2, held, times=None)
    send(scene.plane, [a_pod("pod", GPU)])
    rule.met.wait()
    poll_until(bool, lambda: scene.proxy.silence_watches("/resourceclaims"), "a watch")
    held.release()
    await_placed(scene.api, 1)
    scene.proxy.cut_watches("/resourceclaims")


def test_versions_that_are_compacted_while_watches_are_cut_are_listed_anew(scene: Scene) -> None:
    held = Hold()
    rule = scene.proxy.on(*W2, held, times=None)
    send(scene.plane, [a_pod(name, GPU) for name in NAMES])
    rule.met.wait()
    watches = poll_until(bool, scene.proxy.watches, "watches")
    gone = scene.proxy.on("GET", "", COMPACTED, where=is_resumed, times=len(watches))
    scene.proxy.cut_watches()
    held.release()
    await_placed(scene.api, PODS)
    gone.met.wait()


@pytest.mark.needs("WatchList")
def test_no_devices_are_given_while_slices_are_listed_anew(scene: Scene) -> None:
    held = Hold()
    poll_until(bool, lambda: scene.proxy.watches("/resourceslices"), "a watch")  # the test before has cut it
    scene.proxy.on("GET", "/resourceslices", COMPACTED, where=is_resumed)
    listing = scene.proxy.on("GET", "/resourceslices", held, where=lambda request: "sendInitialEvents" in request.query)
    scene.proxy.cut_watches("/resourceslices")
    listing.met.wait()
    before = len(scene.proxy.writes("/resourceclaims/"))
    send(scene.plane, [a_pod("pod", GPU)])
    scene.program.await_ready(lambda: '"active"' in scene.program.reported("/debug/queue"), WITHIN_S)
    assert len(scene.proxy.writes("/resourceclaims/")) == before
    held.release()
    await_placed(scene.api, 1)


@pytest.mark.parametrize("last", [error_event(410, "Expired"), error_event(500, "InternalError"), HALF_A_LINE])
def test_watches_that_break_again_and_again_delay_pods_and_no_more(scene: Scene, last: bytes) -> None:
    """After every other event, each watch ends."""
    rule = scene.proxy.on("GET", "", Stream(2, Then.RESET, last), where=is_resumed, times=40)
    scene.proxy.cut_watches()
    scene.place(*NAMES)
    rule.met.wait()
