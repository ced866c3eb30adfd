"""How much a claim may hold, looked up in the raw object, before anything of it is decoded.

What an API server stores keeps these bounds. Whoever is asked about claims by strangers asks here first: decoding takes
time and memory for each entry, and some for each that is wrong.
Source: the validation of resource.k8s.io; the bounds are those that `decode` checks by `check_count`.
"""

from collections.abc import Iterable, Mapping

from allocator.api.allocation import RESERVED_FOR_MAX, RESULT_CONFIG_MAX, RESULTS_MAX
from allocator.api.device import CONDITIONS_MAX, TAINTS_MAX
from allocator.api.driver_config import SELECTORS_MAX
from allocator.api.findings import FieldError, Location, path_of
from allocator.api.requests import ALTERNATIVES_MAX, DERIVED_ATTRIBUTES_MAX, REQUESTS_MAX
from allocator.api.resource_claim import CONSTRAINTS_MAX

LISTS: Mapping[str, int] = {
    "requests": REQUESTS_MAX,
    "firstAvailable": ALTERNATIVES_MAX,
    "selectors": SELECTORS_MAX,
    "derivedAttributes": DERIVED_ATTRIBUTES_MAX,
    "constraints": CONSTRAINTS_MAX,
    "config": RESULT_CONFIG_MAX,
    "results": RESULTS_MAX,
    "tolerations": TAINTS_MAX,
    "bindingConditions": CONDITIONS_MAX,
    "bindingFailureConditions": CONDITIONS_MAX,
    "reservedFor": RESERVED_FOR_MAX,
}
"""Entries of a list, by its field; of any other, such as one that is newer than this program, LIST_MAX."""

LIST_MAX = RESERVED_FOR_MAX
FIELDS_MAX = 64
"""Fields of an object, and entries of a map."""

LEVELS_MAX = 16
TEXT_MAX = 1 << 10
"""Characters of a text in a result: several times those of the longest name."""

_PARTS = (("spec", "devices"), ("status", "allocation", "devices"), ("status", "reservedFor"), ("status", "devices"))
_Excess = tuple[Location, int, str]


def excess(claim: Mapping[str, object]) -> FieldError | None:
    """The first part of a raw claim that exceeds a bound; None where all keep them.

    Free-form JSON has to be taken out before. Cost: O(what is within the bounds).
    """
    for part in _PARTS:
        value: object = claim
        for field in part:
            value = value.get(field) if isinstance(value, dict) else None
        if beyond := _excess(value, part[-1], LEVELS_MAX, in_results=False):
            location, number, message = beyond
            return FieldError(path_of((*part, *location)), number, message)
    return None


def _excess(value: object, field: str, levels: int, *, in_results: bool) -> _Excess | None:
    """Where below the field a bound is exceeded, by what number, and which."""
    if isinstance(value, str) and in_results and len(value) > TEXT_MAX:
        return (), len(value), f"must not be longer than {TEXT_MAX} characters"
    if not isinstance(value, dict | list):
        return None
    most = LISTS.get(field, LIST_MAX) if isinstance(value, list) else FIELDS_MAX
    if len(value) > most:
        return (), len(value), f"must not have more than {most} entries"
    if not levels:
        return (), LEVELS_MAX + 1, f"must not have more than {LEVELS_MAX} levels"
    if isinstance(value, list):
        return _in_entries(enumerate(value), field, levels, in_results=in_results or field == "results")
    return _in_entries(value.items(), field, levels, in_results=in_results)


def _in_entries(
    entries: Iterable[tuple[int | str, object]], field: str, levels: int, *, in_results: bool
) -> _Excess | None:
    for step, value in entries:
        if in_results and isinstance(step, str) and len(step) > TEXT_MAX:
            return (step,), len(step), f"a name must not be longer than {TEXT_MAX} characters"
        within = step if isinstance(step, str) else field
        if beyond := _excess(value, within, levels - 1, in_results=in_results):
            return (step, *beyond[0]), beyond[1], beyond[2]
    return None
