import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

import cel
from allocator.gates import Features
from scheduler.checks.contract import FindingLevel, ObjectName, run
from scheduler.checks.lint import RULES
from scheduler.cli.lint import manifests_of
from tests.unit.scheduler.cli.command import Run, dra, saved
from tests.unit.scheduler.manifest_cases import MANIFEST_CASES, NAMESPACE
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_namespace,
    a_node,
    a_pod,
    a_pod_template,
    a_request,
    a_slice,
    a_template,
    a_workload,
    an_allocated_claim,
    an_object,
    devices_of,
    owned_by,
    text_of,
)
from tests.unit.scheduler.scenario import inventory_of


def lint(objects: Sequence[Json], *options: str) -> Run:
    return dra("lint", "-", *options, stdin=text_of(*objects))


def found(objects: Sequence[Json], *options: str) -> list[tuple[str, str, str, str]]:
    """(rule, object, field, message) of each finding that is not a note."""
    run = lint(objects, "-o", "json", *options)
    assert run.code in (0, 1), run.err
    items = [one for one in orjson.loads(run.out)["items"] if one["level"] != "note"]
    return [(one["rule"], _name(one["object"]), one["field"] or "", one["message"]) for one in items]


def _name(subject: Any) -> str:
    return "/".join(filter(None, (subject["kind"], subject["namespace"], subject["name"])))


def asking(expression: str, name: str = "c") -> Json:
    return a_claim(name, a_request(selectors=[{"cel": {"expression": expression}}]))


def cluster(*expressions: str, **device: Any) -> list[Json]:
    """A node with two devices; without expressions, the class asks for the driver."""
    devices = [{"name": f"gpu-{number}", **device} for number in range(2)]
    return [a_node(), a_slice(devices=devices), a_class(expressions=expressions or [f'device.driver == "{DRIVER}"'])]


def a_pod_group(version: str = "v1beta1", **spec: Any) -> Json:
    group = an_object(f"scheduling.k8s.io/{version}", "PodGroup", "g", "default")
    return {**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}}


LATEST = ("--kubernetes", "1.38")
"""It serves all groups in v1beta1."""

MODEL = {"attributes": {"model": {"string": "A100"}}}


def test_a_fleet_in_order_has_notes_at_most() -> None:
    run = lint([*cluster(), a_claim()])
    assert run.code == 0
    assert found([*cluster(), a_claim()]) == []
    assert run.err == f"{len(RULES)} rules: 0 errors, 0 warnings, 1 note\n"


def test_a_selector_that_does_not_compile_is_an_error_with_its_place() -> None:
    [(rule, subject, _, message)] = found([*cluster(), asking("device.driver ==")])
    assert (rule, subject) == ("invalid-object", "ResourceClaim/default/c")
    assert "spec.devices.requests[0].exactly.selectors[0].cel.expression: does not compile" in message
    assert "^" in message
    assert "standard input" in message
    assert lint([*cluster(), asking("device.driver ==")]).code == 1


def test_the_table_shows_the_place_in_the_source_of_a_selector() -> None:
    lines = lint([*cluster(), asking("device.driver ==")]).out.splitlines()
    [row] = [line for line in lines if line.startswith("error")]
    assert "Syntax error" in row
    assert " | device.driver ==" in lines
    assert any(line.startswith(" | ...") and "^" in line for line in lines)


def test_a_selector_that_fails_on_a_device_is_an_error() -> None:
    expression = f'device.attributes["{DRIVER}"].model == "A100"'
    selector = found([*cluster(), asking(expression)])[0]
    assert selector[:3] == (
        "selector-fails",
        "ResourceClaim/default/c",
        "spec.devices.requests[0].exactly.selectors[0].cel.expression",
    )
    place = f"fails on 2 of the devices of class gpu (2), first on {DRIVER}/node-1/gpu-0: "
    assert selector[3].startswith(f"{place}CEL runtime error: no such key: model")


def test_a_class_is_run_over_all_devices_and_a_request_over_those_of_its_class() -> None:
    other = a_slice("other", node="node-2", driver="nic.example", devices=[{"name": "nic"}])
    expression = f'device.attributes["{DRIVER}"].model == "A100"'
    assert [one[0] for one in found([*cluster(**MODEL), other, asking(expression)])] == []
    [failing] = found([*cluster(expression, **MODEL), other])
    assert failing[:3] == ("selector-fails", "DeviceClass/gpu", "spec.selectors[0].cel.expression")
    assert failing[3].startswith("fails on 1 of the input's devices (3), first on nic.example/node-2/nic: ")


def test_a_selector_that_accepts_no_device_is_a_warning_with_what_may_be_misspelt() -> None:
    expression = f'device.attributes["{DRIVER}"].?modle.orValue("") == "A100"'
    findings = found([*cluster(**MODEL), asking(expression)])
    missing = f"no device has {DRIVER}/modle in its attributes; did you mean {DRIVER}/model?"
    message = f"accepts none of the devices of class gpu (2); {missing}"
    assert ("selector-matches-none", message) in [(one[0], one[3]) for one in findings]


def test_a_constraint_on_an_attribute_that_no_device_has_is_an_error() -> None:
    claim = a_claim()
    claim["spec"] = devices_of(a_request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/modell"}])
    findings = found([*cluster(**MODEL), claim])
    message = f"no device has the attribute {DRIVER}/modell; did you mean {DRIVER}/model?"
    assert (
        "unknown-attribute",
        "ResourceClaim/default/claim-1",
        "spec.devices.constraints[0].matchAttribute",
        message,
    ) in findings


def test_a_claim_that_fits_nowhere_even_on_an_empty_cluster_is_an_error() -> None:
    full = an_allocated_claim("full", "gpu-0", "gpu-1")
    assert found([*cluster(), full, a_claim("small", a_request(count=2))]) == []
    [finding] = found([*cluster(), a_claim("large", a_request(count=3))])
    assert finding[:3] == ("unsatisfiable-request", "ResourceClaim/default/large", "spec")
    assert finding[3].startswith("fits no node, even if nothing is in use: 0/1 nodes: no node has 3 devices")


def test_a_claim_whose_search_ends_before_it_knows_is_a_warning() -> None:
    objects = inventory_of(*cluster(), a_claim("c", a_request(count=2)))
    manifests = manifests_of(objects, Features.of("1.36"), budget_steps=0)
    [finding] = [one for one in run(RULES, manifests) if one.observation.subject.name == "c"]
    assert (finding.rule.name, finding.rule.level) == ("undecided-request", FindingLevel.WARNING)
    seen = finding.observation
    assert (seen.subject, seen.field) == (ObjectName("ResourceClaim", "c", "default"), "spec")
    assert seen.message.startswith("whether it fits a node is not known, even if nothing is in use: 0/1 nodes: ")


def test_templates_are_checked_like_claims() -> None:
    template = a_template("one", a_request(count=3))
    [finding] = found([*cluster(), template])
    assert finding[:3] == ("unsatisfiable-request", "ResourceClaimTemplate/default/one", "spec.spec")


def test_a_class_without_selectors_is_a_warning() -> None:
    assert [one[:3] for one in found(a_cluster())] == [("class-without-selectors", "DeviceClass/gpu", "spec.selectors")]


def test_a_shared_capacity_without_a_policy_is_a_warning() -> None:
    with_policy = {"value": "80Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": with_policy, "bandwidth": {"value": "1M"}}}
    place = f"first on {DRIVER}/node-1/gpu-0"
    assert found(cluster(**shared)) == [
        (
            "capacity-without-policy",
            f"driver/{DRIVER}",
            "",
            f"capacity bandwidth has no requestPolicy on 2 shared devices, {place}",
        )
    ]


def test_a_shared_capacity_in_two_spellings_is_one() -> None:
    short = cluster(allowMultipleAllocations=True, capacity={"bandwidth": {"value": "1M"}})
    [slice_] = [one for one in short if one["kind"] == "ResourceSlice"]
    (_, last) = slice_["spec"]["devices"]
    last["capacity"] = {f"{DRIVER}/bandwidth": {"value": "1M"}}
    [finding] = found(short)
    assert finding[3] == f"capacity bandwidth has no requestPolicy on 2 shared devices, first on {DRIVER}/node-1/gpu-0"


def test_a_claim_near_a_limit_is_a_warning() -> None:
    requests = [a_request(f"r{number}") for number in range(29)]
    findings = [one for one in found([*cluster(), a_claim("c", *requests)]) if one[0] == "near-limit"]
    assert [one[2:] for one in findings] == [
        ("spec.devices.requests", "has 29 of at most 32 requests"),
        ("spec.devices.requests[*].count", "has 29 of at most 32 devices"),
    ]


def test_selectors_subrequests_and_constraints_near_their_limits_are_warnings() -> None:
    selectors = [{"cel": {"expression": "true"}}] * 32
    names = [f"{DRIVER}/model", *(f"{DRIVER}/a{number}" for number in range(28))]
    claim = a_claim("c", a_request(selectors=selectors), a_request("any", count=1))
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": name} for name in names]
    ways = [{"name": f"way-{number}", "deviceClassName": "gpu"} for number in range(8)]
    claim["spec"]["devices"]["requests"][1] = {"name": "any", "firstAvailable": ways}
    findings = [one for one in found([*cluster(**MODEL), claim]) if one[0] == "near-limit"]
    assert [one[3] for one in findings] == [
        "has 29 of at most 32 constraints",
        "has 32 of at most 32 selectors of gpu",
        "has 8 of at most 8 subrequests of any",
    ]


def test_a_class_that_does_not_exist_is_named() -> None:
    [(rule, _, _, message)] = found([*cluster(), a_claim("c", a_request(device_class="gpux"))])
    assert rule == "missing-class"
    assert message == "DeviceClass gpux does not exist; did you mean gpu?"


def test_a_capacity_that_no_device_has_is_named() -> None:
    expression = f'has(device.capacity["{DRIVER}"].memry)'
    messages = [one[3] for one in found([*cluster(capacity={"memory": {"value": "80Gi"}}), asking(expression)])]
    assert any(
        f"no device has {DRIVER}/memry in its capacity; did you mean {DRIVER}/memory?" in text for text in messages
    )


def test_a_selector_above_the_cost_limit_is_an_error() -> None:
    inner = "true"
    for name in "dcba":
        inner = f'device.attributes["{DRIVER}"].all({name}, {inner})'
    run = lint(cluster(inner))
    assert run.code == 1
    [(rule, subject, _, message)] = [one for one in found(cluster(inner)) if "cost" in one[3]]
    assert (rule, subject) == ("selector-too-expensive", "DeviceClass/gpu")
    assert message.endswith(f"more than the limit of {cel.COST_LIMIT:,}")


def test_a_selector_above_the_cost_limit_is_an_error_also_without_its_class() -> None:
    inner = "true"
    for name in "dcba":
        inner = f'device.attributes["{DRIVER}"].all({name}, {inner})'
    [(rule, subject, _, message)] = found([asking(inner)])
    assert (rule, subject) == ("selector-too-expensive", "ResourceClaim/default/c")
    assert message.endswith(f"more than the limit of {cel.COST_LIMIT:,}")


def test_a_selector_near_the_cost_limit_is_a_warning() -> None:
    nine = "[1,2,3,4,5,6,7,8,9].all"
    every = f"{nine}(a, {nine}(b, {nine}(c, {nine}(d, a + b + c + d > 0))))"
    near = " && ".join([every] * 11)
    costs = [one for one in found([*cluster(), asking(near)]) if one[0] == "selector-cost"]
    share = 100 * cel.compile(near).estimated_cost // cel.COST_LIMIT
    assert 80 <= share <= 100
    assert [f"{share} % of the limit of 1,000,000" in one[3] for one in costs] == [True]
    assert [one for one in found([*cluster(), asking(every)]) if one[0] == "selector-cost"] == []


def test_an_object_of_an_old_version_is_a_warning() -> None:
    old = a_class("old", expressions=["true"])
    old["apiVersion"] = "resource.k8s.io/v1beta2"
    assert found([*cluster(), old]) == [
        (
            "old-version",
            "DeviceClass/old",
            "apiVersion",
            "is of version resource.k8s.io/v1beta2, not resource.k8s.io/v1",
        )
    ]


def test_without_slices_selectors_are_compiled_and_a_warning_says_that_they_are_not_run() -> None:
    run = lint([a_class(), asking("device.driver ==")])
    assert run.code == 1
    assert "warning: the input contains no ResourceSlice: selectors are compiled, but run over no device" in run.err


def test_input_without_objects_is_no_success() -> None:
    run = dra("lint", "-", stdin="")
    assert run.code != 0


def test_objects_without_devices_and_namespaces_without_objects_are_no_success() -> None:
    run = lint([a_node()])
    assert (run.code, run.out) == (2, "")
    assert "no ResourceSlice: there is nothing to check" in run.err
    run = lint([*cluster(), a_claim()], "-n", "typo")
    assert (run.code, run.out) == (2, "")
    assert "nothing is checked: the input contains no object in namespace typo" in run.err
    assert lint([*cluster(), a_claim()], "-n", "default").code == 0


def test_every_rule_has_a_name_of_its_own_and_advice() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.summary.endswith(".") and rule.advice.endswith(".") for rule in RULES)


def test_a_misspelt_driver_is_named_with_the_one_that_may_be_meant() -> None:
    [(rule, subject, _, message)] = found(cluster('device.driver == "gpu.exmaple.com"'))[:1]
    assert (rule, subject) == ("selector-matches-none", "DeviceClass/gpu")
    assert message == (
        f"accepts none of the input's devices (2); no device has the driver gpu.exmaple.com; did you mean {DRIVER}?"
    )


# Pods whose claims are missing


def missing(*objects: Json) -> list[tuple[str, str, str]]:
    """(object, field, message) of each finding of the rule."""
    return [tuple(one[1:]) for one in found([*cluster(), *objects]) if one[0] == "missing-claim"]  # type: ignore[misc]


def test_a_template_or_claim_that_does_not_exist_is_an_error() -> None:
    pods = [a_pod("p", template="onne"), a_pod("q", claim="d"), a_pod("r", template="one"), a_pod("s", claim="c")]
    assert missing(a_template("one", a_request()), a_claim("c"), *pods) == [
        (
            "Pod/default/p",
            "spec.resourceClaims[0].resourceClaimTemplateName",
            "ResourceClaimTemplate default/onne does not exist; did you mean one?",
        ),
        (
            "Pod/default/q",
            "spec.resourceClaims[0].resourceClaimName",
            "ResourceClaim default/d does not exist",
        ),
    ]
    assert lint([*cluster(), a_template("one", a_request()), a_pod(template="onne")]).code == 1


def test_what_the_input_has_no_object_of_is_not_missing() -> None:
    assert missing(a_template("one", a_request()), a_pod(claim="d")) == []
    assert missing(a_claim("c"), a_pod(template="two")) == []


def test_a_template_of_another_namespace_is_not_that_of_the_pod() -> None:
    [(_, _, message)] = missing(a_template("one", a_request(), namespace="other"), a_pod(template="one"))
    assert message == "ResourceClaimTemplate default/one does not exist; there is one in namespace other"


def test_a_workload_stands_for_its_pods() -> None:
    template = a_template("two", a_request())
    pod = a_pod("work-1", template="one", metadata=owned_by("Job", "work", "uid-work"))
    job = a_workload("Job")
    cron = a_workload("CronJob", "nightly")
    assert [one[:2] for one in missing(template, job, cron, pod)] == [
        ("Job/default/work", "spec.template.spec.resourceClaims[0].resourceClaimTemplateName"),
        ("CronJob/default/nightly", "spec.jobTemplate.spec.template.spec.resourceClaims[0].resourceClaimTemplateName"),
    ]
    assert [one[0] for one in missing(template, pod)] == ["Pod/default/work-1"]


def test_a_pod_that_has_its_claim_or_is_over_needs_no_template() -> None:
    statuses = {"resourceClaimStatuses": [{"name": "dev", "resourceClaimName": "p-dev-x"}]}
    made = a_pod("p", template="gone", status=statuses)
    over = a_pod("q", template="gone", status={"phase": "Succeeded"})
    assert missing(a_template("one", a_request()), made, over) == []


def test_a_template_with_errors_is_there() -> None:
    broken = a_template("one", {"name": "r", "exactly": {"deviceClassName": 7}})
    assert missing(a_template("two", a_request()), broken, a_pod(template="one")) == []


# What the API server refuses or drops


def rules(*objects: Json, options: Sequence[str] = ()) -> list[str]:
    return [one[0] for one in found(objects, *options)]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            a_template("t", {"name": "gpu", "deviceClassName": "gpu"}),
            "spec.spec.devices.requests[0].deviceClassName: unknown field: in v1 it belongs in exactly",
        ),
        (
            a_claim("c", a_request(selectors=[{"cel": None, "expression": "true"}])),
            "spec.devices.requests[0].exactly.selectors[0].expression: unknown field: it belongs in cel",
        ),
        (
            {**a_claim("c"), "spec": {**devices_of(), "config": []}},
            "spec.config: unknown field: it belongs in devices",
        ),
        (
            a_pod("p", claim="c", containers=[{"name": "main", "claims": [{"name": "dev"}]}]),
            "spec.containers[0].claims: unknown field: it belongs in resources",
        ),
        (
            a_pod("p", entries=[{"name": "dev", "resourceClaimTemplate": "t", "resourceClaimName": "c"}]),
            "spec.resourceClaims[0].resourceClaimTemplate: unknown field: did you mean resourceClaimTemplateName",
        ),
        (
            a_workload("Job", template={"spec": {"resourceclaims": [], "containers": [{"name": "main"}]}}),
            "spec.template.spec.resourceclaims: unknown field: did you mean resourceClaims?",
        ),
        (
            a_workload("Deployment", template={**a_pod_template(), "resourceClaims": []}),
            "spec.template.resourceClaims: unknown field: it belongs in spec.template.spec",
        ),
        (
            a_workload("CronJob", template={**a_pod_template(), "resourceClaims": []}),
            "spec.jobTemplate.spec.template.resourceClaims: unknown field: it belongs in spec.jobTemplate.spec.templat",
        ),
        (
            a_workload("Job", template=a_pod_template(containers=[{"name": "main", "claims": [{"name": "dev"}]}])),
            "containers[0].claims: unknown field: it belongs in resources",
        ),
        ({**a_pod("p"), "resourceClaims": []}, "resourceClaims: unknown field: it belongs in spec"),
        (
            a_pod("p", entries=[{"name": "dev", "templateName": "one"}]),
            "spec.resourceClaims[0].templateName: unknown field",
        ),
        (
            a_pod("p", schedulingGroup={"podGroup": "g", "podGroupName": "g"}),
            "spec.schedulingGroup.podGroup: unknown field: did you mean podGroupName?",
        ),
        (a_pod_group(minCount=2), "spec.minCount: unknown field: it belongs in schedulingPolicy.gang"),
        (
            a_pod_group(preemptionPolicy="Never", version="v1alpha2"),
            "spec.preemptionPolicy: unknown field",
        ),
    ],
)
def test_an_unknown_or_misplaced_field_is_an_error_that_says_where_it_belongs(raw: Json, message: str) -> None:
    run = lint([*cluster(), raw])
    assert run.code == 1
    assert message in run.out
    assert "unknown-field" in rules(*cluster(), raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            a_pod_group(resourceClaims=[{"name": "g"}]),
            "needs exactly one of resourceClaimName and resourceClaimTemplate",
        ),
        (a_pod_group(resourceClaims=2 * [{"name": "g", "resourceClaimName": "c"}]), "[1].name: must be unique"),
        (a_pod_group(resourceClaims=[{"name": "G", "resourceClaimName": "c"}]), "spec.resourceClaims[0].name: must be"),
        (
            a_pod_group(resourceClaims=[{"name": f"g{n}", "resourceClaimName": "c"} for n in range(5)]),
            "spec.resourceClaims: must not have more than 4 entries",
        ),
        (a_pod("p", schedulingGroup={}), "spec.schedulingGroup.podGroupName: is required"),
        (a_pod("p", schedulingGates=2 * [{"name": "later"}]), "spec.schedulingGates[1].name: must be unique"),
    ],
)
def test_what_groups_and_gates_break_is_refused_as_of_pods(raw: Json, message: str) -> None:
    assert rules(*cluster(), raw) == ["invalid-object"]
    assert message in lint([*cluster(), raw]).out


def test_whole_groups_pass() -> None:
    first: Json = {"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}}
    later: Json = {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "preemptionPolicy": "Never",
        "priority": 1,
    }
    both: Json = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "one"}], "priorityClassName": "high"}
    constraints: Json = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
    composite = {
        **an_object("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "c", "default"),
        "spec": {
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "disruptionMode": {"all": {}},
            **later,
            **constraints,
        },
    }
    older = a_pod_group(version="v1alpha2", **first, **both, **constraints)
    assert rules(*cluster(), older, options=("--kubernetes", "1.36")) == []
    assert rules(*cluster(), a_pod_group(**later, **both, **constraints), composite) == []


def test_a_required_field_that_stands_elsewhere_is_missing() -> None:
    raw = a_claim("c", {"name": "gpu", "deviceClassName": "gpu", "exactly": {"count": 2}})
    assert rules(*cluster(), raw) == ["invalid-object", "unknown-field"]


def test_fields_of_a_pod_that_have_nothing_to_do_with_claims_are_left_to_the_api_server() -> None:
    raw = a_pod("p", resources={}, resourceTypo=1, containers=[{"name": "main", "resizePolicy": [], "colour": 1}])
    assert rules(*cluster(), raw) == []


def test_what_no_release_knows_is_an_error_too() -> None:
    tolerations = [{"key": "k", "operator": "Exist"}]
    assert rules(*cluster(), a_pod("p", tolerations=tolerations)) == ["invalid-object"]


def test_an_object_that_is_there_twice_is_not_refused_by_the_api_server() -> None:
    [(rule, subject, _, message)] = found([*cluster(), a_claim("c"), a_claim("c", a_request(count=2))])
    assert (rule, subject) == ("duplicate-object", "ResourceClaim/default/c")
    assert message.endswith("differs from the copy in standard input, document 4")
    run = lint([*cluster(), a_claim("c"), a_claim("c", a_request(count=2))])
    assert "The API server would refuse" not in run.out


def test_a_file_that_cannot_be_read_is_an_error_of_its_own() -> None:
    run = dra("lint", "-", stdin="{]")
    assert run.code == 1
    assert "unreadable-input" in run.out


def test_an_object_whose_pods_cannot_be_determined_is_a_warning() -> None:
    graph = {**an_object("x.example.com/v1", "Graph", "g"), "spec": {"a": {"resourceClaimTemplateName": "one"}}}
    assert rules(*cluster(), graph) == ["unused-input"]
    assert lint([*cluster(), graph]).code == 0
    assert lint([*cluster(), graph], "--fail-on", "warning").code == 1


REFUSED = frozenset({"unreadable-input", "invalid-object", "unknown-field", "admin-access-without-label"})
"""The rules about what the API server refuses."""

OF_THE_CASES = ("--kubernetes", "1.36")
"""The release of the API server that the manifests are applied to."""


@pytest.mark.parametrize("name", MANIFEST_CASES)
def test_what_kubectl_apply_refuses_is_an_error_and_nothing_else(name: str) -> None:
    case = MANIFEST_CASES[name]
    run = lint([a_namespace(NAMESPACE), case.raw], *OF_THE_CASES)
    assert REFUSED.isdisjoint(rules(a_namespace(NAMESPACE), case.raw, options=OF_THE_CASES)) == case.is_applied
    assert (run.code == 0) == case.is_applied


def test_a_version_that_the_release_does_not_serve_is_an_error() -> None:
    rule = MANIFEST_CASES["taint rule of v1"].raw
    served = "resource.k8s.io/v1beta2, resource.k8s.io/v1alpha3"
    message = f"Kubernetes 1.36 does not serve DeviceTaintRule in resource.k8s.io/v1: it serves {served}"
    assert ("invalid-object", "DeviceTaintRule/r", "apiVersion", message) in found([rule], "--kubernetes", "1.36")
    assert REFUSED.isdisjoint(one[0] for one in found([rule]))


@pytest.mark.parametrize(
    ("kind", "version", "release", "refusal"),
    [
        ("PodGroup", "v1alpha2", "1.35", "it serves no version of the kind"),
        ("PodGroup", "v1alpha2", "1.36", ""),
        ("PodGroup", "v1beta1", "1.36", "it serves scheduling.k8s.io/v1alpha2"),
        ("PodGroup", "v1alpha2", "1.37", "it serves scheduling.k8s.io/v1beta1, scheduling.k8s.io/v1alpha3"),
        ("PodGroup", "v1alpha3", "1.37", ""),
        ("CompositePodGroup", "v1beta1", "1.37", "it serves scheduling.k8s.io/v1alpha3"),
        ("CompositePodGroup", "v1beta1", "1.38", ""),
    ],
)
def test_a_version_of_a_group_that_the_release_does_not_serve_is_an_error(
    kind: str, version: str, release: str, refusal: str
) -> None:
    policy = {"gang": {"minCount" if kind == "PodGroup" else "minGroupCount": 1}}
    spec = {"schedulingPolicy": policy, "workloadRef": {"workloadName": "w", "templateName": "t"}}
    group = {**an_object(f"scheduling.k8s.io/{version}", kind, "g", "ml"), "spec": spec}
    refused = [
        one[3]
        for one in found([group, asking("true")], "--kubernetes", release)
        if one[:2] == ("invalid-object", f"{kind}/ml/g")
    ]
    whole = f"Kubernetes {release} does not serve {kind} in scheduling.k8s.io/{version}: {refusal}"
    assert refused == ([whole] if refusal else [])


LISTS = {"l": {"strings": ["a", "b"]}}


def distinct(raw: Json) -> Json:
    """The claim or template, with a constraint by distinctAttribute."""
    spec = raw["spec"].get("spec", raw["spec"])
    spec["devices"]["constraints"] = [{"distinctAttribute": "gpu.example/index"}]
    return raw


@pytest.mark.parametrize(
    ("raw", "options", "field"),
    [
        (
            a_slice("s", node="n", devices=[{"name": "d", "attributes": LISTS}]),
            ("--kubernetes", "1.36"),
            "spec.devices[0].attributes[l].strings",
        ),
        (
            a_slice("s", node="n", perDeviceNodeSelection=True, devices=[{"name": "d", "nodeName": "node-1"}]),
            ("--kubernetes", "1.34"),
            "spec.perDeviceNodeSelection",
        ),
        (
            distinct(a_claim("c", a_request())),
            ("--kubernetes", "1.35"),
            "spec.devices.constraints[0].distinctAttribute",
        ),
        (
            distinct(a_template("t", a_request())),
            ("--feature-gates", "DRAConsumableCapacity=false"),
            "spec.spec.devices.constraints[0].distinctAttribute",
        ),
        (
            a_claim("c", {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}),
            ("--kubernetes", "1.34", "--feature-gates", "DRAPrioritizedList=false"),
            "spec.devices.requests[0].firstAvailable",
        ),
    ],
)
def test_what_is_invalid_without_the_fields_of_a_gate_that_is_off_is_an_error(
    raw: Json, options: Sequence[str], field: str
) -> None:
    def invalid(*given: str) -> list[str]:
        return [one[2] for one in found([*cluster(), raw], *given) if one[0] == "invalid-object"]

    assert invalid(*options) == [field]
    assert invalid("--kubernetes", "1.38", "--feature-gates", "DRAListTypeAttributes=true") == []


@pytest.mark.parametrize(("release", "is_known"), [("1.34", False), ("1.35", False), ("1.36", True), ("1.38", True)])
def test_scheduling_group_of_a_pod_is_an_unknown_field_before_it_came(release: str, is_known: bool) -> None:  # noqa: FBT001
    pod = a_pod("p", schedulingGroup={"podGroupName": "g"})
    unknown = [one[1:3] for one in found([*cluster(), pod], "--kubernetes", release) if one[0] == "unknown-field"]
    assert unknown == ([] if is_known else [("Pod/default/p", "spec.schedulingGroup")])


@pytest.mark.parametrize(
    ("expression", "problem", "refusing"),
    [
        ('device.attributes["a"].l.includes(1)', "undeclared reference to 'includes'", ("1.34", "1.36", "1.37")),
        ('device.attributes["a"].l.exists(x, x == 1)', "cannot be range of a comprehension", ("1.37", "1.38")),
        ("!device.allowMultipleAllocations", "the API server knows no such field", ("1.34", "1.35")),
        ('"x" in device.attributes["a"]', "", ()),
    ],
)
def test_selector_that_the_api_server_compiles_only_with_a_gate_is_an_error_without_it(
    expression: str, problem: str, refusing: Sequence[str]
) -> None:
    objects, lists = [*cluster(), asking(expression)], "DRAListTypeAttributes=true"
    for release in ("1.34", "1.37", "1.38", *refusing):
        errors = [one[3] for one in found(objects, "--kubernetes", release) if one[0] == "invalid-object"]
        assert [problem in one for one in errors] == ([True] if release in refusing or errors else [])
    assert REFUSED.isdisjoint(rules(*objects, options=("--feature-gates", lists)))


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (a_claim("c", a_request(tolerations=[{"operator": "Exists"}])), "the API server drops tolerations (1 request)"),
        (
            a_claim("c", a_request(capacity={"requests": {"memory": "1Gi"}})),
            "the API server drops amounts of capacity that are asked for (1 request)",
        ),
        (
            a_class("ext", extendedResourceName="example.com/gpu"),
            "extendedResourceName of classes is ignored (1 class)",
        ),
        (
            a_slice("s", node="n", devices=[{"name": "d", "bindsToNode": True}]),
            "the API server drops bindsToNode (1 device)",
        ),
    ],
)
def test_fields_of_gates_that_are_off_are_warned_of_wherever_they_are(raw: Json, line: str) -> None:
    off = [one[3] for one in found([*cluster(), raw], "--kubernetes", "1.35") if one[0] == "gate-off"]
    assert [one.partition("): ")[2] for one in off] == [line]
    assert line in dra("status", "-", "--kubernetes", "1.35", stdin=text_of(*cluster(), raw)).err
    assert [one for one in found([*cluster(), raw], "--kubernetes", "1.37") if one[0] == "gate-off"] == []


HALVES = {"default": "1", "validValues": ["500m", "1"]}
QUARTERS = {"default": "2500m", "validRange": {"min": "250m", "step": "2250m"}}


@pytest.mark.parametrize(
    ("policy", "release", "gates", "problem"),
    [
        (HALVES, "1.36", "", "validValues[1]: must be unique, rounded up to a whole number"),
        (HALVES, "1.37", "", ""),
        (HALVES, "1.37", "DRAFractionalCapacityRange=false", "validValues[1]: must be unique, rounded up"),
        (HALVES, "1.38", "", ""),
        (QUARTERS, "1.36", "", "validRange.step: must divide the distance from min 250m to default 2500m"),
        (QUARTERS, "1.37", "", ""),
        ({"default": "1", "validRange": {"min": "1", "step": "-1"}}, "1.36", "", ""),
        ({"default": "1", "validRange": {"min": "1", "step": "-1"}}, "1.37", "", "validRange.step: must be greater"),
        ({"default": "1u", "validRange": {"min": "0"}}, "1.36", "", ""),
        ({"default": "1u", "validRange": {"min": "0"}}, "1.38", "", "default: must be a whole number of thousandths"),
    ],
)
def test_request_policies_are_judged_by_the_rules_of_the_release(
    policy: Json, release: str, gates: str, problem: str
) -> None:
    capacity = {"share": {"value": "10", "requestPolicy": policy}}
    devices = [{"name": "d", "allowMultipleAllocations": True, "capacity": capacity}]
    options = ["--kubernetes", release, *(["--feature-gates", gates] if gates else [])]
    run = found([a_node("n"), a_slice("s", node="n", devices=devices), a_class()], *options)
    errors = [one[3] for one in run if one[0] == "invalid-object"]
    assert [problem in one for one in errors] == [True] * bool(problem)


def test_an_older_version_of_a_taint_rule_is_a_warning_once_there_is_a_newer_one() -> None:
    rule = MANIFEST_CASES["taint rule of v1beta2"].raw
    assert "old-version" not in {one[0] for one in found([rule], "--kubernetes", "1.36")}
    assert "old-version" in {one[0] for one in found([rule])}
    alpha = {**rule, "apiVersion": "resource.k8s.io/v1alpha3"}
    assert "old-version" not in {one[0] for one in found([alpha], "--kubernetes", "1.35")}
    (old,) = [one for one in found([alpha], "--kubernetes", "1.36") if one[0] == "old-version"]
    assert old[3] == "is of version resource.k8s.io/v1alpha3, not resource.k8s.io/v1beta2"


def test_a_namespace_of_a_class_is_a_warning_and_the_class_counts() -> None:
    raw = a_class(expressions=["true"])
    raw["metadata"]["namespace"] = "ml"
    claim = a_claim("c", a_request(), namespace="ml")
    run = lint([a_node(), a_slice(), raw, a_class(expressions=["true"]), claim], "-o", "json")
    reported = [(one["rule"], one["level"]) for one in orjson.loads(run.out)["items"] if one["level"] != "note"]
    assert (run.code, reported) == (0, [("unused-input", "warning")])
    assert "metadata.namespace: is ignored: the kind has no namespaces" in run.out


def test_what_the_api_server_drops_since_a_gate_is_off_is_a_warning() -> None:
    tainted = cluster(taints=[{"key": "k", "effect": "NoSchedule"}])
    [(rule, subject, _, message)] = found(tainted, "--kubernetes", "1.34")
    assert (rule, subject) == ("gate-off", "feature gate/DRADeviceTaints")
    assert message.endswith("taints of devices are ignored (2 devices)")
    assert rules(*tainted) == []


# Selectors as the allocator asks them

NIC = a_slice("nic", node="node-2", driver="nic.example", devices=[{"name": "nic", "attributes": {"a": {"int": 1}}}])
IS_NIC, IS_ONE = 'device.driver == "nic.example"', 'device.attributes["nic.example"].a == 1'


def test_a_selector_is_not_asked_of_devices_that_the_one_before_it_refuses() -> None:
    assert rules(*cluster(), NIC, a_class("nic", expressions=[IS_NIC, IS_ONE])) == []
    assert lint([a_node(), NIC, a_slice(), a_class("nic", expressions=[IS_NIC, IS_ONE])]).out == ""
    assert rules(*cluster(), NIC, a_class("nic", expressions=[IS_ONE, IS_NIC])) == ["selector-fails"]
    selectors = [{"cel": {"expression": one}} for one in (IS_NIC, IS_ONE)]
    claim = a_claim("c", a_request(device_class="all", selectors=selectors))
    others = [a_class("all", expressions=["true"]), a_node("node-2")]
    assert rules(*cluster(), *others, NIC, claim) == []


def test_selectors_that_accept_nothing_together_are_found_at_the_last_one() -> None:
    [(rule, _, field, message)] = found([*cluster(), NIC, a_class("nic", expressions=[IS_NIC, f"!({IS_NIC})"])])
    assert (rule, field) == ("selector-matches-none", "spec.selectors[1].cel.expression")
    assert message == "accepts none of the input's devices that pass the selectors before it (1)"


def test_only_devices_that_count_are_asked() -> None:
    pool = {"name": "node-2", "generation": 2, "resourceSliceCount": 2}
    incomplete = {**NIC, "spec": {**NIC["spec"], "pool": pool}}
    findings = found([*cluster(), incomplete, a_class("nic", expressions=[IS_NIC])])
    assert [one[:2] for one in findings] == [
        ("selector-matches-none", "DeviceClass/nic"),
        ("unusable-pool", "pool/nic.example/node-2"),
    ]


# Rules about taints, admin access, pods and their claims


def a_rule(**selector: str) -> Json:
    spec = {"deviceSelector": selector, "taint": {"key": "k", "effect": "NoExecute"}}
    return {**an_object("resource.k8s.io/v1", "DeviceTaintRule", "rule"), "spec": spec}


def test_a_taint_rule_with_an_empty_selector_is_a_warning() -> None:
    [(rule, subject, field, message)] = found([*cluster(), a_rule()])
    assert (rule, subject, field) == ("taints-everything", "DeviceTaintRule/rule", "spec.deviceSelector")
    assert message == "taints every device of every driver with k:NoExecute"
    assert rules(*cluster(), a_rule(driver=DRIVER)) == []


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"driver": "gpu.exmaple"}, f"none has the driver gpu.exmaple; did you mean {DRIVER}?"),
        ({"driver": DRIVER, "pool": "node-2"}, "none has the pool node-2; did you mean node-1?"),
        ({"device": "gpu-7"}, "none has the device gpu-7; did you mean gpu-1 or gpu-0?"),
    ],
)
def test_a_taint_rule_that_selects_nothing_is_a_warning(selector: dict[str, str], message: str) -> None:
    [(rule, *_, text)] = found([*cluster(), a_rule(**selector)])
    assert (rule, text) == ("taints-nothing", f"selects none of the input's devices: {message}")
    assert rules(a_rule(**selector)) == []


def test_a_taint_rule_without_a_selector_taints_nothing() -> None:
    raw = a_rule()
    del raw["spec"]["deviceSelector"]
    assert rules(*cluster(), raw) == ["taints-nothing"]


def test_admin_access_needs_the_label_of_the_namespace() -> None:
    claim = a_claim("c", a_request(adminAccess=True, allocationMode="All"))
    [(rule, subject, field, message)] = found([*cluster(), a_namespace(), claim])
    assert (rule, subject) == ("admin-access-without-label", "ResourceClaim/default/c")
    assert field == "spec.devices.requests[0].exactly.adminAccess"
    assert message == 'namespace default lacks the label resource.kubernetes.io/admin-access: "true"'
    labels = {"resource.kubernetes.io/admin-access": "true"}
    assert rules(*cluster(), a_namespace(labels=labels), claim) == []
    assert rules(*cluster(), a_namespace("other"), claim) == []  # nobody knows


def a_user(*uses: Json, **spec: Any) -> Json:
    return a_pod("p", claim="c", containers=[{"name": "main", "resources": {"claims": list(uses)}}], **spec)


def test_a_container_that_uses_a_request_which_the_claim_does_not_have_is_an_error() -> None:
    claim = a_claim("c", a_request("gpu"))
    [(rule, subject, field, message)] = found([*cluster(), claim, a_user({"name": "dev", "request": "gpus"})])
    assert (rule, subject) == ("unknown-request", "Pod/default/p")
    assert field == "spec.containers[0].resources.claims[0].request"
    assert message == "claim dev has no request gpus; did you mean gpu?"
    assert rules(*cluster(), claim, a_user({"name": "dev", "request": "gpu"})) == []
    assert rules(*cluster(), a_user({"name": "dev", "request": "gpus"})) == []  # the claim is not there


def test_a_claim_that_no_container_uses_is_a_warning() -> None:
    [(rule, subject, field, message)] = found([*cluster(), a_claim("c"), a_user()])
    assert (rule, subject, field) == ("unused-claim", "Pod/default/p", "spec.resourceClaims[0]")
    assert message == "no container uses the claim dev"
    assert rules(*cluster(), a_claim("c"), a_user({"name": "dev"})) == []


def test_a_pod_that_says_more_than_is_looked_at_is_a_warning() -> None:
    """The API server stores it, and kube-scheduler places it."""
    tolerations = [{"key": f"key-{number:06}", "operator": "Exists"} for number in range(2000)]
    large = a_user({"name": "dev"}, tolerations=tolerations)
    [(rule, subject, field, message)] = found([*cluster(), a_claim("c"), large])
    assert (rule, subject, field) == ("oversized-pod", "Pod/default/p", "spec")
    assert "in spec.tolerations; at most 65,536 are looked at" in message
    assert rules(*cluster(), a_claim("c"), a_user({"name": "dev"}, tolerations=tolerations[:1000])) == []
    init = [{"name": f"c-{number:05}"} for number in range(5000)]
    users = [*init, {"name": "last", "resources": {"claims": [{"name": "dev"}]}}]
    assert rules(*cluster(), a_claim("c"), a_user(initContainers=users)) == ["oversized-pod"]


def test_claim_for_resources_of_the_node_needs_no_container_since_1_37() -> None:
    amounts = {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "4"}}}}
    fleet = [a_node(), a_class(), a_slice(devices=[{"name": "cores", **amounts}])]
    for release, is_found in {"1.36": True, "1.37": False}.items():
        options = ("--kubernetes", release, "--feature-gates", "DRANodeAllocatableResources=true")
        assert ("unused-claim" in rules(*fleet, a_claim("c"), a_user(), options=options)) == is_found


def sharing(kind: str, *, replicas: int = 2, **spec: Any) -> Json:
    """A workload whose pods name one claim."""
    user = a_user({"name": "dev"}, **spec)["spec"]
    number: dict[str, Any] = {} if kind == "DaemonSet" else {"replicas": replicas}
    return a_workload(kind, template={"metadata": {"labels": {"app": "x"}}, "spec": user}, **number)


HOSTNAME_TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
LOCAL = "whose devices are on one node, and the pods"
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HOSTNAME_TERM]}}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (sharing("Deployment", replicas=257), "257 pods use the claim, which can have at most 256 consumers"),
        (
            sharing("Deployment", affinity=APART),
            f"2 pods use the claim, {LOCAL} keep each other off a node by anti-affinity",
        ),
        (
            sharing("DaemonSet"),
            f"2 pods use the claim, {LOCAL} are on different nodes",
        ),
    ],
)
def test_several_pods_on_one_claim_that_cannot_share_it_are_a_warning(raw: Json, message: str) -> None:
    findings = found([*cluster(), a_node("node-2"), a_claim("c"), raw])
    assert [(one[0], one[3]) for one in findings] == [("unshareable-claim", message)]
    assert findings[0][2] == "spec.template.spec.resourceClaims[0].resourceClaimName"


def test_pods_on_one_node_can_share_a_claim_unless_it_stands_for_resources_of_the_node() -> None:
    assert rules(*cluster(), a_claim("c"), sharing("Deployment")) == []
    mapped = {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}
    gate = ("--kubernetes", "1.37", "--feature-gates", "DRANodeAllocatableResources=true")
    objects = [*cluster(**mapped), a_claim("c"), sharing("Deployment")]
    assert rules(*objects, options=gate) == ["unshareable-claim"]


def test_without_any_class_in_the_input_none_is_missing() -> None:
    objects = [a_node(), a_slice(), a_claim("c", a_request(device_class="gpu"))]
    assert rules(*objects) == []
    assert rules(*objects, a_class("other", expressions=[f'device.driver == "{DRIVER}"'])) == ["missing-class"]


# Where findings are


def test_each_finding_about_a_file_names_the_file_and_the_line_that_it_is_in(tmp_path: Path) -> None:
    wrong = {**a_class(), "spec": {"selector": []}}
    first = saved(tmp_path, a_claim(), wrong, name="first.yaml")
    second = saved(tmp_path, wrong, name="second.yaml")
    second.write_text(second.read_text() + "---\n# a remark\n---\n\nkind: [\n")
    named = orjson.loads(dra("lint", first, second, "-o", "json").out)["items"]
    places = [(one["rule"], Path(one["file"]).name, one["document"], one["line"]) for one in named]
    assert ("unknown-field", "first.yaml", 2, 4) in places
    assert ("unknown-field", "second.yaml", 1, 2) in places
    assert [one for one in places if one[0] == "unreadable-input"] == [("unreadable-input", "second.yaml", 3, 8)]
    results = orjson.loads(dra("lint", first, second, "-o", "sarif").out)["runs"][0]["results"]
    physical = [one["locations"][0]["physicalLocation"] for one in results]
    assert all(one["artifactLocation"]["uri"].startswith("file:///") for one in physical)
    assert {one["region"]["startLine"] for one in physical} >= {2, 4, 8}


@pytest.mark.parametrize("output", ["table", "json", "sarif", "junit", "html"])
def test_a_file_whose_name_is_no_text_is_reported_in_every_format(tmp_path: Path, output: str) -> None:
    name = os.fsdecode(b"\xff.yaml")
    saved(tmp_path, {**a_class(), "spec": {"selectors": 1}}, name=name)
    run = dra("lint", tmp_path, "-o", output)
    assert run.code == 1
    run.out.encode()


# Fields that came with a later release


def a_newer_slice() -> Json:
    """With fields that came with 1.36 and 1.37."""
    lists = {"attributes": {"links": {"strings": ["a", "b"]}}}
    return a_slice(devices=[{"name": "gpu-0", **lists}], skipNodeOperations=["*"])


@pytest.mark.parametrize(
    ("release", "fields"),
    [
        ("1.35", ["spec.devices[*].attributes[*] with bools, ints, strings or versions", "spec.skipNodeOperations"]),
        ("1.36", ["spec.skipNodeOperations"]),
        ("1.37", []),
    ],
)
def test_a_field_that_came_with_a_later_release_is_unknown(release: str, fields: list[str]) -> None:
    named = found([a_newer_slice()], "--kubernetes", release)
    unknown = [(subject, field) for rule, subject, field, _ in named if rule == "unknown-field"]
    assert unknown == [(f"ResourceSlice/{a_newer_slice()['metadata']['name']}", field) for field in fields]


def test_derived_attributes_are_unknown_up_to_1_36() -> None:
    derived = [{"name": "example.com/half", "expression": "1"}]
    constraint = {"matchAttribute": "example.com/half"}
    claim = a_claim("c", a_request(derivedAttributes=derived))
    claim["spec"]["devices"]["constraints"] = [constraint]
    unknown = [one[1:] for one in found([claim], "--kubernetes", "1.36") if one[0] == "unknown-field"]
    at = "spec.devices.requests[0].exactly.derivedAttributes"
    message = f"{at}: unknown field in Kubernetes 1.36: it came with DRADerivedAttributes in 1.37"
    assert unknown == [("ResourceClaim/default/c", at, message)]
    assert not [one for one in found([claim], "--kubernetes", "1.37") if one[0] == "unknown-field"]


def a_compute_domain(**spec: Any) -> Json:
    named = {"channel": {"resourceClaimTemplate": {"name": "imex"}}, **spec}
    return {**an_object("resource.nvidia.com/v1beta1", "ComputeDomain", "domain", "default"), "spec": named}


def test_a_template_that_a_controller_makes_is_not_missing() -> None:
    pod = a_pod("p", template="imex")
    assert "missing-claim" in {one[0] for one in found([*a_cluster(), pod])}
    assert "missing-claim" not in {one[0] for one in found([*a_cluster(), pod, a_compute_domain()])}
    assert "missing-claim" in {one[0] for one in found([*a_cluster(), pod, a_compute_domain(channel={})])}
    assert lint([a_compute_domain()]).code == 2
    placed = dra("allocate", "-", stdin=text_of(*a_cluster(), pod, a_compute_domain()))
    assert placed.code == 1
    assert (
        "claim template default/imex is not in the input: the controller of ComputeDomain default/domain" in placed.out
    )


def test_rows_name_request_and_selector() -> None:
    selectors = [{"cel": {"expression": 'device.attributes["gpu.example"].none'}}]
    claim = a_claim("c", a_request("any"), a_request("fast", selectors=selectors))
    run = lint([*a_cluster(), claim])
    (row,) = [line for line in run.out.splitlines() if line.endswith("selector-fails")]
    assert "request fast, selector #0: fails on 2 of the devices of class gpu (2)" in row
    items = orjson.loads(lint([*a_cluster(), claim], "-o", "json").out)["items"]
    assert "request fast, selector #0" in {one["where"] for one in items}


def a_tree(groups: int, **of_groups: Any) -> list[Json]:
    by = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    gang = {"schedulingPolicy": {"gang": {"minCount": 1}}, "parentCompositePodGroupName": "llm", **by, **of_groups}
    root = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}, **by}
    version = "scheduling.k8s.io/v1beta1"
    return [
        {**an_object(version, "CompositePodGroup", "llm", "ml"), "spec": root},
        *({**an_object(version, "PodGroup", f"g{number}", "ml"), "spec": gang} for number in range(groups)),
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "field", "message"),
    [
        ("CompositePodGroup", {}, "spec.workloadRef", "spec.workloadRef: is required"),
        (
            "PodGroup",
            {"parentCompositePodGroupName": "llm"},
            "spec.workloadRef",
            "spec.workloadRef: is required beside parentCompositePodGroupName",
        ),
        (
            "PodGroup",
            {"disruptionMode": {"all": {}}},
            "spec.disruptionMode",
            "spec.disruptionMode: must not be all without the policy gang, since Kubernetes 1.38",
        ),
    ],
)
def test_what_a_group_lacks_is_found(kind: str, fields: Json, field: str, message: str) -> None:
    spec = {"schedulingPolicy": {"basic": {}}, **fields}
    raw = {**an_object("scheduling.k8s.io/v1beta1", kind, "g", "ml"), "spec": spec}
    assert ("invalid-object", f"{kind}/ml/g", field, message) in found([raw], *LATEST)


def test_tree_of_groups_that_is_always_refused_is_found() -> None:
    assert found(a_tree(1000), *LATEST) == []
    many = "1001 PodGroups are in it by their spec.parentCompositePodGroupName, more than 1000"
    llm = "CompositePodGroup/ml/llm"
    assert found(a_tree(1001), *LATEST) == [("refused-tree", llm, "", f"CompositePodGroup ml/llm: {many}")]
    ((rule, _, _, message),) = found(a_tree(1, priority=7), *LATEST)
    assert rule == "refused-tree"
    assert message.endswith("got 7 (PodGroup ml/g0) and 0 (CompositePodGroup ml/llm)")


@pytest.mark.parametrize("length", [1, 2, 4, 5, 9])
def test_circle_of_groups_is_found_once_however_long_it_is(length: int) -> None:
    def in_circle(number: int, parent: int) -> Json:
        by = {"workloadName": "w", "templateName": "t"}
        spec = {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": f"g{parent}", "workloadRef": by}
        return {**an_object("scheduling.k8s.io/v1beta1", "CompositePodGroup", f"g{number}", "ml"), "spec": spec}

    circle = [in_circle(number, (number + 1) % length) for number in range(length)]
    ((rule, subject, _, _),) = found([in_circle(length, length - 1), *circle], *LATEST)
    assert (rule, subject) == ("refused-tree", "CompositePodGroup/ml/g0")
