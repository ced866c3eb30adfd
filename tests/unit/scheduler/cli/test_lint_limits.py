"""What a release's API server refuses beyond the limits that all releases have."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from tests.unit.scheduler.cli.command import dra
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_node,
    a_request,
    a_slice,
    a_template,
    an_allocated_claim,
    text_of,
)

SLASHES = "must not have more than one slash"
DIGITS = "numbers must not have more than 18 digits"
LONGEST = "9" * 18
TOO_LONG = "9" * 19


def refused(raw: Json, kubernetes: str) -> list[tuple[str, str]]:
    """(field, message) of each field of the object that the API server would refuse."""
    lists = "DRAListTypeAttributes=true"
    options = ("-o", "json", "--kubernetes", kubernetes, "--feature-gates", lists)
    run = dra("lint", "-", *options, stdin=text_of(a_node(), a_class(), raw))
    items = [one for one in orjson.loads(run.out)["items"] if one["rule"] == "invalid-object"]
    return [(one["field"], one["message"]) for one in items]


def having(per_device: bool = False, **device: Any) -> Json:  # noqa: FBT001, FBT002 - a field of the slice
    """A slice whose second device is this one."""
    other = {"allNodes": True} if per_device else {}
    raw = a_slice(devices=[{"name": "gpu-0", **other}, {"name": "gpu-1", **device}])
    if per_device:
        raw["spec"].pop("nodeName", None)
        raw["spec"].pop("allNodes", None)
        raw["spec"]["perDeviceNodeSelection"] = True
    return raw


def asking(**amounts: str) -> Json:
    return a_claim("c", a_request(capacity={"requests": amounts}))


def selecting(*zones: str) -> Json:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in zones]
    return having(per_device=True, nodeSelector={"nodeSelectorTerms": terms})


def choosing(**amounts: str) -> Json:
    first = {"name": "best", "deviceClassName": "gpu", "capacity": {"requests": amounts}}
    return {**a_template("t"), "spec": {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [first]}]}}}}


def comparing(**constraint: str) -> Json:
    raw = a_claim("c", a_request())
    raw["spec"]["devices"]["constraints"] = [constraint]
    return raw


def consuming(**amounts: str) -> Json:
    raw = an_allocated_claim("c", "gpu-0")
    raw["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] = amounts
    return raw


def many(number: int) -> dict[str, str]:
    return {f"c{one}": "1" for one in range(number)}


def version(text: str) -> Json:
    return {"firmware": {"version": text}}


def mapped(key: str) -> Json:
    resources = {"cpu": {"mapping": {"capacityKey": key, "capacityMultiplier": "1"}}}
    return having(capacity={key: {"value": "1"}}, nodeAllocatableResources=resources)


REQUESTS = "spec.devices.requests[0].exactly.capacity.requests"
CONSUMED = "status.allocation.devices.results[0].consumedCapacity"
FIRST = "spec.spec.devices.requests[0].firstAvailable[0].capacity.requests"
DEVICE = "spec.devices[1]"
REFUSED = [
    (asking(**many(33)), [(REQUESTS, "must not have more than 32 entries, has 33")]),
    (asking(bw="-1"), [(f"{REQUESTS}[bw]", "must not be negative, is -1")]),
    (asking(**{"a/b/c": "1"}), [(f"{REQUESTS}[a/b/c]", SLASHES)]),
    (asking(**{"9": "1"}), [(f"{REQUESTS}[9]", "must be a C identifier: letters, digits and '_', not starting")]),
    (choosing(bw="-1"), [(f"{FIRST}[bw]", "must not be negative, is -1")]),
    (consuming(**many(33)), [(CONSUMED, "must not have more than 32 entries, has 33")]),
    (consuming(bw="-1"), [(f"{CONSUMED}[bw]", "must not be negative, is -1")]),
    (consuming(**{"a/b/c": "1"}), [(f"{CONSUMED}[a/b/c]", SLASHES)]),
    (comparing(matchAttribute="a/b/c"), [("spec.devices.constraints[0].matchAttribute", SLASHES)]),
    (comparing(distinctAttribute="a/b/c"), [("spec.devices.constraints[0].distinctAttribute", SLASHES)]),
    (having(attributes={"a/b/c": {"int": 1}}), [(f"{DEVICE}.attributes[a/b/c]", SLASHES)]),
    (having(capacity={"a/b/c": {"value": "1"}}), [(f"{DEVICE}.capacity[a/b/c]", SLASHES)]),
    (having(attributes=version(f"1.{TOO_LONG}.0")), [(f"{DEVICE}.attributes[firmware].version", DIGITS)]),
    (having(attributes=version(f"1.0.0-rc.{TOO_LONG}")), [(f"{DEVICE}.attributes[firmware].version", DIGITS)]),
    (
        having(attributes={"firmware": {"versions": ["1.0.0", f"{TOO_LONG}.0.0"]}}),
        [(f"{DEVICE}.attributes[firmware].versions", DIGITS)],
    ),
    (selecting("a", "b"), [(f"{DEVICE}.nodeSelector.nodeSelectorTerms", "must have exactly one term, has 2")]),
    (
        mapped("a/b/c"),
        [
            (f"{DEVICE}.capacity[a/b/c]", SLASHES),
            (f"{DEVICE}.nodeAllocatableResources[cpu].mapping.capacityKey", SLASHES),
        ],
    ),
]
STORED = [
    asking(**many(32)),
    asking(bw="0", **{f"{DRIVER}/size": "1"}),
    choosing(bw="0"),
    consuming(**many(32)),
    comparing(matchAttribute=f"{DRIVER}/numa"),
    having(attributes=version(f"{LONGEST}.0.0-{TOO_LONG}x+{TOO_LONG}")),
    having(attributes={f"{DRIVER}/numa": {"int": 1}}, capacity={f"{DRIVER}/size": {"value": "1"}}),
    selecting("a"),
    mapped("cores"),
]


@pytest.mark.parametrize(("raw", "fields"), REFUSED, ids=[fields[0][0] for _, fields in REFUSED])
def test_what_1_38_refuses_is_an_error_in_it_and_not_before(raw: Json, fields: Sequence[tuple[str, str]]) -> None:
    found = refused(raw, "1.38")
    assert [field for field, _ in found] == [field for field, _ in fields]
    for (field, message), (_, words) in zip(found, fields, strict=True):
        assert message.startswith(f"{field}: {words}")
        assert message.endswith(", since Kubernetes 1.38")
    assert refused(raw, "1.37") == []


@pytest.mark.parametrize("raw", STORED)
def test_what_is_at_a_limit_is_no_error(raw: Json) -> None:
    assert refused(raw, "1.38") == []


@pytest.mark.parametrize(
    ("resource", "is_known"),
    [
        ("cpu", True),
        ("memory", True),
        ("hugepages-2Mi", True),
        ("ephemeral-storage", False),
        ("kubernetes.io/x", False),
    ],
)
def test_devices_are_of_their_node_what_the_release_knows(resource: str, is_known: bool) -> None:  # noqa: FBT001
    raw = having(nodeAllocatableResources={resource: {"overhead": {"perPod": "1"}}})
    field = f"{DEVICE}.nodeAllocatableResources[{resource}]"
    for release in ("1.37", "1.38"):
        message = f"{field}: must be cpu, memory or hugepages-... in Kubernetes {release}"
        assert refused(raw, release) == ([] if is_known else [(field, message)])
    assert refused(raw, "1.36") == []
