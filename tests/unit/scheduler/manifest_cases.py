"""Manifests as people write them, with what a real API server says: validating strictly, as for kubectl apply, and not.

An integration test asks the server; a unit test holds `dra lint` to it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.unit.scheduler.manifests import (
    Json,
    a_claim,
    a_class,
    a_pod,
    a_request,
    a_slice,
    a_template,
    an_object,
)

NAMESPACE = "ml"


class ManifestCase(NamedTuple):
    """is_applied: kubectl apply succeeds. is_stored: a client that does not validate succeeds."""

    raw: Json
    is_applied: bool
    is_stored: bool


def _claim(*requests: Json, version: str = "v1", **spec: Any) -> Json:
    body = {"devices": {"requests": list(requests)}, **spec}
    return {**an_object(f"resource.k8s.io/{version}", "ResourceClaim", "c", NAMESPACE), "spec": body}


def _pod(*entries: Json, container: Mapping[str, Any] | None = None, **spec: Any) -> Json:
    containers = [{"name": "main", "image": "registry.example/main", **(container or {})}]
    return a_pod("p", namespace=NAMESPACE, entries=list(entries), containers=containers, **spec)


def _selecting(*selectors: Json) -> Json:
    return a_claim("c", a_request(selectors=list(selectors)), namespace=NAMESPACE)


def _rule(version: str) -> Json:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint}
    return {**an_object(f"resource.k8s.io/{version}", "DeviceTaintRule", "r"), "spec": spec}


def _using(*entries: Json) -> Json:
    return _pod(DEV, container={"resources": {"claims": list(entries)}})


def _with_metadata(raw: Json, **fields: Any) -> Json:
    return {**raw, "metadata": {**raw["metadata"], **fields}}


def _template_with(**metadata: Any) -> Json:
    template = a_template("t", a_request(), namespace=NAMESPACE)
    return {**template, "spec": {**template["spec"], "metadata": metadata}}


TRUE = {"cel": {"expression": "true"}}
DEV = {"name": "dev", "resourceClaimName": "c"}
USES_DEV = {"resources": {"claims": [{"name": "dev", "request": "gpu"}]}}

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "owner-uid"}

MANIFEST_CASES: Mapping[str, ManifestCase] = {
    "claim": ManifestCase(_selecting(TRUE), is_applied=True, is_stored=True),
    "claim of v1beta1": ManifestCase(
        _claim({"name": "gpu", "deviceClassName": "gpu"}, version="v1beta1"), is_applied=True, is_stored=True
    ),
    "claim of v1alpha3": ManifestCase(
        _claim({"name": "gpu", "deviceClassName": "gpu"}, version="v1alpha3"), is_applied=False, is_stored=False
    ),
    **{
        f"taint rule of {version}": ManifestCase(_rule(version), is_applied=is_served, is_stored=is_served)
        for version, is_served in (("v1", False), ("v1beta2", True), ("v1alpha3", True))
    },
    **{
        f"{raw['kind']} in a namespace": ManifestCase(
            _with_metadata(raw, namespace=NAMESPACE), is_applied=True, is_stored=True
        )
        for raw in (a_class("gpu", expressions=["true"]), a_slice("s", node="n"), _rule("v1beta2"))
    },
    "request of v1beta1 in v1": ManifestCase(
        a_template("t", {"name": "gpu", "deviceClassName": "gpu"}, namespace=NAMESPACE),
        is_applied=False,
        is_stored=False,
    ),
    "request of v1 in v1beta1": ManifestCase(
        _claim({"name": "gpu", "exactly": {"deviceClassName": "gpu"}}, version="v1beta1"),
        is_applied=False,
        is_stored=False,
    ),
    "class beside exactly": ManifestCase(
        _claim({"name": "gpu", "deviceClassName": "gpu", "exactly": {"count": 2}}), is_applied=False, is_stored=False
    ),
    "count beside exactly": ManifestCase(
        _claim({**a_request(), "count": 2}),
        is_applied=False,
        is_stored=True,
    ),
    "expression beside cel": ManifestCase(
        _selecting({"cel": None, "expression": "true"}), is_applied=False, is_stored=False
    ),
    "config beside devices": ManifestCase(_claim(a_request(), config=[]), is_applied=False, is_stored=True),
    "misspelt field": ManifestCase(_claim(a_request(alocationMode="All")), is_applied=False, is_stored=True),
    "constraint in a request": ManifestCase(
        _claim({**a_request(), "matchAttribute": "a.example/b"}), is_applied=False, is_stored=True
    ),
    "admin access of a subrequest": ManifestCase(
        _claim({"name": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "adminAccess": True}]}),
        is_applied=False,
        is_stored=True,
    ),
    "admin access without the label": ManifestCase(
        _claim(a_request(adminAccess=True, allocationMode="All")), is_applied=False, is_stored=False
    ),
    "selector that does not compile": ManifestCase(
        _selecting({"cel": {"expression": "device.driver =="}}), is_applied=False, is_stored=False
    ),
    "pod": ManifestCase(_pod(DEV, container=USES_DEV), is_applied=True, is_stored=True),
    "claim of a pod by its source": ManifestCase(
        _pod({"name": "dev", "source": {"resourceClaimName": "c"}}), is_applied=False, is_stored=False
    ),
    "misspelt template": ManifestCase(_pod({**DEV, "resourceClaimTemplate": "t"}), is_applied=False, is_stored=True),
    "claims beside resources": ManifestCase(
        _pod(DEV, container={"claims": [{"name": "dev"}]}), is_applied=False, is_stored=True
    ),
    "claims of the pod in a container": ManifestCase(
        _pod(DEV, container={"resourceClaims": [DEV]}), is_applied=False, is_stored=True
    ),
    "misspelt request of a container": ManifestCase(
        _pod(DEV, container={"resources": {"claims": [{"name": "dev", "requests": ["gpu"]}]}}),
        is_applied=False,
        is_stored=True,
    ),
    "misspelt claims of a pod": ManifestCase(_pod(resourceclaims=[DEV]), is_applied=False, is_stored=True),
    "claim that the pod does not have": ManifestCase(_pod(container=USES_DEV), is_applied=False, is_stored=False),
    **{
        f"claim used twice: {name}": ManifestCase(_using(*entries), is_applied=is_valid, is_stored=is_valid)
        for name, is_valid, entries in (
            ("whole", False, [{"name": "dev"}, {"name": "dev"}]),
            ("whole and a request", False, [{"name": "dev"}, {"name": "dev", "request": "a"}]),
            ("a request and whole", False, [{"name": "dev", "request": "a"}, {"name": "dev"}]),
            ("one request", False, [{"name": "dev", "request": "a"}, {"name": "dev", "request": "a"}]),
            ("two requests", True, [{"name": "dev", "request": "a"}, {"name": "dev", "request": "b"}]),
        )
    },
    "request that is no label": ManifestCase(
        _using({"name": "dev", "request": "A_B"}), is_applied=False, is_stored=False
    ),
    "request without text": ManifestCase(_using({"name": "dev", "request": ""}), is_applied=True, is_stored=True),
    "claims of a whole pod": ManifestCase(
        _pod(DEV, container=USES_DEV, resources={"claims": [{"name": "dev"}]}), is_applied=False, is_stored=False
    ),
    **{
        f"template of claims with {field} {value}": ManifestCase(
            _template_with(**{field: value}), is_applied=is_valid, is_stored=is_valid
        )
        for field, value, is_valid in (
            ("name", "x", False),
            ("generateName", "x-", False),
            ("namespace", NAMESPACE, False),
            ("finalizers", ["example.com/hold"], False),
            ("name", "", True),
            ("creationTimestamp", None, True),
            ("labels", {"app": "x"}, True),
        )
    },
    **{
        f"finalizers of a {raw['kind']}: {', '.join(finalizers)}": ManifestCase(
            _with_metadata(raw, finalizers=finalizers), is_applied=is_valid, is_stored=is_valid
        )
        for raw in (_selecting(TRUE), _pod(DEV, container=USES_DEV))
        for finalizers, is_valid in (
            (["bad fin"], False),
            (["orphan", "foregroundDeletion"], False),
            (["example.com/hold"], True),
        )
    },
    **{
        f"owners of a {raw['kind']}: {what}": ManifestCase(
            _with_metadata(raw, ownerReferences=owners), is_applied=is_valid, is_stored=is_valid
        )
        for raw in (_selecting(TRUE), _pod(DEV, container=USES_DEV))
        for what, owners, is_valid in (
            ("complete", [OWNER], True),
            *((f"without {field}", [{**OWNER, field: ""}], False) for field in OWNER),
            ("of an unreadable version", [{**OWNER, "apiVersion": "a/b/c"}], False),
            ("without a version", [{**OWNER, "apiVersion": "apps/"}], False),
            ("an Event", [{**OWNER, "kind": "Event"}], False),
            ("one controller of two", [{**OWNER, "controller": True}, {**OWNER, "uid": "other"}], True),
            ("two controllers", [{**OWNER, "controller": True}, {**OWNER, "uid": "other", "controller": True}], False),
        )
    },
    "toleration of an unknown operator": ManifestCase(
        _pod(tolerations=[{"key": "k", "operator": "Exist"}]), is_applied=False, is_stored=False
    ),
}
"""By what is odd about them."""
