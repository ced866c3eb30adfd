"""Raw objects for the tests of `allocator.api`: valid ones, of which each test varies what it is about."""

from typing import Any

from allocator.api import decode

Raw = dict[str, Any]

DRIVER = "gpu.example"


def a_device(name: str = "gpu-0", **fields: Any) -> Raw:
    return {"name": name, **fields}


def devices(count: int, **fields: Any) -> list[Raw]:
    return [a_device(f"gpu-{index}", **fields) for index in range(count)]


def a_slice(version: str = "v1", **spec: Any) -> Raw:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    reach = (
        {} if {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"} & set(spec) else {"nodeName": "node-1"}
    )
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice-1"},
        "spec": {"driver": DRIVER, "pool": pool, **reach, **spec},
    }


def a_slice_of(**device: Any) -> Raw:
    """A slice with one device."""
    return a_slice(devices=[a_device(**device)])


def a_class(version: str = "v1", **spec: Any) -> Raw:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": spec,
    }


def a_request(name: str = "gpus", **exactly: Any) -> Raw:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


def a_subrequest(name: str = "large", **fields: Any) -> Raw:
    return {"name": name, "deviceClassName": "gpu", **fields}


def a_claim(*requests: Raw, version: str = "v1", status: Raw | None = None, **devices_fields: Any) -> Raw:
    claim = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "ml", "uid": "uid-1"},
        "spec": {"devices": {"requests": list(requests), **devices_fields}},
    }
    return claim if status is None else {**claim, "status": status}


def a_template(*requests: Raw, version: str = "v1", metadata: Raw | None = None) -> Raw:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "template", "namespace": "ml"},
        "spec": {"metadata": metadata or {}, "spec": {"devices": {"requests": list(requests)}}},
    }


def a_rule(version: str = "v1", **spec: Any) -> Raw:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule"},
        "spec": {"taint": taint, **spec},
    }


def a_taint(**fields: Any) -> Raw:
    return {"key": "example.com/broken", "effect": "NoSchedule", **fields}


def a_result(**fields: Any) -> Raw:
    return {"request": "gpus", "driver": DRIVER, "pool": "node-1", "device": "gpu-0", **fields}


def an_allocation(*results: Raw, config: list[Raw] | None = None, **fields: Any) -> Raw:
    devices_part = {"results": list(results)} | ({} if config is None else {"config": config})
    return {"devices": devices_part, **fields}


def a_condition(**fields: Any) -> Raw:
    return {"type": "Ready", "status": "True", "reason": "Up", "lastTransitionTime": "2026-01-01T00:00:00Z", **fields}


def opaque(**parameters: Any) -> Raw:
    return {"opaque": {"driver": DRIVER, "parameters": parameters}}


def error_paths(raw: Raw) -> list[str]:
    return [error.path for error in decode(raw).errors]


def noted_paths(raw: Raw) -> list[str]:
    """What is wrong where nothing depends on it; the object is read all the same."""
    decoded = decode(raw)
    assert decoded.object is not None
    return [note.path for note in decoded.notes]


def warned(raw: Raw) -> list[str]:
    return [warning.path for warning in decode(raw).warnings]
