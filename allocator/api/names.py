"""The formats of names: each function says what is wrong with a text, and "" where nothing is.

A long name is a DNS subdomain, a short name a DNS label. Lengths count bytes of UTF-8, as in the API server.
Source: k8s.io/apimachinery api/validate, and the validation of resource.k8s.io.
"""

import re
from collections.abc import Callable
from functools import lru_cache, wraps

SHORT_NAME_MAX = 63
LONG_NAME_MAX = 253
DRIVER_NAME_MAX = 63
IDENTIFIER_MAX = 32
LABEL_MAX = 63
VALUE_MAX = 64
USUAL_MAX = 256
"""Characters of a text of which something is remembered: no valid name is longer, a wrong one may have any length."""

_SHORT = re.compile(r"[a-z0-9](?:[-a-z0-9]*+(?<!-))?+")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_LABEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*+(?<![-_.]))?+")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NUMBER = r"(?:0|[1-9][0-9]*+)"
_PRE_RELEASE = rf"(?:{_NUMBER}(?![0-9A-Za-z-])|[0-9]*+[A-Za-z-][0-9A-Za-z-]*+)"
_BUILD = r"[0-9A-Za-z-]++"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE_RELEASE}(?:\.{_PRE_RELEASE})*+)?+(?:\+{_BUILD}(?:\.{_BUILD})*+)?+"
)

_SHORT_RULE = "must be a DNS label: lower-case letters, digits and '-', starting and ending with a letter or digit"
_LONG_RULE = "must be a DNS subdomain: lower-case letters, digits, '-' and '.', each part between letters or digits"
_IDENTIFIER_RULE = "must be a C identifier: letters, digits and '_', not starting with a digit"
_LABEL_RULE = "must consist of letters, digits, '-', '_' and '.', starting and ending with a letter or digit"


def _remembered(rule: Callable[[str], str]) -> Callable[[str], str]:
    """The rule, which is remembered for the texts that fleets repeat."""
    known = lru_cache(maxsize=1 << 14)(rule)

    @wraps(rule)
    def asked(text: str) -> str:
        return known(text) if len(text) <= USUAL_MAX else rule(text)

    return asked


def size(text: str) -> int:
    """The length in bytes, as limits count it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def too_long(text: str, limit: int) -> str:
    """Text of at most `limit` bytes; the halves of surrogate pairs, which some parsers let pass, are no text."""
    if _HALF_PAIR.search(text):
        return "must be valid Unicode text"
    return f"must not be longer than {limit} bytes, is {size(text)}" if size(text) > limit else ""


@_remembered
def short_name(text: str) -> str:
    """A device's, request's or counter's name: a DNS label."""
    if not text:
        return "is required"
    return too_long(text, SHORT_NAME_MAX) or ("" if _SHORT.fullmatch(text) else _SHORT_RULE)


def object_name(name: str, generated_from: str) -> str:
    """The name of an object; generated_from: its generateName, of which only a server makes a name."""
    if generated_from and not name:
        return "is required: generateName becomes a name only when an API server creates the object"
    return long_name(name)


@_remembered
def long_name(text: str) -> str:
    """The name of an object, class or node: a DNS subdomain."""
    if not text:
        return "is required"
    if problem := too_long(text, LONG_NAME_MAX):
        return problem
    return "" if all(_SHORT.fullmatch(part) for part in text.split(".")) else _LONG_RULE


@_remembered
def driver_name(text: str) -> str:
    """A driver's name or the domain of an attribute: a DNS subdomain in any case."""
    return too_long(text, DRIVER_NAME_MAX) or long_name(text.lower())


def pool_name(text: str) -> str:
    """A pool's name: DNS subdomains separated by slashes."""
    if not text:
        return "is required"
    if problem := too_long(text, LONG_NAME_MAX):
        return problem
    is_valid = not any(long_name(part) for part in text.split("/"))
    return "" if is_valid else f"each part between slashes {_LONG_RULE}"


def identifier(text: str) -> str:
    """The part of an attribute's or capacity's name after the domain: a C identifier."""
    if not text:
        return "the name must not be empty"
    return too_long(text, IDENTIFIER_MAX) or ("" if _IDENTIFIER.fullmatch(text) else _IDENTIFIER_RULE)


@_remembered
def qualified_name(text: str) -> str:
    """An attribute's or capacity's name: `identifier` or `domain/identifier`.

    Names with more than one slash pass, as in the API server, which leaves them unchecked.
    """
    if "/" not in text:
        return identifier(text)
    domain, _, name = text.partition("/")
    if "/" in name:
        return ""
    if not domain:
        return "the domain must not be empty"
    problem = driver_name(domain)
    return f"the domain {problem}" if problem else identifier(name)


def fully_qualified_name(text: str) -> str:
    """The name of an attribute in a constraint: `domain/identifier`."""
    return qualified_name(text) if "/" in text else "must be a domain and a name separated by a slash"


def label_key(text: str) -> str:
    """A label's key, a taint's key or a condition's type: a name with an optional `domain/`."""
    domain, slash, name = text.rpartition("/")
    if slash:
        problem = long_name(domain) if domain else "must not be empty"
        if problem:
            return f"the part before the slash {problem}"
    if not name:
        return "must have a name" if slash else "is required"
    return too_long(name, LABEL_MAX) or ("" if _LABEL.fullmatch(name) else _LABEL_RULE)


def label_value(text: str) -> str:
    """A label's, taint's or toleration's value; may be empty."""
    return too_long(text, LABEL_MAX) or ("" if not text or _LABEL.fullmatch(text) else f"{_LABEL_RULE}, or be empty")


def extended_resource_name(text: str) -> str:
    """The name of an extended resource that a class stands for: `domain/name`, not of kubernetes.io."""
    if "/" not in text:
        return "must be a name with a domain, such as example.com/gpu"
    if "kubernetes.io/" in text:
        return "must not be of the domain kubernetes.io"
    if text.startswith("requests."):
        return 'must not start with "requests."'
    return label_key(f"requests.{text}")


def uuid(text: str) -> str:
    """A share's id: a UUID in lower-case hexadecimal digits."""
    return "" if _UUID.fullmatch(text) else "must be a UUID in lower case, xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"


@_remembered
def version(text: str) -> str:
    """A version attribute's value: semantic version 2.0.0."""
    rule = "must be a semantic version 2.0.0 such as 1.2.3: three numbers without leading zeros"
    return "" if len(text) <= VALUE_MAX and _VERSION.fullmatch(text) else too_long(text, VALUE_MAX) or rule
