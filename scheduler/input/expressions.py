"""The CEL expressions of classes, claims and templates: those that do not compile are reported, used or not.

Source: KEP-4381; k8s.io/api resource/v1 CELDeviceSelector. An API server refuses such an object when it is created.
"""

from collections.abc import Callable, Iterator, Mapping

import cel


def problems(spec: object, environment: cel.Environment) -> Iterator[str]:
    """`PATH: MESSAGE` for each expression that does not compile, with a caret below the place. spec: as in v1."""
    for path, field, text in expressions(spec, "spec"):
        compile_ = _COMPILERS[field]
        try:
            compile_(text, environment)
        except cel.CompileError as error:
            yield f"{path}: does not compile: {error}"


SELECTOR = "cel"
"""The field of a selector that holds its expression."""

_COMPILERS: Mapping[str, Callable[[str, cel.Environment], object]] = {
    SELECTOR: cel.compile,
    "derivedAttributes": cel.compile_value,
}
"""Field that holds an expression -> what compiles it."""

_BESIDE = frozenset({"config", "metadata"})
"""Fields below which what looks like an expression is the user's own."""


def expressions(value: object, path: str, field: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, field that holds it, expression). field: the innermost of _COMPILERS that the value stands in."""
    if isinstance(value, dict):
        text = value.get("expression")
        if field and isinstance(text, str) and text:
            yield f"{path}.expression", field, text
        for key, item in value.items():
            if key not in _BESIDE:
                yield from expressions(item, f"{path}.{key}", key if key in _COMPILERS else "")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from expressions(item, f"{path}[{position}]", field)
