"""The four verbs as kube-scheduler sends them: recorded once, kept in `golden/`, and compared with what it sends now.

Both forms are there: with names of nodes, as an extender gets them that is `nodeCacheCapable`, and with whole objects.
`python -m tests.integration.extender.golden` records them anew, with the programs of `tests.controlplane`.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.controlplane import binaries
from tests.controlplane.contents import READY, ensure_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rest import CLAIM, CLASS, NODE, POD, TEMPLATE, Json, Kind, RestClient
from tests.integration.extender.recorder import Recorder

FOLDER = Path(__file__).with_name("golden")
NAMESPACE = "golden"
NODES = ("node-0", "node-1")
PRIORITY = Kind("scheduling.k8s.io/v1", "PriorityClass")
BUDGET = Kind("policy/v1", "PodDisruptionBudget")

_VOLATILE = {
    "uid": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "claim": re.compile(r"pod-made-[a-z0-9]{5}"),
}
_STABLE = {"time": "2026-01-01T00:00:00Z", "claim": "pod-made-xxxxx"}


def record(plane: ControlPlane, *, with_names: bool) -> Iterator[tuple[str, Json]]:
    """Each verb with its request. with_names: the extender is `nodeCacheCapable`."""
    api = plane.client()
    with Recorder(api) as recorder:
        _furnish(api)
        scheduler = plane.start_scheduler(_configuration(recorder.url, with_names=with_names))
        try:
            for verb in ("filter", "prioritize", "bind"):
                yield verb, recorder.asked(verb)
            _let_nobody_fit(api)
            yield "preempt", recorder.asked("preempt")
        finally:
            scheduler.stop()


def _configuration(url: str, *, with_names: bool) -> Json:
    verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    extender = {"urlPrefix": url, **verbs, "weight": 1, "nodeCacheCapable": with_names}
    return {
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}}],
        "extenders": [extender],
    }


def _furnish(api: RestClient) -> None:
    """Two nodes, and a pod with two claims that has all it needs to be scheduled."""
    ensure_namespace(api, NAMESPACE)
    for value, name in enumerate(("low", "high")):
        api.create({**_object(PRIORITY, name), "value": value})
    for name in NODES:
        node = api.create(_object(NODE, name, labels={"kubernetes.io/hostname": name}))
        api.replace_status({**node, "status": READY})
    api.create({**_object(CLASS, "gpu"), "spec": {}})
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    api.create({**_object(CLAIM, "claim", NAMESPACE), "spec": spec})
    api.create({**_object(TEMPLATE, "template", NAMESPACE), "spec": {"spec": spec}})
    claims = [
        {"name": "own", "resourceClaimName": "claim"},
        {"name": "made", "resourceClaimTemplateName": "template"},
    ]
    api.create(_pod("pod", resourceClaims=claims))
    api.await_all(POD, lambda pods: any("resourceClaimStatuses" in pod["status"] for pod in pods), NAMESPACE)


def _let_nobody_fit(api: RestClient) -> None:
    """A pod on each node that takes all of its cpu, one of them under a budget, and one that is more important."""
    rule = {"minAvailable": 1, "selector": {"matchLabels": {"name": "low-0"}}}
    api.create({**_object(BUDGET, "budget", NAMESPACE), "spec": rule})
    for node in NODES:
        api.create(_pod(node.replace("node", "low"), cpu="90", nodeName=node, priorityClassName="low"))
    api.create(_pod("high", cpu="90", priorityClassName="high"))


def _pod(name: str, cpu: str = "1", **spec: object) -> Json:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return {**_object(POD, name, NAMESPACE, labels={"name": name}), "spec": spec}


def _object(kind: Kind, name: str, namespace: str = "", labels: Mapping[str, str] | None = None) -> Json:
    metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels or {}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def forget_priorities(api: RestClient) -> None:
    """What a control plane would keep from one recording to the next."""
    for name in ("low", "high"):
        api.delete(PRIORITY, name)
    api.delete(BUDGET, "budget", NAMESPACE)


def path_of(verb: str, *, with_names: bool) -> Path:
    """Where the request is kept."""
    return FOLDER / f"{verb}{'' if with_names else '-with-objects'}.json"


def kept(verb: str, *, with_names: bool) -> Json:
    """The request that was recorded once."""
    found: Json = json.loads(path_of(verb, with_names=with_names).read_text())
    return found


def shape(value: object) -> object:
    """What a value is made of: keys and types, and of a list each shape once."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        shapes = {json.dumps(shape(inner)) for inner in value}
        return [json.loads(one) for one in sorted(shapes)]
    return type(value).__name__


def stable(request: Json) -> str:
    """The request as text, with stand-ins for what differs from one recording to the next."""
    text = json.dumps(request, indent=2, sort_keys=True)
    uids = dict.fromkeys(match[0] for match in _VOLATILE["uid"].finditer(text))
    for number, uid in enumerate(uids, 1):
        text = text.replace(uid, f"00000000-0000-0000-0000-{number:012}")
    for name, stand_in in _STABLE.items():
        text = _VOLATILE[name].sub(stand_in, text)
    return re.sub(r'("resourceVersion": )"\d+"', r'\1"1"', text) + "\n"


def main() -> None:
    """Record all."""
    FOLDER.mkdir(exist_ok=True)
    programs = binaries.find(os.environ, print)
    for with_names in (True, False):
        with tempfile.TemporaryDirectory() as folder, ControlPlane(programs, Path(folder) / "plane") as plane:
            for verb, request in record(plane, with_names=with_names):
                path_of(verb, with_names=with_names).write_text(stable(request))


if __name__ == "__main__":
    main()
