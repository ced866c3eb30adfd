"""A dump with other names gives the same answers, and holds nothing that it must not."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

import cel
from scheduler.input.documents import RawObject, read
from scheduler.offline.redaction import Redaction
from scheduler.offline.shareable_dump import shareable
from scheduler.state.claims import FINALIZER
from tests.generators import worlds
from tests.unit.scheduler.cli.command import dra, saved
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_pod_template,
    a_request,
    a_slice,
    a_storage_class,
    a_template,
    a_volume,
    a_volume_claim,
    a_workload,
    an_allocated_claim,
    an_object,
    volumes_of,
)

PRESETS = ("gpu", "mig", "nic", "shared", "mixed")
KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "namespaces": ("v1", "Namespace"),
    "services": ("v1", "Service"),
    "claims": ("resource.k8s.io/v1", "ResourceClaim"),
    "slices": ("resource.k8s.io/v1", "ResourceSlice"),
    "classes": ("resource.k8s.io/v1", "DeviceClass"),
}


def list_of(path: Path) -> list[Json]:
    found: list[Json] = json.loads(path.read_text())["items"]
    return found


def dumped(folder: Path, *paths: Path, redact: bool = True) -> Path:
    output = folder / ("redacted.json" if redact else "dump.json")
    run = dra("dump", *paths, "-o", output, *(["--redact"] if redact else []))
    assert run.code == 0, run.err
    return output


def renamed(value: Any, word: Callable[[str], str]) -> Any:  # Any: JSON
    """The answer with the names of the other dump; `namespace/name` and the like part by part."""
    if isinstance(value, dict):
        return {key: one if key == "advice" else renamed(one, word) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, word) for one in value]
    return in_words(value, word) if isinstance(value, str) else value


def in_words(text: str, word: Callable[[str], str]) -> str:
    """The text with each name in it replaced, whatever stands between them; a key of a label has a slash in it."""
    names = re.split(r"([\s,:;=()'\"]+)", text)
    return "".join(word(one) if word(one) != one else "/".join(map(word, one.split("/"))) for one in names)


def answers(path: Path) -> dict[str, Any]:
    """What the subcommands say of it, by subcommand."""
    status, audit = dra("status", path, "-o", "json"), dra("audit", path, "-o", "json", "--fail-on", "never")
    placed = dra("allocate", path, "-o", "json")
    found = {"status": status, "audit": audit, "allocate": placed}
    assert [run.err for run in found.values() if run.code == 2] == []
    return {name: orjson.loads(run.out or b"null") for name, run in found.items()}


def forget_places(found: Any) -> Any:  # Any: JSON
    """The findings, wherever their objects stand."""
    items = [{**one, "file": None, "document": None} for one in found["items"]]
    return {**found, "items": sorted(items, key=lambda one: (one["rule"], one["object"]["name"]))}


def by_name(status: Any) -> Any:  # Any: JSON
    """Classes that are called like drivers keep their names, and stand elsewhere among the others."""
    return {**status, "classes": sorted(status["classes"], key=lambda one: str(one["name"]))}


def nodes_of(placed: Any) -> list[tuple[str, str]]:  # Any: JSON
    """Namespaced names of pods with their nodes."""
    pods = [one for one in placed["items"] if one["kind"] == "Pod"]
    return sorted((one["metadata"]["name"], one["spec"].get("nodeName", "")) for one in pods)


def of_pod(name: str, word: Callable[[str], str]) -> str:
    """The other name of a pod, or of one that a StatefulSet would create."""
    owner, dash, number = name.rpartition("-")
    return f"{word(owner)}{dash}{number}" if word(name) == name else word(name)


def same_but_for_names(folder: Path, *paths: Path) -> None:
    plain, redacted = dumped(folder, *paths, redact=False), dumped(folder, *paths)
    word = Redaction(list_of(plain)).word
    before, after = answers(plain), answers(redacted)
    assert by_name(renamed(before["status"], word)) == by_name(after["status"])
    assert forget_places(renamed(before["audit"], word)) == forget_places(after["audit"])
    expected = sorted((of_pod(pod, word), word(node)) for pod, node in nodes_of(before["allocate"]))
    assert expected == nodes_of(after["allocate"])


@pytest.mark.parametrize("preset", PRESETS)
def test_a_fleet_with_other_names_gives_the_same_answers(tmp_path: Path, preset: str) -> None:
    options = ("--preset", preset, "--nodes", "5", "--devices", "4", "--pods", "16", "--seed", "7", "--claims")
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(dra("generate", *options).out)
    placed = tmp_path / "placed.yaml"
    placed.write_text(dra("allocate", fleet, "-o", "yaml").out)
    half = [one for one in documents(placed) if hash_of(one) % 2]
    overlay = saved(tmp_path, *half, name="half.yaml")
    both = tmp_path / "both.json"
    both.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*merged(fleet, overlay)]}))
    same_but_for_names(tmp_path, both)
    pod = next(one for one in list_of(both) if one["kind"] == "Pod" and not one["spec"].get("nodeName"))
    name = pod["metadata"]["name"]
    word = Redaction(list_of(dumped(tmp_path, both, redact=False))).word
    fits = [
        dra("fit", f"pod/{namespace}/{own}", tmp_path / file, "-o", "json")
        for namespace, own, file in (("default", name, "dump.json"), (word("default"), word(name), "redacted.json"))
    ]
    first, second = (orjson.loads(run.out) for run in fits)
    assert renamed(first["nodes"], word) == second["nodes"]
    assert first["copies"] == second["copies"]


def documents(path: Path) -> list[Json]:
    return [dict(one.raw) for one in read([str(path)]) if isinstance(one, RawObject)]


def merged(*paths: Path) -> list[Json]:
    found = {(one["kind"], one["metadata"]["name"]): one for path in paths for one in documents(path)}
    return list(found.values())


def hash_of(raw: Json) -> int:
    return sum(map(ord, raw["metadata"]["name"]))


@pytest.mark.parametrize("seed", range(24))
def test_random_clusters_with_other_names_give_the_same_answers(tmp_path: Path, seed: int) -> None:
    case = worlds.case(Random(seed))  # noqa: S311 - a case of a test
    found = [
        {"apiVersion": version, "kind": kind, **one}
        for name, (version, kind) in KINDS.items()
        for one in case.get(name, [])
    ]
    new = {"apiVersion": "v1", "kind": "Pod", **case["pod"]}
    same_but_for_names(tmp_path, saved(tmp_path, *found, new, a_slice(node="n0"), a_claim("waiting"), a_class()))


def uuid(number: int) -> str:
    return f"1234abcd-0000-4000-8000-{number:012}"


def secret_objects() -> list[Json]:
    """A cluster in which everything that must not be in a redacted dump contains the word `acme`."""
    attributes = {
        "model": {"string": "A100"},
        "uuid": {"string": f"GPU-{uuid(1)}"},
        "serialNumber": {"string": "acme-17"},
        "host": {"string": "acme-node"},
        "index": {"int": 3},
    }
    devices = [{"name": "acme-gpu", "attributes": attributes}]
    pool = {"name": "acme-node", "generation": 1, "resourceSliceCount": 1}
    expression = f"""device.attributes["gpu.example"].host == 'acme-node' // acme's own
        && device.attributes["gpu.example"].uuid != "GPU-{uuid(1)}"
        && device.attributes["gpu.example"].model == 'A100'"""
    container = {
        "name": "acme-main",
        "image": "registry.acme.example/train:v1",
        "env": [{"name": "TOKEN", "value": "acme"}],
        "envFrom": [{"secretRef": {"name": "acme"}}],
        "command": ["acme"],
        "args": ["--password=acme"],
        "resources": {"claims": [{"name": "acme-entry"}], "limits": {"cpu": "2"}},
    }
    metadata = {
        "labels": {"acme.example/team": "acme", "app": "acme"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "acme"},
        "managedFields": [{"manager": "acme"}],
        "uid": uuid(2),
    }
    pod = an_object("v1", "Pod", "acme-pod", "acme-ns", metadata)
    pod["spec"] = {
        "containers": [container],
        "volumes": [{"name": "acme", "secret": {"secretName": "acme"}}],
        "resourceClaims": [{"name": "acme-entry", "resourceClaimName": "acme-claim"}],
        "nodeSelector": {"acme.example/rack": "acme-7", "kubernetes.io/hostname": "acme-node"},
        "serviceAccountName": "acme",
        "imagePullSecrets": [{"name": "acme"}],
        "tolerations": [
            {"key": "acme.example/dedicated", "operator": "Equal", "value": "acme", "effect": "NoSchedule"}
        ],
    }
    pod["status"] = {"podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "False", "message": "acme"}]}
    node = an_object("v1", "Node", "acme-node", metadata={"labels": {"kubernetes.io/hostname": "acme-node"}})
    node["spec"] = {"providerID": "acme://1", "podCIDR": "10.0.0.0/24"}
    node["status"] = {
        "addresses": [{"type": "Hostname", "address": "acme-node"}],
        "images": [{"names": ["registry.acme.example/train:v1"], "sizeBytes": 1000}],
    }
    claim = a_claim("acme-claim", a_request(device_class="acme-class"), namespace="acme-ns")
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": "gpu.example", "parameters": {"key": "acme"}}}]
    secret = {**an_object("v1", "Secret", "acme", "acme-ns"), "data": {"key": "YWNtZQ=="}}
    slice_ = a_slice("acme-slice", node="acme-node", devices=devices, pool=pool)
    return [node, slice_, a_class("acme-class", expressions=[expression]), claim, pod, secret]


def test_a_redacted_dump_names_nothing_and_keeps_what_devices_are(tmp_path: Path) -> None:
    text = dumped(tmp_path, saved(tmp_path, *secret_objects())).read_text()
    assert "acme" not in text
    assert uuid(1) not in text
    assert uuid(2) not in text
    assert "10.1.2.3" not in text
    assert [one for one in ("A100", "gpu.example", '"int": 3', '"cpu": "2"') if one not in text] == []


def test_a_plain_dump_has_names_and_no_secret(tmp_path: Path) -> None:
    run = dra("dump", saved(tmp_path, *secret_objects()))
    assert "left out, as nothing depends on them: 1 Secret" in run.err
    text = run.out
    assert "acme-node" in text
    gone = ("env", "envFrom", "command", "managedFields", "secretName", "podIP", "password", "YWNtZQ", "annotations")
    assert [word for word in gone if f'"{word}"' in text and word != "annotations"] == []
    assert "last-applied-configuration" not in text


def test_a_selector_says_the_same_of_renamed_devices(tmp_path: Path) -> None:
    items = list_of(dumped(tmp_path, saved(tmp_path, *secret_objects())))
    by_kind: Mapping[str, Json] = {one["kind"]: one for one in items}
    attributes = by_kind["ResourceSlice"]["spec"]["devices"][0]["attributes"]
    expression = by_kind["DeviceClass"]["spec"]["selectors"][0]["cel"]["expression"]
    node = by_kind["Node"]["metadata"]["name"]
    assert attributes["host"] == {"string": node}
    assert f'.host == "{node}"' in expression
    assert f'.uuid != "{attributes["uuid"]["string"]}"' in expression
    assert by_kind["ResourceSlice"]["spec"]["pool"]["name"] == node
    assert by_kind["Pod"]["spec"]["nodeSelector"]["kubernetes.io/hostname"] == node


def test_pods_of_a_stateful_set_keep_their_numbers(tmp_path: Path) -> None:
    workload = a_workload("StatefulSet", "web", replicas=3)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uuid(5), "controller": True}
    workload["metadata"]["uid"] = uuid(5)
    pod = a_pod("web-1", metadata={"ownerReferences": [owner]})
    items = list_of(dumped(tmp_path, saved(tmp_path, *a_cluster(), workload, pod)))
    names = {one["kind"]: one["metadata"]["name"] for one in items}
    assert names["Pod"] == f"{names['StatefulSet']}-1"


def test_names_keep_their_order() -> None:
    nodes = [an_object("v1", "Node", name) for name in ("b", "a-2", "a", "z.example", "a-10")]
    redaction = Redaction(nodes)
    names = [one["metadata"]["name"] for one in nodes]
    assert sorted(names, key=redaction.word) == sorted(names)
    assert len(set(map(redaction.word, names))) == len(names)


def test_what_a_kind_is_not_read_for_is_not_kept() -> None:
    assert shareable(an_object("v1", "Secret", "s")) is None
    assert shareable(an_object("v1", "ConfigMap", "s")) is None
    job = {**an_object("kubeflow.org/v1", "MPIJob", "j"), "spec": {"template": {"spec": {"containers": [{"env": []}]}}}}
    kept = shareable(job)
    assert kept is not None
    assert "env" not in json.dumps(kept)


def test_what_a_virtual_machine_is_told_at_its_start_is_not_kept() -> None:
    cloud_init = {"name": "init", "cloudInitNoCloud": {"userData": "password: hunter2"}}
    spec = {
        "domain": {"devices": {}},
        "volumes": [cloud_init],
        "accessCredentials": [{"sshPublicKey": {"a": "hunter2"}}],
    }
    kept = shareable({**an_object("kubevirt.io/v1", "VirtualMachineInstance", "vm"), "spec": spec})
    assert kept is not None
    assert "hunter2" not in json.dumps(kept)


def test_a_dump_is_of_all_namespaces(tmp_path: Path) -> None:
    run = dra("dump", saved(tmp_path, *a_cluster()), "-n", "ml")
    assert (run.code, "-n and -l cannot be used" in run.err) == (2, True)


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    assert dra("dump", tmp_path / "absent").code == 2
    run = dra("dump", saved(tmp_path, *a_cluster()), "-o", tmp_path / "no" / "file")
    assert (run.code, "No such file or directory" in run.err) == (2, True)
    nothing = dra("dump", saved(tmp_path, an_object("v1", "Secret", "s")))
    assert (nothing.code, "contains no objects that count" in nothing.err) == (2, True)


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
def test_a_document_that_is_no_object_is_an_error_as_for_the_other_commands(tmp_path: Path, missing: str) -> None:
    raw = {name: value for name, value in a_claim("c", a_request()).items() if name != missing}
    path = saved(tmp_path, *a_cluster(), raw)
    message = "is not a Kubernetes object: apiVersion and kind must be strings"
    assert [(run.code, run.out, message in run.err) for run in (dra("dump", path), dra("allocate", path))] == [
        (2, "", True),
        (2, "", True),
    ]


def test_devices_of_a_dump_are_held_by_the_same_claims(tmp_path: Path) -> None:
    held = an_allocated_claim("holder", "gpu-0")
    same_but_for_names(tmp_path, saved(tmp_path, *a_cluster(), held))


@pytest.mark.parametrize(
    "broken",
    [
        {"kind": "ResourceSlice", "metadata": "m", "spec": "s"},
        {"kind": "ResourceSlice", "metadata": {"name": 5}, "spec": {"pool": "p", "devices": {"a": 1}, "driver": 3}},
        {"kind": "ResourceClaim", "metadata": {"annotations": ["a"], "labels": [1]}, "spec": [], "status": "x"},
        {"kind": "DeviceClass", "metadata": None, "spec": {"selectors": [{"cel": {"expression": 7}}, 5]}},
    ],
)
def test_an_object_with_errors_is_dumped_with_them(tmp_path: Path, broken: Json) -> None:
    path = saved(tmp_path, {"apiVersion": "resource.k8s.io/v1", **broken})
    assert [one["kind"] for one in list_of(dumped(tmp_path, path))] == [broken["kind"]]
    assert dra("status", tmp_path / "redacted.json").code == 2


def cluster_with_disks_and_ports() -> list[Json]:
    """What decisions read beside devices, under names that look like amounts, addresses and names of Kubernetes."""
    address = "10.20.30.40"
    nodes = [
        {**a_node(name, labels={"kubernetes.io/hostname": name, "rank": rank}), "status": {"allocatable": room}}
        for name, rank, room in (
            (address, "12", {"cpu": "8", "memory": "16Gi", "pods": "9", "acme.com/gpu": "1"}),
            ("5m", "7", {"cpu": "8", "memory": "16Gi", "pods": "9"}),
        )
    ]
    template = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "w",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    disks = a_workload("StatefulSet", "2024", replicas=2, volumeClaimTemplates=[template])
    disks["spec"]["template"] = a_pod_template(containers=[{"name": "c", "image": "a"}], volumes=volumes_of("data"))
    high_rank = {"key": "rank", "operator": "Gt", "values": ["9"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [high_rank]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    amounts = {"acme.com/gpu": "1"}
    resources = {"requests": amounts, "limits": amounts}
    port = {"containerPort": 80, "hostPort": 80, "hostIP": address}
    container = {"name": "c", "image": "a", "ports": [port], "resources": resources}
    asks_for_rank = a_pod("4711", template="one")
    asks_for_rank["spec"].update(affinity=affinity, priorityClassName="system-prod-eu")
    has_port = a_pod("0.5", template="one")
    has_port["spec"].update(containers=[container])
    gated = a_pod("true", template="one")
    gated["spec"].update(schedulingGates=[{"name": "acme.com/approval"}], schedulerName="acme")
    priority = {**an_object("scheduling.k8s.io/v1", "PriorityClass", "system-prod-eu"), "value": 1000}
    bound = a_volume_claim("data-2024-1", volume="pv")
    claim_of_volume = {"namespace": "default", "name": "data-2024-1"}
    return [
        *nodes,
        *(a_slice(node=name, count=3) for name in (address, "5m")),
        a_class(),
        a_template(),
        *(disks, asks_for_rank, has_port, gated, priority, bound),
        a_volume("pv", node="5m", phase="Bound", claimRef=claim_of_volume),
        a_storage_class(),
        a_claim("7"),
    ]


def test_what_decisions_read_beside_devices_decides_the_same(tmp_path: Path) -> None:
    path = saved(tmp_path, *cluster_with_disks_and_ports())
    same_but_for_names(tmp_path, path)
    text = (tmp_path / "redacted.json").read_text()
    assert [
        name for name in ("10.20.30.40", '"5m"', "2024", "4711", "acme", "system-prod", '"0.5"') if name in text
    ] == []


OWN = f'device.attributes["{DRIVER}"]'
AMOUNT = f'device.capacity["{DRIVER}"].memory'
SAME = (
    f'{OWN}.index == int("5")',
    f'uint({OWN}.index) == uint("5")',
    f'double({OWN}.index) == double("5.0")',
    f'{OWN}.index == 5 && duration("5m") > duration("1s")',
    f'{OWN}.index == 5 && timestamp("2026-01-01T00:00:00Z") < timestamp("2027-01-01T00:00:00Z")',
    f'{OWN}.firmware.compareTo(semver("v1.2", true)) >= 0',
    f'{OWN}.firmware.compareTo(semver("1.2.0")) >= 0',
    f'{AMOUNT}.compareTo(quantity("80Gi")) >= 0 && isQuantity("80Gi")',
    f'{OWN}.host == "node-a" && {OWN}.model == "H100"',
)
CHANGED = (
    f'"%s-%s".format(["node", "a"]) == {OWN}.host',
    f'["80Gi"].exists(q, {AMOUNT}.compareTo(quantity(q)) >= 0)',
    f'{AMOUNT}.compareTo(quantity("80" + "Gi")) >= 0',
    f'string({OWN}.index) == "5"',
    f'{OWN}.model.lowerAscii().contains("h100")',
    f'{OWN}.model.matches("H1.0")',
    f'{OWN}.host == "node-" + "a"',
    f'{OWN}.host.startsWith("node-")',
)
"""Selectors that combine a text that is replaced."""


def devices_for_selectors() -> Json:
    attributes = {
        "index": {"int": 5},
        "host": {"string": "node-a"},
        "model": {"string": "H100"},
        "firmware": {"version": "1.2.3"},
    }
    other = {
        "index": {"int": 4},
        "host": {"string": "node-b"},
        "model": {"string": "A100"},
        "firmware": {"version": "1.1.0"},
    }
    capacities = [{"memory": {"value": "80Gi"}}, {"memory": {"value": "40Gi"}}]
    devices = [
        {"name": f"d{number}", "attributes": one, "capacity": capacity}
        for number, (one, capacity) in enumerate(zip((attributes, other), capacities, strict=True))
    ]
    return a_slice(devices=devices)


def test_selectors_that_no_longer_select_the_same_devices_are_named_and_no_others(tmp_path: Path) -> None:
    expressions = [*SAME, *CHANGED]
    request = a_request(selectors=[{"cel": {"expression": one}} for one in (SAME[0], CHANGED[0])])
    raws = (devices_for_selectors(), a_class(expressions=expressions), a_claim("c", request), a_template("t", request))
    path, output = saved(tmp_path, *raws), tmp_path / "redacted.json"
    run = dra("dump", path, "--redact", "-o", output)
    warned = re.findall(r"^warning: (.*) no longer selects the same devices", run.err, re.MULTILINE)
    changed = [
        *(f"DeviceClass gpu: spec.selectors[{len(SAME) + number}].cel.expression" for number in range(len(CHANGED))),
        "ResourceClaim default/c: spec.devices.requests[0].exactly.selectors[1].cel.expression",
        "ResourceClaimTemplate default/t: spec.spec.devices.requests[0].exactly.selectors[1].cel.expression",
    ]
    assert (run.code, warned) == (0, changed)
    before, after = (selected(list_of(one)) for one in (dumped(tmp_path, path, redact=False), output))
    assert before[: len(SAME)] == after[: len(SAME)] == [(True, False)] * len(SAME)
    assert all(one != other for one, other in zip(before[len(SAME) :], after[len(SAME) :], strict=True))


def selected(items: list[Json]) -> list[tuple[bool | None, ...]]:
    """Of the first class, by selector: which devices it selects, None where it fails."""
    by_kind: Mapping[str, Json] = {one["kind"]: one for one in items}
    devices = [cel.device_from_json({**one, "driver": DRIVER}) for one in by_kind["ResourceSlice"]["spec"]["devices"]]
    expressions = [one["cel"]["expression"] for one in by_kind["DeviceClass"]["spec"]["selectors"]]
    return [tuple(answer(one, device) for device in devices) for one in expressions]


def answer(expression: str, device: cel.DeviceLike) -> bool | None:
    try:
        return cel.compile(expression).evaluate(device)
    except (cel.CompileError, cel.EvalError):
        return None


def test_texts_that_no_conversion_reads_are_replaced(tmp_path: Path) -> None:
    wrong = ('int("acme")', 'duration("acme")', 'semver("acme", true)', 'quantity("acme")', 'semver("v1.2-acme", true)')
    raws = (devices_for_selectors(), a_class(expressions=[f"{one} == {one}" for one in wrong]))
    assert "acme" not in dumped(tmp_path, saved(tmp_path, *raws)).read_text()


@pytest.mark.parametrize(
    ("expression", "is_named"),
    [(f"{OWN}.host", False), (f"{OWN}.index", False), (f'{OWN}.host.startsWith("node-a") ? 1 : 2', True)],
)
def test_derived_attributes_that_no_longer_agree_are_named(tmp_path: Path, expression: str, *, is_named: bool) -> None:
    derived = [{"name": "example.com/half", "expression": expression}]
    claim = a_claim("c", a_request(derivedAttributes=derived))
    third = {"name": "d2", "attributes": {"index": {"int": 5}, "host": {"string": "node-ab"}}}
    slice_ = devices_for_selectors()
    slice_["spec"]["devices"].append(third)
    run = dra("dump", saved(tmp_path, slice_, a_class(), claim), "--redact", "-o", tmp_path / "redacted.json")
    path = "ResourceClaim default/c: spec.devices.requests[0].exactly.derivedAttributes[0].expression"
    assert (path in run.err) == is_named


@pytest.mark.parametrize(
    "made",
    [a_claim, a_class, a_slice, a_template, lambda: a_pod("p", template="one")],
    ids=lambda one: str(one.__name__),
)
def test_a_finalizer_of_somebody_keeps_a_domain_without_which_the_object_is_refused(
    tmp_path: Path, made: Callable[[], Json]
) -> None:
    raw = made()
    raw["metadata"]["finalizers"] = ["acme.example.org/own", FINALIZER]
    [redacted] = orjson.loads(dumped(tmp_path, saved(tmp_path, raw)).read_text())["items"]
    assert len(redacted["metadata"]["finalizers"]) == 2
    assert "acme" not in str(redacted)
    assert dra("lint", saved(tmp_path, redacted), "-o", "json").out.count("invalid-object") == 0


def test_derived_attributes_keep_their_names_in_constraints_on_them(tmp_path: Path) -> None:
    derived = [{"name": "acme.example.org/half", "expression": f"{OWN}.index"}]
    claim = a_claim("c", a_request(derivedAttributes=derived))
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": "acme.example.org/half"}]
    redacted = orjson.loads(dumped(tmp_path, saved(tmp_path, devices_for_selectors(), a_class(), claim)).read_text())
    [spec] = [one["spec"]["devices"] for one in redacted["items"] if one["kind"] == "ResourceClaim"]
    name = spec["requests"][0]["exactly"]["derivedAttributes"][0]["name"]
    assert name == spec["constraints"][0]["matchAttribute"]
    assert name.startswith("example.com/")
