"""CEL's `cidr(...)`: an IP address with the length of its network's prefix.

The address may have bits beyond the prefix, and keeps them.
Source: k8s.io/apiserver/pkg/cel/library/cidr.go, with the costs of cost.go; Go's net/netip.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cel.check.overloads import ONCE, STRING_FACTOR, CallEstimate, Estimate, Library, Operand, Overload, scaled
from cel.errors import EvalError, no_such_overload
from cel.ext.declare import method, scanning, succeeds, with_eval_errors
from cel.ext.ip import IPAddress, parse_address
from cel.values.types import BOOL, CIDR, INT, IP, STRING, Type
from cel.values.values import Value, register, size_of

_BITS: Final = re.compile(r"[0-9]|[1-9][0-9]{1,2}")
_ADDRESS_SIZE: Final = Estimate(4, 16)  # bytes


@dataclass(frozen=True, slots=True)
class Prefix:
    """An address and the number of its bits that name the network."""

    address: IPAddress
    bits: int

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def masked(self) -> "Prefix":
        """Without the bits beyond the prefix."""
        width = self.address.max_prefixlen
        mask = (1 << width) - (1 << (width - self.bits))
        return Prefix(type(self.address)(int(self.address) & mask), self.bits)

    def contains(self, address: IPAddress) -> bool:
        """Whether the address is of the same family and in the network."""
        if address.version != self.address.version:
            return False
        return (int(address) ^ int(self.address)) >> (self.address.max_prefixlen - self.bits) == 0

    def contains_prefix(self, other: "Prefix") -> bool:
        """Whether the other network is this one, or inside it."""
        return self.bits <= other.bits and self.contains(other.address)


def _size(prefix: Value) -> int:
    assert isinstance(prefix, Prefix)
    return (prefix.bits + 7) // 8


def _itself(prefix: Value) -> Prefix:
    assert isinstance(prefix, Prefix)
    return prefix


register(Prefix, CIDR, key=_itself, size=_size)


def parse_prefix(text: str) -> Prefix:
    """The network that `text` writes as `address/bits`; raises ValueError."""
    network, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError(f"network address parse error during conversion from string: no '/' in {text[:64]!r}")
    address = parse_address(network)
    if not _BITS.fullmatch(bits) or int(bits) > address.max_prefixlen:
        raise ValueError(f"network address parse error during conversion from string: bad bits in {text[:64]!r}")
    return Prefix(address, int(bits))


def _contains_ip_text(prefix: Prefix, text: str) -> bool:
    try:
        return prefix.contains(parse_address(text))
    except ValueError:
        raise no_such_overload() from None


def _contains_cidr_text(prefix: Prefix, text: str) -> bool:
    try:
        return prefix.contains_prefix(parse_prefix(text))
    except ValueError as error:
        raise EvalError(str(error)) from None


def _containment(
    function: str,
    id_: str,
    other: Type,
    implementation: Callable[..., bool],
    base: Callable[[int], int],
) -> Overload:
    """A test whether the prefix contains the other, which is read first where it is a string."""
    is_text = other is STRING

    def comparison_cost(arguments: Sequence[Value]) -> int:
        return base(size_of(arguments[0]))

    def cost(arguments: Sequence[Value]) -> int:
        return comparison_cost(arguments) + scaled(size_of(arguments[1]), STRING_FACTOR)

    def estimate(operands: Sequence[Operand]) -> CallEstimate:
        comparing = Estimate(base(_ADDRESS_SIZE.low), base(_ADDRESS_SIZE.high))
        return CallEstimate(comparing.plus(operands[1].size.scaled(STRING_FACTOR)) if is_text else comparing)

    return Overload(
        function,
        id_,
        (CIDR, other),
        BOOL,
        implementation=implementation,
        member=True,
        cost=cost if is_text else comparison_cost,
        unresolved_cost=comparison_cost,
        estimate=estimate,
    )


def _ip_cost(size: int) -> int:
    return scaled(2 * size, STRING_FACTOR)


def _cidr_cost(size: int) -> int:
    return _ip_cost(size) + scaled(size, STRING_FACTOR) + ONCE.high


LIBRARY_1_37: Final = Library(
    "kubernetes.net.cidr",
    types=(CIDR,),
    overloads=(
        scanning("cidr", "string_to_cidr", (STRING,), CIDR, with_eval_errors(parse_prefix)),
        scanning("isCIDR", "is_cidr", (STRING,), BOOL, succeeds(parse_prefix)),
        _containment("containsIP", "cidr_contains_ip_string", STRING, _contains_ip_text, _ip_cost),
        _containment("containsIP", "cidr_contains_ip_ip", IP, Prefix.contains, _ip_cost),
        _containment("containsCIDR", "cidr_contains_cidr_string", STRING, _contains_cidr_text, _cidr_cost),
        _containment("containsCIDR", "cidr_contains_cidr", CIDR, Prefix.contains_prefix, _cidr_cost),
        method("ip", "cidr_ip", (CIDR,), IP, lambda prefix: prefix.address),
        method("prefixLength", "cidr_prefix_length", (CIDR,), INT, lambda prefix: prefix.bits),
        method("masked", "cidr_masked", (CIDR,), CIDR, Prefix.masked),
        Overload("string", "cidr_to_string", (CIDR,), STRING, implementation=str),
    ),
)
_IS_MASK: Final = method("isMask", "cidr_is_mask", (CIDR,), BOOL, lambda prefix: prefix == prefix.masked())
LIBRARY: Final = replace(LIBRARY_1_37, overloads=(*LIBRARY_1_37.overloads, _IS_MASK))
