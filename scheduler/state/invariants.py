"""Checks the invariants all the time: each event adds what it concerns to a short list of suspects.

Watches of different kinds are not in step, so what is seen only for a moment may not be a violation. Whoever may write
a claim can take its finalizer away, or replace it: once a claim was right, that is not ours.

Source: scheduling invariants I1 (exclusive devices), I2 (bound pods), I4 (finalizers), I5 (counters, capacity).
Seen elsewhere: I3 (allocations for nobody) by the sweep, I6 (one attempt at a time) where an attempt begins.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from allocator.cluster.node_affinity import InvalidNodeSelector, selects
from allocator.cluster.usage import occupying
from allocator.explain.text import holders_text
from allocator.model import Claim, DeviceID, Node, NodeSelector, PoolID
from scheduler.core_v1.pod import Pod
from scheduler.state.claims import FINALIZER, ClaimIndex, ClaimObject, Holding, Waiting, claims_of
from scheduler.state.rivals import Rivals, is_exclusive

Suspect = TypeVar("Suspect")

Invariant = Literal["I1", "I2", "I3", "I4", "I5", "I6"]


class Holder(NamedTuple):
    """A claim that holds devices."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not be. subject: the device, claim, pool or pod.

    claims: those that hold what they cannot hold together, where it is that. message: in full, for operators.
    """

    invariant: Invariant
    subject: str
    message: str
    claims: tuple[Holder, ...] = ()

    def text_for(self, namespace: str) -> str:
        """The message for people of the namespace, who read no names of other ones."""
        if self.invariant != "I1":
            return self.message
        named = holders_text([(str(claim), 1) for claim in self.claims], reader=namespace, noun="claim ")
        return f"bound pods of {named} have it at the same time"


class Invariants:
    """The suspects. pod: an assigned pod by its uid. node: a node by its name. is_ours: who has bound a pod."""

    def __init__(
        self,
        index: ClaimIndex,
        rivals: Rivals,
        *,
        pod: Callable[[str], Pod | None],
        node: Callable[[str], Node | None],
        is_ours: Callable[[Pod], bool],
    ) -> None:
        self._index = index
        self._rivals = rivals
        self._pod = pod
        self._node = node
        self._is_ours = is_ours
        self._devices: set[DeviceID] = set()
        self._pools: set[PoolID] = set()
        self._claims: set[str] = set()
        self._pods: set[str] = set()
        self._came_free: dict[str, frozenset[str]] = {}  # pods seen without a node: the claims they were bound with
        self._safe: set[str] = set()  # allocated claims that have had their finalizer
        self._users: dict[str, frozenset[str]] = {}  # by claim the pods that it was last seen reserved for

    def on_claim(self, uid: str, before: Claim | None, now: Claim | None) -> None:
        """A claim has changed. before, now: what is in use for it. Cost: O(its devices and consumers)."""
        for claim in (before, now) if before is not now else (now,):
            for result in occupying(claim) if claim else ():
                self._devices.add(result.id)
                self._pools.add(PoolID(result.driver, result.pool))
        self._claims.add(uid)
        claim_object = self._watched(uid)
        if claim_object is None or claim_object.claim.allocation is None:
            self._safe.discard(uid)
        elif _is_protected(claim_object):
            self._safe.add(uid)
        users = frozenset(one.uid for one in claim_object.reserved_for) if claim_object is not None else frozenset()
        self._pods |= self._users.pop(uid, frozenset()) | users  # also those that it is reserved for no more
        if users:
            self._users[uid] = users

    def on_pod(self, uid: str, pod: Pod | None) -> None:
        """A pod has changed. pod: as it is, None once it is gone."""
        self._pods.add(uid)
        if pod is None:
            self._came_free.pop(uid, None)
        elif not pod.node_name:
            self._came_free[uid] = frozenset()
        elif self._came_free.get(uid) == frozenset():
            self._of_pod(uid)  # before anybody can replace its claims

    def violations(self) -> list[Violation]:
        """What is wrong now. Cost: O(what has changed since this was asked last, and what was wrong then)."""
        broken = [
            *_kept(self._devices, self._of_device),
            *_kept(self._pools, self._of_pool),
            *_kept(self._claims, self._of_claim),
            *_kept(self._pods, self._of_pod),
        ]
        return sorted(broken, key=lambda one: (one.invariant, one.subject))

    def _of_device(self, device: DeviceID) -> Violation | None:
        holders = self._index.holders(device)
        if len(holders) < 2:
            return None
        if capacity := self._rivals.short_of(device):
            message = f"its shares take more of its capacity {capacity} than there is"
            return Violation("I5", str(device), message, _claims(holders.values()))
        bound = [one for one in holders.values() if one.watched and _has(one, device) and self._is_used(one.watched)]
        if len(bound) < 2 or not any(is_exclusive(one.counted, device) for one in bound):
            return None
        claims = _claims(bound)
        named = ", ".join(map(str, claims))
        return Violation("I1", str(device), f"claims {named} of bound pods have it at the same time", claims)

    def _of_pool(self, pool_id: PoolID) -> Violation | None:
        taken = self._rivals.overdrawn(pool_id)
        # What a pool that is being published anew has of the others is not known before they are there.
        overdrawn = {name: devices for name, devices in taken.items() if self._rivals.publishes(pool_id, name)}
        if not overdrawn:
            return None
        name, devices = min(overdrawn.items())
        named = ", ".join(device.device for device in devices)
        message = f"devices {named} draw more on its counter set {name} than there is"
        holders = (held for device in devices for held in self._index.holders(device).values())
        return Violation("I5", f"{pool_id.driver}/{pool_id.pool}", message, _claims(holders))

    def _of_claim(self, uid: str) -> Violation | None:
        claim_object = self._watched(uid)
        if (
            claim_object is None
            or claim_object.error
            or claim_object.claim.allocation is None
            or uid in self._safe
            or _is_protected(claim_object)
        ):
            return None
        return Violation("I4", f"claim {claim_object.claim}", f"it is allocated without the finalizer {FINALIZER}")

    def _of_pod(self, uid: str) -> Violation | None:
        pod = self._pod(uid)
        if pod is None or pod.is_over or not self._is_ours(pod):
            return None
        if uid not in self._came_free:
            return None  # it was never seen without its node: whoever created it there has bound it
        claims = claims_of(pod, self._index)
        if isinstance(claims, Waiting):
            return None  # a claim that is gone is its deleter's, not ours
        bound_with = self._came_free[uid]
        judged = [found for found in claims if not bound_with or found.claim.uid in bound_with]
        problem = next(filter(None, (self._problem(pod, found) for found in judged)), "")
        if problem:
            return Violation("I2", f"pod {pod}", problem)
        self._came_free[uid] = bound_with or frozenset(found.claim.uid for found in claims)
        return None

    def _problem(self, pod: Pod, found: ClaimObject) -> str:
        """Why the claim should have kept the pod from its node."""
        allocation, node = found.claim.allocation, self._node(pod.node_name)
        if allocation is None:
            return f"it is bound, and claim {found.claim} is not allocated"
        if all(consumer.uid != pod.uid for consumer in found.reserved_for):
            return f"it is bound, and claim {found.claim} is not reserved for it"
        if node is not None and allocation.node_selector is not None and not is_reached(allocation.node_selector, node):
            return f"it is bound to node {node.name}, from which claim {found.claim} cannot be reached"
        return ""

    def _watched(self, uid: str) -> ClaimObject | None:
        holding = self._index.holding(uid)
        return holding.watched if holding is not None else None

    def _is_used(self, found: ClaimObject) -> bool:
        """True where a pod that is bound has the claim."""
        return any(self._pod(consumer.uid) is not None for consumer in found.reserved_for)


def _claims(holdings: Iterable[Holding]) -> tuple[Holder, ...]:
    """Those of the claims that are stored, by name."""
    stored = (one.allocated for one in holdings if one.allocated is not None)
    return tuple(sorted({Holder(claim.namespace, claim.name, claim.uid) for claim in stored}))


def is_reached(selector: NodeSelector, node: Node) -> bool:
    """True where an allocation with this selector can be used on the node; a selector without sense selects nothing."""
    try:
        return selects(selector, node)
    except InvalidNodeSelector:
        return False


def _is_protected(found: ClaimObject) -> bool:
    """True where the claim has the finalizer; of a claim that cannot be read nobody knows."""
    return not found.error and FINALIZER in (found.raw["metadata"].get("finalizers") or ())


def _has(holding: Holding, device: DeviceID) -> bool:
    """True where the claim is allocated with the device, and not only wanted with it by an attempt of ours."""
    return holding.allocated is not None and any(result.id == device for result in occupying(holding.allocated))


def _kept(suspects: set[Suspect], judge: Callable[[Suspect], Violation | None]) -> Iterator[Violation]:
    """The violations of the suspects, of which the others are dropped."""
    for suspect in list(suspects):
        violation = judge(suspect)
        if violation is None:
            suspects.discard(suspect)
        else:
            yield violation
