"""A secret in any field of any object that a dump can hold is not in the redacted dump, whatever it looks like."""

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import is_typeddict

import scheduler
from allocator.api.device_class import ClassFields, RuleFields
from allocator.api.resource_claim import ClaimFields, TemplateFields
from allocator.api.resource_slice import SliceFields
from scheduler import kinds  # noqa: F401 - with all that reads objects
from scheduler.core_v1.object_fields import ObjectFields
from scheduler.core_v1.workload import decode_embedded
from scheduler.input.inventory import KINDS_THAT_COUNT
from scheduler.offline.redaction import FIELDS as FIELD_NAMES
from scheduler.offline.redaction import Redaction
from scheduler.offline.shareable_dump import (
    AMOUNTS,
    ANNOTATIONS,
    LABEL_KEYS,
    TIMES,
    WORDS,
    fields_of,
    is_amount,
    shareable,
)
from tests.unit.scheduler.manifests import DRIVER, a_class, a_node, a_slice, an_object

Json = Any
"""A value of JSON."""

CUSTOM = "MPIJob"
RESOURCES = {
    "ResourceSlice": SliceFields,
    "DeviceClass": ClassFields,
    "ResourceClaim": ClaimFields,
    "ResourceClaimTemplate": TemplateFields,
    "DeviceTaintRule": RuleFields,
}
READ_RAW = frozenset(
    {
        *("hostIP", "image", "reference", "names", "volumeHandle", "volumeID", "pdName", "diskURI", "iqn", "monitors"),
        *("claimName", "storageClassName", "volumeName", "nodeName", "driver", "provisioner", "attacher", "address"),
        *("uid", "shareID", "podUID", "key", "value", "values", "topologyKey", "expression", "request", "requests"),
        *("labels", "matchLabels", "nodeSelector", "selector", "annotations", "attributes", "capacity", "counters"),
        *("limits", "allocatable", "overhead", "resources", "consumedCapacity", "extendedResourceName", "capacityKey"),
        *("matchAttribute", "distinctAttribute", "partitionTypeAttribute", "generateName", "namespace", "namespaces"),
        *("resourceVersion", "loadBalancerIP", "nominatedNodeName", "podIP", "hostIPs", "addresses", "description"),
    }
)
"""Fields that are read without a type, or only passed on."""

MAPS_OF_OBJECTS = frozenset({"attributes", "annotations", "capacity", "counters", "nodeAllocatableResources"})
MAPS = MAPS_OF_OBJECTS | {
    *("labels", "matchLabels", "nodeSelector", "selector", "limits", "requests", "allocatable", "overhead"),
    *("resources", "allocatedResources", "consumedCapacity"),
}
"""Fields that hold objects whose keys users and drivers choose."""

READ = f'device.attributes["{DRIVER}"]'

FIELDS = MAPS | READ_RAW | WORDS.keys() | TIMES | AMOUNTS


class Secrets:
    """Texts that are in no dump but by a fault, each another one."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"acme{next(self._numbers)}"

    def expression(self) -> str:
        """With secrets in all that an expression has names and texts for."""
        a, b, c, d, e, f = (self() for _ in range(6))
        escaped = "".join(f"\\x{ord(letter):02x}" for letter in self())
        return (
            f'device.attributes["{a}"].{b} == \'{c}\' && cel.bind({d}, r"{e}", {d}.startsWith("{escaped}")) // {f}\n'
            f'&& "{self()}" in device.attributes["{a}"] && b"{self()}" != b"" && [\'\'\'{self()}\'\'\'] == []'
            f'&& device.driver == "{self()}" && quantity("{self()}") == semver("1.0.0-{self()}+{self()}")'
        )


def filled(annotation: Json, name: str, secret: Secrets) -> Json:
    """A value of the type with a secret wherever it has a text."""
    origin: Json = get_origin(annotation)
    inner: Json = get_args(annotation)
    if origin in (Union, UnionType):
        return filled(next(one for one in inner if one is not NoneType), name, secret)
    if origin is list:
        return [filled(inner[0], name, secret), filled(inner[0], name, secret)]
    if origin is dict:
        return {secret() if name in MAPS else "field": filled(inner[1], name, secret)}
    if is_typeddict(annotation) or (isinstance(annotation, type) and issubclass(annotation, ObjectFields)):
        return filled_object(annotation, secret)
    if annotation in (int, bool) or inner[:1] in ((int,), (bool,)):
        return 1
    return secret.expression() if name == "expression" else secret()


def filled_object(type_: type, secret: Secrets) -> Json:
    own = {name: value for one in reversed(type_.__mro__) for name, value in annotations(one).items()}
    fields = {name: filled(value, name, secret) for name, value in own.items() if get_origin(value) is not ClassVar}
    return {**fields, "unknownField": {"another": [secret()]}}


def annotations(type_: type) -> Mapping[str, Json]:
    found: Mapping[str, Json] = vars(type_).get("__annotations__", {})
    return found


def readers(type_: type[ObjectFields] = ObjectFields) -> Iterator[type[ObjectFields]]:
    """The types of all objects of other groups that are read."""
    for one in type_.__subclasses__():
        if "metadata" in one.__annotations__:
            yield one
        yield from readers(one)


def typed_objects(secret: Secrets) -> Iterator[Json]:
    """An object of each kind, by its own type and by that of every other kind."""
    for kind, type_ in RESOURCES.items():
        yield {**filled(type_, "", secret), "kind": kind, "apiVersion": "resource.k8s.io/v1"}
    for kind in sorted(KINDS_THAT_COUNT):
        for reader in readers():
            yield {**filled(reader, "", secret), "kind": kind, "apiVersion": "v1"}


def any_shapes(secret: Secrets) -> Json:
    """Every field with a text, a list and an object."""
    texts = {name: secret() for name in sorted(FIELDS - {"expression"})} | {"expression": secret.expression()}
    lists = {name: [secret(), {"name": secret(), "key": secret(), "value": secret()}] for name in sorted(FIELDS)}
    maps = {name: {secret() if name in MAPS else "field": secret()} for name in sorted(FIELDS)}
    typed = {
        name: {secret() if name in MAPS_OF_OBJECTS else "field": {"value": secret(), "version": secret()}}
        for name in sorted(FIELDS)
    }
    known = {
        "labels": dict.fromkeys(sorted(LABEL_KEYS), secret()),
        "annotations": dict.fromkeys(sorted(ANNOTATIONS), secret()),
    }
    return {"a": texts, "b": lists, "c": maps, "d": typed, "e": known, **secret_requirement(secret)}


def secret_requirement(secret: Secrets) -> Json:
    odd = {"key": secret(), "operator": {"name": secret()}, "effect": [secret()], "values": {"field": secret()}}
    return {"matchExpressions": [{"key": secret(), "operator": "Gt", "values": [secret(), "7"]}, odd]}


def shaped_objects(secret: Secrets) -> Iterator[Json]:
    template = {"spec": {"containers": [{"name": secret(), "image": secret(), "env": [{"name": secret()}]}]}}
    for kind in (*sorted(KINDS_THAT_COUNT - {"ResourceSlice", "StorageClass"}), CUSTOM):
        shapes = any_shapes(secret)
        metadata = {"name": secret(), "ownerReferences": [{"kind": secret(), "apiVersion": secret()}], **shapes}
        yield {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": metadata,
            "status": shapes,
            "spec": {**shapes, "template": {**template, **any_shapes(secret)}},
        }


def without_what_stays(raw: Json) -> Json:
    """The object without what docs/dump.md says that drivers publish: it stays."""
    spec = fields_of(raw.get("spec"))
    match raw["kind"]:
        case "ResourceSlice":
            for device in spec.get("devices", ()):
                for name in {"attributes", "capacity"} & fields_of(device).keys():
                    values = fields_of(device[name]).values()
                    device[name] = {f"{name}{number}": value for number, value in enumerate(values)}
            return {**raw, "spec": {**spec, "driver": "gpu.example.com"}}
        case "CSIDriver":
            return {**raw, "metadata": {**raw["metadata"], "name": "csi.example.com"}}
        case "CSINode":
            drivers = [{**fields_of(one), "name": "csi.example.com"} for one in spec.get("drivers", ())]
            return {**raw, "spec": {**spec, "drivers": drivers}}
        case "StorageClass":
            return {**raw, "provisioner": "csi.example.com"}
    return raw


def redacted(*raws: Json) -> list[Json]:
    kept = [one for raw in raws if (one := shareable(raw)) is not None]
    assert len(kept) == len(raws)
    redaction = Redaction(kept)
    return [redaction.object(one) for one in kept]


def test_a_secret_in_any_field_of_any_kind_is_not_in_a_redacted_dump() -> None:
    secret = Secrets()
    raws = [without_what_stays(raw) for raw in (*typed_objects(secret), *shaped_objects(secret))]
    assert len(raws) > 15 * len(KINDS_THAT_COUNT)
    found = redacted(*raws)
    leaks = {match for one in found for match in re.findall(r'"[^"]*acme[^"]*"', json.dumps(one).lower())}
    assert leaks == set()


def test_a_kind_of_another_project_is_not_taken_for_that_of_kubernetes_by_its_name() -> None:
    """What drivers publish stays in the API's own kinds alone: so nothing is taken out of these objects."""
    secret = Secrets()
    pods = {"podTemplate": {"spec": {"containers": [{"name": "c"}]}}}
    raws = [
        {**one, "apiVersion": "x.example.com/v1", "metadata": {"name": secret()}, "spec": {**fields_of(spec), **pods}}
        for one in (*typed_objects(secret), *shaped_objects(secret))
        for spec in (one.get("spec"), dict[str, Any]())
    ]
    kept = [one for raw in raws if (one := shareable(raw)) is not None]
    assert {one["kind"] for one in kept} == {*KINDS_THAT_COUNT, CUSTOM}
    redaction = Redaction([*kept, a_slice(), a_class()])
    found = [redaction.object(one) for one in kept]
    assert re.findall(r'"[^"]*acme[^"]*"', json.dumps(found).lower()) == []


LOOKS: Mapping[str, Callable[[int], str]] = {
    "an address": lambda number: f"10.20.{number}.40",
    "a network": lambda number: f"2001:db8::{number}/64",
    "a number": lambda number: f"7193{number:03}",
    "an amount": lambda number: f"7193{number:03}m",
    "a time": lambda number: f"2026-01-02T03:04:{number:02}Z",
    "a version": lambda number: f"7193.{number}.0",
    "a name of Kubernetes": lambda number: f"system-prod-{number}",
    "a key of Kubernetes": lambda number: f"node-role.kubernetes.io/prod-{number}",
    "a word of the API": lambda number: ("True", "Exists", "NoSchedule", "All", "Pending")[number % 5] + str(number),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_name_is_replaced_whatever_it_looks_like(look: str) -> None:
    node, pod, namespace, pool, device, claim, label, value, gate, scheduler, address, driver_address = map(
        LOOKS[look], range(10, 22)
    )
    described = {"model": {"string": address}} if look in ("an address", "a network") else {}
    attributes = {"gateway": {"string": driver_address}, **described}
    port = {"hostPort": 80, "hostIP": address}
    entry = {"name": claim, "resourceClaimName": claim}
    raws = [
        {
            **a_node(node, labels={label: value}, taints=[{"key": label, "value": value, "effect": "NoExecute"}]),
            "status": {"addresses": [{"type": "InternalIP", "address": address}]},
        },
        {
            **an_object("v1", "Pod", pod, namespace),
            "spec": {
                "nodeName": node,
                "schedulerName": scheduler,
                "schedulingGates": [{"name": gate}],
                "containers": [{"name": pod, "ports": [port]}],
                "resourceClaims": [entry],
            },
            "status": {"hostIP": address, "podIP": address},
        },
        a_slice(node, node=node, pool={"name": pool}, devices=[{"name": device, "attributes": attributes}]),
        a_class(claim, expressions=[f'{READ}.gateway == "{driver_address}"']),
    ]
    text = json.dumps(redacted(*raws))
    assert [name for name in map(LOOKS[look], range(10, 22)) if name in text] == []


VALUES = ("A100", "H100", "A1", "10.0.0.1", "r-1", "rack", DRIVER)


@given(
    st.dictionaries(st.sampled_from(("model", "rack")), st.sampled_from(VALUES), min_size=1),
    st.sampled_from((*VALUES, "B200")),
    st.sampled_from(("model", "rack", "absent")),
)
def test_a_literal_equals_an_attribute_as_it_did(texts: dict[str, str], literal: str, read: str) -> None:
    slice_ = a_slice(devices=[{"name": "d", "attributes": {name: {"string": text} for name, text in texts.items()}}])
    device_class = a_class(expressions=[f'{READ}.{read} == "{literal}"'])
    after, selecting = redacted(slice_, device_class)
    [device] = after["spec"]["devices"]
    expression = selecting["spec"]["selectors"][0]["cel"]["expression"]
    compared = re.findall(r'"([^"]*)"', expression)[-1]
    assert (texts.get(read) == literal) == (device["attributes"].get(read, {}).get("string") == compared)


def test_what_is_empty_stays_empty() -> None:
    pod = {**an_object("v1", "Pod", "p", metadata={"uid": ""}), "spec": {"nodeName": "", "schedulerName": ""}}
    pod["spec"]["containers"] = [{"name": "c", "image": ""}]
    [found] = redacted(pod)
    assert (found["metadata"]["uid"], found["spec"]["nodeName"], found["spec"]["schedulerName"]) == ("", "", "")
    assert found["spec"]["containers"][0]["image"] == ""


def test_amounts_and_numbers_that_selectors_compare_stay() -> None:
    term = {"matchExpressions": [{"key": "memory-gb", "operator": "Gt", "values": ["500"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"memory-gb": "600", "rack": "47"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"affinity": affinity}}
    node_after, pod_after = redacted({**node, "status": {"allocatable": {"cpu": "4", "example.org/gpu": "2"}}}, pod)
    assert sorted(node_after["metadata"]["labels"].values())[:1] == ["600"]
    assert "47" not in node_after["metadata"]["labels"].values()
    assert '"values": ["500"]' in json.dumps(pod_after)
    assert node_after["status"]["allocatable"]["cpu"] == "4"
    assert sorted(node_after["status"]["allocatable"].values()) == ["2", "4"]
    assert all(map(is_amount, node_after["status"]["allocatable"].values()))


READERS = ("scheduler/core_v1", "allocator/api/versions.py")
READING = frozenset({"get", "objects", "_object", "_chosen", "pop"})


def names_read_raw() -> Iterator[str]:
    """The constants by which the readers' code takes fields out of raw objects."""
    root = Path(scheduler.__file__).parent.parent
    for reader in READERS:
        for path in root.glob(reader if reader.endswith(".py") else f"{reader}/*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and called(node.func) in READING:
                    yield from (text for one in node.args for text in constants(one))
                elif isinstance(node, ast.Subscript):
                    yield from constants(node.slice)


def called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def constants(node: ast.expr) -> Iterator[str]:
    for one in ast.walk(node):
        if (
            isinstance(one, ast.Constant)
            and isinstance(one.value, str)
            and re.fullmatch("[a-z][A-Za-z0-9]+", one.value)
        ):
            yield one.value


NO_FIELDS = frozenset({"ctx", "loc", "msg", "input", "manager", "fieldsV1", "set", "comparison", "absent", "v1"})
"""Of errors, patterns, versions, and managed fields, which no dump has."""


def test_all_fields_that_readers_take_from_raw_objects_are_known() -> None:
    read = set(names_read_raw())
    assert {"draResources", "volumeClaimTemplate", "guest"} <= read
    assert read - FIELD_NAMES - NO_FIELDS == set()


CHOSEN = (
    *("labels", "matchLabels", "nodeSelector", "selector", "services", "datasets", "envVars", "sparkConf", "data"),
    *("limits", "requests", "capacity", "attributes", "counters", "overhead", "resources", "spec", "misspeltField"),
    *("template", "metadata", "matchExpressions", "containers", "annotations", "pytorchReplicaSpecs"),
)
VALUES_OF_KEYS: tuple[Json, ...] = ("5m", "2024", True, 918273645, 2.5, None, {"replicas": 918273645}, [{"name": "n"}])
ALL_KINDS = (
    *(("v1", kind) for kind in sorted(KINDS_THAT_COUNT)),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("nvidia.com/v1alpha1", "DynamoGraphDeployment"),
    ("kubeflow.org/v1", CUSTOM),
)


@pytest.mark.parametrize("value", VALUES_OF_KEYS, ids=str)
def test_a_key_that_somebody_chose_is_replaced_in_every_map_whatever_its_value(value: Json) -> None:
    container = {"name": "c", "resources": {"limits": {"acme": value}}}
    for version, kind in ALL_KINDS:
        maps = {field: {"acme": value, "acme2": {"acme3": value}} for field in CHOSEN}
        template = {"spec": {"containers": [container]}, "metadata": {"labels": {"acme": value}}}
        raw = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "n", "labels": {"acme": value}},
            "spec": {
                **maps,
                "acme4": value,
                "podTemplate": template,
                "resourceClaimTemplateName": "t",
                "replicaSpecs": {"acme5": {"template": template}},
            },
            "status": {**maps, "acme4": value},
        }
        assert "acme" not in json.dumps(redacted(raw)), kind


def test_groups_and_kinds_of_somebody_are_replaced_and_those_of_the_api_stay() -> None:
    template = {"spec": {"containers": [{"name": "c"}]}}
    own = {**an_object("acme.io/v1alpha2", "AcmeJob", "j"), "spec": {"worker": {"template": template}}}
    owner = {"apiVersion": "acme.io/v1alpha2", "kind": "AcmeJob", "name": "j"}
    after, pod = redacted(own, an_object("v1", "Pod", "p", metadata={"ownerReferences": [owner]}))
    assert "acme" not in json.dumps((after, pod)).lower()
    assert after["apiVersion"].endswith("/v1alpha2")
    [named] = pod["metadata"]["ownerReferences"]
    assert (named["apiVersion"], named["kind"]) == (after["apiVersion"], after["kind"])
    [workload], _ = decode_embedded(after["kind"], after)
    assert workload.pods == 1


def test_texts_count_as_amounts_only_where_the_api_has_amounts() -> None:
    amounts = {"name": "2024", "host": "5m", "limits": {"cpu": "5m"}}
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "7m"}}}]}}
    spec = {"resources": amounts, "capacity": "5m", "startTime": "2026-01-02T03:04:05Z", "worker": template}
    [after] = redacted({**an_object("acme.io/v1", "AcmeJob", "j"), "spec": spec})
    text = json.dumps(after)
    assert [one for one in ("2024", "5m", "2026") if one in text] == []
    assert '{"cpu": "7m"}' in text


def test_what_custom_kinds_ask_for_stays() -> None:
    graph = {"services": {"Acme": {"replicas": 3, "resources": {"limits": {"gpu": "2", "gpuType": "gpu.acme.io/x"}}}}}
    machine = {"domain": {"memory": {"guest": "4Gi"}, "devices": {}}}
    raws = (
        {**an_object("nvidia.com/v1alpha1", "DynamoGraphDeployment", "d"), "spec": graph},
        {**an_object("kubevirt.io/v1", "VirtualMachineInstance", "v"), "spec": machine},
    )
    found = redacted(*raws)
    text = json.dumps(found)
    assert '"gpu": "2"' in text
    assert '"guest": "4Gi"' in text
    assert "acme" not in text.lower()
    before, after = ([decode_embedded(str(one["kind"]), one)[0] for one in many] for many in (raws, found))
    assert [[one.pods for one in own] for own in before] == [[one.pods for one in own] for own in after] == [[3], [1]]
