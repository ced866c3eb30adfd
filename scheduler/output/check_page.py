"""What the rules of `dra lint` and `dra audit` found, as a page (docs/audit.md)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

from allocator.status.matching import Membership
from allocator.status.pool_status import PoolStatus
from scheduler.output.check_results import AnyCheck, AnyFinding, InputPlaces, first_line, whole
from scheduler.output.columns import ColumnTable
from scheduler.output.data_page import DataPage, MapColumns, PageTable, StateLook, data_page
from scheduler.output.device_map import DEVICES, MAP
from scheduler.output.markup import element
from scheduler.status.tally import NO_CLASS, by_class, by_node

_SELECTED, _IN_NO_CLASS = "selected", "in no class"

CLASS_MAP = replace(
    MAP,
    holders="CLASSES",
    groups=(("class", "Class"),),
    states=(
        StateLook(_SELECTED, "S", 2, "a class selects it"),
        StateLook(_IN_NO_CLASS, "N", 4, "no class selects it"),
    ),
)
"""The map of devices and the classes that select them."""


def check_page(
    found: Sequence[AnyFinding],
    rules: Sequence[AnyCheck],
    places: InputPlaces,
    answer: Sequence[str],
    devices: tuple[MapColumns, PageTable],
) -> str:
    """The page, as HTML. answer: the name of the command, and how much was found, in words."""
    columns, table = devices
    tables = [_findings(found, places), _rules(found, rules), table]
    title, counted = answer
    return data_page(DataPage(title, [f"{counted}."], tables, columns, _sections(found)))


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


def _sections(found: Sequence[AnyFinding]) -> list[Element]:
    """The messages of several lines, which show a place in a selector."""
    texts = [
        element("pre", {"class": "wide", "tabindex": "0"}, whole(one))
        for one in found
        if "\n" in one.observation.message
    ]
    return [element("section", {}, element("h2", {}, "Places in selectors"), *texts)] if texts else []


def class_map(pools: Iterable[PoolStatus], members: Sequence[Membership]) -> PageTable:
    """A row for each device, with the classes that select it."""
    classes_of = by_class(members)
    rows = []
    for device in (one for pool in pools for one in pool.devices):
        classes = [name for name in classes_of(device) if name != NO_CLASS]
        state = _SELECTED if classes else _IN_NO_CLASS
        rows.append([str(device.device.id), ",".join(by_node(device)), state, ",".join(classes) or "-"])
    return PageTable(DEVICES, "Devices", ColumnTable(["DEVICE", "NODE", "STATE", "CLASSES"], rows))
