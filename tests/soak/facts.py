"""What the checker knows of a pod and of a claim: read from raw objects, and kept in place of them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tests.controlplane.rest import Json
from tests.soak.inventory import DeviceId, quantity
from tests.soak.revisions import Revision

PROTECTION = "resource.kubernetes.io/delete-protection"
EXTENDED = "extended resources"
"""What stands for a pod's entry where its claim is made for its extended resources; no entry has such a name."""

_SHOWN = 300


class ClaimName(NamedTuple):
    """Where a claim is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Share(NamedTuple):
    """What a claim has of a device. consumed: of its capacity, by name."""

    device: DeviceId
    consumed: tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """uid, the uids that it is reserved for, and what it has; admin access takes nothing from anybody.

    shares: None while it is not allocated. seen: all of its devices, those with admin access too. is_protected: its
    finalizer keeps it.
    """

    uid: str
    consumers: frozenset[str] = frozenset()
    shares: tuple[Share, ...] | None = None
    seen: frozenset[DeviceId] = frozenset()
    is_protected: bool = False


@dataclass(frozen=True, slots=True)
class PodFacts:
    """claims: by entry, the name of the claim; empty where none is needed, and left out where it is not known yet."""

    namespace: str
    name: str
    uid: str
    node: str
    is_over: bool
    entries: tuple[str, ...]
    claims: tuple[tuple[str, str], ...]

    @property
    def runs(self) -> bool:
        """Whether it has a node, and has not ended."""
        return bool(self.node) and not self.is_over

    @property
    def keys(self) -> list[ClaimName]:
        """The claims that are its own."""
        return [ClaimName(self.namespace, name) for _, name in self.claims if name]

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name} ({self.uid})"


def claim_of(raw: Json) -> ClaimFacts:
    """The claim's facts."""
    status = raw.get("status") or {}
    consumers = frozenset(one["uid"] for one in status.get("reservedFor") or ())
    allocation = status.get("allocation")
    is_protected = PROTECTION in (raw["metadata"].get("finalizers") or ())
    if allocation is None:
        return ClaimFacts(raw["metadata"]["uid"], consumers, is_protected=is_protected)
    results = (allocation.get("devices") or {}).get("results") or ()
    shares = tuple(_share(one) for one in results if not one.get("adminAccess"))
    return ClaimFacts(raw["metadata"]["uid"], consumers, shares, frozenset(map(_device_of, results)), is_protected)


def _share(result: Json) -> Share:
    consumed = result.get("consumedCapacity") or {}
    return Share(_device_of(result), tuple((name, quantity(value)) for name, value in sorted(consumed.items())))


def _device_of(result: Json) -> DeviceId:
    return DeviceId(result["driver"], result["pool"], result["device"])


def pod_of(raw: Json, before: PodFacts | None) -> PodFacts:
    """The pod's facts. before: what was known: a name of a claim that the status has lost since is still its claim.

    The claims with which it was bound stay its claims as well: a controller that sees an old state names others.
    """
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    entries = spec.get("resourceClaims") or ()
    named = {one["name"]: one["resourceClaimName"] for one in entries if one.get("resourceClaimName")}
    made = {one["name"]: one.get("resourceClaimName", "") for one in status.get("resourceClaimStatuses") or ()}
    known = dict(before.claims) if before else {}
    extended = status.get("extendedResourceClaimStatus")
    of_resources = {EXTENDED: extended["resourceClaimName"]} if extended else {}
    is_bound = before is not None and bool(before.node)
    new = {entry: name for entry, name in made.items() if not known.get(entry) or (name and not is_bound)}
    claims = {**known, **new, **named}
    claims |= of_resources
    return PodFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName", ""),
        is_over=status.get("phase") in ("Succeeded", "Failed"),
        entries=(*(one["name"] for one in entries), *of_resources),
        claims=tuple(claims.items()),
    )


def subject_of(raw: Json) -> str:
    """Kind, namespace and name."""
    metadata = raw["metadata"]
    return f"{raw['kind']} {metadata['namespace']}/{metadata['name']}"


def reported_of(revision: Revision) -> str:
    """What may matter of a revision, in a line."""
    raw = revision.object
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    allocation = status.get("allocation") or {}
    reported = {
        "gone": revision.is_gone,
        "uid": metadata["uid"],
        "deleted": metadata.get("deletionTimestamp"),
        "intent": (metadata.get("annotations") or {}).get("dra-scheduler.dev/intent", "")[:_SHOWN],
        "record": (metadata.get("annotations") or {}).get("dra-scheduler.dev/nomination", "")[:_SHOWN],
        "nominated": status.get("nominatedNodeName"),
        "node": spec.get("nodeName"),
        "phase": status.get("phase"),
        "conditions": [one.get("message") or one["type"] for one in status.get("conditions") or ()],
        "allocated": [allocation.get("allocationTimestamp"), *map(str, claim_of(raw).seen)] if allocation else None,
        "reserved for": [one["uid"] for one in status.get("reservedFor") or ()],
    }
    kept = ", ".join(f"{name} {value}" for name, value in reported.items() if value)
    return f"{revision.seen_s:.3f} version {revision.version}: {subject_of(raw)}: {kept}"
