"""kube-scheduler with our extender beside it: how both are set up, and a cluster to try them on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.certificates import Certificates
from tests.controlplane.identities import EXTENDER
from tests.controlplane.ours import Extender
from tests.controlplane.plane import ControlPlane, free_ports
from tests.controlplane.process import Process
from tests.controlplane.profiles import EXTENDER_FLAGS, chosen
from tests.controlplane.proxy import Proxy
from tests.controlplane.rest import CLAIM, POD, Json, RestClient
from tests.integration.live.world import NAMESPACE, World, claims_of, is_allocated, users_of

SCHEDULER = "dra-kube-scheduler"
"""The profile whose pods the extender allocates for."""

IN_TREE = "in-tree"
"""A profile that keeps the plugin."""

TIMEOUT_S = 30
SCORED_ALL = 100


@dataclass(frozen=True, slots=True)
class Door:
    """Where our extender listens, and what both sides need to know of it. settings: further ones of ours."""

    certificates: Certificates
    folder: Path
    settings: Mapping[str, object] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_ports(1)[0])

    @property
    def url(self) -> str:
        """What goes before the verb and its slash."""
        return f"https://127.0.0.1:{self.port}/v1"

    def extender(self, plane: ControlPlane, proxy: Proxy) -> Extender:
        """Our program, started; its calls of the API server go through the proxy."""
        path = self.folder / f"extender-{self.port}.json"
        kind = {"apiVersion": "dra-scheduler.dev/v1alpha1", "kind": "DraExtenderConfiguration"}
        own = {
            "schedulerNames": [SCHEDULER],
            "address": f"127.0.0.1:{self.port}",
            "tls": self.certificates.tls_of_extender(),
            "httpTimeoutSeconds": TIMEOUT_S,
            "logging": {"level": "debug"},
            "featureGates": dict(chosen().said),
        }
        path.write_text(json.dumps({**kind, **own, **self.settings}))
        return Extender(plane, [f"--config={path}"], kubeconfig=proxy.kubeconfig(EXTENDER))

    def entry(self, **fields: object) -> Json:
        """Our extender in a KubeSchedulerConfiguration. fields: others than those that are meant to be."""
        tls = {"enableHTTPS": True, "tlsConfig": self.certificates.tls_of_scheduler()}
        return an_entry(self.url, **{**tls, **fields})


def an_entry(url: str, **fields: object) -> Json:
    """An extender in a KubeSchedulerConfiguration that does all that one can do."""
    verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    usual = {"weight": 5, "nodeCacheCapable": True, "ignorable": False, "httpTimeout": f"{TIMEOUT_S}s"}
    return {"urlPrefix": url, **verbs, **usual, **fields}


def start_kube_scheduler(plane: ControlPlane, extender: Json, *, with_in_tree: bool = False) -> Process:
    """kube-scheduler with the extender. with_in_tree: also with a profile that keeps the plugin."""
    without = {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}
    profiles: list[Json] = [{"schedulerName": SCHEDULER, "plugins": without}]
    if with_in_tree:
        profiles.append({"schedulerName": IN_TREE})
    configuration = {
        "profiles": profiles,
        "extenders": [extender],
        "percentageOfNodesToScore": SCORED_ALL,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "clientConnection": {"qps": 5000, "burst": 5000},
    }
    return plane.start_scheduler(configuration, flags=EXTENDER_FLAGS)


class Beside(World):
    """One test's cluster, whose pods are kube-scheduler's and ours together."""

    def __init__(self, plane: ControlPlane, proxy: Proxy, extender: Extender, door: Door) -> None:
        super().__init__(plane, proxy, extender)
        self.door = door

    def a_pod(
        self,
        name: str = "pod",
        *claims: str,
        template: str = "",
        requests: Mapping[str, str] | None = None,
        **spec: object,
    ) -> Json:
        """A pod of the profile without the plugin, once the extender has seen all devices."""
        of_profile = {"schedulerName": SCHEDULER, "terminationGracePeriodSeconds": 0, **spec}
        return super().a_pod(name, *claims, template=template, requests=requests, **of_profile)

    def check(self) -> None:
        """And no pod is bound with a claim that is not allocated for it."""
        super().check()
        assert unallocated(self.api) == []


def unallocated(api: RestClient) -> list[str]:
    """The bound pods that have a claim which is not allocated for them."""
    bound = [pod for pod in api.list(POD, NAMESPACE) if "nodeName" in pod["spec"]]
    # After the pods: those of a pod that is bound meanwhile are allocated before.
    claims = {claim["metadata"]["name"]: claim for claim in api.list(CLAIM, NAMESPACE)}
    return [pod["metadata"]["name"] for pod in bound if not has_all(pod, claims)]


def has_all(pod: Json, claims: Mapping[str, Json]) -> bool:
    """Whether all claims of the pod are allocated, and reserved for it."""
    if "resourceClaims" not in pod["spec"]:
        return True
    found = [claims.get(name, {}) for name in claims_of(pod)]
    is_theirs = [is_allocated(claim) and pod["metadata"]["name"] in users_of(claim) for claim in found]
    return len(found) == len(pod["spec"]["resourceClaims"]) and all(is_theirs)
