"""CEL's `quantity(...)`: Kubernetes quantities in selectors, such as the capacities of a device.

The values are `cel.values.quantity.Quantity`. The reference returns sums by pointer, which its equality does not
accept on the right: `q.add(r) == s` is fine, `s == q.add(r)` is an error.
Source: k8s.io/apiserver/pkg/cel/library/quantity.go, with the costs of cost.go.
"""

import operator
from dataclasses import replace
from typing import Final

from cel.check.overloads import Library, Overload
from cel.errors import no_such_overload
from cel.ext.declare import method, scanning, succeeds, with_eval_errors
from cel.values.quantity import Format, Quantity, QuantityLimitError
from cel.values.types import BOOL, DOUBLE, INT, QUANTITY, STRING
from cel.values.values import Value, register


class QuantitySum(Quantity):
    """What `add` and `sub` return."""

    __slots__ = ()


def _sum_equals(left: Value, right: Value) -> bool:
    if type(right) is not Quantity:
        raise no_such_overload()
    return left == right


register(Quantity, QUANTITY)
register(QuantitySum, QUANTITY, equal=_sum_equals)


@with_eval_errors
def _quantity(text: str) -> Quantity:
    """A new quantity each time: as keys of a map, two of them are different in the reference."""
    parsed = Quantity.parse(text)
    return Quantity(parsed.mantissa, parsed.scale, parsed.is_small, parsed.format, parsed.written, parsed.is_long)


@with_eval_errors
def _add(left: Quantity, right: Quantity) -> QuantitySum:
    return _as_sum(left + right)


@with_eval_errors
def _sub(left: Quantity, right: Quantity) -> QuantitySum:
    return _as_sum(left - right)


def _as_sum(quantity: Quantity) -> QuantitySum:
    return QuantitySum(quantity.mantissa, quantity.scale, quantity.is_small, quantity.format)


def _add_int(left: Quantity, right: int) -> QuantitySum:
    return _add(left, Quantity.of(right, Format.DECIMAL_EXPONENT))


def _sub_int(left: Quantity, right: int) -> QuantitySum:
    return _sub(left, Quantity.of(right, Format.DECIMAL_EXPONENT))


def _small(quantity: Quantity) -> Quantity:
    """As it is held since 1.38, which its sums with others show."""
    if not quantity.is_long:
        return quantity
    return Quantity(quantity.nanos // 10**9, 0, is_small=True, format=quantity.format)


@with_eval_errors
def _add_small(left: Quantity, right: Quantity) -> QuantitySum:
    return _as_sum(_small(left) + _small(right))


@with_eval_errors
def _sub_small(left: Quantity, right: Quantity) -> QuantitySum:
    return _as_sum(_small(left) - _small(right))


def _integer(quantity: Quantity) -> int | None:
    """The value as an int64; None if there is none. Since 1.38 a whole number of 19 digits may have one, too."""
    if quantity.is_integer():
        return quantity.as_integer()
    return quantity.nanos // 10**9 if quantity.is_long else None


@with_eval_errors
def _as_integer(quantity: Quantity) -> int:
    integer = _integer(quantity)
    return quantity.as_integer() if integer is None else integer


def _as_approximate_float(quantity: Quantity) -> float:
    return float(quantity.nanos // 10**9) if quantity.is_long else quantity.as_approximate_float()


_PAIR: Final = (QUANTITY, QUANTITY)

LIBRARY_1_37: Final = Library(
    "kubernetes.quantity",
    overloads=(
        scanning("quantity", "string_to_quantity", (STRING,), QUANTITY, _quantity),
        scanning("isQuantity", "is_quantity_string", (STRING,), BOOL, succeeds(Quantity.parse, QuantityLimitError)),
        Overload("sign", "quantity_sign", (QUANTITY,), INT, implementation=lambda quantity: quantity.sign),
        method("isGreaterThan", "quantity_is_greater_than", _PAIR, BOOL, operator.gt),
        method("isLessThan", "quantity_is_less_than", _PAIR, BOOL, operator.lt),
        method("compareTo", "quantity_compare_to", _PAIR, INT, Quantity.compare),
        method("asApproximateFloat", "quantity_get_float", (QUANTITY,), DOUBLE, Quantity.as_approximate_float),
        method("asInteger", "quantity_get_int", (QUANTITY,), INT, with_eval_errors(Quantity.as_integer)),
        method("isInteger", "quantity_is_integer", (QUANTITY,), BOOL, Quantity.is_integer),
        method("add", "quantity_add", _PAIR, QUANTITY, _add),
        method("add", "quantity_add_int", (QUANTITY, INT), QUANTITY, _add_int),
        method("sub", "quantity_sub", _PAIR, QUANTITY, _sub),
        method("sub", "quantity_sub_int", (QUANTITY, INT), QUANTITY, _sub_int),
    ),
)
_SINCE_1_38: Final = (
    method("add", "quantity_add", _PAIR, QUANTITY, _add_small),
    method("add", "quantity_add_int", (QUANTITY, INT), QUANTITY, lambda left, right: _add_int(_small(left), right)),
    method("sub", "quantity_sub", _PAIR, QUANTITY, _sub_small),
    method("sub", "quantity_sub_int", (QUANTITY, INT), QUANTITY, lambda left, right: _sub_int(_small(left), right)),
    method("asApproximateFloat", "quantity_get_float", (QUANTITY,), DOUBLE, _as_approximate_float),
    method("asInteger", "quantity_get_int", (QUANTITY,), INT, _as_integer),
    method("isInteger", "quantity_is_integer", (QUANTITY,), BOOL, lambda quantity: _integer(quantity) is not None),
)
_CHANGED: Final = frozenset(overload.id for overload in _SINCE_1_38)
LIBRARY: Final = replace(
    LIBRARY_1_37,
    overloads=(*(one for one in LIBRARY_1_37.overloads if one.id not in _CHANGED), *_SINCE_1_38),
)
