"""The messages between kube-scheduler and an extender: JSON with capitalized keys, as in 1.36.

Unknown fields are ignored, as in Go. A request with fields of wrong types is rejected with all errors.
Source: k8s.io/kube-scheduler/extender/v1; the calls in pkg/scheduler/extender.go of Kubernetes 1.36.3.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Annotated, TypeVar

import orjson
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from allocator.api import names
from allocator.api.findings import FieldError, shown
from allocator.api.names import LONG_NAME_MAX
from allocator.api.versions import Json
from scheduler.runtime.section import Fields, typed
from scheduler.runtime.server import Malformed, require_few_values
from scheduler.terminal_text import in_short, printable

NODES_MAX = 1 << 17
"""Nodes of a call: more than a cluster can have, and few enough to give a reason for each."""

POD_VALUES_MAX = 1 << 16
"""Values of the JSON of a pod, a hundred times those of a large one: some take a kilobyte once they are decoded."""

VICTIMS_OF_NODE_MAX = 1 << 10
"""Pods to evict from one node: more than a kubelet takes, of which the default is 110."""

VICTIMS_MAX = 1 << 16
"""Pods to evict in one call. kube-scheduler asks about a tenth of the nodes: 500 of 5,000, of 110 pods each."""

MAX_SCORE = 10
"""The best score that an extender can give a node; kube-scheduler multiplies it by the extender's weight and by ten."""


T = TypeVar("T")
Entries = Annotated[list[T], Field(fail_fast=True)]
"""A list that is read no further than to its first error."""

OfNodes = Annotated[T, Field(max_length=NODES_MAX, fail_fast=True)]
"""A list or map with an entry for each node."""


class NodeList(Fields):
    """Nodes as whole objects, as an extender gets them that is not `nodeCacheCapable`."""

    items: OfNodes[list[Json]] | None = None


class ExtenderArgs(Fields):
    """The request of filter and prioritize: a pod, and nodes either as objects or by name."""

    Pod: Json
    Nodes: NodeList | None = None
    NodeNames: OfNodes[list[str]] | None = None


class MetaPod(Fields):
    """A pod by its uid alone."""

    UID: str


class MetaVictims(Fields):
    """Pods that would be evicted from a node."""

    Pods: Entries[MetaPod] | None = None
    NumPDBViolations: int = 0


class Victims(Fields):
    """The same with whole pods, as an extender gets them that is not `nodeCacheCapable`."""

    Pods: Entries[Json] | None = None
    NumPDBViolations: int = 0


class ExtenderPreemptionArgs(Fields):
    """The request of preempt: a pod, and for each node that might serve it the pods to evict there."""

    Pod: Json
    NodeNameToVictims: OfNodes[dict[str, Victims]] | None = None
    NodeNameToMetaVictims: OfNodes[dict[str, MetaVictims]] | None = None


def _name(text: str) -> str:
    """The name of an object, by which it is asked for and logged."""
    if problem := names.long_name(text):
        raise PydanticCustomError("name", "{problem}", {"problem": problem})
    return text


ObjectName = Annotated[str, AfterValidator(_name)]


class ExtenderBindingArgs(Fields):
    """The request of bind."""

    PodName: ObjectName
    PodNamespace: ObjectName
    PodUID: Annotated[str, Field(max_length=LONG_NAME_MAX)]
    Node: ObjectName


class _NameFields(Fields):
    name: str


class _NamedObject(Fields):
    metadata: _NameFields


class _UidFields(Fields):
    uid: str


class _IdentifiedObject(Fields):
    metadata: _UidFields


Request = TypeVar("Request", bound=Fields)


def read(type_: type[Request], body: bytes) -> Request:
    """The request with typed fields. Raises Malformed."""
    require_few_values(body)
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise Malformed(f"the body must be a JSON object (got {'null' if raw is None else shown(raw)})")
    if len(body) > 2 * POD_VALUES_MAX and _has_more_values(raw.get("Pod"), POD_VALUES_MAX):
        raise Malformed(f"Pod: must not have more than {POD_VALUES_MAX:,} values")
    if type_ is ExtenderPreemptionArgs:
        _require_few_victims(raw)
    return _typed(type_, raw)


def _require_few_victims(raw: Mapping[str, object]) -> None:
    """Raises Malformed where more pods are to be evicted than nodes have: each takes a kilobyte once it is decoded."""
    for name in ("NodeNameToMetaVictims", "NodeNameToVictims"):
        by_node, number = raw.get(name), 0
        for node, victims in by_node.items() if isinstance(by_node, dict) else ():
            pods = victims.get("Pods") if isinstance(victims, dict) else None
            of_node = len(pods) if isinstance(pods, list) else 0
            number += of_node
            if of_node > VICTIMS_OF_NODE_MAX:
                most = f"must not have more than {VICTIMS_OF_NODE_MAX:,} pods (got {of_node:,})"
                raise Malformed(in_short(f"{name}.{shown(node)}.Pods: {most}"))
            if number > VICTIMS_MAX:
                raise Malformed(f"{name}: must not have more than {VICTIMS_MAX:,} pods of all nodes")


def _has_more_values(value: object, most: int) -> bool:
    """Whether more than `most` values are in the value, at any depth. Cost: O(most)."""
    level, number = [value], 0
    while level and number <= most:
        number += len(level)
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = list(islice(chain.from_iterable(inner), most + 1))
    return number > most


def _typed(type_: type[Request], raw: Mapping[str, object], prefix: str = "") -> Request:
    """The object with typed fields. prefix: of its fields in errors. Raises Malformed."""
    request, errors = typed(type_, raw)
    if request is None:
        raise Malformed("; ".join(f"{prefix}{error}" for error in errors))
    return request


def names_of(args: ExtenderArgs) -> list[str]:
    """The names of the nodes that are asked about. Raises Malformed."""
    if args.NodeNames is not None:
        return args.NodeNames
    if args.Nodes is None:
        raise Malformed(str(FieldError("NodeNames", None, "is required, unless Nodes is given")))
    nodes = enumerate(args.Nodes.items or ())
    return [_typed(_NamedObject, node, f"Nodes.items[{position}].").metadata.name for position, node in nodes]


def filter_result(
    args: ExtenderArgs, passed: Iterable[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]
) -> bytes:
    """The reply of filter: the nodes that pass, in the form that the request had, and why the others do not.

    args: a request whose nodes `names_of` could name.
    """
    names, nodes = list(passed), None
    if args.NodeNames is None:
        wanted = frozenset(names)
        items = (args.Nodes.items if args.Nodes else None) or []
        nodes = {"items": [node for node in items if node["metadata"]["name"] in wanted]}
    return orjson.dumps(
        {
            "Nodes": nodes,
            "NodeNames": names if nodes is None else None,
            "FailedNodes": _printable(failed),
            "FailedAndUnresolvableNodes": _printable(unresolvable),
            "Error": "",
        }
    )


def _printable(reasons: Mapping[str, str]) -> Mapping[str, str]:
    """The reasons as they steer no terminal: kube-scheduler shows them in conditions and events."""
    written = {reason: printable(reason) for reason in set(reasons.values())}
    return {node: written[reason] for node, reason in reasons.items()}


def error_result(error: str) -> bytes:
    """The reply of filter or bind with nothing but an error; for bind an empty one means that the pod is bound."""
    return orjson.dumps({"Error": in_short(error)})


def host_priorities(scores: Mapping[str, int]) -> bytes:
    """The reply of prioritize."""
    return orjson.dumps([{"Host": host, "Score": score} for host, score in scores.items()])


def preemption_result(kept: Mapping[str, MetaVictims]) -> bytes:
    """The reply of preempt: the nodes that are kept, with their victims."""
    return orjson.dumps({"NodeNameToMetaVictims": {node: victims.model_dump() for node, victims in kept.items()}})


def meta_victims(args: ExtenderPreemptionArgs) -> Mapping[str, MetaVictims]:
    """The victims by node, whichever form the request has. Raises Malformed."""
    if args.NodeNameToMetaVictims is not None:
        return args.NodeNameToMetaVictims
    if args.NodeNameToVictims is None:
        problem = "is required, unless NodeNameToVictims is given"
        raise Malformed(str(FieldError("NodeNameToMetaVictims", None, problem)))
    return {node: _without_rest(node, victims) for node, victims in args.NodeNameToVictims.items()}


def _without_rest(node: str, victims: Victims) -> MetaVictims:
    """The victims by their uids alone. Raises Malformed."""
    pods = [
        MetaPod(UID=_typed(_IdentifiedObject, pod, f"NodeNameToVictims.{node}.Pods[{position}].").metadata.uid)
        for position, pod in enumerate(victims.Pods or ())
    ]
    return MetaVictims(Pods=pods, NumPDBViolations=victims.NumPDBViolations)
