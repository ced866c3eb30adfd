"""Taints of devices, and the tolerations of requests and results.

Source: KEP-5055; k8s.io/api resource/v1 DeviceTaint, DeviceToleration.
"""

from collections.abc import Mapping

from typing_extensions import TypedDict

from allocator.api import names
from allocator.api.field_types import Int64, Timestamp
from allocator.api.findings import Findings
from allocator.model import Taint, Toleration

EFFECTS = ("None", "NoSchedule", "NoExecute")


class TaintFields(TypedDict, total=False):
    """A taint of a device or of a rule."""

    key: str | None
    value: str | None
    effect: str | None
    timeAdded: Timestamp | None


class TolerationFields(TypedDict, total=False):
    """A toleration of a request, as a result repeats it."""

    key: str | None
    operator: str | None
    value: str | None
    effect: str | None
    tolerationSeconds: Int64 | None


def check_taint(fields: TaintFields, path: str, findings: Findings) -> None:
    """The rules of a taint: a label's key and value, and one of three effects."""
    if problem := names.label_key(fields.get("key") or ""):
        findings.error(f"{path}.key", fields.get("key"), problem)
    if problem := names.label_value(fields.get("value") or ""):
        findings.error(f"{path}.value", fields.get("value"), problem)
    if fields.get("effect") not in EFFECTS:
        findings.error(f"{path}.effect", fields.get("effect"), f"must be one of {', '.join(EFFECTS)}")


def check_toleration(fields: TolerationFields, path: str, findings: Findings) -> None:
    """The rules of a toleration; an empty key or effect stands for all of them."""
    key, effect = fields.get("key") or "", fields.get("effect") or ""
    if key and (problem := names.label_key(key)):
        findings.error(f"{path}.key", key, problem)
    if effect and effect not in EFFECTS:
        findings.error(f"{path}.effect", effect, f"must be absent or one of {', '.join(EFFECTS)}")
    operator, value = fields.get("operator") or "", fields.get("value") or ""
    if operator not in {"Exists", "Equal"}:
        findings.error(f"{path}.operator", fields.get("operator"), "must be Exists or Equal")
    elif operator == "Exists" and value:
        findings.error(f"{path}.value", value, "must be empty for the operator Exists")
    elif problem := names.label_value(value):
        findings.error(f"{path}.value", value, problem)


def build_taint(fields: TaintFields) -> Taint:
    """The taint without the time at which it was added: no decision depends on that."""
    return Taint(fields.get("key") or "", fields.get("value") or "", fields.get("effect") or "")


def build_toleration(fields: TolerationFields) -> Toleration:
    """The toleration, together with the object that a result repeats."""
    raw: Mapping[str, object] = {name: value for name, value in fields.items() if value is not None}
    key, operator = fields.get("key") or "", fields.get("operator") or ""
    return Toleration(key, operator, fields.get("value") or "", fields.get("effect") or "", raw)
