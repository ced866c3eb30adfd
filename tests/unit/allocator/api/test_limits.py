"""Each limit of the API: accepted at it, refused beyond it, and named in the message."""

from collections.abc import Callable

import pytest

from allocator.api import decode
from allocator.api.capacity import _shared
from allocator.api.device import _usual_attribute
from allocator.api.schema import _recently_counted
from tests.unit.allocator.api.raw_objects import (
    Raw,
    a_claim,
    a_class,
    a_condition,
    a_device,
    a_request,
    a_result,
    a_slice,
    a_slice_of,
    a_subrequest,
    a_taint,
    a_template,
    an_allocation,
    devices,
    opaque,
)

Build = Callable[[int], Raw]


def names(count: int, prefix: str = "n") -> list[str]:
    return [f"{prefix}{index}" for index in range(count)]


def attributes(count: int) -> Raw:
    return {name: {"int": 1} for name in names(count)}


def counters(count: int) -> Raw:
    return {name: {"value": "1"} for name in names(count)}


def requests_of(count: int) -> list[Raw]:
    return [a_request(name) for name in names(count)]


def selectors(count: int) -> list[Raw]:
    return [{"cel": {"expression": "true"}}] * count


def conditions(count: int) -> Raw:
    return {"bindingConditions": names(count, "ok"), "bindingFailureConditions": ["failed"]}


def failure_conditions(count: int) -> Raw:
    return {"bindingConditions": ["ok"], "bindingFailureConditions": names(count, "failed")}


def policy(count: int) -> Raw:
    values = [str(index + 1) for index in range(count)]
    return {"memory": {"value": "100", "requestPolicy": {"default": "1", "validValues": values}}}


def derived(count: int) -> Raw:
    given = [f"example.com/{name}" for name in names(count)]
    request = a_request(derivedAttributes=[{"name": name, "expression": "1"} for name in given])
    # 32 constraints are allowed: the entry beyond the limit is one that none of them uses.
    return a_claim(request, constraints=[{"matchAttribute": name} for name in given[:32]])


def parameters(size: int) -> Raw:
    return opaque(text="x" * (size - len('{"text":""}')))


def reserved(count: int) -> Raw:
    consumers = [{"resource": "pods", "name": name, "uid": name} for name in names(count)]
    return a_claim(a_request(), status={"allocation": an_allocation(a_result()), "reservedFor": consumers})


def device_status(**fields: object) -> Raw:
    entry = {name: value for name, value in a_result().items() if name != "request"}
    return a_claim(a_request(), status={"allocation": an_allocation(a_result()), "devices": [{**entry, **fields}]})


def allocated(*results: Raw, config: list[Raw] | None = None) -> Raw:
    return a_claim(a_request(), status={"allocation": an_allocation(*results, config=config)})


LIMITS: dict[str, tuple[int, str, Build]] = {
    "devices": (128, "spec.devices", lambda n: a_slice(devices=devices(n))),
    "devices where one has a taint": (
        64,
        "spec.devices",
        lambda n: a_slice(devices=[*devices(n - 1), a_device("last", taints=[a_taint()])]),
    ),
    "devices where one consumes counters": (
        64,
        "spec.devices",
        lambda n: a_slice(
            devices=[*devices(n - 1), a_device("last", consumesCounters=[{"counterSet": "s", "counters": counters(1)}])]
        ),
    ),
    "devices where one has a list attribute": (
        64,
        "spec.devices",
        lambda n: a_slice(devices=[*devices(n - 1), a_device("last", attributes={"a": {"ints": [1]}})]),
    ),
    "attributes": (32, "spec.devices[0]", lambda n: a_slice_of(attributes=attributes(n))),
    "attributes and capacities": (
        32,
        "spec.devices[0]",
        lambda n: a_slice_of(attributes=attributes(n - 2), capacity={"a": {"value": "1"}, "b": {"value": "1"}}),
    ),
    "attribute values": (
        48,
        "spec.devices[0]",
        lambda n: a_slice_of(attributes={**attributes(20), "list": {"ints": list(range(n - 20))}}),
    ),
    "bytes of a string attribute": (
        64,
        "spec.devices[0].attributes[a].string",
        lambda n: a_slice_of(attributes={"a": {"string": "x" * n}}),
    ),
    "bytes of a string attribute beyond ASCII": (
        64,
        "spec.devices[0].attributes[a].string",
        lambda n: a_slice_of(attributes={"a": {"string": "ä" * 31 + "x" * (n - 62)}}),
    ),
    "bytes of an entry of a list attribute": (
        64,
        "spec.devices[0].attributes[a].strings[1]",
        lambda n: a_slice_of(attributes={"a": {"strings": ["", "x" * n]}}),
    ),
    "bytes of a version attribute": (
        64,
        "spec.devices[0].attributes[a].version",
        lambda n: a_slice_of(attributes={"a": {"version": "1.0.0-" + "x" * (n - 6)}}),
    ),
    "bytes of an attribute's name": (
        32,
        "spec.devices[0].attributes",
        lambda n: a_slice_of(attributes={"x" * n: {"int": 1}}),
    ),
    "bytes of an attribute's domain": (
        63,
        "spec.devices[0].attributes",
        lambda n: a_slice_of(attributes={"x" * n + "/a": {"int": 1}}),
    ),
    "bytes of a capacity's name": (
        32,
        "spec.devices[0].capacity",
        lambda n: a_slice_of(capacity={"x" * n: {"value": "1"}}),
    ),
    "bytes of a driver's name": (63, "spec.driver", lambda n: a_slice(driver="x" * n)),
    "bytes of a pool's name": (
        253,
        "spec.pool.name",
        lambda n: a_slice(pool={"name": "x" * 100 + "/" + "x" * (n - 101), "resourceSliceCount": 1}),
    ),
    "bytes of a device's name": (63, "spec.devices[0].name", lambda n: a_slice_of(name="x" * n)),
    "bytes of a request's name": (63, "spec.devices.requests[0].name", lambda n: a_claim(a_request("x" * n))),
    "counter sets": (
        8,
        "spec.sharedCounters",
        lambda n: a_slice(sharedCounters=[{"name": name, "counters": counters(1)} for name in names(n)]),
    ),
    "counters of a set": (
        32,
        "spec.sharedCounters[0].counters",
        lambda n: a_slice(sharedCounters=[{"name": "s", "counters": counters(n)}]),
    ),
    "bytes of a counter's name": (
        63,
        "spec.sharedCounters[0].counters",
        lambda n: a_slice(sharedCounters=[{"name": "s", "counters": {"x" * n: {"value": "1"}}}]),
    ),
    "counter sets that a device consumes": (
        2,
        "spec.devices[0].consumesCounters",
        lambda n: a_slice_of(consumesCounters=[{"counterSet": name, "counters": counters(1)} for name in names(n)]),
    ),
    "counters that a device consumes": (
        32,
        "spec.devices[0].consumesCounters[0].counters",
        lambda n: a_slice_of(consumesCounters=[{"counterSet": "s", "counters": counters(n)}]),
    ),
    "compatibility groups": (
        2,
        "spec.devices[0].consumesCounters[0].compatibilityGroups",
        lambda n: a_slice_of(
            consumesCounters=[{"counterSet": "s", "counters": counters(1), "compatibilityGroups": names(n)}]
        ),
    ),
    "taints": (16, "spec.devices[0].taints", lambda n: a_slice_of(taints=[a_taint()] * n)),
    "binding conditions": (4, "spec.devices[0].bindingConditions", lambda n: a_slice_of(**conditions(n))),
    "binding failure conditions": (
        4,
        "spec.devices[0].bindingFailureConditions",
        lambda n: a_slice_of(**failure_conditions(n)),
    ),
    "valid values of a request policy": (
        10,
        "spec.devices[0].capacity[memory].requestPolicy.validValues",
        lambda n: a_slice_of(allowMultipleAllocations=True, capacity=policy(n)),
    ),
    "requests": (32, "spec.devices.requests", lambda n: a_claim(*requests_of(n))),
    "requests of a template": (32, "spec.spec.devices.requests", lambda n: a_template(*requests_of(n))),
    "subrequests": (
        8,
        "spec.devices.requests[0].firstAvailable",
        lambda n: a_claim({"name": "r", "firstAvailable": [a_subrequest(name) for name in names(n)]}),
    ),
    "constraints": (
        32,
        "spec.devices.constraints",
        lambda n: a_claim(a_request(), constraints=[{"matchAttribute": "example.com/a"}] * n),
    ),
    "config of a claim": (32, "spec.devices.config", lambda n: a_claim(a_request(), config=[opaque()] * n)),
    "config of a class": (32, "spec.config", lambda n: a_class(config=[opaque()] * n)),
    "selectors of a class": (32, "spec.selectors", lambda n: a_class(selectors=selectors(n))),
    "selectors of a request": (
        32,
        "spec.devices.requests[0].exactly.selectors",
        lambda n: a_claim(a_request(selectors=selectors(n))),
    ),
    "selectors of a subrequest": (
        32,
        "spec.devices.requests[0].firstAvailable[0].selectors",
        lambda n: a_claim({"name": "r", "firstAvailable": [a_subrequest(selectors=selectors(n))]}),
    ),
    "derived attributes": (32, "spec.devices.requests[0].exactly.derivedAttributes", derived),
    "bytes of an expression": (
        10240,
        "spec.selectors[0].cel.expression",
        lambda n: a_class(selectors=[{"cel": {"expression": "x" * n}}]),
    ),
    "bytes of opaque parameters": (
        10240,
        "spec.config[0].opaque.parameters",
        lambda n: a_class(config=[parameters(n)]),
    ),
    "allocated devices": (32, "status.allocation.devices.results", lambda n: allocated(*[a_result()] * n)),
    "config of an allocation": (
        64,
        "status.allocation.devices.config",
        lambda n: allocated(a_result(), config=[{"source": "FromClaim", **opaque()}] * n),
    ),
    "consumers of a claim": (256, "status.reservedFor", reserved),
    "conditions of a device's status": (
        8,
        "status.devices[0].conditions",
        lambda n: device_status(conditions=[a_condition(type=name) for name in names(n)]),
    ),
    "bytes of a condition's reason": (
        1024,
        "status.devices[0].conditions[0].reason",
        lambda n: device_status(conditions=[a_condition(reason="x" * n)]),
    ),
    "bytes of a condition's message": (
        32768,
        "status.devices[0].conditions[0].message",
        lambda n: device_status(conditions=[a_condition(message="x" * n)]),
    ),
    "addresses of a device's status": (
        16,
        "status.devices[0].networkData.ips",
        lambda n: device_status(networkData={"ips": [f"10.0.0.{index}/24" for index in range(n)]}),
    ),
    "bytes of an interface's name": (
        256,
        "status.devices[0].networkData.interfaceName",
        lambda n: device_status(networkData={"interfaceName": "x" * n}),
    ),
    "bytes of a hardware address": (
        128,
        "status.devices[0].networkData.hardwareAddress",
        lambda n: device_status(networkData={"hardwareAddress": "x" * n}),
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limit_itself_is_accepted(name: str) -> None:
    limit, _, build = LIMITS[name]
    found = decode(build(limit))
    assert (found.errors, found.notes) == ((), ())


@pytest.mark.parametrize("name", LIMITS)
def test_one_more_than_the_limit_is_refused_by_name(name: str) -> None:
    limit, path, build = LIMITS[name]
    found = decode(build(limit + 1))
    assert any(one.path == path and str(limit) in one.message for one in (*found.errors, *found.notes))


def test_plain_devices_may_be_128_and_tainted_ones_64() -> None:
    assert decode(a_slice(devices=devices(128))).errors == ()
    (error,) = decode(a_slice(devices=devices(65, taints=[a_taint()]))).errors
    because = "as a device has taints, consumesCounters or list attributes"
    assert str(error) == f"spec.devices: must not have more than 64 entries, {because} (got 65)"


def test_tolerations_have_no_limit_that_the_api_server_enforces() -> None:
    assert decode(a_claim(a_request(tolerations=[{"operator": "Exists"}] * 17))).errors == ()


def test_texts_longer_than_any_that_is_valid_are_not_remembered() -> None:
    long = "a" * 100_000
    raws = [
        a_slice_of(attributes={f"a/b/{long}": {"int": 1}}),
        a_slice_of(capacity={f"a/b/{long}": {"value": "1"}}),
        a_slice_of(capacity={"memory": {"value": "0" * 100_000 + "1"}}),
    ]
    caches = (_usual_attribute, _shared, _recently_counted)
    before = [cache.cache_info().currsize for cache in caches]
    assert [decode(raw).errors for raw in raws] == [(), (), ()]
    assert [cache.cache_info().currsize for cache in caches] == before
