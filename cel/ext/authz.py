"""Kubernetes' authorization functions, which are declared but useless in selectors.

Only admission policies have an `authorizer`. A selector can still call the functions on a value of unknown type; it
then compiles, has a cost, and fails when it is evaluated.
Source: k8s.io/apiserver/pkg/cel/library/authz.go, with the costs of cost.go.
"""

from collections.abc import Sequence
from typing import Final

from cel.check.overloads import LIST_COST, STRING_FACTOR, CallEstimate, Estimate, Library, Operand, Overload
from cel.errors import no_such_overload
from cel.values.types import BOOL, STRING, Type, struct
from cel.values.values import Value, size_of

_CHECK_COST: Final = 350_000  # leaves room for two checks in one expression
_REQUIREMENTS: Final = 0.5  # of a selector, per character
_REQUIREMENT_COST: Final = 50

_AUTHORIZER: Final = struct("kubernetes.authorization.Authorizer")
_PATH_CHECK: Final = struct("kubernetes.authorization.PathCheck")
_GROUP_CHECK: Final = struct("kubernetes.authorization.GroupCheck")
_RESOURCE_CHECK: Final = struct("kubernetes.authorization.ResourceCheck")
_DECISION: Final = struct("kubernetes.authorization.Decision")


def _fail(*_: Value) -> Value:
    """There are no values of these types."""
    raise no_such_overload()


def _method(function: str, id_: str, parameters: tuple[Type, ...], result: Type) -> Overload:
    return Overload(function, id_, parameters, result, implementation=_fail, member=True)


def _check_cost(_: Sequence[Value]) -> int:
    return _CHECK_COST


def _check(id_: str, receiver: Type) -> Overload:
    return Overload(
        "check",
        id_,
        (receiver, STRING),
        _DECISION,
        implementation=_fail,
        member=True,
        cost=_check_cost,
        estimate=lambda _: CallEstimate(Estimate(_CHECK_COST, _CHECK_COST)),
    )


def _selector_cost(size: Estimate) -> Estimate:
    requirements = size.scaled(_REQUIREMENTS).scaled(_REQUIREMENT_COST)
    return Estimate(LIST_COST, LIST_COST).plus(size.scaled(STRING_FACTOR)).plus(requirements)


def _cost(arguments: Sequence[Value]) -> int:
    size = size_of(arguments[1])
    return _selector_cost(Estimate(size, size)).high


def _estimate(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(_selector_cost(operands[1].size))


def _selector(function: str, id_: str) -> Overload:
    return Overload(
        function,
        id_,
        (_RESOURCE_CHECK, STRING),
        _RESOURCE_CHECK,
        implementation=_fail,
        member=True,
        cost=_cost,
        estimate=_estimate,
    )


LIBRARY: Final = Library(
    "kubernetes.authz",
    overloads=(
        _method("path", "authorizer_path", (_AUTHORIZER, STRING), _PATH_CHECK),
        _method("group", "authorizer_group", (_AUTHORIZER, STRING), _GROUP_CHECK),
        _method("serviceAccount", "authorizer_serviceaccount", (_AUTHORIZER, STRING, STRING), _AUTHORIZER),
        _method("resource", "groupcheck_resource", (_GROUP_CHECK, STRING), _RESOURCE_CHECK),
        _method("subresource", "resourcecheck_subresource", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),
        _method("namespace", "resourcecheck_namespace", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),
        _method("name", "resourcecheck_name", (_RESOURCE_CHECK, STRING), _RESOURCE_CHECK),
        _check("pathcheck_check", _PATH_CHECK),
        _check("resourcecheck_check", _RESOURCE_CHECK),
        _method("errored", "decision_errored", (_DECISION,), BOOL),
        _method("error", "decision_error", (_DECISION,), STRING),
        _method("allowed", "decision_allowed", (_DECISION,), BOOL),
        _method("reason", "decision_reason", (_DECISION,), STRING),
        _selector("fieldSelector", "authorizer_fieldselector"),
        _selector("labelSelector", "authorizer_labelselector"),
    ),
)
