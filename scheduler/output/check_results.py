"""What rules found: as a table, JSON, SARIF 2.1.0 for code scanning, and JUnit XML for CI (docs/audit.md)."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any
from urllib.parse import quote_from_bytes
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from scheduler.checks.contract import Check, CheckFinding, FindingLevel, ObjectName, Observation
from scheduler.core_v1.pod import DEFAULT_NAMESPACE
from scheduler.input.documents import Place
from scheduler.input.inventory import Inventory
from scheduler.output.columns import aligned
from scheduler.terminal_text import printable
from scheduler.version import VERSION

API_VERSION = "dra-scheduler.dev/v1alpha1"
KIND = "FindingList"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Json = dict[str, object]
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
        found: dict[str, Place] = {}
        for one in self.inventory.slices:
            place = self.inventory.places.get(key_of_object(ObjectName("ResourceSlice", one.name)))
            if place:
                found.setdefault(one.pool_id.driver, place)
                found.setdefault(f"{one.pool_id.driver}/{one.pool_id.pool}", place)
        return found


def table(found: Sequence[AnyFinding]) -> str:
    """A line for each finding, the whole of messages with several lines, and what to do about each rule's."""
    rows = [[one.rule.level, str(one.observation.subject), first_line(one), one.rule.name] for one in found]
    rules = {one.rule.name: one.rule for one in found}
    advice = [f"{name}: {rule.summary} {rule.advice}" for name, rule in rules.items()]
    wholes = [whole(one) for one in found if "\n" in one.observation.message]
    return "\n".join([aligned(["LEVEL", "OBJECT", "FINDING", "RULE"], rows), "", *wholes, *advice])


def first_line(one: AnyFinding) -> str:
    """What was found, without the place in the source of a selector."""
    return one.observation.message.partition("\n")[0]


def whole(one: AnyFinding) -> str:
    """With the place in the source of a selector, which stands below the first line."""
    lines = f"{one.observation.subject}: {one.observation.message}".split("\n")
    return "".join(f"{printable(line)}\n" for line in lines)


def list_of(found: Iterable[AnyFinding], places: InputPlaces) -> Json:
    """All findings; docs/audit.md describes each field, and fields are only added."""
    return {"apiVersion": API_VERSION, "kind": KIND, "items": [_object(one, places) for one in found]}


def _object(one: AnyFinding, places: InputPlaces) -> Json:
    subject = one.observation.subject
    place = places.of(one.observation)
    return {
        "rule": one.rule.name,
        "level": str(one.rule.level),
        "object": {"kind": subject.kind, "namespace": subject.namespace or None, "name": subject.name},
        "field": one.observation.field or None,
        "message": one.observation.message,
        "advice": one.rule.advice,
        "file": place.file_text if place else None,
        "document": place.document if place else None,
        "line": place.line or None if place else None,
    }


def key_of_object(subject: ObjectName) -> tuple[str, str, str]:
    """Kind, namespace and name, as an inventory knows the object."""
    return subject.kind, subject.namespace or DEFAULT_NAMESPACE, subject.name


def sarif(found: Sequence[AnyFinding], rules: Sequence[AnyCheck], places: InputPlaces) -> Json:
    """A SARIF log with one run. rules: all that were run, whether they found anything or not."""
    numbers = {rule.name: number for number, rule in enumerate(rules)}
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
            for rule in rules
        ],
    }
    results = [_result(one, numbers[one.rule.name], places) for one in found]
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


def junit(found: Sequence[AnyFinding], rules: Sequence[AnyCheck], suite: str) -> str:
    """A test suite with a test case for each rule, which fails where it found an error or a warning."""
    by_rule: dict[str, list[AnyFinding]] = {rule.name: [] for rule in rules}
    for one in found:
        by_rule[one.rule.name].append(one)
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
