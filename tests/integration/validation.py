"""What the API server and our decoder say of one object, in a form that can be compared.

The server tells a violated rule by the exact field, a wrong type by the field without indices and map keys and only
for the first one found, and a quantity or time that cannot be parsed without any field.
"""

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from allocator.api import Decoded, decode
from tests.controlplane.rest import CLAIM, ApiError, RestClient

_WRONG_TYPE = re.compile(r"cannot unmarshal .* into Go struct field \w+\.(\S+) of type")
_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_EMBEDDED = re.compile(r"\.[A-Z]\w*")  # Go's name of a struct within a struct, which JSON does not show
_STEP = re.compile(r"\[[^\]]*\]")
_MAP_KEY = re.compile(r"\[(\D[^\]]*)\]")


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """is_accepted: no rule violated. fields: those named, where the server names them exactly."""

    is_accepted: bool
    fields: frozenset[str] = frozenset()
    wrong_type: str = ""

    def __str__(self) -> str:
        said = ", ".join(sorted(self.fields)) or self.wrong_type or "no field named"
        return "accepts" if self.is_accepted else f"refuses: {said}"


def of_server(api: RestClient, raw: Mapping[str, Any]) -> ValidationResult:
    """The server's answer; a field that it does not know is dropped before the rules are applied."""
    try:
        error = _refusal(api, raw, is_strict=False)
    except http.client.RemoteDisconnected:
        # Kubernetes 1.36.3 divides by a range's step without a look, and panics where that is 0.
        return ValidationResult(is_accepted=False)
    if error is None:
        return ValidationResult(is_accepted=True)
    if error.causes:
        return ValidationResult(is_accepted=False, fields=frozenset(cause.field for cause in error.causes))
    found = _WRONG_TYPE.search(error.message)
    return ValidationResult(is_accepted=False, wrong_type=_EMBEDDED.sub("", found[1]) if found else "")


def unknown_to_server(api: RestClient, raw: Mapping[str, Any]) -> set[str]:
    """The fields that the server does not know."""
    error = _refusal(api, raw, is_strict=True)
    return set(_UNKNOWN.findall(error.message)) if error else set()


def of_decoder(decoded: Decoded) -> ValidationResult:
    """Our answer, with the fields of all rules that are broken, those that decide nothing among them."""
    broken = (*decoded.errors, *decoded.notes)
    return ValidationResult(not broken, frozenset(one.path for one in broken))


def unknown_to_decoder(decoded: Decoded) -> set[str]:
    """The fields that we do not know, written as the server writes them: with a dot before a map's key."""
    return {_MAP_KEY.sub(r".\1", warning.path) for warning in decoded.warnings}


def agree(server: ValidationResult, ours: ValidationResult) -> bool:
    """Whether both accept, or both refuse and name the same fields as far as the server names any."""
    if server.is_accepted or ours.is_accepted:
        return server.is_accepted == ours.is_accepted
    if server.fields:
        return server.fields == ours.fields
    return not server.wrong_type or server.wrong_type in {_STEP.sub("", path) for path in ours.fields}


def disagreement(api: RestClient, raw: Mapping[str, Any]) -> str:
    """Both answers where they differ; empty where they agree."""
    server, ours = of_server(api, raw), of_decoder(decode(raw))
    return "" if agree(server, ours) else f"the server {server}; the decoder {ours}"


def _refusal(api: RestClient, raw: Mapping[str, Any], *, is_strict: bool) -> ApiError | None:
    """Why the server refuses to store the object; nothing is left behind."""
    sent = {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key != "uid"}}
    try:
        if "status" in sent:
            _try_status(api, sent, is_strict=is_strict)
        else:
            api.create(sent, is_dry=True, is_strict=is_strict)
    except ApiError as error:
        return error
    return None


def _try_status(api: RestClient, raw: Mapping[str, Any], *, is_strict: bool) -> None:
    """A status needs a stored object, and is written in a call of its own."""
    stored = api.create({key: value for key, value in raw.items() if key != "status"})
    try:
        api.replace_status({**stored, "status": raw["status"]}, is_dry=True, is_strict=is_strict)
    finally:
        api.delete(CLAIM, stored["metadata"]["name"], stored["metadata"]["namespace"])
