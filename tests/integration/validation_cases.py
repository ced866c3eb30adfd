"""Objects on which the API server and our decoder are compared: rich valid ones, and one broken rule at a time.

Limits stand in the decoder's own unit tests and are taken from there. Nothing here says what the answer is: that is
the API server's part.
"""

from collections.abc import Mapping
from typing import Any

from tests.unit.allocator.api.raw_objects import (
    DRIVER,
    Raw,
    a_claim,
    a_class,
    a_condition,
    a_device,
    a_request,
    a_result,
    a_rule,
    a_slice,
    a_slice_of,
    a_subrequest,
    a_taint,
    a_template,
    an_allocation,
    opaque,
)

SHARE = "00000000-1111-4222-8333-abcdefabcdef"
TRUE = {"cel": {"expression": "true"}}
ON_NODES = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [
                {"key": "example.com/zone", "operator": "In", "values": ["a", "b"]},
                {"key": "size", "operator": "Gt", "values": ["1"]},
            ],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
        }
    ]
}
POLICED = {
    "memory": {"value": "80Gi"},
    "cores": {"value": "100", "requestPolicy": {"default": "10", "validValues": ["10", "20"]}},
    f"{DRIVER}/bandwidth": {
        "value": "100",
        "requestPolicy": {"default": "10", "validRange": {"min": "10", "max": "50", "step": "10"}},
    },
}
TYPED = {
    "model": {"string": "H100"},
    f"{DRIVER}/index": {"int": 1},
    "driverVersion": {"version": "1.2.3-rc.1+build"},
    "healthy": {"bool": True},
    "links": {"strings": ["x", "y"]},
    "versions": {"versions": ["1.0.0"]},
}


def a_rich_claim(**status: Any) -> Raw:
    chosen = a_request(
        "chosen",
        selectors=[TRUE],
        count=2,
        tolerations=[{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 3}],
        capacity={"requests": {"memory": "1Gi", f"{DRIVER}/cores": "2"}},
    )
    every = a_subrequest("every", allocationMode="All", selectors=[TRUE])
    some = a_subrequest("some", count=3, tolerations=[{"operator": "Exists"}])
    return a_claim(
        chosen,
        {"name": "either", "firstAvailable": [every, some]},
        constraints=[
            {"matchAttribute": "example.com/numa", "requests": ["chosen", "either/every"]},
            {"distinctAttribute": "example.com/numa", "requests": ["either"]},
        ],
        config=[{"requests": ["chosen", "either/some"], **opaque(mode="fast")}],
        status=status or None,
    )


def a_rich_status() -> Raw:
    shared = a_result(
        request="chosen",
        tolerations=[{"operator": "Exists"}],
        bindingConditions=["ready"],
        bindingFailureConditions=["broken"],
        shareID=SHARE,
        consumedCapacity={"memory": "1Gi"},
    )
    config = [{"source": "FromClass", **opaque()}, {"source": "FromClaim", "requests": ["either/some"], **opaque()}]
    allocation = an_allocation(
        shared,
        a_result(request="either/some", device="gpu-1"),
        config=config,
        nodeSelector=ON_NODES,
        allocationTimestamp="2026-01-01T00:00:00Z",
    )
    network = {"interfaceName": "eth0", "ips": ["10.0.0.1/24"], "hardwareAddress": "aa:bb"}
    device = {"driver": DRIVER, "pool": "node-1", "device": "gpu-1", "conditions": [a_condition()], "data": {"a": 1}}
    return {
        "allocation": allocation,
        "reservedFor": [
            {"resource": "pods", "name": "p", "uid": "1"},
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "2"},
        ],
        "devices": [{**device, "networkData": network}],
    }


RICH: Mapping[str, Raw] = {
    "slice of devices": a_slice(
        devices=[
            a_device(
                "gpu-0",
                attributes=TYPED,
                capacity=POLICED,
                allowMultipleAllocations=True,
                taints=[a_taint(value="v", timeAdded="2026-01-01T00:00:00Z")],
                bindsToNode=True,
                bindingConditions=["example.com/ready"],
                bindingFailureConditions=["broken"],
                consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
            ),
            a_device("gpu-1"),
        ]
    ),
    "slice for nodes by label": a_slice(nodeSelector=ON_NODES, devices=[a_device()]),
    "slice with a selection per device": a_slice(
        perDeviceNodeSelection=True,
        devices=[
            a_device("one", nodeName="n"),
            a_device("two", nodeSelector=ON_NODES),
            a_device("three", allNodes=True),
        ],
    ),
    "slice of counters": a_slice(
        allNodes=True,
        sharedCounters=[
            {"name": "s", "counters": {"c": {"value": "1"}, "d": {"value": "2Gi"}}},
            {"name": "t", "counters": {"c": {"value": "1"}}},
        ],
    ),
    "class": a_class(selectors=[TRUE], config=[opaque(mode="fast")], extendedResourceName="example.com/gpu"),
    "claim": a_rich_claim(),
    "template": a_template(a_request(), metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}}),
    "claim with its status": a_rich_claim(**a_rich_status()),
    "taint rule": {
        **a_rule(deviceSelector={"driver": DRIVER, "pool": "p", "device": "d"}),
        "apiVersion": "resource.k8s.io/v1beta2",
    },
}

_SPECS: Mapping[str, Raw] = {
    "driver in capitals": {"driver": "GPU.example"},
    "driver with a slash": {"driver": "gpu/example"},
    "no driver": {"driver": None},
    "pool of two parts": {"pool": {"name": "a/b", "resourceSliceCount": 1}},
    "pool with an empty part": {"pool": {"name": "a//b", "resourceSliceCount": 1}},
    "pool without slices": {"pool": {"name": "a", "resourceSliceCount": 0}},
    "pool of a negative generation": {"pool": {"name": "a", "resourceSliceCount": 1, "generation": -1}},
    "no pool": {"pool": None},
    "no way to reach": {"nodeName": None},
    "two ways to reach": {"nodeName": "a", "allNodes": True},
    "all nodes said to be false": {"allNodes": False},
    "node of an empty name": {"nodeName": ""},
    "node selector of two terms": {"nodeSelector": {"nodeSelectorTerms": ON_NODES["nodeSelectorTerms"] * 2}},
    "node selector of no term": {"nodeSelector": {}},
    "devices and counters": {"devices": [], "sharedCounters": []},
    "counter set without a name": {"sharedCounters": [{"counters": {"c": {"value": "1"}}}]},
    "counter set without counters": {"sharedCounters": [{"name": "s"}]},
    "device without its own selection": {"perDeviceNodeSelection": True, "devices": [a_device()]},
    "device with a selection of its own": {"devices": [a_device(allNodes=True)]},
    "two devices of one name": {"devices": [a_device("a"), a_device("a")]},
    "two counter sets of one name": {"sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}] * 2},
    "device that is null": {"devices": [None]},
}

_DEVICES: Mapping[str, Raw] = {
    "device name in capitals": {"name": "GPU"},
    "device name with a dot": {"name": "gpu.0"},
    "attribute without a value": {"attributes": {"a": {}}},
    "attribute of two values": {"attributes": {"a": {"int": 1, "string": "x"}}},
    "attribute of a member to come": {"attributes": {"a": {"decimal": "1.5"}}},
    "attribute of an empty text": {"attributes": {"a": {"string": ""}}},
    "attribute of an empty list": {"attributes": {"a": {"ints": []}}},
    "attribute whose number is text": {"attributes": {"a": {"int": "5"}}},
    "attribute whose number is broken": {"attributes": {"a": {"int": 1.5}}},
    "attribute beyond 64 bits": {"attributes": {"a": {"int": 2**63}}},
    "attribute of the largest number": {"attributes": {"a": {"int": 2**63 - 1}}},
    "attribute name with a dash": {"attributes": {"a-b": {"int": 1}}},
    "attribute name without an identifier": {"attributes": {"example.com/": {"int": 1}}},
    "attribute name without a domain": {"attributes": {"/a": {"int": 1}}},
    "attribute name with two slashes": {"attributes": {"a/b/c": {"int": 1}}},
    "version of two parts": {"attributes": {"a": {"version": "1.2"}}},
    "version with a leading zero": {"attributes": {"a": {"version": "01.2.3"}}},
    "version with pre-release and build": {"attributes": {"a": {"version": "1.2.3-rc.1+5"}}},
    "entry of a list that is null": {"attributes": {"a": {"strings": [None]}}},
    "capacity that is no quantity": {"capacity": {"m": {"value": "much"}}},
    "capacity as a plain number": {"capacity": {"m": {"value": 4}}},
    "capacity without a value": {"capacity": {"m": {}}},
    "policy on a device that is not shared": {"capacity": POLICED},
    "policy of values and a range": {
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "9", "requestPolicy": {"default": "1", "validValues": ["1"], "validRange": {}}}},
    },
    "policy without a default": {
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "9", "requestPolicy": {"validValues": ["1"]}}},
    },
    "default beyond the value": {
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "9", "requestPolicy": {"default": "10"}}},
    },
    "valid values out of order": {
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "9", "requestPolicy": {"default": "1", "validValues": ["2", "1"]}}},
    },
    "valid values without the default": {
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "9", "requestPolicy": {"default": "3", "validValues": ["1", "2"]}}},
    },
    "range without a minimum": {
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "9", "requestPolicy": {"default": "1", "validRange": {"max": "5"}}}},
    },
    "range that the step does not meet": {
        "allowMultipleAllocations": True,
        "capacity": {
            "m": {"value": "9", "requestPolicy": {"default": "2", "validRange": {"min": "1", "max": "9", "step": "3"}}}
        },
    },
    "range with a step of zero": {
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "9", "requestPolicy": {"default": "2", "validRange": {"min": "1", "step": "0"}}}},
    },
    "taint without a key": {"taints": [{"effect": "NoSchedule"}]},
    "taint without an effect": {"taints": [{"key": "a"}]},
    "taint of a node's effect": {"taints": [a_taint(effect="PreferNoSchedule")]},
    "taint without consequence": {"taints": [a_taint(effect="None")]},
    "taint at no time": {"taints": [a_taint(timeAdded="yesterday")]},
    "conditions without failure conditions": {"bindingConditions": ["a"]},
    "condition on both sides": {"bindingConditions": ["a"], "bindingFailureConditions": ["a"]},
    "condition twice": {"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b"]},
    "counters of no set": {"consumesCounters": [{"counters": {"c": {"value": "1"}}}]},
    "no counters of a set": {"consumesCounters": [{"counterSet": "s"}]},
    "one set consumed twice": {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}] * 2},
    "compatibility group": {
        "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["A"]}]
    },
}

_TERMS: Mapping[str, Raw] = {
    "In without values": {"matchExpressions": [{"key": "a", "operator": "In"}]},
    "Exists with values": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
    "Gt with two values": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]},
    "Gt of what is no number": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]},
    "operator that is none": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["x"]}]},
    "key that is no label": {"matchExpressions": [{"key": "a/b/c", "operator": "Exists"}]},
    "value that is no label": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]},
    "field other than the name": {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a"]}]},
    "field of two names": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
    "field that is to exist": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
    "term of nothing": {},
}

_REQUESTS: Mapping[str, list[Any]] = {
    "no request": [],
    "request of nothing": [{"name": "r"}],
    "request of both forms": [{"name": "r", "exactly": {"deviceClassName": "gpu"}, "firstAvailable": [a_subrequest()]}],
    "request name in capitals": [a_request("R")],
    "two requests of one name": [a_request("r"), a_request("r")],
    "two subrequests of one name": [{"name": "r", "firstAvailable": [a_subrequest("a"), a_subrequest("a")]}],
    "subrequest name with a slash": [{"name": "r", "firstAvailable": [a_subrequest("a/b")]}],
    "no class": [a_request(deviceClassName="")],
    "class name in capitals": [a_request(deviceClassName="GPU")],
    "mode that is none": [a_request(allocationMode="Some")],
    "All with a count": [a_request(allocationMode="All", count=1)],
    "negative count": [a_request(count=-1)],
    "count as text": [a_request(count="1")],
    "selector without CEL": [a_request(selectors=[{}])],
    "selector without an expression": [a_request(selectors=[{"cel": {"expression": ""}}])],
    "selector that does not compile": [a_request(selectors=[{"cel": {"expression": "device.nothing"}}])],
    "toleration of an unknown operator": [a_request(tolerations=[{"operator": "Is"}])],
    "toleration of existence with a value": [a_request(tolerations=[{"operator": "Exists", "value": "v"}])],
    "toleration of everything by equality": [a_request(tolerations=[{"operator": "Equal"}])],
    "toleration of an unknown effect": [a_request(tolerations=[{"operator": "Exists", "effect": "Any"}])],
    "toleration that is null": [a_request(tolerations=[None])],
    "many tolerations": [a_request(tolerations=[{"operator": "Exists"}] * 17)],
    "capacity request that is no quantity": [a_request(capacity={"requests": {"m": "much"}})],
    "capacity request by a bad name": [a_request(capacity={"requests": {"a-b": "1"}})],
    "derived attribute": [a_request(derivedAttributes=[{"name": "example.com/a", "expression": ""}])],
}

_CONSTRAINTS: Mapping[str, Raw] = {
    "constraint of nothing": {},
    "constraint on a short name": {"matchAttribute": "model"},
    "constraint on a name without an identifier": {"matchAttribute": "example.com/"},
    "distinctness of a short name": {"distinctAttribute": "model"},
    "constraint of both kinds": {"matchAttribute": "example.com/a", "distinctAttribute": "example.com/b"},
    "constraint on a request that is not there": {"matchAttribute": "example.com/a", "requests": ["other"]},
    "constraint on one request twice": {"matchAttribute": "example.com/a", "requests": ["gpus", "gpus"]},
}

_CONFIGS: Mapping[str, Raw] = {
    "config of nothing": {},
    "config of no driver": {"opaque": {"parameters": {}}},
    "config of a bad driver": {"opaque": {"driver": "a/b", "parameters": {}}},
    "config of no parameters": {"opaque": {"driver": DRIVER}},
    "config of a list": {"opaque": {"driver": DRIVER, "parameters": [1]}},
    "config of a text": {"opaque": {"driver": DRIVER, "parameters": "x"}},
}

_CLASSES: Mapping[str, Raw] = {
    "extended resource without a domain": {"extendedResourceName": "gpu"},
    "extended resource of Kubernetes": {"extendedResourceName": "kubernetes.io/gpu"},
    "extended resource as a quota names it": {"extendedResourceName": "requests.example.com/gpu"},
    "selector that is null": {"selectors": [None]},
}

_METADATA: Mapping[str, Raw] = {
    "name in capitals": {"name": "GPU"},
    "name with a slash": {"name": "a/b"},
    "label that is none": {"name": "gpu", "labels": {"a": "b c"}},
    "label key that is none": {"name": "gpu", "labels": {"a b": "c"}},
    "label that is a number": {"name": "gpu", "labels": {"a": 1}},
    "annotation key that is none": {"name": "gpu", "annotations": {"a b": "c"}},
}

_RESULTS: Mapping[str, Raw] = {
    "result for a request that is not there": {"request": "other"},
    "result of no driver": {"driver": ""},
    "result of a bad device": {"device": "A"},
    "result with a share id in capitals": {"shareID": SHARE.upper()},
    "result with conditions of one side": {"bindingConditions": ["a"]},
    "result that consumes no quantity": {"consumedCapacity": {"memory": "much"}},
    "result with a bad toleration": {"tolerations": [{"operator": "Is"}]},
}

_STATUSES: Mapping[str, Raw] = {
    "reserved without an allocation": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]},
    "reserved twice": {
        "allocation": an_allocation(a_result()),
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}] * 2,
    },
    "reserved for nobody": {"allocation": an_allocation(a_result()), "reservedFor": [{}]},
    "allocation of nothing": {"allocation": {}},
    "allocation with one device twice": {"allocation": an_allocation(a_result(), a_result())},
    "allocation at no time": {"allocation": an_allocation(a_result(), allocationTimestamp="now")},
    "config from nowhere": {"allocation": an_allocation(a_result(), config=[{"source": "FromPod", **opaque()}])},
    "config from the class, of nothing": {"allocation": an_allocation(a_result(), config=[{"source": "FromClass"}])},
    "selector of an allocation without terms": {
        "allocation": an_allocation(a_result(), nodeSelector={"nodeSelectorTerms": []})
    },
    "status of a device that is not allocated": {
        "allocation": an_allocation(a_result()),
        "devices": [{"driver": DRIVER, "pool": "node-1", "device": "other"}],
    },
    "status of a device with a bad address": {
        "allocation": an_allocation(a_result()),
        "devices": [{"driver": DRIVER, "pool": "node-1", "device": "gpu-0", "networkData": {"ips": ["10.0.0.1"]}}],
    },
}

CASES: Mapping[str, Raw] = {
    **{name: a_slice(**spec) for name, spec in _SPECS.items()},
    **{name: a_slice_of(**device) for name, device in _DEVICES.items()},
    **{name: a_slice(nodeSelector={"nodeSelectorTerms": [term]}) for name, term in _TERMS.items()},
    **{name: a_claim(*requests) for name, requests in _REQUESTS.items()},
    **{name: a_claim(a_request(), constraints=[constraint]) for name, constraint in _CONSTRAINTS.items()},
    **{name: a_claim(a_request(), config=[config]) for name, config in _CONFIGS.items()},
    **{name: a_class(**spec) for name, spec in _CLASSES.items()},
    **{name: {**a_class(), "metadata": metadata} for name, metadata in _METADATA.items()},
    **{name: a_claim(a_request(), status={"allocation": an_allocation(a_result(**r))}) for name, r in _RESULTS.items()},
    **{name: a_claim(a_request(), status=status) for name, status in _STATUSES.items()},
    "slice without a spec": {key: value for key, value in a_slice().items() if key != "spec"},
    "template with a bad request": a_template(a_request("R")),
    "template with a bad label": a_template(a_request(), metadata={"labels": {"a": "b c"}}),
}
