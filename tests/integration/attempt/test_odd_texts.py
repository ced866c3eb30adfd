"""Claims with JSON of users and drivers that is spelled otherwise than we would: the API server keeps it as text."""

from scheduler.attempt.claim_objects import consumers_of
from scheduler.attempt.decision import Bound, Gone, Retry
from scheduler.state.claims import FINALIZER
from tests.controlplane.faults import meanwhile
from tests.controlplane.rest import CLAIM, Json
from tests.integration.attempt.scene import (
    BINDING,
    CLAIM_ITSELF,
    DRIVER,
    NAMESPACE,
    NODE,
    POOL,
    Scene,
    allocation_json,
    gets,
    keeps,
    reservation,
)

ODD = {"apiVersion": "gpu.example/v1", "kind": "Options", "name": "\u00e9", "much": 1e22}
"""Written as \\u00e9 and 1e+22; by us it would be two bytes, and 1e22."""

CONFIG = {"opaque": {"driver": DRIVER, "parameters": ODD}}


def an_odd_claim(scene: Scene) -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    metadata = {"name": "claim", "namespace": NAMESPACE}
    spec = {"devices": {"requests": [request], "config": [CONFIG]}}
    return scene.api.create({"apiVersion": CLAIM.api_version, "kind": CLAIM.kind, "metadata": metadata, "spec": spec})


def test_claim_with_odd_parameters_is_allocated_and_keeps_them(scene: Scene) -> None:
    claim = an_odd_claim(scene)
    assert scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0"))) == Bound(NODE)
    stored = scene.claim()
    assert stored["spec"] == claim["spec"]
    assert stored["metadata"]["finalizers"] == [FINALIZER]


def test_claim_with_odd_parameters_is_left_as_it_was_by_an_attempt_that_came_to_nothing(scene: Scene) -> None:
    claim = an_odd_claim(scene)
    labelled = {**claim["metadata"], "annotations": {"team": "a"}, "finalizers": ["other.example/keep"]}
    claim = scene.api.replace({**claim, "metadata": labelled})
    scene.proxy.on("PATCH", CLAIM_ITSELF, meanwhile(lambda: setattr(scene.watched, "reason", "the pool has changed")))
    outcome = scene.bind(scene.a_decision(scene.a_pod("claim"), gets(claim, "gpu-0")))
    assert outcome == Retry("the pool has changed")
    stored = scene.claim()["metadata"]
    assert (stored["annotations"], stored["finalizers"]) == ({"team": "a"}, ["other.example/keep"])
    scene.api.replace({**claim, "metadata": {**stored, "finalizers": []}})


def test_claim_that_somebody_else_allocated_with_odd_parameters_is_shared_and_given_back(scene: Scene) -> None:
    claim = an_odd_claim(scene)
    first = scene.a_pod("claim", name="first")
    allocation = allocation_json("gpu-0")
    allocation = {**allocation, "devices": {**allocation["devices"], "config": [{"source": "FromClaim", **CONFIG}]}}
    reported = {"driver": DRIVER, "pool": POOL, "device": "gpu-0", "data": ODD}
    status = {"allocation": allocation, "reservedFor": [reservation(first)]}
    held = scene.api.replace_status({**claim, "status": status})
    held = scene.api.replace_status({**held, "status": {**held["status"], "devices": [reported]}})
    second, third = (scene.a_pod("claim", name=name) for name in ("second", "third"))
    assert scene.bind(scene.a_decision(second, keeps(held))) == Bound(NODE)
    scene.proxy.on("POST", BINDING, meanwhile(lambda: scene.delete_pod("third")))
    assert scene.bind(scene.a_decision(third, keeps(scene.claim()))) == Gone("pod work/third no longer exists")
    stored = scene.claim()
    assert consumers_of(stored) == (first["metadata"]["uid"], second["metadata"]["uid"])
    assert stored["status"]["allocation"] == held["status"]["allocation"]
