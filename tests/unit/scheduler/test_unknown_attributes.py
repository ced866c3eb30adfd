from scheduler.output.check_results import unknown_attributes
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_request,
    a_slice,
    a_template,
    an_allocation,
)
from tests.unit.scheduler.scenario import inventory_of

DEVICES = [{"name": "gpu-0", "attributes": {"numa": {"int": 0}, "example.com/rack": {"int": 1}}}]


def reported(*objects: Json) -> list[str]:
    return list(unknown_attributes(inventory_of(a_slice(devices=DEVICES), *objects)))


def with_constraint(raw: Json, **constraint: str) -> Json:
    spec = raw["spec"]["spec"] if "spec" in raw["spec"] else raw["spec"]
    spec["devices"]["constraints"] = [constraint]
    return raw


def test_attribute_that_no_device_has_is_reported_with_one_like_it() -> None:
    claim = with_constraint(a_claim("c", a_request()), matchAttribute=f"{DRIVER}/nuam")
    template = with_constraint(a_template("t", a_request()), distinctAttribute="example.com/shelf")
    first, second = reported(claim, template)
    assert first == (
        "warning: ResourceClaim default/c: spec.devices.constraints[0].matchAttribute: "
        f"no device of the input has {DRIVER}/nuam; did you mean {DRIVER}/numa?"
    )
    assert second == (
        "warning: ResourceClaimTemplate default/t: spec.spec.devices.constraints[0].distinctAttribute: "
        "no device of the input has example.com/shelf"
    )


def test_attributes_that_devices_have_and_claims_that_are_allocated_are_not_reported() -> None:
    known = with_constraint(a_claim("a", a_request()), matchAttribute=f"{DRIVER}/numa")
    other = with_constraint(a_claim("b", a_request()), matchAttribute="example.com/rack")
    held = a_claim("c", a_request(), status={"allocation": an_allocation("gpu-0")})
    assert reported(known, other, with_constraint(held, matchAttribute="example.com/none")) == []


def test_an_attribute_that_the_claim_derives_is_not_reported() -> None:
    derived = [{"name": "example.com/half", "expression": f"device.attributes['{DRIVER}'].numa / 2"}]
    claim = a_claim("c", a_request(derivedAttributes=derived))
    assert reported(with_constraint(claim, matchAttribute="example.com/half")) == []


def test_nothing_is_reported_where_the_input_has_no_devices() -> None:
    claim = with_constraint(a_claim("c", a_request()), matchAttribute=f"{DRIVER}/nuam")
    assert list(unknown_attributes(inventory_of(claim))) == []
