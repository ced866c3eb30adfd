"""Findings of lint and audit: table, page and SARIF."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from types import MappingProxyType
from typing import Any
from urllib.parse import quote_from_bytes
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from allocator import gates
from allocator.api.versions import Json
from allocator.gates import RELEASES, Features
from allocator.model import Alternative, Device, Slice
from allocator.status import Membership, PoolStatus
from allocator.words import counted, did_you_mean
from scheduler import VERSION
from scheduler.checks.contract import Check, CheckFinding, FindingLevel, ObjectName, Observation
from scheduler.checks.lint import has_groups, has_list
from scheduler.checks.manifests import alternatives_of, asked_in, constraints_on_unknown
from scheduler.core_v1.pod import DEFAULT_NAMESPACE
from scheduler.decision.cluster import Cluster
from scheduler.input.documents import Place
from scheduler.input.inventory import Inventory
from scheduler.output.data_page import (
    DataPage,
    MapColumns,
    PageTable,
    StateLook,
    data_page,
    element,
)
from scheduler.output.report import Block, PagedReport, json_text
from scheduler.output.status_report import DEVICES, MAP, nodes_text
from scheduler.output.table import ColumnTable
from scheduler.status import NO_CLASS, by_class
from scheduler.terminal_text import printable

# What the input publishes and the release does not read, or a gate that is off ignores: kube-scheduler says nothing.
#
# Gates of what claims ask for are not named here: the refusal of the claim names them.


@dataclass(frozen=True, slots=True)
class _Use:
    """What a gate is for."""

    gate: str
    effect: str
    """What becomes of it where the gate is off."""
    thing: str
    number: Callable[[Inventory], int]
    """Of the things that have it."""
    several: str = ""
    """Their plural, where it is no `s` more."""


def switched_off(inventory: Inventory, features: Features) -> Iterator[str]:
    """A line for each gate that is off though the input holds what it is for. Cost: O(devices)."""
    for use in _USES:
        number = 0 if features.has(use.gate) else use.number(inventory)
        if number:
            yield f"warning: {_why_off(use.gate, features)}: {use.effect} ({counted(number, use.thing, use.several)})"
    yield from _counters_only(inventory, features)


def _counters_only(inventory: Inventory, features: Features) -> Iterator[str]:
    """A line on slices with counters and devices together, of which the release reads the counters only."""
    combined = [slice_ for slice_ in inventory.slices if slice_.counter_sets and slice_.devices]
    if combined and not features.release.combined_slices:
        both = ", ".join(name for name, release in RELEASES.items() if release.combined_slices)
        number = sum(len(slice_.devices) for slice_ in combined)
        things = f"{counted(number, 'device')} of {counted(len(combined), 'slice')}"
        ignored = f"warning: devices in slices with sharedCounters are ignored ({things})"
        yield f"{ignored}: only Kubernetes {both} reads both, later ones refuse such a slice"


def _why_off(gate: str, features: Features) -> str:
    """That the gate is off, and the option that turns it on."""
    release = features.release
    gate = release.governing(gate)
    if gate in release.gates:
        return f"{gate} is off (--feature-gates {gate}=true turns it on)"
    later = release.later_with(gate)
    return f"{gate} is not in Kubernetes {release.name}{f' (it is in that of --kubernetes {later})' if later else ''}"


def _devices(holds: Callable[[Device], object]) -> Callable[[Inventory], int]:
    return lambda inventory: sum(bool(holds(device)) for slice_ in inventory.slices for device in slice_.devices)


def _requests(holds: Callable[[Alternative], object]) -> Callable[[Inventory], int]:
    return lambda inventory: sum(bool(holds(way)) for asked in asked_in(inventory) for _, way in alternatives_of(asked))


def _slices(holds: Callable[[Slice], object]) -> Callable[[Inventory], int]:
    return lambda inventory: sum(bool(holds(slice_)) for slice_ in inventory.slices)


_USES = (
    _Use(gates.DEVICE_TAINT_RULES, "DeviceTaintRules are ignored", "rule", lambda found: len(found.taint_rules)),
    _Use(gates.DEVICE_TAINTS, "taints of devices are ignored", "device", _devices(lambda one: one.taints)),
    _Use(gates.DEVICE_TAINTS, "the API server drops tolerations", "request", _requests(lambda one: one.tolerations)),
    _Use(
        gates.PARTITIONABLE_DEVICES,
        "slices with counters or with devices of several nodes are ignored",
        "slice",
        _slices(lambda one: one.counter_sets or one.reach.per_device),
    ),
    _Use(
        gates.PARTITIONABLE_DEVICES,
        "devices that consume counters are not allocated",
        "device",
        _devices(lambda one: one.consumes_counters),
    ),
    _Use(
        gates.BINDING_CONDITIONS,
        "devices with binding conditions are not allocated",
        "device",
        _devices(lambda one: one.binding_conditions),
    ),
    _Use(
        gates.BINDING_CONDITIONS,
        "the API server drops bindsToNode",
        "device",
        _devices(lambda one: one.binds_to_node),
    ),
    _Use(
        gates.OPTIONAL_NODE_OPERATIONS,
        "devices of slices with skipNodeOperations are not allocated",
        "slice",
        _slices(lambda one: one.skip_node_operations),
    ),
    _Use(gates.COMPATIBILITY_GROUPS, "slices with compatibility groups are ignored", "slice", _slices(has_groups)),
    _Use(
        gates.CONSUMABLE_CAPACITY,
        "devices are not shared",
        "device",
        _devices(lambda one: one.allow_multiple_allocations),
    ),
    _Use(
        gates.CONSUMABLE_CAPACITY,
        "the API server drops amounts of capacity that are asked for",
        "request",
        _requests(lambda one: one.capacity),
    ),
    _Use(
        gates.DERIVED_ATTRIBUTES,
        "the API server drops derivedAttributes",
        "request",
        _requests(lambda one: one.derived_attributes),
    ),
    _Use(
        gates.EXTENDED_RESOURCE,
        "extendedResourceName of classes is ignored",
        "class",
        lambda found: sum(bool(one.extended_resource_name) for one in found.classes),
        "classes",
    ),
    _Use(
        gates.LIST_TYPE_ATTRIBUTES,
        "selectors and constraints cannot read lists in attributes",
        "device",
        _devices(has_list),
    ),
    _Use(
        gates.NODE_ALLOCATABLE_RESOURCES,
        "resources that devices take from their node are ignored",
        "device",
        _devices(lambda one: one.node_allocatable),
    ),
)


# What rules found: as a table, JSON, SARIF 2.1.0 for code scanning, and JUnit XML for CI (docs/audit.md).


SARIF, JUNIT = "sarif", "junit"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

AnyFinding = CheckFinding[Any]  # Any: what the rules look at
AnyCheck = Check[Any]


@dataclass(eq=False)
class InputPlaces:
    """Where in the input what was found is."""

    inventory: Inventory

    def of(self, one: Observation) -> Place | None:
        """The observation's own place, or that of its subject: an object, or slices of a device, pool or driver."""
        subject = one.subject
        pool = subject.name.rpartition("/")[0] if subject.kind == "device" else subject.name
        of_object = self.inventory.places.get(key_of_object(subject))
        return one.place or of_object or self._of_slices.get(pool)

    @cached_property
    def anywhere(self) -> Place | None:
        """A place for what is about the input as a whole: that of its first object or error."""
        places = (*self.inventory.places.values(), *(one.place for one in self.inventory.errors))
        return next(iter(places), None)

    @cached_property
    def _of_slices(self) -> Mapping[str, Place]:
        """Where the first slice of each driver and pool stands, by `driver` and `driver/pool`."""
        places: dict[str, Place] = {}
        for slice_ in self.inventory.slices:
            place = self.inventory.places.get(key_of_object(ObjectName("ResourceSlice", slice_.name)))
            if place:
                places.setdefault(slice_.pool_id.driver, place)
                places.setdefault(f"{slice_.pool_id.driver}/{slice_.pool_id.pool}", place)
        return places


@dataclass(frozen=True, slots=True)
class FindingsReport(PagedReport):
    """What rules found."""

    kind = "FindingList"

    title: str
    """The name of the command."""
    counted: str
    """How much was found, in words."""
    found: Sequence[AnyFinding]
    rules: Sequence[AnyCheck]
    """All that were run, whether they found anything or not."""
    places: InputPlaces
    devices: Callable[[], tuple[MapColumns, Sequence[PageTable]]]
    """The map of a page and its tables."""

    def blocks(self) -> Iterator[Block]:
        """A line for each finding, the whole of messages with several lines, and what to do about each rule's."""
        if self.found:
            rows = [
                [one.rule.level, str(one.observation.subject), first_line(one), one.rule.name] for one in self.found
            ]
            rules = {one.rule.name: one.rule for one in self.found}
            advice = [f"{name}: {rule.summary} {rule.advice}" for name, rule in rules.items()]
            yield ColumnTable(["LEVEL", "OBJECT", "FINDING", "RULE"], rows)
            yield "\n".join([*map(whole, self._long()), *advice])

    def fields(self) -> Json:
        """All findings."""
        return {"items": [_object(one, self.places) for one in self.found]}

    def html(self, head: Sequence[str] = ()) -> str:
        """The findings and the rules, with the places in selectors."""
        columns, devices = self.devices()
        texts = [element("pre", {"class": "wide", "tabindex": "0"}, whole(one)) for one in self._long()]
        sections = [element("section", {}, element("h2", {}, "Places in selectors"), *texts)] if texts else []
        tables = [_findings(self.found, self.places), _rules(self.found, self.rules), *devices]
        return data_page(DataPage(self.title, [f"{self.counted}."], tables, columns, sections), head)

    def _long(self) -> Iterator[AnyFinding]:
        """Those whose messages have several lines: they show a place in a selector."""
        return (one for one in self.found if "\n" in one.observation.message)

    own_formats = MappingProxyType(
        {SARIF: lambda report: f"{json_text(sarif(report))}\n", JUNIT: lambda report: f"{junit(report)}\n"}
    )


def first_line(one: AnyFinding) -> str:
    """What was found and where in the object, without the place in the source of a selector."""
    return _message(one).partition("\n")[0]


def _message(one: AnyFinding) -> str:
    return ": ".join(filter(None, (one.observation.where, one.observation.message)))


def whole(one: AnyFinding) -> str:
    """With the place in the source of a selector, which stands below the first line."""
    lines = f"{one.observation.subject}: {_message(one)}".split("\n")
    return "".join(f"{printable(line)}\n" for line in lines)


def _object(one: AnyFinding, places: InputPlaces) -> Json:
    subject = one.observation.subject
    place = places.of(one.observation)
    return {
        "rule": one.rule.name,
        "level": str(one.rule.level),
        "object": {"kind": subject.kind, "namespace": subject.namespace or None, "name": subject.name},
        "field": one.observation.field or None,
        "where": one.observation.where or None,
        "message": one.observation.message,
        "advice": one.rule.advice,
        "file": place.file_text if place else None,
        "document": place.document if place else None,
        "line": place.line or None if place else None,
    }


def key_of_object(subject: ObjectName) -> tuple[str, str, str]:
    """Kind, namespace and name, as an inventory knows the object."""
    return subject.kind, subject.namespace or DEFAULT_NAMESPACE, subject.name


def sarif(report: FindingsReport) -> Json:
    """A SARIF log with one run."""
    numbers = {rule.name: number for number, rule in enumerate(report.rules)}
    driver = {
        "name": "dra",
        "semanticVersion": VERSION,
        "rules": [
            {
                "id": rule.name,
                "shortDescription": {"text": rule.summary},
                "help": {"text": rule.advice},
                "defaultConfiguration": {"level": str(rule.level)},
            }
            for rule in report.rules
        ],
    }
    results = [_result(one, numbers[one.rule.name], report.places) for one in report.found]
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(one: AnyFinding, number: int, places: InputPlaces) -> Json:
    subject = one.observation.subject
    place = places.of(one.observation) or places.anywhere
    logical: Json = {"name": subject.name, "kind": "resource", "fullyQualifiedName": str(subject)}
    location: Json = {"logicalLocations": [logical]}
    if place is not None:
        region = {"startLine": place.line or 1}  # code scanning refuses a result without a line
        location["physicalLocation"] = {"artifactLocation": {"uri": _uri(place.file)}, "region": region}
    field = f"{one.observation.field}: " if one.observation.field else ""
    return {
        "ruleId": one.rule.name,
        "ruleIndex": number,
        "level": str(one.rule.level),
        "message": {"text": f"{subject}: {field}{one.observation.message}"},
        "locations": [location],
    }


def _uri(file: str) -> str:
    """The file as a URI: relative to where the command ran, as code scanning wants it, unless its path is absolute."""
    if "://" in file:
        return file  # a cluster
    path = PurePath(os.path.normpath(file))
    return path.as_uri() if path.is_absolute() else quote_from_bytes(os.fsencode(path))


def junit(report: FindingsReport) -> str:
    """A test suite with a test case for each rule, which fails where it found an error or a warning."""
    rules, suite = report.rules, report.title
    by_rule: dict[str, list[AnyFinding]] = {rule.name: [] for rule in rules}
    for finding in report.found:
        by_rule[finding.rule.name].append(finding)
    failing = sum(1 for rule in rules if by_rule[rule.name] and rule.level is not FindingLevel.NOTE)
    root = Element("testsuites")
    counts = {"tests": str(len(rules)), "failures": str(failing), "errors": "0", "skipped": "0"}
    own = SubElement(root, "testsuite", {"name": suite, **counts})
    for rule in rules:
        case = SubElement(own, "testcase", {"classname": suite, "name": rule.name})
        if by_rule[rule.name]:
            _report(case, rule, by_rule[rule.name])
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}'


def _report(case: Element, rule: AnyCheck, found: Sequence[AnyFinding]) -> None:
    lines = [printable(f"{one.observation.subject}: {one.observation.message}") for one in found]
    text = "\n".join([*lines, rule.advice])
    if rule.level is FindingLevel.NOTE:
        SubElement(case, "system-out").text = text
    else:
        SubElement(case, "failure", {"message": rule.summary, "type": str(rule.level)}).text = text


# What the rules of `dra lint` and `dra audit` found, as a page (docs/audit.md).


_SELECTED, _IN_NO_CLASS = "selected", "in no class"

CLASS_MAP = replace(
    MAP,
    holders="CLASSES",
    kind="",
    place="",
    whole="",
    groups=(("class", "Class"),),
    states=(
        StateLook(_SELECTED, "C", 2, "a class selects it"),
        StateLook(_IN_NO_CLASS, "N", 4, "no class selects it"),
    ),
)
"""The map of devices and the classes that select them."""


def _findings(found: Sequence[AnyFinding], places: InputPlaces) -> PageTable:
    header = ["LEVEL", "OBJECT", "FINDING", "FIELD", "RULE", "FILE", "WHAT TO DO"]
    return PageTable("findings", "Findings", ColumnTable(header, [_finding(one, places) for one in found]))


def _finding(one: AnyFinding, places: InputPlaces) -> list[str]:
    subject, rule = one.observation.subject, one.rule
    file = str(places.of(one.observation) or "-")
    return [rule.level, str(subject), first_line(one), one.observation.field or "-", rule.name, file, rule.advice]


def _rules(found: Sequence[AnyFinding], rules: Sequence[AnyCheck]) -> PageTable:
    numbers = Counter(one.rule.name for one in found)
    rows = [[one.name, one.level, str(numbers[one.name]), one.summary] for one in rules]
    return PageTable("rules", "Rules", ColumnTable(["RULE", "LEVEL", "FOUND", "FINDS"], rows, frozenset({"FOUND"})))


def class_map(pools: Iterable[PoolStatus], members: Sequence[Membership], cluster: Cluster) -> PageTable:
    """A row for each device, with the classes that select it."""
    classes_of = by_class(members)
    rows = []
    for device in (one for pool in pools for one in pool.devices):
        classes = [name for name in classes_of(device) if name != NO_CLASS]
        state = _SELECTED if classes else _IN_NO_CLASS
        rows.append([str(device.device.id), nodes_text(device, cluster), state, ",".join(classes) or "-"])
    return PageTable(DEVICES, "Devices", ColumnTable(["DEVICE", "NODE", "STATE", "CLASSES"], rows))


# Attributes that constraints name and that no device in the input has: usually misspelt ones.


def unknown_attributes(inventory: Inventory) -> Iterator[str]:
    """A line for each constraint of a claim that waits, or of a template. Cost: O(devices)."""
    known = _attributes_of(inventory.slices)
    if not known:
        return
    for asked, place, field, name in constraints_on_unknown(asked_in(inventory), known):
        at = f"{asked.subject}: {asked.path}.devices.constraints[{place}].{field}"
        yield f"warning: {at}: no device of the input has {name}{did_you_mean(name, known)}"


def _attributes_of(slices: Iterable[Slice]) -> set[str]:
    """The full names of all attributes; one without a domain is of the driver's."""
    return {
        name if "/" in name else f"{slice_.driver}/{name}"
        for slice_ in slices
        for device in slice_.devices
        for name in device.attributes
    }
