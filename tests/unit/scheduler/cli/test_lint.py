from collections.abc import Sequence
from typing import Any

import orjson

import cel
from scheduler.checks.lint import RULES
from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_template,
    a_workload,
    an_allocated_claim,
    devices_of,
    owned_by,
    text_of,
)


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
    assert rule == "unsatisfiable-request"
    assert message.endswith("device class gpux does not exist; did you mean gpu?")


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
        ("old-version", "DeviceClass/old", "apiVersion", "is of version resource.k8s.io/v1beta2")
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
    pod = a_pod("work-1", template="one", metadata=owned_by("Job", "work"))
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
