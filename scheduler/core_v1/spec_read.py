"""The part of a pod's spec that decisions read: equal for all pods that a controller creates from one template.

Names of claims, images, volumes and the node differ between pods. Environment variables, which clusters set for each
pod, are not read.
"""

from collections.abc import Mapping


class SpecRead:
    """The raw spec of a pod, reduced to what is read; equal to another that says the same.

    read, read_of_containers: the names of fields that are read.
    """

    __slots__ = ("namespace", "raw", "text")

    def __init__(
        self,
        spec: Mapping[str, object],
        namespace: str,
        read: frozenset[str],
        read_of_containers: frozenset[str],
    ) -> None:
        self.namespace = namespace
        self.raw = {name: _reduced(name, value, read_of_containers) for name, value in spec.items() if name in read}
        self.text = _text(self.raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpecRead) and (self.text, self.namespace) == (other.text, other.namespace)

    def __hash__(self) -> int:
        return hash((self.text, self.namespace))


def _text(raw: Mapping[str, object]) -> str:
    """The quickest text that distinguishes 1 from true and from 1.0; "" where there is none."""
    try:
        return repr(raw)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return ""


def _reduced(name: str, value: object, read_of_containers: frozenset[str]) -> object:
    if not isinstance(value, list):
        return value
    if name in ("containers", "initContainers"):
        return [_with_fields(one, read_of_containers) for one in value]
    if name == "resourceClaims":
        return [_entry(one) if isinstance(one, dict) else one for one in value]
    return value


def _with_fields(raw: object, names: frozenset[str]) -> object:
    return {name: value for name, value in raw.items() if name in names} if isinstance(raw, dict) else raw


def _entry(raw: Mapping[object, object]) -> object:
    """An entry of resourceClaims with its name, which containers use; `decode_pod` reads the rest."""
    return {"name": raw.get("name"), "resourceClaimName": "any"}
