"""`dra verify allocation`: recorded allocations, replayed; the format is that of the reference's test cases.

One JSON object a line: node, slices, deviceClasses, claims, what is in use, and what the reference
answered. Share ids are random there, and quantities have several spellings, so both compare by meaning.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click
import orjson

from allocator import gates
from allocator.allocate import allocate
from allocator.api import allocation_to_v1, decode
from allocator.api.findings import shown, step_text
from allocator.cluster.snapshot import Snapshot
from allocator.features.consumable_capacity import misprint_of
from allocator.gates import RELEASES, Features, Release
from allocator.model import Allocation, Claim, DeviceClass, DeviceID, DeviceResult, Node, Slice
from allocator.outcome import Allocated, AllocationError, InvalidPoolSeen, PoolNotWhole, Refused
from cel import Cancelled
from cel.values.quantity import Quantity
from scheduler.cli.ending import FilePath
from scheduler.cli.recorded import (
    InvalidCase,
    cases_of,
    field_of,
    list_of,
    objects_of,
    of_kind,
    reference_options,
    replay_all,
)
from scheduler.core_v1.node import decode_node
from scheduler.kinds import Raw

GATES: Mapping[str, str] = {
    "AdminAccess": gates.ADMIN_ACCESS,
    "CompatibilityGroups": gates.COMPATIBILITY_GROUPS,
    "ConsumableCapacity": gates.CONSUMABLE_CAPACITY,
    "DerivedAttributes": gates.DERIVED_ATTRIBUTES,
    "DeviceBindingAndStatus": gates.BINDING_CONDITIONS,
    "DeviceTaints": gates.DEVICE_TAINTS,
    "FractionalCapacityRange": gates.FRACTIONAL_CAPACITY_RANGE,
    "ListTypeAttributes": gates.LIST_TYPE_ATTRIBUTES,
    "OptionalNodeOperations": gates.OPTIONAL_NODE_OPERATIONS,
    "PartitionableDevices": gates.PARTITIONABLE_DEVICES,
    "PrioritizedList": gates.PRIORITIZED_LIST,
}
"""The names that the reference's allocator has for its features, and their gates."""


@dataclass(frozen=True, slots=True)
class AllocationAnswer:
    """What an attempt on one node came to. kind: `allocated`, `refused`, `node` or `fatal`."""

    kind: str
    results: object = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReplayedAllocation:
    """How one case went: difference is empty where it passed."""

    name: str
    difference: str = ""


@dataclass(frozen=True, slots=True)
class AllocationCase:
    """A recorded case, decoded."""

    name: str
    nodes: tuple[Node, ...]
    slices: tuple[Slice, ...]
    classes: tuple[DeviceClass, ...]
    claims: tuple[Claim, ...]
    in_use: tuple[Claim, ...]
    expected: Mapping[str, AllocationAnswer]
    """By node name."""
    is_interrupted: bool
    gates: frozenset[str]
    allocator: str
    """Which one answered, `auto` for the chosen one."""


@click.command(
    name="allocation", epilog="\b\nExample:\n  dra verify allocation cases.jsonl --kubernetes 1.36 --no-strict"
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=FilePath(allow_dash=True))
@reference_options("1.37")
def command(files: tuple[str, ...], release: str, *, is_strict: bool) -> None:
    """Replay recorded allocations and compare the answers.

    FILE contains one JSON case per line; - is standard input. The output lists the cases that differ and ends with the
    line `N passed, M failed, K skipped`. Exit code: 0 if no case failed, 1 if one failed, 2 for invalid input.
    """
    counts: Counter[str] = Counter()
    for replayed in replay_all(files, partial(replay, release=release, is_strict=is_strict)):
        _print_failure(replayed, counts)
    click.echo(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    sys.exit(int(counts["failed"] > 0))


def replay(lines: Iterator[bytes], release: str, *, is_strict: bool = True) -> Iterator[ReplayedAllocation]:
    """How each case went. Raises InvalidCase for a line that is none, with its number."""
    for case in cases_of(lines, case_of):
        yield replayed_case(case, _features(case, RELEASES[release], is_strict=is_strict))


def _features(case: AllocationCase, release: Release, *, is_strict: bool) -> Features:
    """What is in force in the allocator that answered: the one that is named, or that kube-scheduler chooses."""
    features = Features.with_gates(release, case.gates, is_strict=is_strict)
    if case.allocator == "auto":
        return features
    return replace(
        features,
        knows_capacity=release.simplest_knows_capacity or case.allocator != "stable",
        knows_node_operations=case.allocator in release.knowing_node_operations,
    )


def replayed_case(case: AllocationCase, features: Features) -> ReplayedAllocation:
    """Allocate on every node of the case and compare."""
    snapshot = Snapshot.of(case.slices, case.classes, case.in_use, features)
    for node in case.nodes:
        name = node.name
        difference = _difference(case.expected[name], _answer(snapshot, node, case), features.release)
        if difference:
            return ReplayedAllocation(case.name, f"on node {name or '(none)'}: {difference}")
    return ReplayedAllocation(case.name)


def case_of(raw: Raw) -> AllocationCase:
    """The case that a line holds. Raises ValueError, InvalidCase among them, for what is none."""
    nodes = tuple(_node(node) for node in list_of(raw, "nodes") or [field_of(raw, "node")])
    gates_on, has_defaults = _gates(field_of(raw, "features")), bool(raw.get("applyDefaults"))

    def decoded(name: str, kind: str) -> tuple[Any, ...]:
        return tuple(_decoded(one, kind, has_defaults=has_defaults) for one in objects_of(raw, name))

    for name in ("slices", "deviceClasses", "claims"):
        field_of(raw, name, list)
    state = of_kind(raw.get("allocatedState") or {}, "allocatedState", dict)
    return AllocationCase(
        name=field_of(raw, "name", str),
        nodes=nodes,
        slices=decoded("slices", "ResourceSlice"),
        classes=decoded("deviceClasses", "DeviceClass"),
        claims=decoded("claims", "ResourceClaim"),
        in_use=(
            *decoded("allocatedClaims", "ResourceClaim"),
            *_holders(state, has_shares=GATES["ConsumableCapacity"] in gates_on),
        ),
        expected=_expected(field_of(raw, "expected", dict), [node.name for node in nodes]),
        is_interrupted=bool(raw.get("context")),
        gates=gates_on,
        allocator=str(raw.get("implementation", "auto")),
    )


def _print_failure(replayed: ReplayedAllocation, counts: Counter[str]) -> None:
    counts["failed" if replayed.difference else "passed"] += 1
    if replayed.difference:
        click.echo(f"FAILED {replayed.name}: {replayed.difference}")


def _gates(features: object) -> frozenset[str]:
    """The gates that are on: a map of the reference's names, or `all`, or `none`."""
    if features in ("all", "none"):
        return frozenset(GATES.values()) if features == "all" else frozenset()
    if not isinstance(features, dict):
        raise InvalidCase(f"features must be an object, `all` or `none`, not {shown(features)}")
    if unknown := [step_text(name) for name in features if name not in GATES]:
        raise InvalidCase(f"features names {', '.join(unknown)}, which the format does not have")
    return frozenset(GATES[name] for name, is_on in features.items() if is_on)


def _decoded(raw: Raw, kind: str, *, has_defaults: bool) -> Any:
    """The object of that kind (Any: the caller knows which); limits are the API server's, and not enforced here."""
    decoded = decode(
        {**raw, "apiVersion": "resource.k8s.io/v1", "kind": kind}, validate=False, apply_defaults=has_defaults
    )
    if decoded.object is None:
        raise InvalidCase("; ".join(str(error) for error in decoded.errors))
    return decoded.object


def _node(raw: object) -> Node:
    if raw is None:
        return Node("")  # what the reference was given in its place
    node, errors = decode_node(of_kind(raw, "a node", dict))
    if node is None:
        raise InvalidCase("; ".join(str(error) for error in errors))
    return node


def _holders(state: Raw, *, has_shares: bool) -> Iterator[Claim]:
    """Claims that hold what the case says is in use; the reference looks at shares only where it knows them."""
    for number, device in enumerate(objects_of(state, "allocatedDevices")):
        yield _holder(f"holder-{number}", _id(device), "", {})
    if not has_shares:
        return
    consumed = {_id(entry): field_of(entry, "capacity", dict) for entry in objects_of(state, "aggregatedCapacity")}
    for number, share in enumerate(objects_of(state, "allocatedSharedDeviceIDs")):
        # The sum of all shares is known only: the first one stands for it.
        yield _holder(f"sharer-{number}", _id(share), field_of(share, "shareID", str), consumed.pop(_id(share), {}))
    for number, (device_id, capacity) in enumerate(consumed.items()):
        yield _holder(f"consumer-{number}", device_id, f"consumer-{number}", capacity)


def _id(device: Raw) -> DeviceID:
    return DeviceID(*(field_of(device, name, str) for name in ("driver", "pool", "device")))


def _holder(name: str, device: DeviceID, share_id: str, capacity: Raw) -> Claim:
    consumed = {key: Quantity.parse(str(value)) for key, value in capacity.items()}
    result = DeviceResult("", *device, share_id=share_id, consumed_capacity=consumed)
    return Claim("", name, name, allocation=Allocation((result,)))


def _expected(raw: Raw, names: Sequence[str]) -> Mapping[str, AllocationAnswer]:
    if "errors" not in raw:
        kind = "node" if raw.get("errFailedAllocationOnNode") else "fatal"
        return {names[0]: _recorded(field_of(raw, "results"), field_of(raw, "error", str), kind)}
    results, errors, kinds = field_of(raw, "results", dict), field_of(raw, "errors", dict), raw.get("errorKinds") or {}
    return {
        name: _recorded(
            field_of(results, name), errors.get(name, ""), of_kind(kinds, "errorKinds", dict).get(name, "fatal")
        )
        for name in names
    }


def _recorded(results: object, error: str, kind: str) -> AllocationAnswer:
    if error:
        return AllocationAnswer("node" if kind == "node" else "fatal", text=error)
    return AllocationAnswer("refused") if results is None else AllocationAnswer("allocated", results)


def _answer(snapshot: Snapshot, node: Node | None, case: AllocationCase) -> AllocationAnswer:
    try:
        outcome = allocate(snapshot, node, case.claims, is_cancelled=lambda: case.is_interrupted)
    except (AllocationError, Cancelled) as error:
        return AllocationAnswer("fatal", text=str(error))
    match outcome:
        case Allocated():
            return AllocationAnswer("allocated", [allocation_to_v1(one) for one in outcome.allocations])
        case Refused(cause=InvalidPoolSeen() | PoolNotWhole()):
            return AllocationAnswer("node")
        case Refused():
            return AllocationAnswer("refused")
        case _:
            return AllocationAnswer("exhausted", text=f"after {outcome.steps} steps")


def _difference(expected: AllocationAnswer, actual: AllocationAnswer, release: Release) -> str:
    amount_of = _printed if release.misprints_amounts else _exact
    if (expected.kind, _normal(expected.results, amount_of)) == (actual.kind, _normal(actual.results, amount_of)):
        return ""
    return f"expected {_reported(expected)}, got {_reported(actual)}"


def _reported(answer: AllocationAnswer) -> str:
    detail = answer.text or (orjson.dumps(answer.results).decode() if answer.results is not None else "")
    return f"{answer.kind} {detail}".rstrip()


def _normal(value: object, amount_of: Callable[[Quantity], int], path: tuple[str, ...] = ()) -> object:
    """The results with what may differ taken out: spelling of quantities, values of share ids, empty fields."""
    if isinstance(value, Mapping):
        return {
            key: _normal(inner, amount_of, (*path, key))
            for key, inner in value.items()
            if inner not in (None, [], {}) or "opaque" in path
        }
    if isinstance(value, list):
        return [_normal(inner, amount_of, path) for inner in value]
    if path[-2:-1] == ("consumedCapacity",):
        return amount_of(Quantity.parse(str(value)))
    return "(share)" if path[-1:] == ("shareID",) else value


def _exact(quantity: Quantity) -> int:
    return quantity.nanos


def _printed(quantity: Quantity) -> int:
    """The amount, or what the reference writes for it where that is another one: recorded answers have both."""
    misprint = misprint_of(quantity)
    return quantity.nanos if misprint is None else misprint * 10**9
