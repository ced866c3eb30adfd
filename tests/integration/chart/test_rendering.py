"""The chart renders what kustomize builds, each value changes something, and wrong values are refused by name."""

import copy
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler import VERSION
from tests.integration.chart.helm import Helm, HelmError, Objects, Values, document, documents
from tests.integration.chart.schema import CHART, SCHEMA
from tests.integration.chart.schema import PROGRAMS as SCHEMAS
from tests.integration.conftest import ROOT

MANIFESTS = ROOT / "manifests"
NOTHING: Values = {"scheduler": {"enabled": False}}
COMPONENTS: Mapping[str, tuple[Values, str]] = {
    "scheduler": ({}, "base"),
    "guard": ({**NOTHING, "guard": {"enabled": True}}, "guard/webhook"),
    "policy": ({**NOTHING, "policy": {"enabled": True}}, "guard"),
    "extender": ({**NOTHING, "extender": {"enabled": True, "certManager": False}}, "extender/base"),
    "extender in kube-scheduler's pod": (
        {**NOTHING, "extender": {"enabled": True, "sidecar": True}},
        "extender/sidecar",
    ),
    "extender with cert-manager": ({**NOTHING, "extender": {"enabled": True}}, "extender/cert-manager"),
    "monitoring": (
        {**NOTHING, "monitoring": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}},
        "monitoring",
    ),
}
"""Values that enable one component, and the folder that kustomize builds for it."""

ALL: Values = {
    "guard": {"enabled": True},
    "policy": {"enabled": True},
    "extender": {"enabled": True},
    "monitoring": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
}
DEFAULTS = document((CHART / "values.yaml").read_text())
HASH = re.compile(r"(?<=-config)-[a-z0-9]{10}(?=\")")


def built(kubectl: Path, folder: str) -> Objects:
    text = subprocess.run([kubectl, "kustomize", MANIFESTS / folder], check=True, capture_output=True, text=True).stdout
    return list(documents(text))


def compared(objects: Objects) -> dict[tuple[str, str, str], Any]:
    """By kind, namespace and name, without what is allowed to differ."""
    found = {}
    for obj in map(alike, objects):
        metadata = obj["metadata"]
        key = (obj["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found
        found[key] = obj
    return found


def alike(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without labels for people, without hashes in the name and on the pods, and with the fields of configurations."""
    obj: dict[str, Any] = json.loads(HASH.sub("", json.dumps(raw)))
    labels = obj["metadata"].pop("labels", {})
    obj["metadata"]["labels"] = {key: value for key, value in labels.items() if not is_for_people(key)}
    if obj["kind"].startswith("ValidatingAdmissionPolicy"):
        obj["metadata"].pop("namespace", None)  # kustomize adds one, and the API server drops it
    if obj["kind"] == "ConfigMap":
        obj["data"] = {name: fields(text) for name, text in obj["data"].items()}
    if obj["kind"] == "Deployment":
        metadata = obj["spec"]["template"]["metadata"]
        metadata.setdefault("annotations", {}).pop("checksum/config", None)
    return obj


def is_for_people(label: str) -> bool:
    return label.startswith("app.kubernetes.io/") or label == "helm.sh/chart"


def fields(text: str) -> Any:
    """Of the file; kube-scheduler's own default for the namespace of its lease filled in."""
    found = document(text)
    if found.get("kind") == "KubeSchedulerConfiguration":
        found["leaderElection"].setdefault("resourceNamespace", "kube-system")
    return found


@pytest.mark.parametrize("component", COMPONENTS)
def test_each_component_is_what_kustomize_builds(helm: Helm, kubectl: Path, component: str) -> None:
    values, folder = COMPONENTS[component]
    assert compared(helm.rendered(values)) == compared(built(kubectl, folder))


def test_all_components_together_are_what_kustomize_builds(helm: Helm, kubectl: Path) -> None:
    folders = ("base", "guard", "guard/webhook", "extender/cert-manager", "monitoring")
    assert compared(helm.rendered(ALL)) == compared([obj for folder in folders for obj in built(kubectl, folder)])


def test_another_namespace_is_what_kustomize_builds_for_it(helm: Helm, kubectl: Path) -> None:
    values = {"guard": {"enabled": True}, "extender": {"enabled": True}}
    assert compared(helm.rendered(values, "gpu-system")) == compared(built(kubectl, "examples/namespace"))


def test_nothing_enabled_is_nothing_installed(helm: Helm) -> None:
    assert helm.rendered(NOTHING) == []


@pytest.mark.parametrize("values", [{}, ALL], ids=["default", "all"])
def test_lint_has_nothing_to_say(helm: Helm, values: Values) -> None:
    said = helm.run("lint", CHART, "--strict", values=values)
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert not re.search(r"\[(INFO|WARNING|ERROR)\]", said), said


def test_package_contains_what_is_linked(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, f"--destination={tmp_path}")
    (package,) = tmp_path.glob("*.tgz")
    assert package.name == f"dra-scheduler-{VERSION}.tgz"
    packaged = helm.run("template", "dra", package, "--namespace=kube-system", values=ALL)
    assert [obj for obj in documents(packaged) if obj] == helm.rendered(ALL)


def test_namespace_is_nowhere_but_where_it_is_installed(helm: Helm) -> None:
    objects = helm.rendered(ALL, "gpu-system")
    told = [obj for obj in objects if "kube-system" in json.dumps({**obj, "data": alike(obj).get("data")})]
    left = {obj["metadata"]["name"] for obj in told}
    assert left == {"dra-kube-scheduler-authentication"}  # its Role is in kube-system
    (binding,) = told
    assert [one["namespace"] for one in binding["subjects"]] == ["gpu-system"]


def test_names_in_addresses_and_certificates_are_those_of_the_namespace(helm: Helm) -> None:
    objects = {key[::2]: obj for key, obj in compared(helm.rendered(ALL, "gpu-system")).items()}
    (webhook,) = objects["ValidatingWebhookConfiguration", "dra-guard"]["webhooks"]
    assert webhook["clientConfig"]["service"]["namespace"] == "gpu-system"
    configured = objects["ConfigMap", "dra-kube-scheduler-config"]["data"]["kube-scheduler-config.yaml"]
    assert configured["extenders"][0]["urlPrefix"] == "https://dra-extender.gpu-system.svc:9443/v1"
    assert configured["leaderElection"]["resourceNamespace"] == "gpu-system"
    assert objects["Certificate", "dra-extender"]["spec"]["dnsNames"] == ["dra-extender.gpu-system.svc"]


def test_list_of_allocators_replaces_the_example(helm: Helm) -> None:
    allocators = {"a.example.com": "system:kube-scheduler", "b.example.com": "system:serviceaccount:x:y"}
    (policy, _) = helm.rendered({**NOTHING, "policy": {"enabled": True, "allocators": allocators}})
    (variable,) = (one for one in policy["spec"]["variables"] if one["name"] == "allocators")
    assert document(variable["expression"]) == allocators


def test_roles_grant_the_leases_that_are_configured(helm: Helm) -> None:
    lease = {"leaderElection": {"resourceName": "other"}}
    values = {
        "scheduler": {"config": lease},
        "guard": {"enabled": True, "config": lease},
        "extender": {"enabled": True, "kubeScheduler": {"config": lease}},
    }
    granted = {
        obj["metadata"]["name"]: rule["resourceNames"]
        for obj in helm.rendered(values)
        if obj["kind"] == "Role"
        for rule in obj["rules"]
        if rule["resources"] == ["leases"] and "resourceNames" in rule
    }
    assert granted == {name: ["other"] for name in ("dra-scheduler", "dra-guard", "dra-kube-scheduler")}


def test_policy_lets_the_guard_write_the_lease_that_is_configured(helm: Helm) -> None:
    values = {"guard": {"enabled": True, "config": {"leaderElection": {"resourceName": "other"}}}}
    (policy,) = (
        obj
        for obj in helm.rendered({**NOTHING, **values})
        if obj["kind"] == "ValidatingAdmissionPolicy" and obj["metadata"]["name"] == "dra-guard"
    )
    variables = {one["name"]: " ".join(one["expression"].split()) for one in policy["spec"]["variables"]}
    lease_or_own = "(request.resource.resource == 'leases' ? 'other' : 'dra-guard')"
    assert variables["isUpdate"] == f"request.operation == 'UPDATE' && request.name == {lease_or_own}"
    assert variables["isNewLease"].endswith("object.metadata.?name.orValue('') == 'other'")


def test_what_only_preemption_needs_is_granted_unless_it_is_off(helm: Helm) -> None:
    def roles(config: Values) -> set[str]:
        objects = helm.rendered({"scheduler": {"config": config}})
        return {obj["metadata"]["name"] for obj in objects if obj["kind"].startswith("ClusterRole")}

    assert roles({}) - roles({"preemption": "off"}) == {"dra-scheduler-preemption"}
    assert roles({}) == roles({"preemption": "devices"})
    with pytest.raises(HelmError, match="preemption"):  # YAML 1.1 reads a bare off as false
        roles({"preemption": False})


def test_alert_names_the_leases_that_are_configured(helm: Helm) -> None:
    values = {"scheduler": {"config": {"leaderElection": {"resourceName": "other"}}}, "monitoring": ALL["monitoring"]}
    rules = json.dumps([obj for obj in helm.rendered(values) if obj["kind"] == "PrometheusRule"])
    assert 'name=~\\"other|dra-guard\\"' in rules
    assert "dra-scheduler|dra-guard" not in rules


@pytest.mark.parametrize(("allowed", "name"), [(["somebody"], "somebody"), ([], "dra-kube-scheduler")])
def test_certificate_of_the_client_has_a_name_that_the_extender_allows(
    helm: Helm, allowed: list[str], name: str
) -> None:
    """With an empty list, it allows every name."""
    extender = {"enabled": True, "config": {"tls": {"clientNames": allowed}}}
    names = {
        obj["spec"]["commonName"]
        for obj in helm.rendered({**NOTHING, "extender": extender})
        if obj["metadata"]["name"] == "dra-kube-scheduler" and obj["kind"] == "Certificate"
    }
    assert names == {name}


def leaves(values: Values, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value that is no object, and each object without fields; of a configuration nothing."""
    for key, value in values.items():
        if key == "config":
            continue
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


OTHERS: Mapping[str, Any] = {
    "imagePullSecrets": [{"name": "secret"}],
    "pullPolicy": "Always",
    "addressType": "IPv6",
    "allocators": {"a.example.com": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "nodeSelector": {"a": "b"},
    "podAnnotations": {"a": "b"},
    "labels": {"a": "b"},
    "digest": f"sha256:{'0' * 64}",
    "secrets": {"/etc/more": "secret"},
    "featureGates": {"DRAExtendedResource": False},
    "minAvailable": 0,
}
"""Another value than the default of those that cannot be of just any content."""


def another(name: str, value: Any) -> Any:
    """A value of the same type."""
    if name in OTHERS:
        return OTHERS[name]
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}0"


def with_value(path: tuple[str, ...], value: Any) -> Values:
    values: Any = copy.deepcopy(ALL)
    place = values
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    return values  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def everything(helm: Helm) -> Objects:
    """What all components are."""
    return helm.rendered(ALL)


@pytest.mark.parametrize("path", [path for path, _ in leaves(DEFAULTS)], ids=".".join)
def test_each_value_changes_what_is_installed(helm: Helm, everything: Objects, path: tuple[str, ...]) -> None:
    default = dict(leaves(DEFAULTS))[path]
    value = another(path[-1], dict(leaves(ALL)).get(path, default))
    after = helm.rendered(with_value(path, value))
    changed = [obj for obj in after if obj not in everything] + [obj for obj in everything if obj not in after]
    assert changed
    component = path[0] if path[0] in ALL or path[0] == "scheduler" else ""
    if component in ("scheduler", "guard"):
        assert all(obj["metadata"]["name"].startswith(f"dra-{component}") for obj in changed)


def test_changed_configuration_replaces_the_pods(helm: Helm) -> None:
    def annotations(values: Values) -> Mapping[str, str]:
        (deployment,) = (obj for obj in helm.rendered(values) if obj["kind"] == "Deployment")
        found: Mapping[str, str] = deployment["spec"]["template"]["metadata"]["annotations"]
        return found

    assert annotations({}) != annotations({"scheduler": {"config": {"policy": "least-allocated"}}})
    assert annotations({}) == annotations({"scheduler": {"replicas": 3}})


IMAGES = [
    ({}, f"x:{VERSION}"),
    ({"tag": "1"}, "x:1"),
    ({"digest": OTHERS["digest"]}, f"x@{OTHERS['digest']}"),
    ({"tag": "1", "digest": OTHERS["digest"]}, f"x:1@{OTHERS['digest']}"),
]


@pytest.mark.parametrize(("image", "name"), IMAGES, ids=["neither", "tag", "digest", "both"])
def test_image_is_named_by_tag_or_digest(helm: Helm, image: Values, name: str) -> None:
    assert images(helm.rendered({"image": {"repository": "x", **image}})) == {name}


def test_image_of_kube_scheduler_is_named_by_digest(helm: Helm) -> None:
    image = {"repository": "x", "tag": "v1", "digest": OTHERS["digest"]}
    values = {**NOTHING, "extender": {"enabled": True, "kubeScheduler": {"image": image}}}
    assert f"x:v1@{OTHERS['digest']}" in images(helm.rendered(values))


def images(objects: Objects) -> set[str]:
    specs = [obj["spec"]["template"]["spec"] for obj in objects if obj["kind"] == "Deployment"]
    return {one["image"] for spec in specs for one in (*spec["containers"], *spec.get("initContainers", ()))}


DRAINED = (
    *((replicas, least) for replicas in (2, 3, 7, 10, 12) for least in (0, 1, min(replicas, 10) - 1)),
    *((2, "50%"), (3, "66%"), (4, "75%"), (9, "88%"), (10, "90%"), (40, "90%"), (2, "0%"), (5, "09%")),
)
NEVER_DRAINED = (
    *((replicas, replicas) for replicas in (2, 3, 7, 10)),
    *((2, 5), (2, "51%"), (3, "67%"), (4, "76%"), (9, "89%"), (10, "91%"), (10, "100%"), (12, "100%"), (2, "1000%")),
)


def minding(replicas: int, least: int | str) -> Values:
    program = {"enabled": True, "replicas": replicas, "podDisruptionBudget": {"enabled": True, "minAvailable": least}}
    return {"scheduler": program, "guard": program}


def healthy(replicas: int, least: int | str) -> int:
    """How many replicas the budget wants, as the API server counts them."""
    return least if isinstance(least, int) else -(-int(least.removesuffix("%")) * replicas // 100)


@pytest.mark.parametrize(("replicas", "least"), DRAINED)
def test_budget_lets_a_replica_be_drained(helm: Helm, replicas: int, least: int | str) -> None:
    assert healthy(replicas, least) < replicas
    budgets = [obj["spec"] for obj in helm.rendered(minding(replicas, least)) if obj["kind"] == "PodDisruptionBudget"]
    assert [one["minAvailable"] for one in budgets] == [least, least]


@pytest.mark.parametrize(("replicas", "least"), NEVER_DRAINED)
def test_budget_that_no_drain_can_meet_is_refused(helm: Helm, replicas: int, least: int | str) -> None:
    assert healthy(replicas, least) >= replicas
    with pytest.raises(HelmError) as refused:
        helm.rendered(minding(replicas, least))
    for program in ("scheduler", "guard"):
        assert f"/{program}/podDisruptionBudget/minAvailable" in str(refused.value)


@pytest.mark.parametrize("replicas", [0, 1])
def test_single_replica_can_be_drained(helm: Helm, replicas: int) -> None:
    values = {name: {"enabled": True, "replicas": replicas} for name in ("scheduler", "guard")}
    assert "PodDisruptionBudget" not in {obj["kind"] for obj in helm.rendered(values)}


PROGRAMS = {"scheduler": {}, "guard": {"enabled": True}, "extender": {"enabled": True, "certManager": False}}
FOLDER = "/etc/of-tests"
FILE = re.compile(r"File\b|\A(Path|TLS certificate|Private key|CA) of|\ATLS certificate")
"""In the name or description of a field that names a file."""


def file_fields(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields of a configuration that name files, by their descriptions and names."""
    for name, field in schema.get("properties", {}).items():
        target = schema["$defs"].get(field.get("$ref", "").rpartition("/")[2], field)
        if "properties" in target:
            yield from file_fields({**target, "$defs": schema["$defs"]}, (*path, name))
        elif field.get("type") == "string" and (FILE.search(name) or FILE.search(field["description"])):
            yield (*path, name)


FILES = [
    (program, path)
    for program, name in zip(PROGRAMS, SCHEMAS, strict=True)
    for path in file_fields(json.loads(SCHEMA.read_text())["$defs"][name])
]


def naming(program: str, path: tuple[str, ...], **values: object) -> Values:
    """The values of a program whose configuration has a file in FOLDER at that path."""
    config: Any = f"{FOLDER}/{path[-1]}.pem"
    for key in reversed(path):
        config = {key: config}
    return {**NOTHING, program: {"enabled": True, **PROGRAMS[program], "config": config, **values}}


@pytest.mark.parametrize(("program", "path"), FILES, ids=lambda one: one if isinstance(one, str) else ".".join(one))
def test_file_that_a_configuration_names_is_mounted(helm: Helm, program: str, path: tuple[str, ...]) -> None:
    with pytest.raises(HelmError) as refused:
        helm.rendered(naming(program, path))
    field = f"{program}.config.{'.'.join(path)}"
    assert f"{field}: no Secret is mounted at {FOLDER}: name one in {program}.secrets" in str(refused.value)
    objects = helm.rendered(naming(program, path, secrets={FOLDER: "my-secret"}))
    assert mounted(objects, f"dra-{program}")[FOLDER] == {"secretName": "my-secret", "defaultMode": 0o440}


def test_configurations_name_files() -> None:
    """So that the test above is about some."""
    assert {path[-1] for _, path in FILES} >= {"kubeconfig", "tlsCertFile", "certFile", "keyFile", "clientCaFile"}
    assert {program for program, _ in FILES} == PROGRAMS.keys()


def test_files_are_mounted_in_the_pod_of_kube_scheduler(helm: Helm) -> None:
    path = ("secureServing", "tlsCertFile")
    values = naming("extender", path, sidecar=True, secrets={FOLDER: "my-secret"})
    assert mounted(helm.rendered(values), "dra-kube-scheduler")[FOLDER]["secretName"] == "my-secret"
    with pytest.raises(HelmError, match=r"extender.config.secureServing.tlsCertFile: no Secret is mounted"):
        helm.rendered(naming("extender", path, sidecar=True))


def test_files_of_kube_scheduler_are_mounted(helm: Helm) -> None:
    extenders = copy.deepcopy(DEFAULTS["extender"]["kubeScheduler"]["config"]["extenders"])
    extenders[0]["tlsConfig"]["caFile"] = "/other/ca.crt"
    values = {"extender": {"enabled": True, "kubeScheduler": {"config": {"extenders": extenders}}}}
    with pytest.raises(HelmError, match=r"kubeScheduler.config.extenders.0.tlsConfig.caFile: no Secret is mounted"):
        helm.rendered(values)


@pytest.mark.parametrize(
    ("program", "folder"),
    [
        ("scheduler", "/etc/dra-scheduler"),
        ("guard", "/etc/dra-guard"),
        ("extender", "/etc/dra-extender/config"),
        ("extender", "/etc/dra-extender/tls"),
    ],
)
def test_secret_where_something_else_is_mounted_is_refused(helm: Helm, program: str, folder: str) -> None:
    values = {program: {"enabled": True, "secrets": {folder: "my-secret"}}}
    with pytest.raises(
        HelmError, match=rf"{program}.secrets: something else is mounted at {folder}: name another folder"
    ):
        helm.rendered(values)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"guard": {"enabled": True, "config": {"address": "0.0.0.0:10260"}}},
            "guard.config.healthAddress: port 10260 is that of guard.config.address",
        ),
        (
            {"extender": {"enabled": True, "config": {"healthAddress": "0.0.0.0:9443"}}},
            "extender.config.healthAddress: port 9443 is that of extender.config.address",
        ),
        (
            {"extender": {"enabled": True, "sidecar": True, "config": {"healthAddress": "0.0.0.0:10259"}}},
            "extender.config.healthAddress: port 10259 is that of kube-scheduler",
        ),
    ],
)
def test_port_that_a_pod_has_already_is_refused(helm: Helm, values: Values, problem: str) -> None:
    with pytest.raises(HelmError, match=problem):
        helm.rendered(values)


@pytest.mark.parametrize("sidecar", [False, True])
def test_metrics_are_scraped_from_the_port_that_is_configured(helm: Helm, sidecar: bool) -> None:  # noqa: FBT001
    configured: dict[str, Any] = {
        program: {"enabled": True, "config": {"healthAddress": f"0.0.0.0:{port}"}}
        for program, port in {"scheduler": 8443, "guard": 8444, "extender": 8445}.items()
    }
    configured["extender"]["sidecar"] = sidecar
    caller = "dra-kube-scheduler" if sidecar else "dra-extender"
    annotations = annotations_of(helm.rendered(configured))
    ports = {name: annotations[name]["prometheus.io/port"] for name in ("dra-scheduler", "dra-guard", caller)}
    assert ports == {"dra-scheduler": "8443", "dra-guard": "8444", caller: "8445"}


def test_port_of_the_metrics_is_named_where_pods_are_scraped_and_once(helm: Helm) -> None:
    unscraped = {"podAnnotations": {"prometheus.io/scrape": None}}
    named = {"podAnnotations": {"prometheus.io/port": "1"}, "enabled": True}
    annotations = annotations_of(helm.rendered({"scheduler": unscraped, "guard": named}))
    assert "prometheus.io/port" not in annotations["dra-scheduler"]
    assert annotations["dra-guard"]["prometheus.io/port"] == "1"


def annotations_of(objects: Objects) -> dict[str, dict[str, str]]:
    """Those of the pods, by Deployment."""
    return {
        obj["metadata"]["name"]: obj["spec"]["template"]["metadata"]["annotations"]
        for obj in objects
        if obj["kind"] == "Deployment"
    }


def test_kube_scheduler_that_does_not_allocate_is_refused_with_an_advisory_extender(helm: Helm) -> None:
    extenders = copy.deepcopy(DEFAULTS["extender"]["kubeScheduler"]["config"]["extenders"])
    values: dict[str, Any] = {"enabled": True, "config": {"mode": "advisory"}}
    with pytest.raises(HelmError, match=r"kubeScheduler.config.extenders.0.bindVerb: not with mode advisory"):
        helm.rendered({"extender": values})
    del extenders[0]["bindVerb"], extenders[0]["preemptVerb"]
    values["kubeScheduler"] = {"config": {"extenders": extenders}}
    with pytest.raises(HelmError, match=r"profiles.0.plugins.multiPoint.disabled: DynamicResources allocates"):
        helm.rendered({"extender": values})
    of_others = {"urlPrefix": "https://other.example", "bindVerb": "bind", "preemptVerb": "preempt"}
    values["kubeScheduler"]["config"]["extenders"] = [*extenders, of_others]
    for plugins in (None, {}, {"multiPoint": None}, {"multiPoint": {"disabled": None}}):
        values["kubeScheduler"]["config"]["profiles"] = [{"schedulerName": "dra-kube-scheduler", "plugins": plugins}]
        assert helm.rendered({"extender": values})


def mounted(objects: Objects, name: str) -> dict[str, Any]:
    """The Secrets that the containers of the Deployment find, by folder; only a group of the pod may read them."""
    (spec,) = (
        obj["spec"]["template"]["spec"]
        for obj in objects
        if (obj["kind"], obj["metadata"]["name"]) == ("Deployment", name)
    )
    assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]
    volumes = {one["name"]: one.get("secret") for one in spec["volumes"]}
    containers = (*spec["containers"], *spec.get("initContainers", ()))
    return {one["mountPath"]: volumes[one["name"]] for each in containers for one in each["volumeMounts"]}


@pytest.mark.parametrize(
    ("values", "place", "problem"),
    [
        ({"replica": 3}, "", "additional properties 'replica' not allowed"),
        ({"scheduler": {"replicas": "3"}}, "/scheduler/replicas", "got string, want integer"),
        ({"scheduler": {"replicas": -1}}, "/scheduler/replicas", "minimum: got -1, want 0"),
        ({"scheduler": {"config": {"polcy": "x"}}}, "/scheduler/config", "additional properties 'polcy' not allowed"),
        (
            {"guard": {"config": {"leaderElection": {"leaderElect": False}}}},
            "/guard/config/leaderElection/leaderElect",
            "value must be true",
        ),
        ({"scheduler": {"config": {"healthAddress": "127.0.0.1:10260"}}}, "/scheduler/config/healthAddress", "pattern"),
        (
            {"guard": {"config": {"leaderElection": {"resourceNamespace": "other"}}}},
            "/guard/config/leaderElection/resourceNamespace",
            "value must be ''",
        ),
        (
            {"guard": {"config": {"publish": {"endpointSlice": "other"}}}},
            "/guard/config/publish/endpointSlice",
            "value must be 'dra-guard'",
        ),
        ({"guard": {"config": {"kind": "DraSchedulerConfiguration"}}}, "/guard/config/kind", "'DraGuardConfiguration'"),
        ({"extender": {"config": {"mode": "both"}}}, "/extender/config/mode", "'authoritative', 'advisory'"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", "'IfNotPresent'"),
        ({"policy": {"allocators": {"a.example.com": "it's"}}}, "/policy/allocators/a.example.com", "pattern"),
        ({"guard": {"podDisruptionBudget": {"minAvailable": "half"}}}, "/minAvailable", "pattern"),
        ({"image": {"digest": "sha256:abc"}}, "/image/digest", "pattern"),
        ({"guard": {"secrets": {"certificates": "a"}}}, "certificates", "pattern"),
    ],
)
def test_wrong_value_is_refused_by_name(helm: Helm, values: Values, place: str, problem: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.rendered(values)
    assert place in str(refused.value)
    assert problem in str(refused.value)
