"""Allocations back into JSON, in the order of fields and with the omissions of the API server.

Source: k8s.io/api resource/v1 AllocationResult: the order of its fields, and `omitempty` on them.
"""

from typing import Generic, TypeVar

from allocator.api.versions import Json
from allocator.model import Allocation, DeviceResult, NodeSelector, Requirement, ResultConfig, Term, Toleration

# JSON values as keys: equal if they have the same text, which also distinguishes 1, true and 1.0.


T = TypeVar("T")


class ByText(Generic[T]):
    """A value as a key. Raises RecursionError if it is nested too deeply, ValueError for a number with too many digits.

    text: the quickest that there is.
    """

    __slots__ = ("text", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self.text = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByText) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def allocation_to_v1(allocation: Allocation) -> Json:
    """`status.allocation` of a claim in resource.k8s.io/v1; what is absent or empty is left out, except `devices`."""
    devices = _present(
        results=[_result(result) for result in allocation.results],
        config=[_config(entry) for entry in allocation.config],
    )
    selector = allocation.node_selector
    rest = _present(
        nodeSelector=None if selector is None else _node_selector(selector),
        allocationTimestamp=allocation.allocation_timestamp,
    )
    return {"devices": devices, **rest}


def _present(**fields: object) -> Json:
    """The fields that hold something: Go leaves out empty text, lists and objects, and false where it means absent."""
    return {name: value for name, value in fields.items() if value}


def _result(result: DeviceResult) -> Json:
    identity: Json = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    return identity | _present(
        adminAccess=result.admin_access,
        tolerations=[_toleration(toleration) for toleration in result.tolerations],
        bindingConditions=list(result.binding_conditions),
        bindingFailureConditions=list(result.binding_failure_conditions),
        shareID=result.share_id,
        consumedCapacity={name: quantity.text for name, quantity in result.consumed_capacity.items()},
        skipNodeOperations=list(result.skip_node_operations),
    )


def _toleration(toleration: Toleration) -> Json:
    """As it was written; a tolerationSeconds of 0 is something else than none."""
    return {name: value for name, value in toleration.raw.items() if value not in ("", None)}


def _config(entry: ResultConfig) -> Json:
    return {"source": entry.source} | _present(requests=list(entry.requests), opaque=dict(entry.opaque))


def _node_selector(selector: NodeSelector) -> Json:
    return {"nodeSelectorTerms": [_term(term) for term in selector]}


def _term(term: Term) -> Json:
    expressions = [_requirement(requirement) for requirement in term.expressions]
    return _present(matchExpressions=expressions, matchFields=[_requirement(field) for field in term.fields])


def _requirement(requirement: Requirement) -> Json:
    values = _present(values=list(requirement.values))
    return {"key": requirement.key, "operator": requirement.operator, **values}
