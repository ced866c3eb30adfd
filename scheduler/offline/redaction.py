"""Raw objects with other names: each text that somebody chose is replaced, the same one by the same one everywhere.

What a field is decides, never what its text looks like: `kept_texts` has all that stays. Replacements sort as the
originals do, because names break ties: the same decisions come from the objects.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple, get_args, get_origin
from uuid import UUID

from typing_extensions import is_typeddict

from allocator.api import is_decoded
from allocator.api.capacity import CapacityFields
from allocator.api.device import AttributeFields
from allocator.api.device_class import ClassFields, RuleFields
from allocator.api.resource_claim import ClaimFields, TemplateFields
from allocator.api.resource_slice import SliceFields
from allocator.pod_resources import CLAIM_ANNOTATION
from cel.cache import compile_selector
from cel.check.checker import declared_in
from cel.device import PlainDevice
from cel.errors import CompileError, EvalError
from cel.program import V1_36_LISTS, V1_37
from cel.syntax.lexer import Token, bytes_value, string_value, tokens
from cel.syntax.macros import MACROS
from scheduler.core_v1.custom_pods import KINDS as CUSTOM_KINDS
from scheduler.core_v1.object_fields import ObjectFields
from scheduler.core_v1.pod import DEFAULT_NAMESPACE
from scheduler.core_v1.pod_volumes import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from scheduler.core_v1.storage_objects import BIND_COMPLETED, IS_DEFAULT, MIGRATED
from scheduler.offline.shareable_dump import (
    AMOUNTS,
    CLASS_RESOURCE,
    GROUPS,
    KINDS,
    LABEL_KEYS,
    LABEL_VALUES,
    PLUGINS,
    TIMES,
    WORDS,
    JsonValue,
    KeptTexts,
    fields_of,
    is_amount,
    is_number,
    is_of_kubernetes,
    is_resource_of_kubernetes,
    is_version,
    listed,
)

# The names of fields that decisions read: any other key of an object is one that somebody chose, or is not read.
#
# Most are those of the types by which objects are read. Fields that are read without a type stand here by themselves.


_OF_DEVICES = (AttributeFields, CapacityFields, ClassFields, RuleFields, ClaimFields, TemplateFields, SliceFields)

UNTYPED = frozenset(
    {
        *("items", "basic", "any", "allocationMultiplier", "nodeAllocatableResourceMappings"),
        *("action", "restartPolicyRules", "hostNetwork", "hostUsers", "ports", "protocol", "hostIP", "hostPort"),
        *("containerPort", "image", "images", "names", "reference", "sizeBytes", "ephemeralContainers"),
        *("containerName", "requestMappings", "requestName", "resourceName", "resourceClaim"),
        *("volumes", "persistentVolumeClaim", "claimName", "readOnly", "ephemeral", "volumeClaimTemplate", "volumeID"),
        *("awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "iscsi", "portworxVolume", "rbd"),
        *("pdName", "diskURI", "iqn", "monitors", "managed"),
        *("preferredAffinityTerms", "preferredAntiAffinityTerms", "requiredAffinityTerms", "requiredAntiAffinityTerms"),
        *("active", "instances", "numOfHosts", "minReplicas", "runPolicy", "groupName", "size"),
        *("leaderTemplate", "workerTemplate", "podTemplate", "podTemplateSpec", "podSpec"),
        *("channel", "resourceClaimTemplate"),
        *("claimCreationSpec", "claimSpec", "components", "services", "cores", "cpu", "memory", "sockets", "threads"),
        *("created", "custom", "dedicatedCpuPlacement", "deviceName", "domain", "draResources", "enabled", "hpa"),
        *("extraPodMetadata", "extraPodSpec", "gpu", "gpuMemoryService", "gpuType", "gpus", "guest", "hostDevices"),
        *("mainContainer", "multiNode", "multinode", "networks", "nodeCount", "pipeline", "runStrategy", "running"),
        "scale",
    }
)
"""Those that are read without a type."""


def _of_types() -> Iterator[str]:
    """The fields of all types that are read, and of the types within. Cost: O(types)."""
    rest: list[Any] = [ObjectFields, *_OF_DEVICES]  # Any: what annotates a field
    seen = set[int]()
    while rest:
        annotation = rest.pop()
        if id(annotation) in seen:
            continue
        seen.add(id(annotation))
        rest.extend(get_args(annotation))
        if isinstance(annotation, type) and (is_typeddict(annotation) or issubclass(annotation, ObjectFields)):
            yield from _annotations(annotation)
            rest.extend(_annotations(annotation).values())
            rest.extend(type.__subclasses__(annotation))


def _annotations(type_: type) -> Mapping[str, Any]:
    annotations: Mapping[str, Any] = vars(type_).get("__annotations__", {})
    return {name: one for name, one in annotations.items() if get_origin(one) is not ClassVar}


FIELDS = frozenset(_of_types()) | UNTYPED | WORDS.keys() | TIMES | AMOUNTS


# CEL expressions with other texts: literals, names of variables, and no comments.
#
# A literal is kept if the devices of the dump show its text anyway, so that it compares as before.


NO_EXPRESSION = "?"
"""In place of what cannot be taken apart: it does not compile either."""

_OF_THE_LANGUAGE = frozenset({"cel", "device", "math", "optional"})
_CONVERSIONS = frozenset({"int", "uint", "double", "bool", "duration", "timestamp", "quantity"})
"""Functions of a text that is no name, as long as they can read it."""

_VERSIONS = frozenset({"semver"})
_NO_DEVICE = PlainDevice("", {})

_CONVERSION_OF = {"isQuantity": "quantity", "isSemver": "semver"}

Replacement = Callable[[str], str]


class RedactedExpressions:
    """Expressions with other texts. name, version: what replaces a name, and a semantic version."""

    def __init__(self, kept: KeptTexts, name: Replacement, version: Replacement) -> None:
        self._name = name
        self._version = version
        self._kept = kept
        self._identifiers = kept.attributes | kept.capacities | _words_of_the_language()

    def of(self, text: str) -> str:
        """The expression."""
        try:
            parsed = tokens(text)
            return "".join(self._texts(parsed))
        except (CompileError, ValueError):
            return NO_EXPRESSION

    def _texts(self, found: list[Token]) -> Iterable[str]:
        end = 0
        for number, token in enumerate(found[:-1]):
            yield " " if token.position > end else ""
            yield self._token(token, found[:number])
            end = token.position + len(token.text)

    def _token(self, token: Token, before: list[Token]) -> str:
        match token.kind:
            case "string":
                return self._literal(token.text, _function_of(before))
            case "bytes":
                return f'b"{self._name(bytes_value(token.text).decode(errors="replace"))}"'
            case "ident":
                return token.text if token.text in self._identifiers else as_identifier(self._name(token.text))
            case "escaped":
                name = token.text.strip("`")
                return token.text if name in self._identifiers else f"`{self._name(name)}`"
        return token.text

    def _literal(self, literal: str, function: str) -> str:
        text, converts = string_value(literal), _CONVERSION_OF.get(function, function)
        if not text or self._is_shown(text) or (converts in _CONVERSIONS and _converts(f"{converts}({literal})")):
            return literal
        is_version = converts in _VERSIONS and _converts(f"{converts}({literal}, true)")
        return f'"{self._version(text)}"' if is_version else f'"{self._name(text)}"'

    def _is_shown(self, text: str) -> bool:
        """Whether devices show the text: as it is, or in a longer one unless some attribute has it as its value."""
        if text in self._kept.shown:
            return True
        return text not in self._kept.values and any(text in longer for longer in self._kept.shown)


def as_identifier(name: str) -> str:
    """The name as CEL and attributes can spell it."""
    return name.replace("-", "_").replace(".", "_")


def _function_of(before: list[Token]) -> str:
    """The function whose first argument follows these tokens."""
    return before[-2].text if len(before) > 1 and before[-1].kind == "(" else ""


@lru_cache(maxsize=1 << 12)
def _converts(call: str) -> bool:
    """Whether the conversion of a literal succeeds."""
    try:
        return compile_selector(f"{call} == {call}").evaluate(_NO_DEVICE)
    except (CompileError, EvalError):
        return False


@cache
def _words_of_the_language() -> frozenset[str]:
    """What every environment has names for: functions, macros, types, fields of messages."""
    words = set(_OF_THE_LANGUAGE) | {name for name, _, _ in MACROS}
    for declared in map(declared_in, (V1_36_LISTS, V1_37)):
        names = {*declared.functions, *declared.variables, *declared.types, *declared.constants, *declared.structs}
        names.update(name for fields in declared.structs.values() for name in fields)
        words.update(word for name in names for word in name.split("."))
    return frozenset(words)


_LABEL_MAPS = frozenset({"labels", "matchLabels", "nodeSelector", "selector"})
_SELECTS = frozenset({"matchLabels", "matchExpressions", "nodeSelectorTerms"})
"""Fields of what may stand instead of a label map, where labels are selected by more."""

_LABEL_KEYS = frozenset({"topologyKey", "topologyKeys", "matchLabelKeys", "mismatchLabelKeys", "key"})
_RESOURCES = frozenset(
    {
        *((holder, name) for holder in ("resources", "capacity") for name in ("requests", "limits")),
        *(("requests", "custom"), ("limits", "custom"), ("spec", "overhead"), ("spec", "capacity")),
        *(("status", "capacity"), ("status", "allocatable")),
        *(("status", "allocatedResources"), ("containerStatuses[]", "allocatedResources")),
        *(("initContainerStatuses[]", "allocatedResources"), ("results[]", "consumedCapacity")),
        *((device, name) for device in ("devices[]", "basic") for name in ("capacity", "nodeAllocatableResources")),
        *((device, "nodeAllocatableResourceMappings") for device in ("devices[]", "basic")),
        ("nodeAllocatableResourceClaimStatuses[]", "resources"),
    }
)
"""(object or list, field in it) that holds amounts by the name of a resource or a capacity."""

_ATTRIBUTES_OF = frozenset({("devices[]", "attributes"), ("basic", "attributes")})
_COUNTERS = frozenset({("sharedCounters[]", "counters"), ("consumesCounters[]", "counters")})
_AMOUNTS = frozenset({("", "capacity"), ("", "maximumVolumeSize"), ("memory", "guest")})
"""(object, field in it) that holds one quantity."""

_OF_GRAPHS = frozenset({"gpu", "gpuType", "custom"})
"""What a component of a DynamoGraphDeployment has beside names of resources; no resource has such a name."""

_DRIVERS = frozenset({"driver", "provisioner", "attacher"})
_IDENTITIES = frozenset({"uid", "shareID", "podUID"})
_ATTRIBUTES = frozenset({"matchAttribute", "distinctAttribute", "partitionTypeAttribute"})
_DERIVED = "derivedAttributes[]", "name"
_IMAGES = frozenset({"image", "names", "reference"})
_RESOURCE_NAMES = frozenset({"extendedResourceName", "capacityKey", "resourceName"})
_REQUESTS = frozenset({"request", "requests"})
_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys((CLAIM_ANNOTATION, *IS_DEFAULT), frozenset({"true", "false"})),
    BIND_COMPLETED: frozenset({"yes"}),
    MIGRATED: PLUGINS,
}
"""Annotation -> the words that its value may consist of; others name objects."""

_ZONES = frozenset({ZONE, REGION, BETA_ZONE, BETA_REGION})
"""Labels whose values may name several places."""

_FIELD_SELECTOR = "metadata.name"
_ATTACHABLE = "attachable-volumes-"
_SOME_DOMAIN = "example.com"
_CLASSES_OF_SYSTEM = WORDS["priorityClassName"]
_NUMBERED = frozenset({"StatefulSet", "CronJob"})
_HASH = "pod-template-hash"
_SOME_FIELD = "?"
_TEMPLATE, _POD_SPEC = "Template", "PodSpec"
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?", re.ASCII)
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")

_Renaming = Callable[[str], str]
_Parts = tuple[str | int, ...]


class _FieldPlace(NamedTuple):
    """Where a value stands: in which field, of what holds that.

    is_known: an API that is read in full has it, a built-in one or that of pod templates. is_strict: unknown fields
    count.
    """

    field: str
    holder: str
    is_known: bool
    is_strict: bool = False

    @property
    def at(self) -> tuple[str, str]:
        return self.holder, self.field

    def below(self, field: str) -> "_FieldPlace":
        """A field of the object here; what an unknown kind says of itself and its conditions, each object says."""
        is_known = self.is_known or (not self.field and field in ("metadata", "status"))
        return _FieldPlace(field, self.field, is_known, self.is_strict)

    def entry(self) -> "_FieldPlace":
        """An object in the list here."""
        return self._replace(field=f"{self.field}[]")


_NOWHERE = _FieldPlace(_SOME_FIELD, "", is_known=False)


class Redaction:
    """Replacements for the texts of certain objects. Cost: O(size of the objects)."""

    def __init__(self, objects: Iterable[Mapping[str, JsonValue]]) -> None:
        raws = list(objects)
        kept = KeptTexts.of(raws)
        texts, identities = {DEFAULT_NAMESPACE}, set[str]()
        collecting = _Redacted(kept, _recorded(texts), _recorded(identities))
        for raw in raws:
            collecting.object(raw)
        self._identities = {text: str(UUID(int=number)) for number, text in enumerate(sorted(identities), 1)}
        width = len(str(len(texts)))
        self._words = {text: f"name-{number:0{width}}" for number, text in enumerate(sorted(texts), 1)}
        self._words.update({name: "-".join(map(self._renamed, parts)) for name, parts in _made_names(raws, texts)})
        self._redacted = _Redacted(kept, self._words.__getitem__, self._identities.__getitem__)

    def word(self, text: str) -> str:
        """The replacement of a name; the text itself if it is none that was found."""
        return self._words.get(text, text)

    def _renamed(self, text: str | int) -> str:
        """Of a name that a controller has made: its number stays."""
        return str(text) if isinstance(text, int) else self.word(text)

    def object(self, raw: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The object with other names."""
        return self._redacted.object(raw)


def _recorded(texts: set[str]) -> _Renaming:
    def record(text: str) -> str:
        texts.add(text)
        return text

    return record


class _Redacted:
    """Objects with other texts. name, identity: what replaces a name, and a uid."""

    def __init__(self, kept: KeptTexts, name: _Renaming, identity: _Renaming) -> None:
        self._kept = kept
        self._given_name = name
        self._identity = identity
        self._expressions = RedactedExpressions(kept, self._name, self._version)

    def object(self, raw: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """The object."""
        kind, version = str(raw.get("kind")), str(raw.get("apiVersion"))
        is_strict = is_decoded(version, kind)
        is_known = is_of_kubernetes(raw) or (version.rpartition("/")[0], kind) in CUSTOM_KINDS
        fields = self._fields(raw, _FieldPlace("", "", is_known=is_known, is_strict=is_strict))
        named, metadata = fields_of(raw.get("metadata")).get("name"), fields.get("metadata")
        if kind == "PriorityClass" and is_known and named in _CLASSES_OF_SYSTEM and isinstance(metadata, dict):
            metadata["name"] = named
        return fields

    def _name(self, text: str) -> str:
        """The replacement of a name; what is called like a driver is, as the driver's own objects are."""
        return text if not text or text in self._kept.drivers else self._given_name(text)

    def _value(self, value: JsonValue, place: _FieldPlace, key: str = "") -> JsonValue:
        """key: of the label whose value it is, if it is one."""
        if isinstance(value, dict):
            return self._fields(value, place)
        if isinstance(value, list):
            entry = place.entry()
            return [self._value(one, entry if isinstance(one, dict) else place, key) for one in value]
        return self._text(value, place, key) if isinstance(value, str) else value

    def _fields(self, fields: Mapping[str, JsonValue], place: _FieldPlace) -> dict[str, JsonValue]:
        """An object."""
        if place.field == "annotations":
            return {key: self._annotation(key, value) for key, value in fields.items()}
        if place.field in _LABEL_MAPS and not (place.field != "labels" and _SELECTS & fields.keys()):
            return {self._label_key(key): self._labelled(key, value) for key, value in fields.items()}
        if not place.is_known and _has_containers(fields):
            place = place._replace(is_known=True)
        if place.is_known and place.at in _ATTRIBUTES_OF:
            return {self._attribute(name): self._attribute_value(value) for name, value in fields.items()}
        if place.is_known and place.at in _COUNTERS:
            return {self._counter(name): self._amounts(value) for name, value in fields.items()}
        if place.is_known and place.at in _RESOURCES:
            return dict(self._by_resource(name, value, place) for name, value in fields.items())
        return dict(self._named_fields(fields, place))

    def _by_resource(self, name: str, value: JsonValue, place: _FieldPlace) -> tuple[str, JsonValue]:
        if name == "gpuType" and isinstance(value, str):
            return name, self._resource(value)
        if name in _OF_GRAPHS:
            return name, self._value(value, place.below(name)) if name == "custom" else self._amounts(value)
        return self._resource(name), self._amounts(value)

    def _named_fields(self, fields: Mapping[str, JsonValue], place: _FieldPlace) -> Iterator[tuple[str, JsonValue]]:
        """The fields. A key that is no field's name is somebody's own: it is replaced, or left out with what is unread.

        An unknown field of a device excludes it, so nothing is left out of objects that are read strictly.
        """
        key = fields.get("key")
        is_about_labels = isinstance(key, str) and bool({"operator", "effect", "values"} & fields.keys())
        for name, value in fields.items():
            if name == "generateName" and fields.get("name"):  # of an object that has its name
                continue
            if name in FIELDS:
                of_label = str(key) if is_about_labels and name in ("value", "values") else ""
                yield name, self._value(value, place.below(name), of_label)
            elif place.is_strict or _holds_objects(value):
                yield self._own_key(name), self._value(value, place.below(_SOME_FIELD))

    def _own_key(self, name: str) -> str:
        """Of a map, or of a field that is misspelt or belongs to an unknown kind; pods may be known by its end."""
        return f"{self._name(name)}{_POD_SPEC if name.lower().endswith(_POD_SPEC.lower()) else ''}"

    def _field_name(self, name: str) -> str:
        return name if name in FIELDS else self._own_key(name)

    def _labelled(self, key: str, value: JsonValue) -> JsonValue:
        """The value of a label; what is none stays as wrong as it is, but says nothing."""
        if isinstance(value, str):
            return self._label_value(key, value) if value else value
        return value if value is None or isinstance(value, bool) else type(value)()

    def _text(self, text: str, place: _FieldPlace, key: str) -> str:  # noqa: PLR0911 - one for each kind of field
        field = place.field
        if not text:
            return text
        if key:
            return self._label_value(key, text)
        if field in _DRIVERS:
            return self._name(text)
        if field == "expression":
            return self._expressions.of(text)
        if field in _IDENTITIES:
            return self._identity(text)
        if field in _LABEL_KEYS:
            return self._label_key(text)
        if field in _ATTRIBUTES or place.at == _DERIVED:
            return self._attribute(text)
        if field in _RESOURCE_NAMES:
            return self._resource(text)
        return self._plain_text(text, place)

    def _plain_text(self, text: str, place: _FieldPlace) -> str:
        field = place.field
        if field in _REQUESTS:
            return "/".join(map(self._name, text.split("/")))
        if field == "generateName":
            return f"{self._name(text.removesuffix('-'))}-"
        if field in _IMAGES:
            return self._name(_image(text))
        if field == "finalizers" and not self._kept.stays(text, field):
            return _with_domain(self._name(text), text)  # without one, objects of resource.k8s.io are refused
        return self._word(text, place)

    def _word(self, text: str, place: _FieldPlace) -> str:
        """What only the API's own words, times and amounts are kept of."""
        field = place.field
        if field == "apiVersion":
            return self._api_version(text)
        if field == "kind" and text not in KINDS:
            return f"{self._name(text)}{_TEMPLATE if text.endswith(_TEMPLATE) else ''}"
        may_stay = field not in AMOUNTS | TIMES or (place.is_known and (field in TIMES or place.at in _AMOUNTS))
        return text if may_stay and self._kept.stays(text, field) else self._name(text)

    def _api_version(self, text: str) -> str:
        group, slash, version = text.rpartition("/")
        if not _VERSION.fullmatch(version):
            return self._name(text)
        return f"{group if group in GROUPS else self._name(group)}{slash}{version}"

    def _label_key(self, key: str) -> str:
        """Of a label or a taint; those of Kubernetes stay."""
        return key if key in LABEL_KEYS or key == _FIELD_SELECTOR else self._name(key)

    def _label_value(self, key: str, value: str) -> str:
        if value in LABEL_VALUES.get(key, ()) or (key in self._kept.compared and is_number(value)):
            return value
        parts = value.split(ZONE_DELIMITER) if key in _ZONES else [value]
        return ZONE_DELIMITER.join(map(self._name, parts))

    def _annotation(self, key: str, value: JsonValue) -> JsonValue:
        if not isinstance(value, str):
            return self._value(value, _NOWHERE)
        words = _ANNOTATIONS.get(key, frozenset())
        return ",".join(word if word in words else self._name(word) for word in value.split(","))

    def _resource(self, name: str) -> str:
        """Of a node's resource, an extended one, or a capacity of devices."""
        if name in self._kept.capacities or is_resource_of_kubernetes(name):
            return name
        for prefix in (CLASS_RESOURCE, _ATTACHABLE):
            if name.startswith(prefix):
                return f"{prefix}{self._name(name.removeprefix(prefix))}"
        return self._qualified(name)

    def _counter(self, name: str) -> str:
        """One is often called like the capacity that it limits, which is shown."""
        return name if name in self._kept.capacities else self._name(name)

    def _attribute(self, name: str) -> str:
        return name if name in self._kept.attributes else self._qualified(name)

    def _qualified(self, name: str) -> str:
        """A name that no device has; with a domain where it has one."""
        return _with_domain(as_identifier(self._name(name)), name)

    def _amounts(self, value: JsonValue) -> JsonValue:
        """A quantity, or an object or a list that says more about it."""
        if isinstance(value, dict):
            return {self._field_name(name): self._amounts_in(name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._amounts(entry) for entry in value]
        return value if not isinstance(value, str) or is_amount(value) else self._name(value)

    def _amounts_in(self, field: str, value: JsonValue) -> JsonValue:
        return self._value(value, _NOWHERE.below(field)) if field == "capacityKey" else self._amounts(value)

    def _attribute_value(self, value: JsonValue) -> JsonValue:
        if not isinstance(value, dict):
            return self._value(value, _NOWHERE)
        return {self._field_name(kind): self._typed_value(kind, inner) for kind, inner in value.items()}

    def _typed_value(self, kind: str, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._typed_value(kind, entry) for entry in value]
        if not isinstance(value, str):
            return self._value(value, _NOWHERE)
        if kind in ("version", "versions"):
            return self._version(value) if is_version(value) else self._name(value)
        return value if value in self._kept.shown else self._name(value)

    def _version(self, text: str) -> str:
        """A semantic version: its numbers stay."""
        numbers, plus, build = text.partition("+")
        numbers, dash, before = numbers.partition("-")
        names = [
            ".".join(part if part.isdecimal() else self._name(part) for part in some.split("."))
            for some in (before, build)
        ]
        return f"{numbers}{dash}{names[0]}{plus}{names[1]}"


def _with_domain(name: str, before: str) -> str:
    return f"{_SOME_DOMAIN}/{name}" if "/" in before else name


def _has_containers(fields: Mapping[str, JsonValue]) -> bool:
    """Whether the object is a pod template, or the spec of a pod."""
    return bool(listed(fields.get("containers")) or listed(fields_of(fields.get("spec")).get("containers")))


def _holds_objects(value: JsonValue) -> bool:
    return isinstance(value, dict) or any(isinstance(one, dict | list) for one in listed(value))


def _image(name: str) -> str:
    """The name of an image with its tag, as a container runtime completes it."""
    return name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"


def _made_names(objects: Iterable[Mapping[str, JsonValue]], names: set[str]) -> Iterator[tuple[str, _Parts]]:
    """The names that controllers make from others, with what they consist of: they do so afterwards.

    Pods of a StatefulSet and Jobs of a CronJob have a number, ReplicaSets a hash, and claims of volumes the pod.
    """
    raws = list(objects)
    by_kind: dict[str, set[str]] = {}
    for raw in raws:
        by_kind.setdefault(str(raw.get("kind")), set()).add(str(fields_of(raw.get("metadata")).get("name")))
    numbered = {name for kind in _NUMBERED for name in by_kind.get(kind, ())}
    hashes = {str(fields_of(fields_of(raw.get("metadata")).get("labels")).get(_HASH)) for raw in raws}
    deployments, pods, volumes = by_kind.get("Deployment", set()), by_kind.get("Pod", set()), _volumes_of_claims(raws)

    def of_owner(name: str) -> _Parts:
        owner, _, rest = name.rpartition("-")
        if owner in numbered and _NUMBER.fullmatch(rest):
            return owner, int(rest)
        return (owner, rest) if owner in deployments and rest in hashes else ()

    def of_pod(name: str) -> _Parts:
        return of_owner(name) or ((name,) if name in pods else ())

    for name in sorted(names):
        if parts := of_owner(name):
            yield name, parts
        for volume in volumes:
            if name.startswith(f"{volume}-") and (parts := of_pod(name.removeprefix(f"{volume}-"))):
                yield name, (volume, *parts)
            if name.endswith(f"-{volume}") and (parts := of_pod(name.removesuffix(f"-{volume}"))):
                yield name, (*parts, volume)


def _volumes_of_claims(raws: Iterable[Mapping[str, JsonValue]]) -> set[str]:
    """The names of templates of claims, and of ephemeral volumes."""
    names = set[str]()
    for raw in raws:
        spec = fields_of(raw.get("spec"))
        names.update(
            str(fields_of(fields_of(one).get("metadata")).get("name"))
            for one in listed(spec.get("volumeClaimTemplates"))
        )
        inner = fields_of(fields_of(spec.get("template")).get("spec"))
        volumes = (*listed(spec.get("volumes")), *listed(inner.get("volumes")))
        names.update(str(volume.get("name")) for volume in map(fields_of, volumes) if "ephemeral" in volume)
    return names
