"""Raw objects with other names: each text that users chose is replaced, the same one by the same one everywhere.

Replacements sort as the originals do, because names break ties: the same decisions come from the objects. Texts that
say what is asked of devices stay: drivers, models, versions, names of attributes, capacities, counters and requests.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from cel.errors import CompileError
from cel.syntax.lexer import string_value, tokens
from scheduler.core_v1.pod import DEFAULT_NAMESPACE

Json = Any
"""A value of JSON."""

_KEPT = frozenset(
    {
        *("kind", "apiVersion", "apiGroup", "resource", "operator", "effect", "phase", "type", "status", "reason"),
        *("allocationMode", "matchAttribute", "distinctAttribute", "request", "requests", "counterSet", "driver"),
        *("creationTimestamp", "deletionTimestamp", "timeAdded", "resourceVersion", "finalizers", "generation"),
        *("whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy", "restartPolicy", "protocol", "clusterIP"),
        *("volumeBindingMode", "volumeMode", "accessModes", "preemptionPolicy", "reclaimPolicy", "provisioner"),
        *("persistentVolumeReclaimPolicy", "attacher", "schedulerName", "declaredFeatures", "bindingConditions"),
        *("bindingFailureConditions", "extendedResourceName", "fsType", "concurrencyPolicy", "schedule"),
        *("podManagementPolicy", "completionMode", "lastTransitionTime", "lastProbeTime", "lastHeartbeatTime"),
        *("startTime", "startedAt", "conditions", "strategy", "updateStrategy", "imagePullPolicy", "qosClass"),
        *("allocationTimestamp", "hostIP", "resourceName", "subset"),
    }
)
"""Fields whose texts are words of the API, times, or say what is asked of devices."""

_UNTOUCHED = frozenset(
    {"capacity", "consumesCounters", "sharedCounters", "consumedCapacity", "nodeAllocatableResourceMappings"}
)
"""Fields that hold amounts and their names only, all the way down."""

_NAMED_BY_THE_API = frozenset({"requests", "firstAvailable", "schedulingGates"})
"""Lists whose entries have names that stay."""

_LABEL_MAPS = frozenset({"labels", "matchLabels", "nodeSelector", "selector"})
_LABEL_KEYS = frozenset({"topologyKey", "topologyKeys", "matchLabelKeys", "mismatchLabelKeys"})
_AMOUNTS = frozenset({"allocatable", "overhead", "limits", "allocatedResources", "resources", "hard", "used"})
_IDENTITIES = frozenset({"uid", "shareID", "podUID"})
_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"

_KUBERNETES = re.compile(r"(^|\.)(kubernetes|k8s)\.io$")
_UUID = re.compile(r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}")
_IDENTIFYING = re.compile(r"(?i:uuid|guid|serial|macaddr|^mac$|^uid$|ipv[46]|hostname|^ip$)|U[Ii][Dd]$")
_NO_EXPRESSION = "?"
"""In place of what cannot be taken apart: it does not compile either."""

_AMOUNT = re.compile(r"[-+0-9.]*(?:[eE][-+0-9]+|[numkMGTPE]|[KMGTPE]i)?")
_SWITCHES = frozenset({"", "true", "false"})


class Redaction:
    """Replacements for the texts of certain objects. Cost: O(size of the objects)."""

    def __init__(self, objects: Iterable[Mapping[str, Json]]) -> None:
        found = list(objects)
        texts = _Texts()
        for one in found:
            texts.take(one)
        words = texts.words - texts.kept
        self._device_names = texts.device_names - texts.kept
        self._identities = {text: str(UUID(int=number)) for number, text in enumerate(sorted(texts.identities), 1)}
        width = len(str(len(words)))
        self._words = {text: f"name-{number:0{width}}" for number, text in enumerate(sorted(words), 1)}
        self._rename_members(texts.owners)

    def _rename_members(self, owners: Iterable[str]) -> None:
        """What is named after a workload, such as the pods of a StatefulSet, is so afterwards: numbers tell them."""
        bases = {f"{owner}-": self._words[owner] for owner in owners if owner in self._words}
        for word in self._words:
            base, dash, rest = word.rpartition("-")
            if dash and f"{base}-" in bases and rest.isdigit():
                self._words[word] = f"{bases[f'{base}-']}-{rest}"

    def word(self, text: str) -> str:
        """The replacement of a name; the text itself if it is none that was found."""
        return self._words.get(text, text)

    def object(self, raw: Mapping[str, Json]) -> dict[str, Json]:
        """The object with other names."""
        renamed: dict[str, Json] = self._value(raw, "", "")
        return renamed

    def _value(self, value: Json, field: str, outer: str) -> Json:
        """field: that holds it; outer: that holds the object or list that it is in."""
        if isinstance(value, dict):
            return self._map(value, field, outer)
        if isinstance(value, list):
            return [self._value(one, field, outer) for one in value]
        return self._text(value, field, outer) if isinstance(value, str) else value

    def _map(self, value: Mapping[str, Json], field: str, outer: str) -> Json:
        if field in _UNTOUCHED or (field == "conditions" and outer != "status"):
            return value
        if field == "attributes":
            return {name: self._attribute(name, one) for name, one in value.items()}
        if field in _LABEL_MAPS and all(isinstance(one, str) for one in value.values()):
            return {self.label_key(key): self._label_value(key, one) for key, one in value.items()}
        if _is_amounts(field, value):
            return {self._resource(name): one for name, one in value.items()}
        if field == "annotations":
            return {key: self._annotation(one) for key, one in value.items()}
        return {key: self._value(one, key, field) for key, one in value.items() if not _is_prefix(key, value)}

    def _text(self, text: str, field: str, outer: str) -> str:
        if field in _KEPT or (field == "name" and outer in _NAMED_BY_THE_API):
            return text
        if field == "expression":
            return self.expression(text)
        if field in _IDENTITIES:
            return self._identities.get(text, text)
        if field in _LABEL_KEYS or field == "key":
            return self.label_key(text)
        if field == "generateName":
            return f"{self.word(text.removesuffix('-'))}-"
        return self.word(_image(text) if field in ("image", "names") else text)

    def label_key(self, key: str) -> str:
        """The replacement of the key of a label or a taint; those of Kubernetes stay."""
        return key if _is_of_kubernetes(key) else self.word(key)

    def _label_value(self, key: str, value: str) -> str:
        return self._identities.get(value, self.word(value)) if key != "kubernetes.io/arch" else value

    def _resource(self, name: str) -> str:
        return f"{_CLASS_RESOURCE}{self.word(_class_of(name))}" if name.startswith(_CLASS_RESOURCE) else name

    def _annotation(self, value: str) -> str:
        return ",".join(self.word(one) for one in value.split(","))

    def _attribute(self, name: str, value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        return {kind: self._attribute_value(name, one) if "string" in kind else one for kind, one in value.items()}

    def _attribute_value(self, name: str, value: Json) -> Json:
        if isinstance(value, list):
            return [self._attribute_value(name, one) for one in value]
        return self._device_text(value) if isinstance(value, str) else value

    def _device_text(self, text: str) -> str:
        """A text of an attribute, or of a selector that compares one with it."""
        return self._identities.get(text) or (self.word(text) if text in self._device_names else text)

    def expression(self, text: str) -> str:
        """A CEL expression with the replacements in its literals, and without comments."""
        try:
            found = tokens(text)
        except CompileError:
            return _NO_EXPRESSION
        parts, end = [], 0
        for token in found[:-1]:
            parts.append(" " if token.position > end else "")
            parts.append(self._literal(token.text) if token.kind == "string" else token.text)
            end = token.position + len(token.text)
        return "".join(parts)

    def _literal(self, literal: str) -> str:
        try:
            value = string_value(literal)
        except ValueError:
            return literal
        replaced = self._device_text(value)
        return literal if replaced == value else f'"{replaced}"'


class _Texts:
    """The texts of objects, by what becomes of them.

    words: to be replaced. kept: those among them that are names of drivers. identities: uids, and what devices have of
    that kind. device_names: names of nodes, pools and devices, for attributes that repeat them. owners: of workloads.
    """

    def __init__(self) -> None:
        self.words: set[str] = {DEFAULT_NAMESPACE}
        self.kept: set[str] = set()
        self.identities: set[str] = set()
        self.device_names: set[str] = set()
        self.owners: set[str] = set()

    def take(self, raw: Mapping[str, Json]) -> None:
        """Add those of an object."""
        name = str(_fields(raw.get("metadata")).get("name") or "")
        if raw.get("kind") == "Node":
            self.device_names.add(name)
        if raw.get("kind") == "CSIDriver":
            self.kept.add(name)
        if raw.get("kind") == "StatefulSet":
            self.owners.add(name)
        if raw.get("kind") == "ResourceSlice":
            self._take_slice(_fields(raw.get("spec")))
        self._value(raw, "", "")

    def _take_slice(self, spec: Mapping[str, Json]) -> None:
        self.device_names.update(
            str(one) for one in (_fields(spec.get("pool")).get("name"), spec.get("nodeName")) if one
        )
        self.device_names.update(str(one.get("name")) for one in _listed(spec.get("devices")) if isinstance(one, dict))

    def _value(self, value: Json, field: str, outer: str) -> None:
        if isinstance(value, dict):
            self._map(value, field, outer)
        elif isinstance(value, list):
            for one in value:
                self._value(one, field, outer)
        elif isinstance(value, str):
            self._text(value, field, outer)

    def _map(self, value: Mapping[str, Json], field: str, outer: str) -> None:
        if field in _UNTOUCHED or (field == "conditions" and outer != "status"):
            return
        if field == "attributes":
            self.identities.update(text for name, one in value.items() for text in _identifying(name, one))
        elif field in _LABEL_MAPS and all(isinstance(one, str) for one in value.values()):
            for key, one in value.items():
                self._key(key)
                self._label_value(one)
        elif _is_amounts(field, value):
            self.words.update(_class_of(name) for name in value if name.startswith(_CLASS_RESOURCE))
        elif field == "annotations":
            self.words.update(text for one in value.values() for text in str(one).split(",") if _is_name(text))
        else:
            for key, one in value.items():
                if not _is_prefix(key, value):
                    self._value(one, key, field)

    def _text(self, text: str, field: str, outer: str) -> None:
        if field in ("driver", "provisioner", "attacher"):
            self.kept.add(text)
        elif field == "expression":
            self.identities.update(one for one in _literals(text) if _UUID.search(one))
        elif field in _IDENTITIES:
            self.identities.add(text)
        elif field in _LABEL_KEYS or field == "key":
            self._key(text)
        elif field == "generateName":
            self.words.add(text.removesuffix("-"))
        elif field not in _KEPT and not (field == "name" and outer in _NAMED_BY_THE_API):
            self._label_value(_image(text) if field in ("image", "names") else text)

    def _key(self, key: str) -> None:
        if not _is_of_kubernetes(key):
            self.words.add(key)

    def _label_value(self, text: str) -> None:
        if _UUID.fullmatch(text):
            self.identities.add(text)
        elif _is_name(text):
            self.words.add(text)


def _fields(value: Json) -> Mapping[str, Json]:
    """The fields of an object; none of what is no object, as in a manifest with errors."""
    return value if isinstance(value, dict) else {}


def _listed(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def _is_name(text: str) -> bool:
    """False for numbers and quantities, which are compared, for switches, and for what Kubernetes has names for."""
    return not _AMOUNT.fullmatch(text) and text not in _SWITCHES and not text.startswith("system-")


def _is_amounts(field: str, value: Mapping[str, Json]) -> bool:
    """True for quantities by the name of a resource."""
    plain = all(isinstance(one, str | int | float) for one in value.values())
    return (field in _AMOUNTS or field == "requests") and plain


def _class_of(resource: str) -> str:
    return resource.removeprefix(_CLASS_RESOURCE)


def _is_of_kubernetes(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    return (bool(slash) and _KUBERNETES.search(prefix) is not None) or key == "metadata.name"


def _is_prefix(key: str, value: Mapping[str, Json]) -> bool:
    """True for a generateName of an object that has its name."""
    return key == "generateName" and bool(value.get("name"))


def _image(name: str) -> str:
    """The name of an image with its tag, as a container runtime completes it."""
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def _literals(expression: str) -> Iterator[str]:
    """The values of its string literals."""
    with suppress(CompileError, ValueError):
        yield from [string_value(token.text) for token in tokens(expression) if token.kind == "string"]


def _identifying(name: str, value: Json) -> Iterator[str]:
    """The texts of an attribute that tell one device of the world from all others."""
    if not isinstance(value, dict):
        return
    is_identity = _IDENTIFYING.search(name.rpartition("/")[2]) is not None
    for kind, one in value.items():
        texts = [text for text in (one if isinstance(one, list) else [one]) if isinstance(text, str) and text]
        if "string" in kind:
            yield from (text for text in texts if is_identity or _UUID.search(text))
