"""No claim that an object of any kind names is lost: a pod of the object uses it, or a warning says so."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.scheduler.manifests import Json, an_object
from tests.unit.scheduler.scenario import taken

FIELDS = (
    "spec",
    "template",
    "containers",
    "resourceClaims",
    "draResources",
    "services",
    "domain",
    "podSpec",
    "channel",
)
KINDS = (
    ("x.example.com/v1", "Graph"),
    ("x.example.com/v1", "GraphTemplate"),
    ("kubevirt.io/v1", "VirtualMachine"),
    ("apps.nvidia.com/v1alpha1", "NIMService"),
    ("nvidia.com/v1alpha1", "DynamoGraphDeployment"),
)
NAMES = st.sampled_from(["one", "two", "three"])


@st.composite
def references(draw: st.DrawFn) -> dict[str, Any]:
    """An object that names a claim or a template."""
    field = draw(st.sampled_from(["resourceClaimName", "resourceClaimTemplateName"]))
    return {"name": draw(st.sampled_from(["gpu", "nic"])), field: draw(NAMES)}


VALUES = st.recursive(
    references() | st.just({}) | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=8,
)


def names_in(value: object) -> set[str]:
    """The claims and templates that are named in the value."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    if not isinstance(value, dict):
        return set()
    own = {value[field] for field in ("resourceClaimName", "resourceClaimTemplateName") if field in value}
    return own.union(*map(names_in, value.values()))


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
def test_every_named_claim_is_used_by_a_pod_or_warned_of(kind: tuple[str, str], spec: Json) -> None:
    inventory = taken({**an_object(*kind, "x"), "spec": spec})
    entries = [entry for one in inventory.workloads for entry in one.template.claims]
    used = {name for entry in entries for name in (entry.claim_name, entry.template_name)}
    if names_in(spec) - used:
        assert inventory.errors or inventory.unseen == 1
        assert inventory.errors or inventory.warnings
