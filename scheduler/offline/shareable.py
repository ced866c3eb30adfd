"""What of a raw object is kept in a dump that others may read: all that decisions depend on, and no secret.

Source: k8s.io/api core/v1 (what pods and nodes carry beside what placement reads).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain

import cel
from allocator.api import decode, is_decoded
from allocator.cluster.pools import NodeView, Segment
from allocator.cluster.selectors import Selectors
from allocator.model import Device, Slice
from allocator.pod_resources import CLAIM_ANNOTATION
from scheduler.core_v1.persistent_volume import BIND_COMPLETED, CLASS_ANNOTATION, SELECTED_NODE
from scheduler.core_v1.workload import asks_for_claims, decode_embedded
from scheduler.input.inventory import KINDS_THAT_COUNT, SELECTOR, expressions, subject_of
from scheduler.offline.input_claims import ENTRY_ANNOTATION
from scheduler.offline.kept_texts import JsonValue

# The selectors that choose other devices once their texts and those of the devices are redacted.
#
# A text that is put together, taken apart or matched against a pattern has no replacement that behaves as it did.
# Instead of guessing which expressions do so, each is asked about all devices before and after.


_Pair = tuple[Mapping[str, JsonValue], Mapping[str, JsonValue]]


def changed_selectors(
    before: Iterable[Mapping[str, JsonValue]], after: Iterable[Mapping[str, JsonValue]]
) -> Iterator[str]:
    """`KIND NAME: PATH` of each selector that no longer selects the same devices, or fails on others.

    So it is for each derived attribute that no longer has equal values for the same devices. after: the redacted
    objects, in the same order. Cost: O(different selectors x devices).
    """
    pairs = list(zip(before, after, strict=True))
    views = _views(pairs)
    asked = Selectors(cel.V1_37), Selectors(cel.V1_37)
    is_same: dict[tuple[str, str, str], bool] = {}
    for raw, redacted in pairs:
        if not is_decoded(str(raw.get("apiVersion")), str(raw.get("kind"))):
            continue
        paired = zip(expressions(raw.get("spec"), "spec"), expressions(redacted.get("spec"), "spec"), strict=False)
        for (path, field, text), (_, _, other) in paired:
            key = field, text, other
            if key not in is_same:
                first, second = (_answer(field, *one) for one in zip(asked, (text, other), views, strict=True))
                is_same[key] = first == second
            if not is_same[key]:
                yield f"{subject_of(str(raw['kind']), raw)}: {path}"


def _answer(field: str, selectors: Selectors, text: str, view: NodeView) -> object:
    """Which devices a selector selects; or which devices a derived attribute has equal values for."""
    if field == SELECTOR:
        return selectors.select(text, view)
    firsts: dict[Hashable, int] = {}
    return [firsts.setdefault(_derived(text, device), position) for position, device in enumerate(view.devices)]


def _derived(text: str, device: Device) -> Hashable:
    """The value, None where it fails; constraints ask only whether values are equal."""
    try:
        return cel.compile_value(text).evaluate(device)
    except (cel.CompileError, cel.EvalError):
        return None


def _views(pairs: Iterable[_Pair]) -> tuple[NodeView, NodeView]:
    """All devices, before and after."""
    slices = [
        (first, second)
        for raw, redacted in pairs
        if raw.get("kind") == "ResourceSlice"
        and isinstance(first := decode(raw, allows_combined=True).object, Slice)
        and isinstance(second := decode(redacted, allows_combined=True).object, Slice)
    ]
    return _view([one for one, _ in slices]), _view([one for _, one in slices])


def _view(slices: Iterable[Slice]) -> NodeView:
    segments, offset = list[Segment](), 0
    for slice_ in slices:
        segments.append(Segment(slice_, offset))
        offset += len(slice_.devices)
    devices = tuple(chain.from_iterable(one.slice.devices for one in segments))
    return NodeView(None, (), tuple(segments), devices, 0, 0, 0, 0, frozenset())


DROPPED = frozenset(
    {
        *("managedFields", "selfLink", "message", "data", "stringData", "binaryData"),
        *("env", "envFrom", "command", "args", "lifecycle", "workingDir", "securityContext"),
        *("livenessProbe", "readinessProbe", "startupProbe", "volumeMounts", "volumeDevices"),
        *("imagePullSecrets", "hostAliases", "dnsConfig", "dnsPolicy", "hostname", "subdomain"),
        *("terminationMessagePath", "terminationMessagePolicy", "serviceAccount", "serviceAccountName"),
        *("addresses", "podCIDR", "podCIDRs", "providerID", "daemonEndpoints", "volumesAttached"),
        *("podIP", "podIPs", "hostIPs", "externalIPs", "clusterIP", "clusterIPs", "loadBalancer", "externalName"),
        *("volumeAttributes", "options", "nodeInfo", "containerID", "imageID", "lastState", "state"),
        *("ephemeralContainers", "configSource"),
        *("accessCredentials", "userData", "userDataBase64", "networkDataBase64"),
    }
)
"""Fields that no decision reads, wherever they stand."""

ANNOTATIONS = frozenset(
    {
        *(CLAIM_ANNOTATION, ENTRY_ANNOTATION, SELECTED_NODE, BIND_COMPLETED, CLASS_ANNOTATION),
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storage.alpha.kubernetes.io/migrated-plugins",
    }
)
"""Annotations that decide something."""

_SOURCES_WITHOUT_DEVICES = frozenset(
    {"secret", "configMap", "projected", "downwardAPI", "emptyDir", "hostPath", "nfs", "gitRepo", "flexVolume"}
    | {"cloudInitNoCloud", "cloudInitConfigDrive", "sysprep"}
)
"""Volumes of a pod that nothing depends on, and which name secrets, hosts and paths."""


def shareable(raw: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """The object without what no decision reads; None for one of a kind that does not count, such as a Secret."""
    kind, version = str(raw.get("kind")), str(raw.get("apiVersion"))
    if not (kind in KINDS_THAT_COUNT or is_decoded(version, kind) or _has_pods(kind, raw)):
        return None
    kept: dict[str, JsonValue] = _kept(raw)
    if kind == "ResourceClaim" and isinstance(kept.get("status"), dict):
        kept["status"].pop("devices", None)
    return kept


def _has_pods(kind: str, raw: Mapping[str, JsonValue]) -> bool:
    return bool(decode_embedded(kind, raw)[0]) or asks_for_claims(kind, raw)


def _kept(value: JsonValue, field: str = "") -> JsonValue:
    if isinstance(value, list):
        return [_kept(one, field) for one in value if not _is_volume_without_devices(one, field)]
    if not isinstance(value, dict):
        return value
    if field == "annotations":
        return {key: one for key, one in value.items() if key in ANNOTATIONS}
    if field == "parameters":  # of a driver, which may hold anything
        return {}
    return {key: _kept(one, key) for key, one in value.items() if key not in DROPPED}


def _is_volume_without_devices(value: JsonValue, field: str) -> bool:
    return field == "volumes" and isinstance(value, dict) and not _SOURCES_WITHOUT_DEVICES.isdisjoint(value)
