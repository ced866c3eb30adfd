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


class CelShape(TypedDict, total=False):
    """The `cel` part of a selector."""

    expression: str | None


class SelectorShape(TypedDict, total=False):
    """An entry of `selectors`."""

    cel: CelShape | None


class OpaqueShape(TypedDict, total=False):
    """The `opaque` part of a configuration; its parameters belong to the driver."""

    driver: str | None
    parameters: object


class ClassConfigShape(TypedDict, total=False):
    """An entry of a class's `config`."""

    opaque: OpaqueShape | None


class ConfigShape(TypedDict, total=False):
    """An entry of a claim's or a result's `config`; `source` stands in results only."""

    requests: list[str] | None
    opaque: OpaqueShape | None


class ResultConfigShape(TypedDict, total=False):
    """An entry of a result's `config`."""

    source: str | None
    requests: list[str] | None
    opaque: OpaqueShape | None


def check_count(count: int, limit: int, path: str, findings: Findings) -> None:
    """A list's or a map's number of entries must not exceed the limit."""
    if count > limit:
        findings.error(path, count, f"must not have more than {limit} entries")


def check_selectors(shapes: Sequence[SelectorShape] | None, path: str, findings: Findings) -> None:
    """The rules of a list of selectors, short of compiling the expressions."""
    check_count(len(shapes or ()), SELECTORS_MAX, path, findings)
    for index, shape in enumerate(shapes or ()):
        at, cel = f"{path}[{index}]", shape.get("cel")
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


def check_opaque(shape: OpaqueShape | None, path: str, findings: Findings) -> None:
    """The rules of the configuration at `path`: the driver's name, and a JSON object of limited size."""
    if shape is None:
        if not findings.is_uncertain(path):
            findings.required(f"{path}.opaque")
        return
    if problem := names.driver_name(shape.get("driver") or ""):
        findings.error(f"{path}.opaque.driver", shape.get("driver"), problem)
    check_json_object(shape.get("parameters"), f"{path}.opaque.parameters", findings)


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


def build_selectors(shapes: Sequence[SelectorShape] | None) -> tuple[str | None, ...]:
    """The expressions; None for a selector without a `cel` part."""
    return tuple(_expression(shape.get("cel")) for shape in shapes or ())


def _expression(shape: CelShape | None) -> str | None:
    return None if shape is None else shape.get("expression") or ""


def build_opaque(shape: OpaqueShape | None) -> dict[str, object]:
    """The configuration as results repeat it; empty where a configuration has no `opaque` part."""
    if shape is None:
        return {}
    return {"driver": shape.get("driver") or "", "parameters": shape.get("parameters")}


def build_class_config(shapes: Sequence[ClassConfigShape] | None) -> tuple[OpaqueConfig, ...]:
    """The configuration of a class, in order."""
    return tuple(OpaqueConfig(build_opaque(shape.get("opaque"))) for shape in shapes or ())


def build_claim_config(shapes: Sequence[ConfigShape] | None) -> tuple[OpaqueConfig, ...]:
    """The configuration of a claim, in order."""
    return tuple(OpaqueConfig(build_opaque(s.get("opaque")), tuple(s.get("requests") or ())) for s in shapes or ())
