from collections.abc import Sequence

import pytest

from scheduler.core_v1.pod import Pod, decode_pod
from scheduler.input.documents import Finding, Place, RawObject
from scheduler.input.inventory import DEFAULT, Inventory, take_inventory
from scheduler.output.input_report import (
    MAX_POOLS,
    MAX_REPORTED,
    report,
    unchecked_namespaces,
    unchecked_room,
    unchecked_spread,
    unknown_priorities,
    unread_groups,
)
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_class,
    a_cluster,
    a_node,
    a_pod,
    a_slice,
    a_workload,
    an_object,
    owned_by,
)
from tests.unit.scheduler.scenario import inventory_of, taken

LIMITS = {"resources": {"limits": {"vendor.example/gpu": 1}}}


def lines_of(inventory: Inventory) -> list[str]:
    return list(report(inventory, DEFAULT))


def test_a_whole_input_has_nothing_to_report() -> None:
    assert lines_of(inventory_of(*a_cluster())) == []


def test_pools_that_are_being_updated_are_named() -> None:
    def a_piece(node: str, name: str, generation: int, count: int) -> Json:
        pool = {"name": node, "generation": generation, "resourceSliceCount": count}
        return a_slice(name, node=node, pool=pool)

    slices = [
        *(a_piece("half", name, 2, 3) for name in ("h1", "h2")),
        a_piece("renewed", "r1", 1, 2),
        a_piece("renewed", "r2", 2, 1),
        *(a_piece("over", name, 1, 1) for name in ("o1", "o2")),
    ]
    (line,) = lines_of(inventory_of(*a_cluster(), *slices))
    start, half, over = line.split(": ")[1], *line.split(": ")[2].split(", ")
    assert start == "pools that are being updated provide no devices"
    assert half == f"{DRIVER}/half (2 of 3 slices of generation 2 exist)"
    assert over == f"{DRIVER}/over (2 of 1 slices of generation 1 exist)"
    many = [a_piece(f"pool-{number}", f"s{number}", 1, 2) for number in range(MAX_POOLS + 2)]
    (line,) = lines_of(inventory_of(*a_cluster(), *many))
    assert line.endswith("pool-4 (1 of 2 slices of generation 1 exist) and 2 more")


def test_warnings_come_before_errors() -> None:
    place = Place("f.yaml", 1)
    inventory = inventory_of(*a_cluster())
    inventory.errors.append(Finding(place, "is broken", "Pod p"))
    inventory.warnings.append(Finding(place, "is odd", "Pod p", is_warning=True))
    assert lines_of(inventory) == [
        "warning: f.yaml, document 1: Pod p: is odd",
        "error: f.yaml, document 1: Pod p: is broken",
    ]


def test_of_many_findings_in_one_document_the_first_are_reported() -> None:
    inventory = inventory_of(*a_cluster())
    inventory.errors += [Finding(Place("f.yaml", 1, (number,)), "is broken") for number in range(MAX_REPORTED + 5)]
    inventory.errors.append(Finding(Place("f.yaml", 2), "is broken too"))
    lines = lines_of(inventory)
    assert len(lines) == MAX_REPORTED + 2
    assert lines[-2:] == ["error: f.yaml, document 2: is broken too", "error: f.yaml, document 1: and 5 more"]


def test_of_many_kinds_the_first_are_reported() -> None:
    inventory = inventory_of(*a_cluster(), *(an_object("v1", f"Kind{n:03}", "x") for n in range(MAX_REPORTED + 5)))
    (line,) = lines_of(inventory)
    assert line.startswith("ignored: 1 Kind000 (core), 1 Kind001 (core), ")
    assert line.endswith(f"1 Kind{MAX_REPORTED - 1:03} (core), objects of 5 more kinds")


def test_what_is_no_object_below_a_folder_is_counted() -> None:
    raws = [*a_cluster(), {}, {"healthy": True}]
    found = take_inventory(
        RawObject(Place("dir/f.json", number), raw, is_named=False) for number, raw in enumerate(raws)
    )
    assert lines_of(found) == ["ignored: 2 without apiVersion and kind"]


def test_missing_kinds_are_named_where_there_is_any_object() -> None:
    assert lines_of(inventory_of(a_class())) == ["warning: the input contains no Node, no ResourceSlice"]
    assert lines_of(Inventory()) == []


def test_a_kind_is_not_missing_where_its_only_object_holds_an_error() -> None:
    found = taken(a_cluster()[0], a_slice(), a_class(expressions=[""]))
    (line,) = lines_of(found)
    assert line.startswith("error: test.yaml, document 3: DeviceClass gpu: spec.selectors[0].cel.expression: ")


def test_a_workload_that_asks_for_no_pod_is_named() -> None:
    (line,) = lines_of(inventory_of(*a_cluster(), a_workload("Job", "train", suspend=True)))
    assert line == "Job default/train is suspended: no pods are placed for it"


ROOM = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def room_of(*allocatable: Json, has_bound_pods: bool = True) -> list[str]:
    nodes = [{**a_node(f"n{number}"), "status": {"allocatable": room}} for number, room in enumerate(allocatable)]
    return list(unchecked_room(inventory_of(*nodes).nodes, ("cpu", "memory", "pods"), has_bound_pods=has_bound_pods))


def test_of_nodes_that_say_what_they_have_nothing_is_reported() -> None:
    assert room_of(ROOM, {**ROOM, "example.com/gpu": "0"}) == []


@pytest.mark.parametrize(
    ("nodes", "reported"),
    [
        (({}, ROOM), "1 node has"),
        (({}, {"example.com/gpu": "2"}), "2 nodes have"),
        ((ROOM | {"pods": "0"}, {}), "1 node has"),
    ],
)
def test_nodes_that_do_not_say_what_they_have_are_counted(nodes: tuple[Json, ...], reported: str) -> None:
    what = f"{reported} no cpu, memory or pods in status.allocatable"
    assert room_of(*nodes) == [f"warning: free resources are assumed where the input lacks them: {what}"]


def test_an_input_without_pods_that_have_a_node_does_not_report_what_is_taken() -> None:
    start = "warning: free resources are assumed where the input lacks them: "
    other = "no Pod has a node"
    assert room_of(ROOM, has_bound_pods=False) == [start + other]
    silent = "1 node has no cpu, memory or pods in status.allocatable"
    assert room_of(ROOM, {}, has_bound_pods=False) == [f"{start}{silent}; {other}"]
    assert room_of({}, has_bound_pods=False) == [start + silent]


def unread(*pods: Json) -> list[str]:
    return list(unread_groups(inventory_of(*pods).pods))


def test_one_line_counts_the_pods_by_what_is_not_looked_at() -> None:
    lines = unread(
        a_pod("a", claim="c", schedulingGroup={"podGroupName": "g"}),
        a_pod("b", claim="c", schedulingGroup={"podGroupName": "g"}),
        a_pod("c", claim="c"),
    )
    assert lines == ["warning: without a PodGroup in the input, pod groups are ignored (2 pods)"]


def test_of_pods_that_ask_for_no_more_than_is_looked_at_nothing_is_reported() -> None:
    assert unread(a_pod("p", claim="c", containers=[LIMITS])) == []


def test_unknown_priority_classes_are_named_with_their_pods() -> None:
    assert list(unknown_priorities({"b": 2, "a": 1})) == [
        "warning: the input contains no PriorityClass a: the priority of 1 pod counts as 0",
        "warning: the input contains no PriorityClass b: the priority of 2 pods counts as 0",
    ]


def test_namespaces_that_could_not_be_checked_are_named_in_one_line() -> None:
    assert list(unchecked_namespaces({"b", "a"}, "x/y")) == [
        "warning: the input contains no Namespace a, b: its label x/y, which admin access needs, is not checked"
    ]
    assert list(unchecked_namespaces((), "x/y")) == []


def a_spread_pod(name: str, app: str, owner: str = "", *, spread: Sequence[Json] = ()) -> Pod:
    labels = {"labels": {"app": app}} if app else {}
    pod, errors = decode_pod(
        a_pod(
            name, metadata={**labels, **(owned_by(owner, "o") if owner else {})}, topologySpreadConstraints=list(spread)
        )
    )
    assert pod, errors
    return pod


@pytest.mark.parametrize(
    ("pods", "kinds", "reported"),
    [
        ([("a", "web"), ("b", "web")], set(), "no Service: 2 pods"),
        ([("a", "web"), ("b", "web")], {"Service"}, ""),
        ([("a", "web", "ReplicaSet"), ("b", "web")], {"Service"}, "no ReplicaSet: 1 pod"),
        ([("a", "web", "ReplicaSet"), ("b", "web")], {"Node"}, "no ReplicaSet, no Service: 2 pods"),
        ([("a", "web", "Job"), ("b", "web")], {"Service"}, ""),  # by which no pod is spread
        ([("a", "web"), ("b", "db")], set(), ""),  # there is nothing that they could be spread beside
        ([("a", ""), ("b", "")], set(), ""),  # no Service selects them
    ],
)
def test_pods_are_counted_that_something_may_spread(
    pods: list[tuple[str, ...]], kinds: set[str], reported: str
) -> None:
    found = [a_spread_pod(*one) for one in pods]
    kinds_missing, _, number = reported.partition(": ")
    line = f"warning: the input contains {kinds_missing}: default spreading is ignored ({number})"
    expected = [line] if reported else []
    assert list(unchecked_spread(found, found, kinds)) == expected


def test_pods_that_say_how_they_are_spread_are_not_counted() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    found = [a_spread_pod(name, "web", spread=[spread]) for name in ("a", "b")]
    assert list(unchecked_spread(found, found, set())) == []
