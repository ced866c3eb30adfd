"""Nodes, devices, claims and pods on a real control plane, and what our scheduler makes of them.

A driver, a kubelet and a user are played by the test, as the administrator. Nothing here waits for time: it waits for
the API server to show something, or asks the scheduler itself until it does.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path

from tests.controlplane.contents import READY, ensure_namespace
from tests.controlplane.ours import Program
from tests.controlplane.plane import ControlPlane
from tests.controlplane.polling import poll_until
from tests.controlplane.profiles import chosen
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import (
    ATTACHMENT,
    CLAIM,
    CLASS,
    CSI_CAPACITY,
    CSI_DRIVER,
    CSI_NODE,
    NODE,
    POD,
    SLICE,
    STORAGE_CLASS,
    TEMPLATE,
    VOLUME,
    VOLUME_CLAIM,
    ApiError,
    Json,
    Kind,
)

NAMESPACE = "live"
DRIVER = "gpu.example"
SCHEDULER = "dra-scheduler"
EVENT = Kind("events.k8s.io/v1", "Event")
PRIORITY = Kind("scheduling.k8s.io/v1", "PriorityClass")
FINALIZER = "resource.kubernetes.io/delete-protection"

_COUNTED = {
    "nodes": NODE,
    "resourceslices": SLICE,
    "deviceclasses": CLASS,
    "resourceclaims": CLAIM,
    "persistentvolumes": VOLUME,
    "persistentvolumeclaims": VOLUME_CLAIM,
    "storageclasses": STORAGE_CLASS,
    "csidrivers": CSI_DRIVER,
    "csistoragecapacities": CSI_CAPACITY,
    "csinodes": CSI_NODE,
    "volumeattachments": ATTACHMENT,
}


def settings_file(folder: Path, **settings: object) -> Path:
    """A configuration of our scheduler, with short backoffs and without a lease unless told otherwise."""
    path = folder / "config.json"
    kind = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraSchedulerConfiguration"}
    usual = {
        "podInitialBackoffSeconds": 0.1,
        "podMaxBackoffSeconds": 1,
        "leaderElection": {"leaderElect": False},
        "featureGates": dict(chosen().said),
    }
    path.write_text(json.dumps({**kind, **usual, **settings}))
    return path


class World:
    """One test's cluster."""

    def __init__(self, plane: ControlPlane, proxy: Proxy, program: Program) -> None:
        self.plane = plane
        self.api = plane.client()
        self.proxy = proxy
        self.program = program
        ensure_namespace(self.api, NAMESPACE)

    # -- what is there

    def a_node(self, name: str = "node-0", *, allocatable: Mapping[str, str] | None = None, **spec: object) -> Json:
        """A node that is ready; its labels are its host name and, up to its first dash, its kind."""
        labels = {"kubernetes.io/hostname": name, "kind": name.partition("-")[0]}
        metadata = {"name": name, "labels": labels}
        room = {"cpu": "96", "memory": "1Ti", "pods": "110", **(allocatable or {})}
        status = {**READY, "allocatable": room, "capacity": room}
        # In one write, as a kubelet does: nobody sees it without its room.
        kind = {"apiVersion": NODE.api_version, "kind": NODE.kind}
        return self.api.create({**kind, "metadata": metadata, "spec": spec, "status": status})

    def a_slice(self, name: str = "node-0", *devices: Json, **spec: object) -> Json:
        """A slice of a pool of that name, by default on the node of that name and alone in its pool."""
        reach = {} if {"nodeSelector", "allNodes", "perDeviceNodeSelection"} & spec.keys() else {"nodeName": name}
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        listed = {"devices": list(devices)} if devices else {}
        fields = {"driver": DRIVER, "pool": pool, **listed, **reach, **spec}
        return self.api.create(an_object(SLICE, f"{name}.{fields['driver']}", fields))

    def a_class(self, name: str = "gpu", driver: str = DRIVER, **spec: object) -> Json:
        """A class of all devices of the driver."""
        selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
        return self.api.create(an_object(CLASS, name, {"selectors": selectors, **spec}))

    def a_cluster(self, nodes: int = 1, devices: int = 1) -> None:
        """So many nodes with so many devices each, gpu-0 and so on, and a class for them."""
        self.a_class()
        for number in range(nodes):
            self.a_node(f"node-{number}")
            self.a_slice(f"node-{number}", *some_devices(devices))

    def a_claim(self, name: str = "claim", *requests: Json, **fields: object) -> Json:
        """A claim, by default for one device of the class gpu. fields: further ones of spec.devices."""
        return self.api.create(an_object(CLAIM, name, _claim_spec(requests, fields), NAMESPACE))

    def a_template(self, name: str = "template", *requests: Json, **fields: object) -> Json:
        """A template of such claims."""
        return self.api.create(an_object(TEMPLATE, name, {"spec": _claim_spec(requests, fields)}, NAMESPACE))

    def a_pod(
        self,
        name: str = "pod",
        *claims: str,
        template: str = "",
        requests: Mapping[str, str] | None = None,
        **spec: object,
    ) -> Json:
        """A pod for our scheduler, once that has seen all devices. claims: by their names; template: of one more."""
        self.await_seen()
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        entries += [{"name": "made", "resourceClaimTemplateName": template}] if template else []
        container = {"name": "c", "image": "none", "resources": {"requests": requests or {}}}
        fields = {"schedulerName": SCHEDULER, "containers": [container], "resourceClaims": entries, **spec}
        return self.api.create(an_object(POD, name, fields, NAMESPACE))

    def a_priority(self, name: str, value: int, **fields: object) -> None:
        """A class of pods; the API server's admission has seen it."""
        kind = {"apiVersion": PRIORITY.api_version, "kind": PRIORITY.kind}
        self.api.create({**kind, "metadata": {"name": name}, "value": value, **fields})
        spec = {"containers": [{"name": "c", "image": "none"}], "priorityClassName": name}
        pod = an_object(POD, f"of-{name}", spec, NAMESPACE)
        poll_until(bool, lambda: self._is_admitted(pod), f"a pod of the class {name} is admitted")

    # -- what is so now

    def pod(self, name: str = "pod") -> Json:
        return self.api.get(POD, name, NAMESPACE)

    def claim(self, name: str = "claim") -> Json:
        return self.api.get(CLAIM, name, NAMESPACE)

    def queue(self) -> dict[str, Json]:
        """What our scheduler says of the pods that wait, by their names."""
        return {one["pod"].partition("/")[2]: one for one in json.loads(self.program.reported("/debug/queue"))}

    def metric(self, series: str) -> float:
        """The value of a series, named with its labels in the order of the exposition; 0 while it is not there."""
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.program.reported("/metrics"), re.MULTILINE)
        return float(found[1]) if found else 0.0

    # -- what comes

    def bound(self, name: str = "pod") -> Json:
        """The pod as soon as it has a node."""
        return self.pod_when(name, lambda pod: "nodeName" in pod["spec"])

    def node_of(self, name: str = "pod") -> str:
        """The node of the pod, as soon as it has one."""
        return str(self.bound(name)["spec"]["nodeName"])

    def devices_of(self, name: str = "pod") -> list[str]:
        """The devices that the pod's claims have when it is bound, as pool/device, in the order of the claims."""
        pod = self.bound(name)
        return [place(one) for claim in claims_of(pod) for one in results_of(self.claim(claim))]

    def refused(self, name: str = "pod", text: str = "") -> Json:
        """The condition that tells the pod why it has no node, as soon as there is one with this text."""
        pod = self.pod_when(name, lambda pod: bool((found := reported(pod)) and text in found["message"]))
        found = reported(pod)
        assert found is not None
        return found

    def pod_when(self, name: str, holds: Callable[[Json], bool]) -> Json:
        return self._when(POD, name, holds)

    def claim_when(self, name: str, holds: Callable[[Json], bool]) -> Json:
        return self._when(CLAIM, name, holds)

    def gone(self, kind: Kind, name: str) -> None:
        """Return when there is no such object any more."""
        self.api.await_all(kind, lambda found: not any(one["metadata"]["name"] == name for one in found), NAMESPACE)

    def events(self, name: str, reason: str) -> list[Json]:
        """The events of that reason about the pod, when there is one."""
        uid = self.pod(name)["metadata"]["uid"]

        def of_pod(found: Sequence[Json]) -> list[Json]:
            return [one for one in found if one["regarding"].get("uid") == uid and one["reason"] == reason]

        return of_pod(self.api.await_all(EVENT, lambda found: bool(of_pod(found)), NAMESPACE))

    def attempts(self, result: str, profile: str = SCHEDULER) -> float:
        """How many attempts at pods of the profile ended so."""
        return self.metric(f'scheduler_schedule_attempts_total{{profile="{profile}",result="{result}"}}')

    def await_queue(self, name: str, **fields: object) -> Json:
        """What our scheduler says of the pod, once these fields are so. PollTimeoutError otherwise."""
        queue = poll_until(
            lambda queue: fields.items() <= queue.get(name, {}).items(),
            self.queue,
            f"{name} in /debug/queue with {fields}",
        )
        return queue[name]

    def await_metric(self, series: str, value: float) -> None:
        """Return when the series has the value. PollTimeoutError otherwise."""
        poll_until(lambda found: found == value, lambda: self.metric(series), f"{series} {value}")

    def await_seen(self) -> None:
        """Return when our scheduler has seen as many nodes, devices, classes and claims as there are."""
        poll_until(lambda seen: all(one == there for one, there in seen.values()), self._seen, "objects seen and there")

    # -- what others do

    def delete_pod(self, name: str = "pod") -> None:
        """As a kubelet does once the containers have ended."""
        self.api.delete(POD, name, NAMESPACE)

    def end_pod(self, name: str = "pod", phase: str = "Succeeded") -> None:
        """As a kubelet tells it."""
        self.update_pod(name, lambda pod: {**pod["status"], "phase": phase})

    def update_pod(self, name: str, status: Callable[[Json], Json]) -> None:
        """Write the pod's status, made of how it is now, whoever writes it meanwhile."""
        self.api.change_status(POD, name, NAMESPACE, lambda pod: {**pod, "status": status(pod)})

    def leave_gates(self, name: str = "pod", *gates: Json) -> None:
        """Take all other scheduling gates of the pod away."""
        self.api.change(POD, name, NAMESPACE, lambda pod: {**pod, "spec": {**pod["spec"], "schedulingGates": gates}})

    def report(self, claim: str, condition: str, message: str = "by the driver") -> None:
        """The condition of all devices of the claim, as their driver writes it."""
        time = "2026-01-01T00:00:00Z"
        said = {"type": condition, "status": "True", "reason": "Told", "message": message, "lastTransitionTime": time}

        def told(stored: Json) -> Json:
            of_device = [
                {**{key: one[key] for key in ("driver", "pool", "device")}, "conditions": [said]}
                for one in results_of(stored)
            ]
            return {**stored, "status": {**stored["status"], "devices": of_device}}

        self.api.change_status(CLAIM, claim, NAMESPACE, told)

    # -- what always holds

    def check(self) -> None:
        """The scheduler still runs, and never wrote a thing without the version that it builds on."""
        assert self.program.is_running, self.program.tail()
        for one in self.proxy.writes():
            if one.method == "PUT":
                assert one.sent["metadata"].get("resourceVersion"), str(one)

    def _seen(self) -> Mapping[str, tuple[float, int]]:
        """By resource, how many our scheduler has seen and how many there are: controllers take some away meanwhile."""
        return {
            resource: (self.metric(f'dra_scheduler_watch_objects{{resource="{resource}"}}'), len(self.api.list(kind)))
            for resource, kind in _COUNTED.items()
        }

    def _is_admitted(self, pod: Json) -> bool:
        try:
            self.api.create(pod, is_dry=True)
        except ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return False
        return True

    def _when(self, kind: Kind, name: str, holds: Callable[[Json], bool]) -> Json:
        named = partial(_named, name=name)
        found = self.api.await_all(kind, lambda objects: any(map(holds, named(objects))), NAMESPACE)
        return named(found)[0]


def _named(objects: Sequence[Json], name: str) -> list[Json]:
    return [one for one in objects if one["metadata"]["name"] == name]


def an_object(kind: Kind, name: str, spec: Mapping[str, object], namespace: str = "") -> Json:
    """An object as a user would write it."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": dict(spec)}


def a_device(name: str = "gpu-0", **fields: object) -> Json:
    """A device of a slice. fields: as the API spells them."""
    return {"name": name, **fields}


def some_devices(number: int) -> list[Json]:
    """That many devices alike but for their names: gpu-0, gpu-1 and so on."""
    return [a_device(f"gpu-{index}") for index in range(number)]


def a_request(name: str = "r", **exactly: object) -> Json:
    """A request for one device of the class gpu."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def _claim_spec(requests: Sequence[Json], fields: Mapping[str, object]) -> Json:
    return {"devices": {"requests": list(requests) or [a_request()], **fields}}


def claims_of(pod: Json) -> list[str]:
    """The names of the pod's claims, in the order of its entries; of those that have one."""
    made = {one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())}
    names = [entry.get("resourceClaimName") or made.get(entry["name"]) for entry in pod["spec"]["resourceClaims"]]
    return [name for name in names if name]


def results_of(claim: Json) -> list[Json]:
    """The devices that the claim has."""
    found: list[Json] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return found


def place(result: Json) -> str:
    """Where the device is: its pool and its name."""
    return f"{result['pool']}/{result['device']}"


def users_of(claim: Json) -> list[str]:
    """The names of the pods that the claim is reserved for."""
    return [one["name"] for one in claim.get("status", {}).get("reservedFor", ())]


def is_allocated(claim: Json) -> bool:
    return bool(claim.get("status", {}).get("allocation"))


def is_free(claim: Json) -> bool:
    """Whether the claim has no devices, and nothing keeps it."""
    return not is_allocated(claim) and not claim["metadata"].get("finalizers")


def reported(pod: Json) -> Json | None:
    """The condition that says that the pod has no node, if it has it."""
    for one in pod["status"].get("conditions", ()):
        if one["type"] == "PodScheduled" and one["status"] == "False":
            found: Json = one
            return found
    return None
