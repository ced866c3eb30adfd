"""Events of a simulated cluster, and changes of a fleet, one line each: for what-ifs before a run, and during it.

`drain:NODE`, `cordon:NODE`, `uncordon:NODE`, `taint:NODE:KEY[=VALUE]:EFFECT`, `untaint:NODE:KEY`, `fail:NODE`,
`recover:NODE`, `add:NODE:COUNT` (copies of the node with its own slices), `remove:node/NODE`,
`remove:resourceslice/NAME` and `remove:devicetaintrule/NAME`. NODE can be a pattern such as `rack-1-*`, except for
`add`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from allocator.api import TaintRule, names
from allocator.api.allocation import Consumer
from allocator.model import DeviceClass, Node, Slice, Taint
from allocator.words import did_you_mean, whole_number
from scheduler.core_v1.pod import Pod, belongs_to_node
from scheduler.input.inventory import TAINT_EFFECTS, InputClaim, Inventory
from scheduler.simulation.jobs import unscheduled


@dataclass(frozen=True, slots=True)
class PodArrives:
    """A pod is created. duration_s: how long it runs once it has its node; None: it stays."""

    pod: Pod
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class PodGoes:
    """The pod with that uid is deleted or ends, bound or pending."""

    uid: str


FleetObject = Node | Slice | DeviceClass | TaintRule


@dataclass(frozen=True, slots=True)
class Appears:
    """An object is created, or updated: taints, cordon, allocatable resources of a node, devices of a slice.

    Pods that do not tolerate NoExecute taints of their node or devices, by whatever object these have them, are
    evicted, at once or after their tolerationSeconds.
    """

    found: FleetObject


@dataclass(frozen=True, slots=True)
class Goes:
    """The object is deleted: a node's pods are evicted, those with devices of a slice keep them."""

    found: FleetObject


@dataclass(frozen=True, slots=True)
class NodeDrains:
    """The pods of the node of that name are evicted."""

    name: str


SimulationEvent = PodArrives | PodGoes | Appears | Goes | NodeDrains


_HOSTNAME = "kubernetes.io/hostname"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_MOST_COPIES = 1_000_000
_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?:(?P<effect>[^:]+)")

FleetEvent = Appears | Goes | NodeDrains


class InvalidChange(ValueError):
    """A change that cannot be made. The message names the field and the reason."""


@dataclass(slots=True)
class ChangingFleet:
    """Nodes and slices by name, with the changes made so far."""

    nodes: dict[str, Node]
    slices: dict[str, Slice]
    rules: dict[str, TaintRule]
    _own: dict[str, list[Slice]] | None = None

    @staticmethod
    def of(inventory: Inventory) -> "ChangingFleet":
        """Those of the inventory."""
        return ChangingFleet(
            {one.name: one for one in inventory.nodes},
            {one.name: one for one in inventory.slices},
            {one.name: one for one in inventory.taint_rules},
        )

    def change(self, text: str) -> list[FleetEvent]:
        """Make a change, and return the events that follow from it. Raises InvalidChange."""
        verb, _, rest = text.partition(":")
        if verb not in _VERBS:
            raise InvalidChange(
                f"{text!r:.80}: {verb!r:.80} is not among {', '.join(_VERBS)}{did_you_mean(verb, _VERBS)}"
            )
        events = list(_VERBS[verb](self, rest))
        self.see(events)
        return events

    def see(self, events: Iterable[SimulationEvent]) -> None:
        """Apply events."""
        self._own = None
        for event in events:
            match event:
                case Appears(new):
                    self._of(new)[new.name] = new
                case Goes(gone):
                    del self._of(gone)[gone.name]

    def _of(self, found: FleetObject) -> dict[str, Any]:
        """Where the object is; those of which no change asks are nowhere."""
        match found:
            case Node():
                return self.nodes
            case Slice():
                return self.slices
            case TaintRule():
                return self.rules
        return {}

    def own_slices(self, node: str) -> Sequence[Slice]:
        """The slices that this node alone reaches, as a whole. Cost: O(slices), once between changes."""
        if self._own is None:
            self._own = {}
            for slice_ in self.slices.values():
                self._own.setdefault(slice_.reach.node_name, []).append(slice_)
        return self._own.get(node, ())

    def named(self, pattern: str) -> list[Node]:
        """The nodes of that name or pattern, of which there is one at least. Raises InvalidChange."""
        if pattern in self.nodes:
            return [self.nodes[pattern]]
        matching = [node for name, node in self.nodes.items() if fnmatchcase(name, pattern)]
        if not matching:
            raise InvalidChange(f"there is no node {pattern!r}{did_you_mean(pattern, self.nodes)}")
        return matching


def unknown_change(text: str) -> str:
    """What is said of a text that is neither a change nor a file."""
    hint = did_you_mean(text.partition(":")[0], _VERBS)
    return f"{text!r:.80} is neither a file nor a change ({', '.join(_VERBS)}){hint}"


def is_change(text: str) -> bool:
    """Whether the text is a change rather than the path of a file."""
    return text.partition(":")[0] in _VERBS and ":" in text


def _cordoned(node: Node) -> Node:
    return replace(node, unschedulable=True)


def _cordon(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    return (Appears(_cordoned(node)) for node in fleet.named(rest))


def _uncordon(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    return (Appears(replace(node, unschedulable=False)) for node in fleet.named(rest))


def _drain(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    for node in fleet.named(rest):
        yield Appears(_cordoned(node))
        yield NodeDrains(node.name)


def _fail(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    for node in fleet.named(rest):
        for effect in ("NoSchedule", "NoExecute"):  # of which every pod tolerates the second for five minutes
            node = _tainted(node, Taint(_UNREACHABLE, "", effect))  # noqa: PLW2901 - the same one
        yield Appears(node)
        yield NodeDrains(node.name)


def _recover(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    return (Appears(_untainted(node, _UNREACHABLE)) for node in fleet.named(rest))


def _taint(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    name, _, text = rest.partition(":")
    parts = _TAINT.fullmatch(text)
    if not parts:
        raise InvalidChange(f"taint {text!r} is not KEY=VALUE:EFFECT or KEY:EFFECT")
    if parts["effect"] not in TAINT_EFFECTS:
        raise InvalidChange(f"effect {parts['effect']!r} is not one of {', '.join(TAINT_EFFECTS)}")
    taint = Taint(parts["key"], parts["value"] or "", parts["effect"])
    if problem := names.label_key(taint.key):
        raise InvalidChange(f"key {taint.key!r} of a taint: {problem}")
    if problem := names.label_value(taint.value):
        raise InvalidChange(f"value {taint.value!r} of a taint: {problem}")
    return (Appears(_tainted(node, taint)) for node in fleet.named(name))


def _untaint(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    name, _, key = rest.partition(":")
    nodes = fleet.named(name)
    if not any(taint.key == key for node in nodes for taint in node.taints):
        raise InvalidChange(f"node {name!r} has no taint {key!r}")
    return (Appears(_untainted(node, key)) for node in nodes)


def _tainted(node: Node, taint: Taint) -> Node:
    others = tuple(one for one in node.taints if (one.key, one.effect) != (taint.key, taint.effect))
    return replace(node, taints=(*others, taint))


def _untainted(node: Node, key: str) -> Node:
    return replace(node, taints=tuple(one for one in node.taints if one.key != key))


def _add(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    name, _, text = rest.partition(":")
    count = whole_number(text, _MOST_COPIES)
    if not count:
        raise InvalidChange(f"count {text!r:.80} is not a whole number from 1 to {_MOST_COPIES}")
    if name not in fleet.nodes:
        raise InvalidChange(f"there is no node {name!r}{did_you_mean(name, fleet.nodes)}")
    return added(fleet, fleet.nodes[name], count)


def added(fleet: ChangingFleet, node: Node, count: int) -> Iterator[FleetEvent]:
    """Copies of a node with the slices that are its own."""
    slices = fleet.own_slices(node.name)
    number = 0
    for _ in range(count):
        number += 1
        while (name := f"{node.name}-copy-{number}") in fleet.nodes:
            number += 1
        copied, of_copy = copy_of(node, slices, name)
        yield from (Appears(one) for one in of_copy)
        yield Appears(copied)


def copy_of(node: Node, slices: Iterable[Slice], name: str) -> tuple[Node, list[Slice]]:
    """A node of that name like this one, and slices of its own. slices: those that only this node reaches."""
    labels = {key: name if key == _HOSTNAME else value for key, value in node.labels.items()}
    return replace(node, name=name, labels=labels), [_slice_of(slice_, node.name, name) for slice_ in slices]


def _slice_of(slice_: Slice, old: str, new: str) -> Slice:
    """The slice of the copy, whose devices are of its own pool: what is in use of one is not in use of the other."""
    pool = new if slice_.pool == old else f"{slice_.pool}-{new}"
    devices = tuple(replace(device, pool=pool) for device in slice_.devices)
    reach = replace(slice_.reach, node_name=new)
    return replace(slice_, name=f"{slice_.name}-{new}", pool=pool, reach=reach, devices=devices)


def _remove(fleet: ChangingFleet, rest: str) -> Iterator[FleetEvent]:
    kind, _, name = rest.partition("/")
    match kind:
        case "node" | "nodes" | "no":
            return (event for node in fleet.named(name) for event in removed(fleet, node))
        case "resourceslice" | "resourceslices":
            if name not in fleet.slices:
                raise InvalidChange(f"there is no resourceslice {name!r}{did_you_mean(name, fleet.slices)}")
            return iter([Goes(fleet.slices[name])])
        case "devicetaintrule" | "devicetaintrules":
            if name not in fleet.rules:
                raise InvalidChange(f"there is no devicetaintrule {name!r}{did_you_mean(name, fleet.rules)}")
            return iter([Goes(fleet.rules[name])])
        case _:
            raise InvalidChange(f"{rest!r} is neither node/NAME nor resourceslice/NAME nor devicetaintrule/NAME")


def removed(fleet: ChangingFleet, node: Node) -> Iterator[FleetEvent]:
    """Remove the node and its own slices."""
    yield Goes(node)
    yield from (Goes(one) for one in fleet.own_slices(node.name))


_VERBS: Mapping[str, Callable[[ChangingFleet, str], Iterator[FleetEvent]]] = {
    "drain": _drain,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "taint": _taint,
    "untaint": _untaint,
    "fail": _fail,
    "recover": _recover,
    "add": _add,
    "remove": _remove,
}


def scaling(fleet: ChangingFleet, factor: float) -> list[FleetEvent]:
    """The fleet with so many times its nodes: of those in their order each as often as it takes, spread evenly.

    Raises InvalidChange, for none or too many.
    """
    if len(fleet.nodes) * factor > _MOST_COPIES:
        raise InvalidChange(f"{len(fleet.nodes)} nodes x {factor:g} are more than {_MOST_COPIES}")
    if fleet.nodes and int(len(fleet.nodes) * factor + 1e-9) == 0:
        raise InvalidChange(f"{len(fleet.nodes)} nodes x {factor:g} are none")
    events: list[FleetEvent] = []
    for number, node in enumerate(sorted(fleet.nodes.values(), key=lambda one: one.name)):
        wanted = int((number + 1) * factor + 1e-9) - int(number * factor + 1e-9)
        events += added(fleet, node, wanted - 1) if wanted else removed(fleet, node)
    fleet.see(events)
    return events


def changed(inventory: Inventory, texts: Sequence[str], scale: float = 1.0) -> Inventory:
    """The inventory after these changes, with so many times its nodes. Raises InvalidChange.

    Pods on nodes that are drained, fail or are removed become pending, and their own claims are released.
    """
    fleet = ChangingFleet.of(inventory)
    events = scaling(fleet, scale) if scale != 1.0 else []
    for text in texts:
        events += fleet.change(text)
    left = {event.name for event in events if isinstance(event, NodeDrains)}
    left |= {event.found.name for event in events if isinstance(event, Goes) and isinstance(event.found, Node)}
    gone = {name for name in left if name not in fleet.nodes}
    pods = [pod for pod in inventory.pods if pod.node_name in left and not pod.is_over]
    evicted = {id(pod) for pod in pods if not belongs_to_node(pod)}
    dead = {id(pod) for pod in pods if belongs_to_node(pod) and pod.node_name in gone}
    return replace(
        _left(inventory, evicted, dead),
        nodes=list(fleet.nodes.values()),
        slices=list(fleet.slices.values()),
        taint_rules=list(fleet.rules.values()),
    )


def evicted_from(inventory: Inventory, pods: Iterable[Pod]) -> Inventory:
    """The inventory when these pods of it have lost their nodes, and are pending; their own claims are released."""
    evicted = {id(pod) for pod in pods}
    return _left(inventory, evicted, frozenset()) if evicted else inventory


def _left(inventory: Inventory, evicted: AbstractSet[int], dead: AbstractSet[int]) -> Inventory:
    """evicted, dead: the ids of the pods that are recreated, and of those that are not."""
    kept = [unscheduled(pod) if id(pod) in evicted else pod for pod in inventory.pods if id(pod) not in dead]
    claims = claims_without(inventory, [pod for pod in inventory.pods if id(pod) in evicted | dead])
    return replace(inventory, pods=kept, claims=claims)


def claims_without(inventory: Inventory, pods: Iterable[Pod]) -> dict[tuple[str, str], InputClaim]:
    """The claims when these pods are gone: those made for them are gone, others are free if nobody else uses them."""
    gone = list(pods)
    uids = {pod.uid for pod in gone if pod.uid}
    names = {(pod.namespace, pod.name) for pod in gone}

    def is_gone(user: Consumer, namespace: str) -> bool:
        if user.uid:
            return user.uid in uids
        return user.resource == "pods" and (namespace, user.name) in names

    left: dict[tuple[str, str], InputClaim] = {}
    for key, claim in inventory.claims.items():
        if any(owner.is_controller and owner.uid in uids for owner in claim.metadata.owners):
            continue
        used = [user for user in claim.reserved_for if is_gone(user, claim.claim.namespace)]
        left[key] = _without(claim, used) if used else claim
    return left


def _without(claim: InputClaim, users: Iterable[Consumer]) -> InputClaim:
    for user in users:
        claim = claim.without(user)
    return claim if claim.reserved_for else replace(claim, claim=replace(claim.claim, allocation=None))
