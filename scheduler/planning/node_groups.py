"""Node groups: kinds of nodes of which more can be had, each a Node and its ResourceSlices as a template.

A template is written by hand (`node`, `slices`), is a file with one node, such as `dra generate --nodes 1` prints
(`file`), or a node of the input (`like`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from allocator.api import names
from allocator.api.findings import FieldError
from allocator.gates import Features
from allocator.model import Node, Slice
from allocator.words import did_you_mean
from scheduler.input.documents import Finding, Place, RawObject, read
from scheduler.input.inventory import Inventory, take_inventory
from scheduler.runtime.configuration import InvalidConfiguration, the_object
from scheduler.runtime.section import Section, typed
from scheduler.simulation.changes import ChangingFleet, copy_of

MOST_NODES = 1000
"""Of a group that says nothing else."""

_LARGEST = 10_000
"""Of a group that says how many: twice as many nodes as a cluster of Kubernetes has."""

_DEAREST = 10**9
"""The price of a node: of all of them together it can still be told to the digit."""

_CONDITIONS = "node.kubernetes.io/"
"""Taints of a node that is not well; a new one has none of them."""


class InvalidGroups(ValueError):
    """Node groups that cannot be used; each argument is a line with file, field and value."""


class OfferedGroupFields(Section):
    """A group, as the file has it."""

    name: str
    """What its nodes are called, with a number behind."""
    price: Annotated[float, Field(ge=0, le=_DEAREST, allow_inf_nan=False)] = 1
    """Of one node, in any currency and for any time."""
    least: Annotated[int, Field(ge=0, le=_LARGEST)] = 0
    """How many nodes are added in any case."""
    most: Annotated[int, Field(ge=0, le=_LARGEST)] = MOST_NODES
    """How many nodes can be added."""
    node: dict[str, Any] | None = None
    """A Node. Any: it is decoded as every object of the input."""
    slices: tuple[dict[str, Any], ...] = Field(default=(), strict=False)
    """Its ResourceSlices."""
    file: str = ""
    """A file with one Node and its ResourceSlices; where it is relative, from the folder of this one."""
    like: str = ""
    """A node of the input."""


class NodeGroupsFields(Section):
    """The file."""

    api_version: Literal["dra-scheduler.dev/v1alpha1"]
    kind: Literal["NodeGroups"]
    groups: list[OfferedGroupFields]


@dataclass(frozen=True, slots=True)
class OfferedGroup:
    """Nodes of which more can be had."""

    name: str
    node: Node
    slices: tuple[Slice, ...]
    """Those that only the node reaches."""
    price: Fraction = Fraction(1)
    least: int = 0
    most: int = MOST_NODES

    def nodes(self, count: int, taken: Iterable[str]) -> Iterator[tuple[Node, list[Slice]]]:
        """So many of them, each with its slices. taken: names of nodes that are there."""
        there = set(taken)
        number = 0
        for _ in range(count):
            number += 1
            while f"{self.name}-{number}" in there:
                number += 1
            yield copy_of(self.node, self.slices, f"{self.name}-{number}")


def groups_of(file: Path | None, like: Sequence[str], inventory: Inventory, features: Features) -> list[OfferedGroup]:
    """The groups of the file, and one for each of these nodes of the input. Raises InvalidGroups."""
    readers = [_TemplateReader(one, file, inventory, features) for one in (_read(file) if file else ())]
    alike = (OfferedGroupFields(name=name, like=name) for name in like)
    readers += (_TemplateReader(one, None, inventory, features) for one in alike)
    if not readers:
        raise InvalidGroups("there is no node group: name a file with --node-groups, or a node with --like")
    counts = Counter(one.fields.name for one in readers)
    if double := sorted(name for name, count in counts.items() if count > 1):
        raise InvalidGroups(*(f"there are two node groups {name}" for name in double))
    return [one.group() for one in readers]


def _read(file: Path) -> list[OfferedGroupFields]:
    try:
        raw = the_object(file, "NodeGroups")
    except InvalidConfiguration as invalid:
        raise InvalidGroups(*invalid.problems) from invalid
    fields, errors = typed(NodeGroupsFields, raw)
    if fields is None:
        raise InvalidGroups(*(f"{file}: {error}" for error in errors))
    return list(fields.groups)


@dataclass(frozen=True, slots=True)
class _TemplateReader:
    """Makes the group of its fields. file: where they stand; None for an option. inventory: the input."""

    fields: OfferedGroupFields
    file: Path | None
    inventory: Inventory
    features: Features

    def group(self) -> OfferedGroup:
        """Raises InvalidGroups."""
        fields = self.fields
        if self.file and (problem := names.long_name(fields.name)):
            raise InvalidGroups(f"{self.file}: node group {FieldError('name', fields.name, problem)}")
        if fields.least > fields.most:
            raise self._invalid(f"least {fields.least} is more than most {fields.most}")
        if sum((fields.node is not None, bool(fields.file), bool(fields.like))) != 1:
            raise self._invalid("exactly one of node, file and like has to be set")
        if fields.slices and fields.node is None:
            raise self._invalid("slices can be set with node alone: file and like have their own")
        node, slices = self._like() if fields.like else self._template()
        fresh = replace(
            node,
            unschedulable=False,
            taints=tuple(one for one in node.taints if not one.key.startswith(_CONDITIONS)),
        )
        return OfferedGroup(fields.name, fresh, slices, Fraction(str(fields.price)), fields.least, fields.most)

    def _like(self) -> tuple[Node, tuple[Slice, ...]]:
        fleet, name = ChangingFleet.of(self.inventory), self.fields.like
        if name not in fleet.nodes:
            problem = f"there is no node {name!r} in the input{did_you_mean(name, fleet.nodes)}"
            raise self._invalid(f"like: {problem}") if self.file else InvalidGroups(f"--like: {problem}")
        return fleet.nodes[name], tuple(fleet.own_slices(name))

    def _template(self) -> tuple[Node, tuple[Slice, ...]]:
        template = take_inventory(self._objects(), features=self.features)
        if template.errors:
            raise self._invalid(*map(str, template.errors))
        if "Node" not in template.kinds or len(template.nodes) != 1:
            number = len(template.nodes) if "Node" in template.kinds else 0
            raise self._invalid(f"the template has to have one Node, and has {number}")
        [node] = template.nodes
        for slice_ in template.slices:
            if slice_.reach.node_name != node.name:
                raise self._invalid(
                    f"ResourceSlice {slice_.name}: spec.nodeName has to be {node.name}, the name of the node: "
                    "devices that other nodes reach come with no node"
                )
        return node, tuple(template.slices)

    def _objects(self) -> Iterable[RawObject | Finding]:
        fields = self.fields
        if fields.file:
            return read([str((self.file or Path()).parent / fields.file)])
        assert fields.node is not None
        place = Place(f"{self.file}: node group {fields.name}")
        return [RawObject(place, raw) for raw in (_of_kind("Node", fields.node), *self._slices())]

    def _slices(self) -> Iterator[Mapping[str, object]]:
        return (_of_kind("ResourceSlice", one) for one in self.fields.slices)

    def _invalid(self, *problems: str) -> InvalidGroups:
        where = f"{self.file}: " if self.file else ""
        return InvalidGroups(*(f"{where}node group {self.fields.name}: {problem}" for problem in problems))


def _of_kind(kind: str, raw: Mapping[str, object]) -> Mapping[str, object]:
    """The object; that of a group may leave out what it is."""
    version = "v1" if kind == "Node" else "resource.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, **raw}


def enlarged(inventory: Inventory, groups: Sequence[OfferedGroup], counts: Sequence[int]) -> Inventory:
    """The inventory with so many more nodes of each group."""
    nodes, slices = list(inventory.nodes), list(inventory.slices)
    for group, count in zip(groups, counts, strict=True):
        for node, own in group.nodes(count, [one.name for one in inventory.nodes]):
            nodes.append(node)
            slices += own
    return replace(inventory, nodes=nodes, slices=slices, kinds=inventory.kinds | {"Node", "ResourceSlice"})


def names_of(inventory: Inventory, groups: Sequence[OfferedGroup], counts: Sequence[int]) -> list[list[str]]:
    """How these nodes are called."""
    taken = [one.name for one in inventory.nodes]
    return [[node.name for node, _ in group.nodes(count, taken)] for group, count in zip(groups, counts, strict=True)]


def one_of_each(inventory: Inventory, groups: Sequence[OfferedGroup]) -> Inventory:
    """The first new node of each group in place of the nodes of the inventory, without their pods."""
    pods = [pod for pod in inventory.pods if not pod.node_name]
    names = names_of(inventory, groups, [1] * len(groups))
    copies = [copy_of(group.node, group.slices, name) for group, [name] in zip(groups, names, strict=True)]
    return replace(
        inventory,
        nodes=[node for node, _ in copies],
        slices=[slice_ for _, own in copies for slice_ in own],
        pods=pods,
        kinds=inventory.kinds | {"Node", "ResourceSlice"},
    )
