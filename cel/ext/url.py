"""CEL's `url(...)`: absolute URLs and their components.

A URL is read twice, as the reference does: strictly, where a fragment has no meaning, and then with its fragment.
Texts are handled as bytes, one character each (latin-1), since escapes may stand for any byte; what is no UTF-8 in the
end shows as U+FFFD, where the reference hands on the bytes. `fault_of` says why a text is no IP address, in the
reference's words: `format.uri()` gives them to the expression as a value.
Source: k8s.io/apiserver/pkg/cel/library/urls.go, with the costs of cost.go; Go's net/url, net/netip; RFC 3986.
"""

import re
import string
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from cel.check.overloads import ONCE, CallEstimate, Estimate, Library, Operand, Overload
from cel.errors import no_such_overload
from cel.ext.declare import method, scan, succeeds, transformation_estimate, with_eval_errors
from cel.values.types import BOOL, STRING, URL, list_of, map_of
from cel.values.values import List, Map, Value, quoted, register

_FIELDS: Final = 8  # of an IPv6 address; an IPv4 address at its end stands for two
_OCTETS: Final = 4
_FIRST_MARK: Final = re.compile("[.:%]")
_DECIMAL: Final = re.compile("[0-9]*")
_HEXADECIMAL: Final = re.compile("[0-9A-Fa-f]*")


def fault_of(text: str) -> str:
    """The problems of `text` as an address, which may have a zone; empty where nothing is."""
    fault = _fault_of_address(text)
    return f"ParseAddr({quoted(text)}): {fault}" if fault else ""


def _fault_of_address(text: str) -> str:
    mark = _FIRST_MARK.search(text)
    if mark is None:
        return "unable to parse IP"
    if mark[0] == "%":
        return "missing IPv6 address"
    return _fault_of_v4(text) if mark[0] == "." else _fault_of_v6(text)


def _fault_of_v4(text: str) -> str:
    start = 0
    octets = text.split(".")
    for number, octet in enumerate(octets, start=1):
        digits = _run(_DECIMAL, octet)
        if len(digits) > 1 and digits.startswith("0"):
            return "IPv4 field has octet with leading zero"
        if len(digits) > 3 or int(digits or "0") > 255:
            return "IPv4 field has value >255"
        if digits != octet:
            return _at("unexpected character", text[start + len(digits) :])
        end = start + len(octet)
        if end < len(text) and (not octet or end == len(text) - 1):
            return _at("IPv4 field must have at least one digit", text[end:])
        if end < len(text) and number == _OCTETS:
            return "IPv4 address too long"
        start = end + 1
    return "" if len(octets) == _OCTETS else "IPv4 address too short"


def _fault_of_v6(text: str) -> str:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string"
    has_gap = rest.startswith("::")
    if has_gap:
        rest = rest[2:]
    fields = 0
    while fields < _FIELDS and (rest or not has_gap):
        digits = _run(_HEXADECIMAL, rest)
        if fault := _fault_of_field(rest, digits, has_gap=has_gap, fields=fields):
            return fault
        if rest[len(digits) :].startswith("."):
            if fault := _fault_of_v4(rest):
                return fault
            fields, rest = fields + 2, ""
            break
        fields, rest = fields + 1, rest[len(digits) + 1 :]
        if not rest:
            break
        if rest.startswith(":"):
            if has_gap:
                return _at("multiple :: in address", rest)
            has_gap, rest = True, rest[1:]
    return _fault_of_length(rest, has_gap=has_gap, fields=fields)


def _fault_of_field(rest: str, digits: str, *, has_gap: bool, fields: int) -> str:
    """The problems of the field that `rest` begins with, and with what follows it at once."""
    if len(digits) > 4:
        return _at("each group must have 4 or less digits", rest)
    if not digits:
        return _at("each colon-separated field must have at least one digit", rest)
    after = rest[len(digits) :]
    if after.startswith("."):
        return _fault_of_place(rest, has_gap=has_gap, fields=fields)
    if after and not after.startswith(":"):
        return _at("unexpected character, want colon", after)
    return _at("colon must be followed by more characters", after) if after == ":" else ""


def _fault_of_place(rest: str, *, has_gap: bool, fields: int) -> str:
    """The problems of an IPv4 address after so many fields."""
    if not has_gap and fields != _FIELDS - 2:
        return _at("embedded IPv4 address must replace the final 2 fields of the address", rest)
    if fields > _FIELDS - 2:
        return _at("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return ""


def _fault_of_length(rest: str, *, has_gap: bool, fields: int) -> str:
    if rest:
        return _at("trailing garbage after address", rest)
    if fields < _FIELDS and not has_gap:
        return "address string too short"
    if fields == _FIELDS and has_gap:
        return "the :: must expand to at least one field of zeros"
    return ""


def _run(of: re.Pattern[str], text: str) -> str:
    match = of.match(text)
    assert match is not None
    return match[0]


def _at(fault: str, rest: str) -> str:
    return f"{fault} (at {quoted(rest)})" if rest else fault


_MOST_PARAMETERS: Final = 10_000

_UNRESERVED: Final = frozenset(string.ascii_letters + string.digits + "-_.~")
_PATH: Final = _UNRESERVED | set("$&+,/:;=@")
_HOST: Final = _UNRESERVED | set("!$&'()*+,;=:[]<>\"")
_USER: Final = _UNRESERVED | set("$&+,;=")
_FRAGMENT: Final = _UNRESERVED | set("!()*$&+,/:;=?@")
_MAY_STAY: Final = frozenset("!$&'()*+,;=:@[]%")  # in a path or fragment that needs no other escapes

_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*+):")
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")
_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_USER_INFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*+")
_PORT: Final = re.compile("(?::[0-9]*+)?+")
_LONE_BYTE: Final = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, eq=False)
class Url:
    """The components of a URL, as written; only the escapes of the host are resolved."""

    scheme: str
    opaque: str = ""
    """What follows the scheme where that is no path."""
    user: str | None = None
    """None where there is none."""
    host: str = ""
    path: str = ""
    query: str | None = None
    """None without `?`."""
    fragment: str = ""
    omits_host: bool = False
    """The path follows the scheme at once. What is derived from the parts is kept, since asking costs nothing."""

    @cached_property
    def name_and_port(self) -> tuple[str, str]:
        """The host's name without brackets, and the digits after its last colon."""
        name, colon, port = self.host.rpartition(":")
        if not colon or not _PORT.fullmatch(f":{port}"):
            name, port = self.host, ""
        return (name[1:-1] if name.startswith("[") and name.endswith("]") else name), port

    @cached_property
    def escaped_path(self) -> str:
        """The path, with escapes where it needs them."""
        return "*" if _unescaped(self.path) == "*" else _normalized(self.path, _PATH)

    @cached_property
    def written(self) -> str:
        """The whole URL, written in the same way whatever was escaped without need."""
        query = "" if self.query is None else f"?{self.query}"
        fragment = f"#{_normalized(self.fragment, _FRAGMENT)}" if self.fragment else ""
        scheme = f"{self.scheme}:" if self.scheme else ""
        return _decoded(f"{scheme}{self.opaque or self._hierarchy()}{query}{fragment}")

    @cached_property
    def parameters(self) -> Map:
        """The values by key, in the order of the URL; what is malformed is left out."""
        by_key: dict[str, list[Value]] = {}
        pairs = (self.query or "").split("&")
        if len(pairs) > _MOST_PARAMETERS:
            return Map()
        for pair in pairs:
            if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
                key, _, value = pair.replace("+", " ").partition("=")
                by_key.setdefault(_decoded(_unescaped(key)), []).append(_decoded(_unescaped(value)))
        return Map((key, List(values)) for key, values in by_key.items())

    def _hierarchy(self) -> str:
        path = self.escaped_path
        if self.omits_host or not (self.scheme or self.host or self.user is not None):
            return path
        slashes = "//" if self.host or path or self.user is not None else ""
        user = "" if self.user is None else f"{_normalized_user(self.user)}@"
        return f"{slashes}{user}{_escaped(self.host, _HOST)}{path}"


def parse_url(text: str) -> Url:
    """The absolute URL that `text` writes, or an absolute path; raises ValueError."""
    encoded = text.encode().decode("latin-1")
    _read(encoded, for_request=True)
    before, _, fragment = encoded.partition("#")
    _check_escapes(fragment)
    return replace(_read(before, for_request=False), fragment=fragment)


def check_request_uri(text: str) -> None:
    """Raises ValueError unless `text` is an absolute URL or an absolute path."""
    _read(text.encode().decode("latin-1"), for_request=True)


def _read(text: str, *, for_request: bool) -> Url:
    try:
        return _read_url(text, for_request=for_request)
    except ValueError as error:
        raise ValueError(f"parse {quoted(_decoded(text))}: {error}") from None


def _read_url(text: str, *, for_request: bool) -> Url:
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and for_request:
        raise ValueError("empty url")
    if text == "*":
        return Url("", path="*")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = "" if match is None else match[1].lower()
    rest, mark, query = (text if match is None else text[match.end() :]).partition("?")
    url = Url(scheme, query=query if mark else None)
    if rest.startswith("/"):
        return _read_hierarchy(url, rest, has_authority=bool(scheme) or not for_request)
    if scheme:
        return replace(url, opaque=rest)
    if for_request:
        raise ValueError("invalid URI for request")
    if ":" in rest.partition("/")[0]:
        raise ValueError("first path segment in URL cannot contain colon")
    _check_escapes(rest)
    return replace(url, path=rest)


def _read_hierarchy(url: Url, rest: str, *, has_authority: bool) -> Url:
    """`//authority/path` or `/path`."""
    user, host = None, ""
    has_authority = has_authority and rest.startswith("//") and (bool(url.scheme) or not rest.startswith("///"))
    path = rest
    if has_authority:
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
        user, host = _read_authority(url.scheme, authority)
    _check_escapes(path)
    return replace(url, user=user, host=host, path=path, omits_host=bool(url.scheme) and not has_authority)


def _read_authority(scheme: str, authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    host = _read_host(scheme, host)
    if not at:
        return None, host
    if not _USER_INFO.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    _check_escapes(user)
    return user, host


def _read_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise ValueError("invalid IP-literal")
    if bracket == 0:
        return _read_ip_literal(host)
    colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    if colon >= 0:
        _check_port(host[colon:])
    return _unescaped_host(host)


def _read_ip_literal(host: str) -> str:
    name, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise ValueError("missing ']' in host")
    _check_port(port)
    address, percent, zone = name.partition("%25")
    name = _unescaped_host(address) + (_unescaped_zone(percent + zone) if percent else "")
    if fault := fault_of(_bytes_kept(name)):
        raise ValueError(f"invalid host: {fault}")
    if ":" not in name:
        raise ValueError("invalid IP-literal")
    return f"[{name}]{port}"


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {quoted(_bytes_kept(port))} after host")


def _check_escapes(text: str) -> None:
    match = _BAD_ESCAPE.search(text)
    if match:
        raise ValueError(f"invalid URL escape {quoted(_bytes_kept(match[0]))}")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _unescaped_host(text: str) -> str:
    """Only bytes beyond ASCII, and the percent sign, may be escaped in a host."""
    _check_host(text)
    for match in _ESCAPE.finditer(text):
        if int(match[1], 16) < 0x80 and match[1] != "25":
            raise ValueError(f'invalid URL escape "{match[0]}"')
    return _unescaped(text)


def _unescaped_zone(text: str) -> str:
    """A zone may also have escaped blanks, and escapes that were not necessary."""
    _check_host(text)
    for match in _ESCAPE.finditer(text):
        if match[1] != "25" and chr(int(match[1], 16)) not in _HOST | {" "}:
            raise ValueError(f'invalid URL escape "{match[0]}"')
    return _unescaped(text)


def _check_host(text: str) -> None:
    _check_escapes(text)
    for character in _ESCAPE.sub("", text):
        if character.isascii() and character not in _HOST:
            raise ValueError(f"invalid character {quoted(character)} in host name")


def _escaped(text: str, safe: AbstractSet[str]) -> str:
    return "".join(character if character in safe else f"%{ord(character):02X}" for character in text)


def _normalized(text: str, safe: AbstractSet[str]) -> str:
    return text if _MAY_STAY.union(safe).issuperset(text) else _escaped(_unescaped(text), safe)


def _normalized_user(text: str) -> str:
    return ":".join(_escaped(_unescaped(part), _USER) for part in text.split(":", 1))


def _decoded(text: str) -> str:
    return _LONE_BYTE.sub("\N{REPLACEMENT CHARACTER}", _bytes_kept(text))


def _bytes_kept(text: str) -> str:
    """The text, with a lone surrogate for each byte that is no UTF-8; `quoted` shows which byte that was."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def _equals(left: Value, right: Value) -> bool:
    if not isinstance(left, Url) or not isinstance(right, Url):
        raise no_such_overload()
    return left.written == right.written


register(Url, URL, equal=_equals)


def _component_estimate(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(ONCE, operands[0].size)


def _escaped_component_estimate(operands: Sequence[Operand]) -> CallEstimate:
    """Each character may become three, such as `%2F`."""
    return CallEstimate(ONCE, operands[0].size.times(Estimate(1, 3)))


_COMPONENTS: Final = (
    method("getScheme", "url_get_scheme", (URL,), STRING, lambda url: url.scheme),
    method("getHost", "url_get_host", (URL,), STRING, lambda url: _decoded(url.host)),
    method("getHostname", "url_get_hostname", (URL,), STRING, lambda url: _decoded(url.name_and_port[0])),
    method("getPort", "url_get_port", (URL,), STRING, lambda url: url.name_and_port[1]),
    method("getQuery", "url_get_query", (URL,), map_of(STRING, list_of(STRING)), lambda url: url.parameters),
)
_ESCAPED_PATH: Final = method("getEscapedPath", "url_get_escaped_path", (URL,), STRING, lambda url: url.escaped_path)

LIBRARY_1_37: Final = Library(
    "kubernetes.urls",
    overloads=(
        Overload(
            "url",
            "string_to_url",
            (STRING,),
            URL,
            implementation=with_eval_errors(parse_url),
            cost=scan,
            estimate=transformation_estimate,
        ),
        Overload("isURL", "is_url_string", (STRING,), BOOL, implementation=succeeds(check_request_uri), beside=scan),
        *_COMPONENTS,
        _ESCAPED_PATH,
    ),
)
LIBRARY: Final = replace(
    LIBRARY_1_37,
    overloads=(
        *LIBRARY_1_37.overloads[:2],
        *(replace(accessor, estimate=_component_estimate) for accessor in _COMPONENTS),
        replace(_ESCAPED_PATH, estimate=_escaped_component_estimate),
    ),
)
