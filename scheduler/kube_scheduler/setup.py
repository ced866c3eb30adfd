"""The configuration of kube-scheduler that calls the extender: what `dra extender config` writes.

It has none of the `traps`, unless the options ask for one. Only fields that differ from kube-scheduler's defaults are
written.
Source: docs/extender.md, "The two modes".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from allocator.api.versions import Json
from allocator.gates import DEFAULT_RELEASE, EXTENDED_RESOURCE, RELEASES, Release
from scheduler.extender.configuration import Mode
from scheduler.kube_scheduler.configuration import API_VERSION, DEFAULT_SCHEDULER, DYNAMIC_RESOURCES, KIND
from scheduler.kube_scheduler.traps import EVERY_NODE, GATES_FLAG, is_locked

KUBE_SYSTEM = "kube-system"
"""Where kube-scheduler has its lease unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The requested setup."""

    mode: Mode
    schedulers: Sequence[str]
    """The names of profiles, at least one."""
    url: str
    """Of the extender, without the verb."""
    ca_file: str
    cert_file: str
    key_file: str
    """ca_file, cert_file, key_file: as kube-scheduler finds them; not used over plain HTTP."""
    http_timeout_s: int
    weight: int | None = None
    """Of the extender's scores among those of the plugins; None where the policy counts in filter alone."""
    kubeconfig: str = ""
    """With which kube-scheduler reaches the API server; empty: as its pod's own account."""
    namespace: str = KUBE_SYSTEM
    """Of a second kube-scheduler's lease."""
    release: Release = RELEASES[DEFAULT_RELEASE]
    """Of kube-scheduler."""


def document(setup: Setup) -> Json:
    """The KubeSchedulerConfiguration."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **({"clientConnection": {"kubeconfig": setup.kubeconfig}} if setup.kubeconfig else {}),
        **_lease(setup),
        "percentageOfNodesToScore": EVERY_NODE,
        "profiles": [_profile(name, setup.mode) for name in setup.schedulers],
        "extenders": [_extender(setup)],
    }


def flags(setup: Setup) -> list[str]:
    """With which flags, beside the configuration, kube-scheduler has to be started."""
    is_named = setup.mode is Mode.AUTHORITATIVE and not is_locked(EXTENDED_RESOURCE, setup.release)
    return [f"{GATES_FLAG}={EXTENDED_RESOURCE}=false"] if is_named else []


def _lease(setup: Setup) -> Json:
    """A second kube-scheduler has a lease of its own; the first keeps its default."""
    if DEFAULT_SCHEDULER in setup.schedulers:
        return {}
    elsewhere = {} if setup.namespace == KUBE_SYSTEM else {"resourceNamespace": setup.namespace}
    return {"leaderElection": {"resourceName": setup.schedulers[0], **elsewhere}}


def _profile(name: str, mode: Mode) -> Json:
    if mode is Mode.ADVISORY:
        return {"schedulerName": name}
    return {"schedulerName": name, "plugins": {"multiPoint": {"disabled": [{"name": DYNAMIC_RESOURCES}]}}}


def _extender(setup: Setup) -> Json:
    is_authoritative = setup.mode is Mode.AUTHORITATIVE
    return {
        "urlPrefix": setup.url,
        "filterVerb": "filter",
        **({"prioritizeVerb": "prioritize", "weight": setup.weight} if setup.weight is not None else {}),
        **({"preemptVerb": "preempt", "bindVerb": "bind"} if is_authoritative else {}),
        "nodeCacheCapable": True,
        "ignorable": not is_authoritative,
        "httpTimeout": f"{setup.http_timeout_s}s",
        **(_tls(setup) if urlsplit(setup.url).scheme == "https" else {}),
    }


def _tls(setup: Setup) -> Json:
    files = {"caFile": setup.ca_file, "certFile": setup.cert_file, "keyFile": setup.key_file}
    return {"enableHTTPS": True, "tlsConfig": files}
