"""Of pods and nodes, what a real API server refuses is told, and what it takes passes: as far as placement reads it."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.input.documents import Place, RawObject
from scheduler.input.inventory import take_inventory
from tests.controlplane.profiles import ALL, RELEASE
from tests.controlplane.rest import ApiError, RestClient
from tests.integration.conftest import Planes

Spec = Mapping[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/gpu"


CLAIM = {"name": "g", "resourceClaimName": "c"}
MAIN = {"name": "main", "image": "registry.example/main"}


def of_container(**resources: Any) -> Spec:
    return {"containers": [{**MAIN, "resources": resources}]}


def affine_to(term: Spec) -> Spec:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def apart(**term: Any) -> Spec:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}}


REFUSED: Mapping[str, Spec] = {
    "toleration of nothing": {"tolerations": [{}]},
    "toleration of an effect without an operator": {"tolerations": [{"effect": "NoSchedule"}]},
    "toleration of existence with a value": {"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]},
    "toleration of an unknown operator": {"tolerations": [{"key": "k", "operator": "exists"}]},
    "toleration of an unknown effect": {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedul"}]},
    "toleration with a key that is none": {"tolerations": [{"key": "a b", "operator": "Exists"}]},
    "toleration with a value that is none": {"tolerations": [{"key": "k", "value": "a b"}]},
    "toleration for a while of what evicts nobody": {
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]
    },
    "node selector with a key that is none": {"nodeSelector": {"a b": "c"}},
    "node selector with a value that is none": {"nodeSelector": {"a": "b c"}},
    "affinity of no term": {"affinity": {"nodeAffinity": {REQUIRED: {}}}},
    "affinity by an unknown operator": affine_to({"matchExpressions": [{"key": "a", "operator": "in"}]}),
    "affinity by a key that is none": affine_to({"matchExpressions": [{"key": "-a", "operator": "Exists"}]}),
    "affinity by another field": affine_to(
        {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a"]}]}
    ),
    "anti-affinity to a namespace that is none": apart(namespaces=[["ml"]]),
    "anti-affinity to namespaces that are none": apart(namespaces=5),
    "anti-affinity by labels that are none": apart(labelSelector={"matchLabels": "a"}),
    "anti-affinity by an expression of nothing": apart(labelSelector={"matchExpressions": [{}]}),
    "gate that is there twice": {"schedulingGates": 2 * [{"name": "later"}]},
    "claims beside the containers' resources": {"containers": [{**MAIN, "claims": [{"name": "gpu"}]}]},
    "claim that the pod does not have": of_container(claims=[{"name": "gpu"}]),
    "devices without a limit": of_container(requests={"example.com/gpu": "1"}),
    "fewer devices than their limit": of_container(requests={"example.com/gpu": "1"}, limits={"example.com/gpu": "2"}),
    "more than the limit": of_container(requests={"cpu": "2"}, limits={"cpu": "1500m"}),
    "more of a class than the limit": of_container(requests={CLASS_RESOURCE: "2"}, limits={CLASS_RESOURCE: "1"}),
}

TAKEN: Mapping[str, Spec] = {
    "toleration of everything": {"tolerations": [{"operator": "Exists"}]},
    "toleration of one value": {"tolerations": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
    "toleration for a while": {
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]
    },
    "anti-affinity": apart(namespaceSelector={}, labelSelector={"matchLabels": {"a": "b"}}),
    "spread over what no label can be called": {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "DoNotSchedule"}]
    },
    "a claim for a container": {
        **of_container(claims=[{"name": "gpu", "request": "one"}]),
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
    },
    "devices": of_container(limits={"example.com/gpu": "1"}),
    "devices, as many as their limit": of_container(
        requests={"example.com/gpu": "1000m"}, limits={"example.com/gpu": "1"}
    ),
    "devices of a class without a limit": of_container(requests={CLASS_RESOURCE: "1"}),
    "fewer devices of a class than the limit": of_container(
        requests={CLASS_RESOURCE: "1"}, limits={CLASS_RESOURCE: "2"}
    ),
}

MISPLACED: Mapping[str, Spec] = {
    "claims of a Job": {"resourceClaims": []},
    "claims of a template": {"template": {"resourceClaims": []}},
    "claims of a container in a template": {"template": {"spec": {"containers": [{**MAIN, "claims": []}]}}},
}

GROUPS: Mapping[str, Spec] = {
    "that has nothing wrong": {},
    "with an unknown field": {"minCount": 2},
    "with an unknown field in its policy": {"schedulingPolicy": {"gang": {"minCount": 2, "min": 2}}},
    "with a field of a later version": {"preemptionPolicy": "Never"},
    "with a claim of both sources": {"resourceClaims": [{**CLAIM, "resourceClaimTemplateName": "c"}]},
    "with a claim of no source": {"resourceClaims": [{"name": "g"}]},
    "with a claim twice": {"resourceClaims": 2 * [CLAIM]},
    "with four claims": {"resourceClaims": [{**CLAIM, "name": f"g{number}"} for number in range(4)]},
    "with five claims": {"resourceClaims": [{**CLAIM, "name": f"g{number}"} for number in range(5)]},
    "with a claim whose name is none": {"resourceClaims": [{**CLAIM, "name": "G"}]},
}

TAINTS: Mapping[str, Spec] = {
    "of no effect": {"key": "k"},
    "of an unknown effect": {"key": "k", "effect": "NoSchedul"},
    "of no key": {"key": "", "effect": "NoSchedule"},
    "of a value that is none": {"key": "k", "value": "a b", "effect": "NoSchedule"},
}


def a_pod(spec: Spec) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "default"},
        "spec": {**of_container(), **spec},
    }


def reported_of(raw: Mapping[str, Any]) -> list[str]:
    inventory = take_inventory([RawObject(Place("input.yaml", 1), raw)])
    return [str(finding) for finding in (*inventory.errors, *inventory.warnings)]


@pytest.mark.parametrize("name", REFUSED)
def test_pod_that_the_server_refuses_is_reported(api: RestClient, name: str) -> None:
    with pytest.raises(ApiError):
        api.create(a_pod(REFUSED[name]), is_dry=True)
    assert reported_of(a_pod(REFUSED[name]))


@pytest.mark.parametrize("name", TAKEN)
def test_pod_that_the_server_takes_passes(api: RestClient, name: str) -> None:
    api.create(a_pod(TAKEN[name]), is_dry=True)
    assert reported_of(a_pod(TAKEN[name])) == []


@pytest.mark.parametrize("name", TAINTS)
def test_node_with_a_taint_that_the_server_refuses_is_reported(api: RestClient, name: str) -> None:
    raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}, "spec": {"taints": [TAINTS[name]]}}
    with pytest.raises(ApiError):
        api.create(raw, is_dry=True)
    assert reported_of(raw)


@pytest.mark.parametrize("name", MISPLACED)
def test_workload_with_misplaced_claims_is_reported(api: RestClient, name: str) -> None:
    spec = {"template": {"spec": {**of_container(), "restartPolicy": "Never"}}}
    misplaced = MISPLACED[name]
    template = {**spec["template"], **misplaced.get("template", {})}
    template["spec"] = {**spec["template"]["spec"], **misplaced.get("template", {}).get("spec", {})}
    raw = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {**misplaced, "template": template},
    }
    with pytest.raises(ApiError, match="unknown field"):
        api.create(raw, is_dry=True)
    assert reported_of(raw)


@pytest.mark.skipif(RELEASE != "1.36", reason="the version of groups of 1.36")
@pytest.mark.parametrize("name", GROUPS)
def test_group_is_judged_as_the_server_does(planes: Planes, name: str) -> None:
    raw = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "group", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **GROUPS[name]},
    }
    try:
        planes.of(ALL).client().create(raw, is_dry=True)
    except ApiError:
        assert reported_of(raw)
    else:
        assert reported_of(raw) == []
