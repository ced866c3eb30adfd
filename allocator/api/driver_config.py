"""Selectors and driver configuration, as classes, claims and results carry them.

Source: k8s.io/api resource/v1 DeviceSelector, OpaqueDeviceConfiguration.
"""

import json
from collections.abc import Iterator, Sequence

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.findings import Findings
from allocator.model import OpaqueConfig

SELECTORS_MAX = 32
CONFIG_MAX = 32
EXPRESSION_MAX_BYTES = 10 * 1024
PARAMETERS_MAX_BYTES = 10 * 1024
PARAMETERS_MAX_LEVELS = 200  # of objects and lists; who reads or compares them recursively gets through


class CelFields(TypedDict, total=False):
    """The `cel` part of a selector."""

    expression: str | None


class SelectorFields(TypedDict, total=False):
    """An entry of `selectors`."""

    cel: CelFields | None


class OpaqueFields(TypedDict, total=False):
    """The `opaque` part of a configuration; its parameters belong to the driver."""

    driver: str | None
    parameters: object


class ClassConfigFields(TypedDict, total=False):
    """An entry of a class's `config`."""

    opaque: OpaqueFields | None


class ConfigFields(TypedDict, total=False):
    """An entry of a claim's or a result's `config`; `source` stands in results only."""

    requests: list[str] | None
    opaque: OpaqueFields | None


class ResultConfigFields(TypedDict, total=False):
    """An entry of a result's `config`."""

    source: str | None
    requests: list[str] | None
    opaque: OpaqueFields | None


def check_count(count: int, limit: int, path: str, findings: Findings) -> None:
    """A list's or a map's number of entries must not exceed the limit."""
    if count > limit:
        findings.error(path, count, f"must not have more than {limit} entries")


def check_selectors(entries: Sequence[SelectorFields] | None, path: str, findings: Findings) -> None:
    """The rules of a list of selectors, short of compiling the expressions."""
    check_count(len(entries or ()), SELECTORS_MAX, path, findings)
    for index, fields in enumerate(entries or ()):
        at, cel = f"{path}[{index}]", fields.get("cel")
        if cel is not None:
            check_expression(cel.get("expression") or "", f"{at}.cel.expression", findings)
        elif not findings.is_uncertain(at):
            findings.required(f"{at}.cel")


def check_expression(expression: str, path: str, findings: Findings) -> None:
    """The length of a CEL expression."""
    if not expression:
        findings.required(path)
    elif problem := names.too_long(expression, EXPRESSION_MAX_BYTES):
        findings.error(path, expression, problem)


def check_opaque(fields: OpaqueFields | None, path: str, findings: Findings) -> None:
    """The rules of the configuration at `path`: the driver's name, and a JSON object of limited size."""
    if fields is None:
        if not findings.is_uncertain(path):
            findings.required(f"{path}.opaque")
        return
    if problem := names.driver_name(fields.get("driver") or ""):
        findings.error(f"{path}.opaque.driver", fields.get("driver"), problem)
    check_json_object(fields.get("parameters"), f"{path}.opaque.parameters", findings)


def check_json_object(value: object, path: str, findings: Findings) -> None:
    """A driver's own JSON object, whose compact text is at most 10 KiB, and which does not nest too deep."""
    if value is None:
        findings.required(path)
        return
    if not isinstance(value, dict):
        findings.error(path, value, "must be a JSON object")
        return
    try:
        is_too_large = _is_longer_than(PARAMETERS_MAX_BYTES, value)
    except (TypeError, ValueError) as error:
        findings.error(path, value, f"must be a JSON object: {error}")
        return
    if is_too_large:
        findings.error(path, value, f"must not be longer than {PARAMETERS_MAX_BYTES} bytes as JSON text")


def _is_longer_than(limit: int, value: dict[str, object]) -> bool:
    """Whether the compact JSON text has more bytes; stops there, since YAML's aliases can make a small file huge."""
    total = 0
    pending: list[tuple[int, Iterator[object]]] = [(0, iter([value]))]
    while pending and total <= limit:
        level, values = pending[-1]
        inner = next(values, _NO_MORE)
        if inner is _NO_MORE:
            pending.pop()
        elif not isinstance(inner, dict | list | tuple):
            total += _length_of(inner)
        elif level == PARAMETERS_MAX_LEVELS:
            raise ValueError(f"it nests more than {PARAMETERS_MAX_LEVELS} levels deep")
        else:
            total += max(len(inner), 1) + 1  # brackets, and commas between
            total += sum(_length_of_key(key) + 1 for key in inner) if isinstance(inner, dict) else 0
            pending.append((level + 1, iter(inner.values() if isinstance(inner, dict) else inner)))
    return total > limit


_NO_MORE = object()


def _length_of(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _length_of_key(key: object) -> int:
    return _length_of(key) if isinstance(key, str) else len(json.dumps({key: 0})) - len("{: 0}")


def build_selectors(entries: Sequence[SelectorFields] | None) -> tuple[str | None, ...]:
    """The expressions; None for a selector without a `cel` part."""
    return tuple(_expression(fields.get("cel")) for fields in entries or ())


def _expression(fields: CelFields | None) -> str | None:
    return None if fields is None else fields.get("expression") or ""


def build_opaque(fields: OpaqueFields | None) -> dict[str, object]:
    """The configuration as results repeat it; empty where a configuration has no `opaque` part."""
    if fields is None:
        return {}
    return {"driver": fields.get("driver") or "", "parameters": fields.get("parameters")}


def build_class_config(entries: Sequence[ClassConfigFields] | None) -> tuple[OpaqueConfig, ...]:
    """The configuration of a class, in order."""
    return tuple(OpaqueConfig(build_opaque(fields.get("opaque"))) for fields in entries or ())


def build_claim_config(entries: Sequence[ConfigFields] | None) -> tuple[OpaqueConfig, ...]:
    """The configuration of a claim, in order."""
    return tuple(OpaqueConfig(build_opaque(s.get("opaque")), tuple(s.get("requests") or ())) for s in entries or ())
