"""CEL's `ip(...)`: IP addresses, without zones and without IPv4 addresses written as IPv6.

The values are Python's IPv4Address and IPv6Address, which read and write texts as the reference does.
Source: k8s.io/apiserver/pkg/cel/library/ip.go, with the costs of cost.go; Go's net/netip.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias

from cel.check.overloads import Library, Overload
from cel.errors import no_such_overload
from cel.ext.declare import double_scan, double_scan_estimate, method, scanning, succeeds, with_eval_errors
from cel.values.types import BOOL, INT, IP, STRING
from cel.values.values import Value, register

IPAddress: TypeAlias = IPv4Address | IPv6Address

_LONGEST: Final = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
_BROADCAST: Final = IPv4Address("255.255.255.255")


def parse_address(text: str) -> IPAddress:
    """The address that `text` writes; raises ValueError."""
    try:
        address = ip_address(text[: _LONGEST + 1])
    except ValueError:
        raise ValueError(f"IP Address {text[:64]!r} parse error during conversion from string") from None
    if "%" in text:
        raise ValueError(f"IP address {text[:64]!r} with zone value is not allowed")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {text[:64]!r} is not allowed")
    return address


def _equals(left: Value, right: Value) -> bool:
    if not isinstance(right, IPv4Address | IPv6Address):
        raise no_such_overload()
    return left == right


def _itself(address: Value) -> IPAddress:
    assert isinstance(address, IPv4Address | IPv6Address)
    return address


def _size(address: Value) -> int:
    return len(_itself(address).packed)


for class_ in (IPv4Address, IPv6Address):
    register(class_, IP, equal=_equals, key=_itself, size=_size)


@with_eval_errors
def _is_canonical(text: str) -> bool:
    return str(parse_address(text)) == text


def _is_link_local_multicast(address: IPAddress) -> bool:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == bytes((224, 0, 0))
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(address: IPAddress) -> bool:
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == _BROADCAST
    )


LIBRARY: Final = Library(
    "kubernetes.net.ip",
    types=(IP,),
    overloads=(
        scanning("ip", "string_to_ip", (STRING,), IP, with_eval_errors(parse_address)),
        scanning("isIP", "is_ip", (STRING,), BOOL, succeeds(parse_address)),
        Overload(
            "ip.isCanonical",
            "ip_is_canonical",
            (STRING,),
            BOOL,
            implementation=_is_canonical,
            cost=double_scan,
            estimate=double_scan_estimate,
        ),
        method("family", "ip_family", (IP,), INT, lambda address: address.version),
        method("isUnspecified", "ip_is_unspecified", (IP,), BOOL, lambda address: address.is_unspecified),
        method("isLoopback", "ip_is_loopback", (IP,), BOOL, lambda address: address.is_loopback),
        method("isLinkLocalMulticast", "ip_is_link_local_multicast", (IP,), BOOL, _is_link_local_multicast),
        method("isLinkLocalUnicast", "ip_is_link_local_unicast", (IP,), BOOL, lambda address: address.is_link_local),
        method("isGlobalUnicast", "ip_is_global_unicast", (IP,), BOOL, _is_global_unicast),
        Overload("string", "ip_to_string", (IP,), STRING, implementation=str),
    ),
)
