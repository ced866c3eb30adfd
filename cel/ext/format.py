"""CEL's `format.<name>()`: named formats that a text is validated against, such as dns1123Label, uuid and uri.

`validate` returns the messages of Kubernetes' own validation, or an absent optional if the text is valid.
Source: k8s.io/apiserver/pkg/cel/library/format.go, with the costs of cost.go; k8s.io/apimachinery's validation and
k8s.io/kube-openapi's strfmt.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from cel.check.overloads import REGEX_FACTOR, STRING_FACTOR, CallEstimate, Library, Operand, Overload
from cel.errors import no_such_overload
from cel.ext.declare import pattern_cost
from cel.ext.url import check_request_uri
from cel.run.patterns import compile_pattern
from cel.values.types import NAMED_FORMAT, STRING, list_of, optional_of
from cel.values.values import ABSENT, List, Optional, Value, register, size_of, unhashable

_LONGEST_PATTERN: Final = 128  # by the estimate, for every format

_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_KEY})?"
_UUID: Final = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME: Final = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_BASE64: Final = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)"
_DATE: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME_OF_DAY: Final = re.compile("([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]++)?(?:z|[+-][0-9]{2}:[0-9]{2})")

_ENDS: Final = "must start and end with an alphanumeric character"
_LABEL_MESSAGE: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}"
)
_SUBDOMAIN_MESSAGE: Final = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and {_ENDS}"
)
_LABEL_1035_MESSAGE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_MESSAGE: Final = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
_LABEL_VALUE_MESSAGE: Final = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format, equal by name. problems: of a text. pattern_size: of a pattern that would cost as much."""

    name: str
    problems: Callable[[str], list[str]]
    pattern_size: int


def _equals(left: Value, right: Value) -> bool:
    if not isinstance(left, NamedFormat) or not isinstance(right, NamedFormat):
        raise no_such_overload()
    return left.name == right.name


register(NamedFormat, NAMED_FORMAT, equal=_equals, key=unhashable("cel.Format"))


def _explained(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _is_matched(pattern: str, text: str) -> bool:
    return compile_pattern(f"^({pattern})$").matches(text)


def _length_problems(text: str, longest: int, unit: str) -> list[str]:
    """The reference counts bytes, whatever it says."""
    return [f"must be no more than {longest} {unit}"] if len(text.encode()) > longest else []


def _label_problems(text: str) -> list[str]:
    problems = _length_problems(text, _LONGEST_LABEL, "characters")
    if _is_matched(_LABEL, text):
        return problems
    if _is_matched(_SUBDOMAIN, text):
        return [*problems, "must not contain dots"]
    return [*problems, _explained(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc")]


def _subdomain_problems(text: str, unit: str = "characters") -> list[str]:
    problems = _length_problems(text, _LONGEST_SUBDOMAIN, unit)
    if _is_matched(_SUBDOMAIN, text):
        return problems
    return [*problems, _explained(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com")]


def _label_1035_problems(text: str) -> list[str]:
    problems = _length_problems(text, _LONGEST_LABEL, "characters")
    if _is_matched(_LABEL_1035, text):
        return problems
    return [*problems, _explained(_LABEL_1035_MESSAGE, _LABEL_1035, "my-name", "abc-123")]


def _of_prefix(problems: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The same of a text to which something will be appended, so that it may end with a dash."""

    def of_prefix(text: str) -> list[str]:
        # The byte before the dash is dropped as well, and so never looked at, as in the reference.
        if len(text) < 2 or not text.endswith("-"):
            return problems(text)
        rest = "?" * (len(text[-2].encode()) - 1)  # of a longer character, which belongs into no name
        return problems(f"{text[:-2]}{rest}a")

    return of_prefix


def _qualified_name_problems(text: str) -> list[str]:
    expected = _explained(_KEY_MESSAGE, _KEY, "MyName", "my.name", "123-abc")
    if text.count("/") > 1:
        return [
            f"a valid label key {expected} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    prefix, slash, name = text.rpartition("/")
    problems = []
    if slash:
        wrong = _subdomain_problems(prefix, "bytes") if prefix else ["must be non-empty"]
        problems += [f"prefix part {problem}" for problem in wrong]
    wrong = _length_problems(name, _LONGEST_LABEL, "bytes") if name else ["must be non-empty"]
    if not _is_matched(_KEY, name):
        wrong.append(expected)
    return problems + [f"name part {problem}" for problem in wrong]


def _label_value_problems(text: str) -> list[str]:
    problems = _length_problems(text, _LONGEST_LABEL, "bytes")
    if _is_matched(_LABEL_VALUE, text):
        return problems
    return [*problems, _explained(_LABEL_VALUE_MESSAGE, _LABEL_VALUE, "MyValue", "my_value", "12345")]


def _uri_problems(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except ValueError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or 400, month, day)  # the year 0 is a leap year, which Python's calendar does not reach
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    """A date, a `t`, and a time with its zone; what follows a second `t` is not looked at, as in the reference."""
    day, *rest = text.lower().split("t", 2)
    if not rest or not _is_date(day):
        return False
    match = _TIME_OF_DAY.fullmatch(rest[0])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _only(is_right: Callable[[str], bool], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if is_right(text) else [problem]


_FORMATS: Final = {
    "dns1123Label": NamedFormat("DNS1123Label", _label_problems, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain_problems, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035_problems, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name_problems, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _of_prefix(_label_problems), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _of_prefix(_subdomain_problems), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _of_prefix(_label_1035_problems), 30),
    "labelValue": NamedFormat("LabelValue", _label_value_problems, 40),
    "uri": NamedFormat("URI", _uri_problems, 1103),
    "uuid": NamedFormat(
        "uuid", _only(lambda text: _is_matched(_UUID, text), "does not match the UUID format"), len(_UUID)
    ),
    "byte": NamedFormat("byte", _only(lambda text: _is_matched(_BASE64, text), "invalid base64"), 84),
    "date": NamedFormat("date", _only(_is_date, "invalid date"), len(_TIME)),
    "datetime": NamedFormat("datetime", _only(_is_datetime, "invalid datetime"), len(_TIME)),
}


def _named(name: str) -> Optional:
    format_ = _FORMATS.get(name)
    return ABSENT if format_ is None else Optional(format_)


def _validate(format_: NamedFormat, text: str) -> Optional:
    problems = format_.problems(text)
    return Optional(List(problems)) if problems else ABSENT


def _validate_cost(arguments: Sequence[Value]) -> int:
    format_, text = arguments
    return pattern_cost(size_of(text), format_.pattern_size) if isinstance(format_, NamedFormat) else 1


def _validate_estimate(operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[1].size.scaled(STRING_FACTOR).scaled(_LONGEST_PATTERN * REGEX_FACTOR))


def _constant(name: str, format_: NamedFormat) -> Overload:
    return Overload(f"format.{name}", f"format.{name}", (), NAMED_FORMAT, implementation=lambda: format_)


LIBRARY: Final = Library(
    "kubernetes.format",
    overloads=(
        *(_constant(name, format_) for name, format_ in _FORMATS.items()),
        Overload("format.named", "format-named", (STRING,), optional_of(NAMED_FORMAT), implementation=_named),
        Overload(
            "validate",
            "format-validate",
            (NAMED_FORMAT, STRING),
            optional_of(list_of(STRING)),
            implementation=_validate,
            member=True,
            cost=_validate_cost,
            estimate=_validate_estimate,
        ),
    ),
)
