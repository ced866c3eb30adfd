"""`dra explain` as a person runs it: who is meant, what is told of one node and of the others, and the exit code."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from allocator.gates import Features
from allocator.model import Allocation
from allocator.outcome import Allocated, Exhausted
from scheduler.cli.inputs import Input, inventory_of
from scheduler.decision.why_not import NodeAnswer
from scheduler.input.documents import read
from scheduler.offline.input_claims import Claims
from scheduler.offline.placement import PlacedPod, Placement, Result, order_of
from scheduler.offline.pod_explanation import Explanation, explain
from scheduler.offline.snapshot_cluster import cluster_of
from scheduler.output import placement_report
from scheduler.output.explanation_report import ExplanationReport
from scheduler.output.placement_report import answer_text, reason_of
from scheduler.output.report import TEXT, object_of, rendered
from tests.unit.scheduler.cli.command import Run, dra
from tests.unit.scheduler.manifests import (
    DRIVER,
    Json,
    a_claim,
    a_class,
    a_cluster,
    a_namespace,
    a_node,
    a_pod,
    a_request,
    a_slice,
    a_storage_class,
    a_template,
    a_volume,
    a_volume_claim,
    a_workload,
    an_allocated_claim,
    an_allocation,
    text_of,
    volumes_of,
)
from tests.unit.scheduler.scenario import inventory_of as inventory_from

ROOT = Path(__file__).parents[4]
FLEET = ROOT / "manifests" / "examples" / "fleet"
INVENTORIES = ROOT.parent / "shared" / "inventories"
TIMES = "\N{MULTIPLICATION SIGN}"


def run_on(name: str, objects: Sequence[Json], *options: str) -> Run:
    """Objects through standard input."""
    return dra("explain", name, "-", *options, stdin=text_of(*objects))


@pytest.mark.parametrize("selector", ['device.driver == "a', "device.driver == \x1b[31m", "a && #", "device.driver =="])
def test_selector_that_does_not_compile_is_named_and_steers_no_terminal(selector: str) -> None:
    request = a_request(selectors=[{"cel": {"expression": selector}}])
    objects = [a_class(), a_node(), a_slice(), a_claim("claim", request)]
    found = run_on("claim/default/claim", objects, "--keep-going")
    assert found.code == 2
    assert "does not compile: 1:" in found.err
    assert all(character.isprintable() or character == "\n" for character in found.out + found.err)


def object_on(name: str, objects: Sequence[Json], *options: str) -> Any:
    return orjson.loads(run_on(name, objects, *options, "-o", "json").out)


def headline(run: Run) -> str:
    return run.out.splitlines()[0]


def section(run: Run, start: str) -> list[str]:
    """The lines from one that starts so, down to the next empty one, without their indent."""
    lines = run.out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(start))
    rest = lines[first + 1 :]
    return [line.strip() for line in rest[: rest.index("") if "" in rest else len(rest)]]


# -- who is meant

BOTH = [*a_cluster(), a_claim("c"), a_pod("p", claim="c")]


@pytest.mark.parametrize("name", ["default/p", "p", "pod/default/p", "pods/default/p", "po/default/p", "pod/p"])
def test_pod_is_named_as_people_name_it(name: str) -> None:
    assert headline(run_on(name, BOTH)) == "pod default/p fits: node node-1, the only one that can"


@pytest.mark.parametrize(
    "kind",
    [
        *("claim", "claims", "resourceclaim", "resourceclaims"),
        *("resourceclaim.resource.k8s.io", "resourceclaims.resource.k8s.io"),
    ],
)
def test_claim_is_named_as_people_name_it(kind: str) -> None:
    alone = [*a_cluster(), a_claim("c")]
    for name in (f"{kind}/default/c", f"{kind}/c"):
        assert headline(run_on(name, alone)) == "claim default/c fits: node node-1, the only one that can"


def test_pod_in_a_namespace_that_is_called_like_a_kind_is_named_in_full() -> None:
    objects = [*a_cluster(), a_pod("p", claim="c", namespace="pod"), a_claim("c", namespace="pod")]
    assert headline(run_on("pod/pod/p", objects)).startswith("pod pod/p fits")


def test_claim_stands_for_the_first_pending_pod_that_uses_it() -> None:
    objects = [
        *a_cluster(),
        a_claim("c"),
        a_pod("b", claim="c"),
        a_pod("a", claim="c", priority=1),
        a_pod("z", claim="c"),
    ]
    assert headline(run_on("claim/default/c", objects)).startswith("pod default/a fits")


def test_claim_that_a_template_will_make_is_known_by_its_name() -> None:
    objects = [*a_cluster(), a_pod("p", template="one")]
    name = object_on("p", objects)["claims"][0]["name"]
    assert headline(run_on(f"claim/default/{name}", objects)).startswith("pod default/p fits")


def test_pod_of_a_workload_is_known_by_its_name() -> None:
    objects = [*a_cluster(), a_workload("StatefulSet", "web", replicas=2)]
    assert headline(run_on("web-1", objects)).startswith("pod default/web-1 fits")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("ml/none", (), "dra: pod ml/none is not in the input"),
        ("claim/ml/none", (), "dra: claim ml/none is neither in the input nor created from a template for a pod in it"),
        ("deploy/ml/web", (), "dra: Deployment ml/web has no pod in the input"),
        ("cm/ml/web", (), "dra: cm/ml/web: cm is not pod, claim or workload, the kinds that can be explained"),
        ("p", ("--node", "none"), "dra: node none is not in the input"),
    ],
)
def test_what_is_not_there_is_bad_input(name: str, options: Sequence[str], message: str) -> None:
    run = run_on(name, BOTH, *options)
    assert (run.code, run.out) == (2, "")
    assert message in run.err.splitlines()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("alone", "ml/alone"),
        ("work", "default/work-0, default/work-1, default/work-2 or 2 more"),
        ("deployment/wrok", "default/work"),
        ("claim/ml/c", "default/c"),
        ("ml/aloen", "ml/alone"),
        ("wrok-1", "default/work-1"),
    ],
)
def test_what_may_have_been_meant_is_named(name: str, meant: str) -> None:
    pods = [a_pod("alone", namespace="ml"), a_workload("Deployment", replicas=5)]
    run = run_on(name, [*a_cluster(), *pods, a_claim("c")])
    assert run.code == 2
    assert run.err.endswith(f"; did you mean {meant}?\n")


def test_node_of_a_like_name_is_named() -> None:
    run = run_on("p", BOTH, "--node", "ndoe-1")
    assert (run.code, run.err) == (2, "dra: node ndoe-1 is not in the input; did you mean node-1?\n")


def test_input_with_errors_is_used_only_on_request() -> None:
    objects = [*BOTH, a_claim("wrong", a_request(count=-1))]
    assert run_on("p", objects).code == 2
    run = run_on("p", objects, "--keep-going")
    assert run.code == 2
    assert headline(run).startswith("pod default/p fits")


# -- why here


def test_pod_that_fits_is_shown_its_node_and_devices() -> None:
    objects = [*a_cluster("a", "b", count=2), an_allocated_claim("held", "gpu-0", node="a"), a_pod("p", template="one")]
    run = run_on("p", objects)
    assert run.code == 0
    assert headline(run) == "pod default/p fits: node a, the best by score of 2 that can"
    reported = section(run, "node a, selected")
    assert re.fullmatch(r"claim default/p-dev-\w{5}, request gpu: needs 1 device, the node has 2", reported[0])
    assert reported[1:] == [
        "1 is in use (held by default/held)",
        f"1 left: {DRIVER}/a/gpu-1",
        f"takes {DRIVER}/a/gpu-1",
    ]
    assert section(run, "other nodes") == ["1 node (b): can"]


def test_nodes_that_were_passed_over_are_reported_with_their_reasons() -> None:
    objects = [*a_cluster("b"), a_node("a"), a_node("c", unschedulable=True), a_node("d"), a_pod("p", template="one")]
    run = run_on("p", objects)
    assert headline(run) == "pod default/p fits: node b, the only one that can"
    assert section(run, "other nodes") == [
        "2 nodes (a, d): request gpu needs 1 device, 0 are left (0 devices)",
        "1 node (c): NodeUnschedulable: node is unschedulable",
    ]


def test_alternative_that_was_passed_over_is_reported_with_its_reason() -> None:
    two = {"name": "two", "deviceClassName": "gpu", "count": 2}
    one = {"name": "one", "deviceClassName": "gpu"}
    claim = a_claim("c", {"name": "r", "firstAvailable": [two, one]})
    run = run_on("claim/c", [*a_cluster(count=1), claim])
    assert "claim default/c, r/two was passed over: request r/two needs 2 devices, 1 is left (1 device)" in (
        section(run, "node node-1")
    )
    (passed,) = object_on("claim/c", [*a_cluster(count=1), claim])["node"]["passedOver"]
    assert (passed["claim"], passed["request"]) == ("default/c", "r/two")


def test_alternative_that_an_earlier_request_keeps_away_is_shown_so() -> None:
    def either(name: str, *counts: int) -> Json:
        subs = [{"name": f"n{count}", "deviceClassName": "gpu", "count": count} for count in counts]
        return {"name": name, "firstAvailable": subs}

    claim = a_claim("c", either("first", 2, 1), either("second", 2, 1))
    run = run_on("claim/c", [*a_cluster(count=3), claim])
    reason = "it is available only if an earlier request took another alternative"
    assert f"claim default/c, second/n2 was passed over: {reason}" in section(run, "node node-1")


def test_pod_without_claims_has_no_devices_to_report_of() -> None:
    run = run_on("p", [*a_cluster(), a_pod("p")])
    assert (run.code, run.out) == (
        0,
        "pod default/p fits: node node-1, the only one that can\n\nnode node-1, selected\n",
    )


def test_bound_pod_is_where_it_is() -> None:
    claim = an_allocated_claim("c", "gpu-1")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    objects = [*a_cluster(), claim, a_pod("p", claim="c", nodeName="node-1", metadata={"uid": "u"})]
    run = run_on("p", objects)
    assert run.code == 0
    assert run.out.splitlines() == [
        "pod default/p fits: is on node node-1",
        f"  claim default/c is allocated: gpu: {DRIVER}/node-1/gpu-1",
    ]
    reported = object_on("p", objects)
    assert reported["node"] == {"name": "node-1", "verdict": "Fits"}
    assert reported["claims"][0]["allocated"] == [
        {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": "gpu-1"},
    ]


@pytest.mark.parametrize(
    ("reserved", "reported"),
    [
        ([], "is allocated, reserved for nobody"),
        ([{"resource": "pods", "name": "gone", "uid": "u"}], "is allocated, reserved for pod gone"),
    ],
)
def test_allocated_claim_that_no_pending_pod_uses_says_for_whom_it_is(reserved: list[Json], reported: str) -> None:
    run = run_on("claim/c", [*a_cluster(), an_allocated_claim("c", "gpu-1", reserved_for=reserved)])
    assert run.code == 0
    assert run.out.splitlines() == [
        f"claim default/c fits: {reported}",
        f"  claim default/c is allocated: gpu: {DRIVER}/node-1/gpu-1",
    ]


def test_claim_that_is_being_deleted_gets_nothing() -> None:
    dying = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    run = run_on("claim/c", [*a_cluster(), a_claim("c", metadata=dying)])
    assert (run.code, run.out) == (1, "claim default/c does not fit: is being deleted\n")
    allocated = an_allocated_claim("c", "gpu-1")
    allocated["metadata"] |= dying
    reported = headline(run_on("claim/c", [*a_cluster(), allocated]))
    assert reported == "claim default/c fits: is being deleted, and still allocated, reserved for nobody"


def test_allocated_claim_keeps_other_nodes_out_of_reach() -> None:
    objects = [*a_cluster("a", "b"), an_allocated_claim("c", "gpu-1", node="b"), a_pod("p", claim="c")]
    run = run_on("p", objects)
    assert headline(run) == "pod default/p fits: node b, the only one that can"
    assert section(run, "other nodes") == [
        "1 node (a): claim default/c is allocated, and not reachable from the node",
    ]


def test_extended_resource_is_reported_by_the_claim_that_it_becomes() -> None:
    container = {"name": "c", "resources": {"requests": {"example.com/gpu": "3"}, "limits": {"example.com/gpu": "3"}}}
    objects = [a_node(), a_slice(), a_class(extendedResourceName="example.com/gpu"), a_pod("p", containers=[container])]
    run = run_on("p", objects)
    assert run.code == 1
    assert any(line.startswith("claim default/p-extended-resources-") for line in section(run, "node node-1"))
    assert "0: count 2" in section(run, "node node-1")[-1]


# -- why not


def test_pod_that_does_not_fit_is_shown_why_and_what_would_help() -> None:
    held = [an_allocated_claim("big", "gpu-0", "gpu-1", node="a"), an_allocated_claim("small", "gpu-0", node="b")]
    claim = a_claim("c", a_request(count=3))
    objects = [*a_cluster("a", "b", count=3), *held, claim, a_pod("p", claim="c")]
    run = run_on("p", objects)
    assert run.code == 1
    near = "1 more matches, but is held by default/small"
    assert section(run, "node b, the nearest") == [
        "claim default/c, request gpu: needs 3 devices, the node has 3",
        "1 is in use (held by default/small)",
        f"2 left: {DRIVER}/b/gpu-1, {DRIVER}/b/gpu-2",
        f"2 of 3 found; {near}",
        (
            f"Because request gpu needs 3 devices, and 2 are left on node b ({near}), "
            "claim default/c cannot be allocated there."
        ),
        "would fit if",
        "request gpu: count 2",
        "claim default/small released",
    ]
    assert section(run, "other nodes") == [
        f"1 node (a): request gpu needs 3 devices, 1 is left (3 devices: 2 are in use (held by default/big {TIMES}2))",
    ]


def a_tainted_node(name: str, *, cpu: str = "8", taint: str = "k", **spec: Any) -> Json:
    """A node with eight devices' worth of room, or less, and a taint that no pod tolerates."""
    node = a_node(name, taints=[{"key": taint, "effect": "NoSchedule"}] if taint else [], **spec)
    return {**node, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "9"}}}


def reported_node(*nodes: Json, count: int = 1, having: Sequence[str] = "abc") -> str:
    """The node that is described for a pod that wants a cpu and devices; each of these nodes has one device."""
    resources = {"requests": {"cpu": "4"}}
    pod = a_pod("p", claim="c", containers=[{"name": "x", "image": "x", "resources": resources}])
    slices = [a_slice(node=name, count=1) for name in having]
    run = run_on("p", [*nodes, *slices, a_class(), a_claim("c", a_request(count=count)), pod])
    assert run.code == 1
    (line,) = [line for line in run.out.splitlines() if line.endswith(", the nearest")]
    return line.removeprefix("node ").removesuffix(", the nearest")


def test_of_nodes_that_plugins_refuse_the_one_with_the_fewest_reasons_is_the_nearest() -> None:
    worse = a_tainted_node("a", unschedulable=True), a_tainted_node("b", cpu="1")
    assert reported_node(*worse, a_tainted_node("c")) == "c"
    assert reported_node(*worse, a_tainted_node("c"), having="ab") == "a"  # devices are one more reason


def test_of_nodes_with_as_many_reasons_the_one_that_lacks_the_least_is_the_nearest_then_the_first() -> None:
    empty, short = a_tainted_node("a", cpu="0", taint=""), a_tainted_node("b", cpu="1", taint="")
    assert reported_node(empty, short, a_tainted_node("c", cpu="3", taint="")) == "c"
    assert reported_node(empty, short, a_tainted_node("c", cpu="1", taint="")) == "b"
    assert reported_node(*map(a_tainted_node, "cba")) == "a"


def test_node_that_has_the_devices_and_is_tainted_is_nearer_than_one_without_any() -> None:
    nodes = a_tainted_node("a", taint=""), a_tainted_node("b"), a_tainted_node("c", cpu="1")
    assert reported_node(*nodes, having="bc") == "b"
    assert reported_node(*nodes, having="") == "a"
    assert reported_node(*nodes, having="abc", count=2) == "a"


def test_first_line_is_what_allocate_says() -> None:
    objects = [*a_cluster("a", "b", count=1), a_claim("c", a_request(count=3)), a_pod("p", claim="c")]
    table = dra("allocate", "-", stdin=text_of(*objects)).out.splitlines()[1]
    assert table.split(maxsplit=2)[2] == headline(run_on("p", objects)).partition(": ")[2]


def test_pool_that_is_being_updated_is_reported_in_the_first_line_where_the_pod_might_go() -> None:
    half = a_slice(node="node-1", pool={"name": "half", "generation": 3, "resourceSliceCount": 2})
    nodes = [a_node("node-1"), a_node("node-2", labels={"zone": "b"})]
    objects = [*nodes, half, a_slice(node="node-2", count=1), a_class(), a_claim("c", a_request(count=2))]
    anywhere, zone_b = a_pod("p", claim="c"), a_pod("p", claim="c", nodeSelector={"zone": "b"})
    reported = f"; 1 pool is being updated: {DRIVER}/half (1 of 2 slices of generation 3 exist)"
    assert headline(run_on("p", [*objects, anywhere])).endswith(reported)
    assert dra("allocate", "-", stdin=text_of(*objects, anywhere)).out.endswith(f"{reported}\n")
    assert reported not in headline(run_on("p", [*objects, zone_b]))


def test_nodes_that_lack_devices_for_the_same_reason_are_reported_together() -> None:
    held = [an_allocated_claim(f"h-{node}", *devices, node=node) for node, devices in HOLDERS]
    objects = [*a_cluster(*"abcdef", count=3), *held, a_claim("c", a_request(count=4)), a_pod("p", claim="c")]
    assert section(run_on("p", objects), "other nodes") == [
        "5 nodes (a, b, c, d and 1 more): request gpu needs 4 devices, 0 to 2 are left (others are in use)",
    ]


def test_nodes_that_have_too_few_devices_of_any_kind_are_reported_together() -> None:
    slices = [a_slice(node=node, count=count) for node, count in (("a", 2), ("b", 1), ("c", 0))]
    objects = [*map(a_node, "abc"), *slices, a_class(), a_claim("c", a_request(count=3))]
    reported = section(run_on("claim/c", objects), "other nodes")
    assert reported == ["2 nodes (b, c): request gpu needs 3 devices, 0 to 1 are left"]


def test_selector_that_no_device_passes_is_reported_with_the_value_that_it_wants() -> None:
    wanted = f"device.attributes['{DRIVER}'].productName.lowerAscii().matches('^nvidia h100')"
    devices = [{"name": "gpu-0", "attributes": {"productName": {"string": "A100"}}}]
    claim = a_claim("c", a_request(selectors=[{"cel": {"expression": wanted}}]))
    run = run_on("claim/c", [a_node(), a_slice(devices=devices), a_class(), claim])
    assert f"1 fails selector #0 of request gpu ({wanted})" in headline(run)


def test_each_part_of_a_long_selector_is_told_and_every_text_names_the_one_that_removes_the_last_device() -> None:
    fast, size = (f'device.attributes["{DRIVER}"].{name}' for name in ("fast", "size"))
    wanted = f'device.driver == "{DRIVER}" && {fast} == true && {size} == 0 && {fast} == false'
    devices = [{"name": f"gpu-{n}", "attributes": {"fast": {"bool": True}}} for n in range(2)]
    claim = a_claim("c", a_request(selectors=[{"cel": {"expression": wanted}}]))
    objects = [*map(a_node, "ab"), *(a_slice(node=node, devices=devices) for node in "ab"), a_class(), claim]
    run = run_on("claim/c", objects)
    named = f"2 fail selector #0 of request gpu (part 3 of 4: {size} == 0)"
    assert named in headline(run)
    assert section(run, "node a, the nearest")[1:6] == [
        named,
        f'part 1 of 4, device.driver == "{DRIVER}": 2 of 2 pass it alone, 2 so far',
        f"part 2 of 4, {fast} == true: 2 of 2 pass it alone, 2 so far",
        (
            f"part 3 of 4, {size} == 0: 0 of 2 pass it alone, 0 so far; it removes the last 2 devices; "
            f"it fails on 2 (no such key: size); {DRIVER}/size: absent on 2"
        ),
        f"part 4 of 4, {fast} == false: 0 of 2 pass it alone, 0 so far; {DRIVER}/fast: true on 2",
    ]
    assert section(run, "other nodes") == [f"1 node (b): request gpu needs 1 device, 0 are left (2 devices: {named})"]
    found = orjson.loads(run_on("claim/c", objects, "-o", "json").out)
    assert named in found["reason"]
    [refused] = found["node"]["requests"][0]["refused"]
    assert [(one["passAlone"], one["passSoFar"], one["removesLast"]) for one in refused["parts"]] == [
        (2, 2, 0),
        (2, 2, 0),
        (0, 0, 2),
        (0, 0, 0),
    ]
    everywhere = section(run, "all devices")
    assert everywhere[0] == "claim default/c, selector #0 of request gpu: none of 4 devices passes"
    assert everywhere[3].startswith(f"part 3 of 4, {size} == 0: 0 of 4 pass it alone, 0 so far; it removes the last 4")
    [barren] = found["selectors"]
    assert (barren["claim"], barren["selector"]) == ("default/c", "selector #0 of request gpu")
    assert [one["removesLast"] for one in barren["parts"]] == [0, 0, 4, 0]
    page = run_on("claim/c", objects, "-o", "html").out
    assert "part 3 of 4" in page
    assert "it removes the last 2 devices" in page
    assert named in dra("allocate", "-", stdin=text_of(*objects)).out
    report = dra("lint", "-", stdin=text_of(*objects)).out
    assert named in report
    assert f"accepts none of the devices of class gpu (4); no device has {DRIVER}/size" in report
    assert f"; part 3 of 4, {size} == 0: 0 of 4 pass it alone, 0 so far; it removes the last 4 devices" in report


def test_a_pod_that_kube_scheduler_gives_up_at_another_node_is_told_in_one_line_by_every_command() -> None:
    request = a_request(count=2, selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].fast'}}])
    fast = [{"name": f"gpu-{n}", "attributes": {"fast": {"bool": True}}} for n in range(4)]
    objects = [a_class(), a_template("t", request), a_pod("p", template="t"), a_node("a"), a_slice(node="a", count=1)]
    objects += [a_node("b"), a_slice(node="b", devices=fast)]
    stated = "kube-scheduler gives up at node a: claim default/"
    end = "(--strict decides as it does)"
    about = run_on("pod/p", objects).out.splitlines()[1]
    assert about.startswith(f"  {stated}")
    assert about.endswith(end)
    given_up = orjson.loads(run_on("pod/p", objects, "-o", "json").out)["givenUpAt"]
    assert (given_up["node"], given_up["text"]) == ("a", about.strip())
    placed = dra("allocate", "-", "-o", "json", stdin=text_of(*objects))
    assert f"warning: pod default/p: {stated}" in placed.err
    [pod] = [one for one in orjson.loads(placed.out)["items"] if one["kind"] == "Pod"]
    [condition] = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["message"].startswith(stated)
    assert condition["message"].endswith(end)
    more = dra("fit", "pod/default/p", "-", stdin=text_of(*objects))
    [line] = [one for one in more.out.splitlines() if "gives up" in one]
    assert line.startswith(f"2 copies: {stated}")
    assert line.endswith(end)
    counted = orjson.loads(dra("fit", "pod/default/p", "-", "-o", "json", stdin=text_of(*objects)).out)
    assert counted["givenUpAt"]["text"] == line.partition(": ")[2]
    for run in (run_on("pod/p", objects, "--strict"), dra("allocate", "-", "--strict", stdin=text_of(*objects))):
        assert run.code == 1
        assert "gives up" not in run.out + run.err
    strictly = orjson.loads(dra("fit", "pod/default/p", "-", "-o", "json", "--strict", stdin=text_of(*objects)).out)
    assert (strictly["copies"], strictly["givenUpAt"]) == (0, None)


HOLDERS = (
    ("a", ["gpu-0"]),
    ("b", ["gpu-0", "gpu-1"]),
    ("c", ["gpu-0", "gpu-1", "gpu-2"]),
    ("d", ["gpu-1"]),
    ("e", ["gpu-2"]),
)


def test_nodes_that_block_all_or_a_constraint_are_reported_together_too() -> None:
    held = [an_allocated_claim(f"h-{node}", *devices, node=node) for node, devices in HOLDERS[:3]]
    for_all = a_claim("c", a_request(allocationMode="All"))
    reported = section(run_on("claim/c", [*a_cluster(*"abc", count=3), *held, for_all]), "other nodes")
    assert reported == ["2 nodes (b, c): request gpu needs all of 3 devices: some are in use"]
    numa = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n}}} for n in range(3)]
    same = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n // 2}}} for n in range(4)]
    slices = [a_slice(node=node, devices=numa) for node in "ab"] + [a_slice(node="c", devices=same)]
    claim = a_claim("c", a_request(count=3))
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    reported = section(run_on("claim/c", [*map(a_node, "abc"), *slices, a_class(), claim]), "other nodes")
    assert reported == [
        f"2 nodes (a, b): at most 1 of 3 devices meet matchAttribute {DRIVER}/numa together (requests gpu)"
    ]


def test_nodes_with_invalid_pools_are_distinguished() -> None:
    bad = [
        a_slice(
            f"bad-{node}-{number}",
            driver="bad.example",
            count=1,
            node=node,
            pool={"name": node, "generation": 1, "resourceSliceCount": 2},
        )
        for node in "ab"
        for number in range(2)
    ]
    held = [an_allocated_claim(f"h-{node}", *devices, node=node) for node, devices in HOLDERS[:3]]
    objects = [*a_cluster(*"abcd", count=3), *bad, *held, a_claim("c", a_request(count=9))]
    assert section(run_on("claim/c", objects), "other nodes") == [
        "2 nodes (a, b): request gpu needs 9 devices, 1 to 2 are left (others are in use); pools are invalid",
        f"1 node (c): request gpu needs 9 devices, 0 are left (3 devices: 3 are in use (held by default/h-c {TIMES}3))",
    ]


def test_constraint_is_reported_with_the_devices_of_each_value() -> None:
    numa = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n // 3}}} for n in range(5)]
    claim = a_claim("c", a_request(count=4))
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    objects = [a_node(), a_slice(devices=numa), a_class(), claim]
    reported = section(run_on("claim/c", objects), "node node-1")
    constraint = f"one {DRIVER}/numa for 4 devices of request gpu"
    because = f"request gpu needs 4 devices with one {DRIVER}/numa, and no value has more than 3 free on node node-1"
    assert reported[2:] == [
        f"claim default/c, constraint #0: {constraint}: 0 has 3 free of 3, 1 has 2 free of 2",
        f"Because {because}, claim default/c cannot be allocated there.",
        "would fit if",
        "request gpu: count 3",
        f"constraint #0 (matchAttribute {DRIVER}/numa) dropped",
    ]


def test_what_devices_say_of_themselves_cannot_steer_a_terminal() -> None:
    named = [{"name": "x", "attributes": {"numa": {"string": "a\x1b[31m\nb"}}}]
    claim = a_claim("c", a_request(count=2))
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    run = run_on("claim/c", [a_node(), a_slice(devices=named), a_class(), claim])
    assert r"a\x1b[31m\nb has 1 free of 1" in run.out


def test_where_nothing_helps_that_is_said() -> None:
    run = run_on("claim/c", [*a_cluster(count=0), a_claim("c")])
    assert section(run, "node node-1")[-1] == "no single change that makes it fit was found"


def test_claim_with_an_error_that_has_devices_has_to_be_released_like_any_other() -> None:
    faulty = a_claim("faulty", a_request(count=-1), status={"allocation": an_allocation("gpu-0")})
    objects = [*a_cluster(count=2), faulty, an_allocated_claim("held", "gpu-1"), a_claim("c", a_request(count=2))]
    reported = run_on("claim/c", objects, "--keep-going").out
    assert "claims default/faulty and default/held released" in reported


def test_remedies_of_several_claims_say_which_claim_is_meant() -> None:
    entries = [{"name": name, "resourceClaimName": name} for name in ("c", "d")]
    pod = a_pod("p", entries=entries)
    objects = [*a_cluster(count=3), a_claim("c", a_request(count=2)), a_claim("d", a_request(count=2)), pod]
    reported = section(run_on("p", objects), "node node-1")
    assert reported[-3:] == [
        "would fit if",
        "request gpu of claim default/c: count 1",
        "request gpu of claim default/d: count 1",
    ]


def test_error_that_ends_the_attempt_is_reported_whole_and_at_its_node() -> None:
    selectors = [{"cel": {"expression": "device.nose"}}]
    objects = [*a_cluster("a", "b"), a_claim("c", a_request(selectors=selectors))]
    run = run_on("claim/c", objects, "--keep-going")
    assert run.code == 2
    assert "nose" in headline(run)
    reported = section(run, "node a, where the attempt ends")
    assert any(line.endswith("^") for line in reported)
    (other,) = section(run, "other nodes")
    assert other.startswith("1 node (b): ends the attempt on every node: ")


def test_what_holds_for_every_node_needs_no_node() -> None:
    run = run_on("p", [*a_cluster(), a_pod("p", template="else")])
    assert (run.code, run.out) == (1, "pod default/p does not fit: claim template default/else does not exist\n")
    reported = object_on("p", [*a_cluster(), a_pod("p", template="else")])
    assert (reported["verdict"], reported["node"], reported["otherNodes"]) == ("DoesNotFit", None, [])


def test_pod_that_waits_for_admin_access_is_shown_of_the_label() -> None:
    claim = a_claim("c", a_request(adminAccess=True))
    assert "resource.kubernetes.io/admin-access" in headline(run_on("claim/c", [*a_cluster(), a_namespace(), claim]))
    run = run_on("claim/c", [*a_cluster(), claim])
    assert headline(run).startswith("claim default/c fits")
    assert "is not checked" in run.err


# -- one node


def test_node_that_was_asked_for_is_judged_alone() -> None:
    objects = [*a_cluster("a"), a_node("b"), a_claim("c", a_request(count=2)), a_pod("p", claim="c")]
    run = run_on("p", objects, "--node", "b")
    assert run.code == 1
    assert headline(run) == (
        "pod default/p does not fit: node b: request gpu needs 2 devices, 0 are left (0 devices) (1 of 2 nodes can)"
    )
    assert "node b, given by --node" in run.out
    assert section(run, "other nodes") == ["1 node (a): can"]
    fits = run_on("p", objects, "--node", "a")
    assert (fits.code, headline(fits)) == (0, "pod default/p fits: node a can (1 of 2 nodes can)")


@pytest.mark.parametrize(("count", "devices"), [(2, "would fit"), (1, "would not fit either")])
def test_node_that_is_refused_for_another_reason_is_reported_with_its_devices(count: int, devices: str) -> None:
    objects = [*a_cluster("a", count=count)[1:], a_node("a", unschedulable=True), a_claim("c", a_request(count=2))]
    objects.append(a_pod("p", claim="c"))
    run = run_on("p", objects, "--node", "a")
    assert run.code == 1
    assert section(run, "node a, given by --node")[:4] == [
        "NodeUnschedulable: node is unschedulable",
        "would pass if",
        "node a uncordoned",
        f"its devices: {devices}",
    ]
    node = object_on("p", objects, "--node", "a")["node"]
    assert (node["verdict"], node["refusedBy"], node["plugin"]) == ("DoesNotFit", "Node", "NodeUnschedulable")
    assert node["wouldPassIf"] == ["node a uncordoned"]
    assert node["devices"] == ("Fits" if count == 2 else "DoesNotFit")


# -- in order


def test_pod_is_looked_at_alone_unless_its_turn_is_asked_for() -> None:
    objects = [*a_cluster(count=1), a_pod("p", template="one"), a_pod("q", template="one"), a_pod("r", template="one")]
    assert [run_on(name, objects).code for name in "pqr"] == [0, 0, 0]
    assert [run_on(name, objects, "--in-order").code for name in "pqr"] == [0, 1, 1]
    assert "held by default/p-dev-" in headline(run_on("r", objects, "--in-order"))


def test_who_fits_alone_is_shown_how_many_come_before() -> None:
    objects = [*a_cluster(count=1), a_pod("p", template="one"), a_pod("q", template="one"), a_pod("r", template="one")]
    assert [run_on(name, objects).err for name in "pqr"] == [
        "",
        "explained on its own: 1 other is pending and comes before it (--in-order places them first)\n",
        "explained on its own: 2 others are pending and come before it (--in-order places them first)\n",
    ]
    assert run_on("r", objects, "--in-order").err == ""
    assert run_on("r", [*objects[:1], *objects[2:]]).err == "warning: the input contains no ResourceSlice\n"


def test_claim_that_no_pod_uses_comes_after_pods_and_earlier_claims() -> None:
    objects = [*a_cluster(count=2), a_pod("p", template="one"), *(a_claim(name) for name in "abc")]
    assert [run_on(f"claim/{name}", objects, "--in-order").code for name in "abc"] == [0, 1, 1]
    assert [run_on(f"claim/{name}", objects).code for name in "abc"] == [0, 0, 0]


# -- what is not known


FEATURES = Features.of("1.36")


def told(explanation: Explanation) -> str:
    """The explanation as text."""
    return rendered(ExplanationReport(explanation), TEXT)


def spent(*objects: Json, budget_steps: int = 0) -> Explanation:
    """The explanation of the claim `c` where so many steps may be taken on a node."""
    inventory = inventory_from(*objects)
    claims = Claims(inventory)
    cluster = cluster_of(inventory, claims, inventory.pods, FEATURES, budget_steps=budget_steps)
    placement = Placement(cluster, claims, inventory.namespaces)
    return explain(placement, placement.look_at_claim(claims.objects["default", "c"].claim))


def test_spent_budget_is_reported_as_not_known() -> None:
    found = spent(*a_cluster("a", "b"), a_claim("c", a_request(count=2)))
    assert found.verdict == "NotKnown"
    text = told(found)
    assert text.startswith(
        "claim default/c may or may not fit: 0/2 nodes: nearest is node a: not known: no answer after"
    )
    assert "it is known to fit if" in text
    assert "request gpu: count 1" in text
    assert "cannot" not in text
    reported: Any = object_of(ExplanationReport(found))
    assert (reported["verdict"], reported["node"]["verdict"], reported["node"]["conflict"]) == (
        "NotKnown",
        "NotKnown",
        None,
    )


def test_node_that_is_not_known_does_not_hide_one_that_can() -> None:
    claim = a_claim("c", a_request(count=2))
    claim["spec"]["devices"]["constraints"] = [
        {"matchAttribute": f"{DRIVER}/numa"},
        {"distinctAttribute": f"{DRIVER}/card"},
    ]
    hard, easy = (a_slice(node=node, devices=numbered(*pairs)) for node, pairs in (("a", HARD), ("b", EASY)))
    found = spent(a_node("a"), a_node("b"), hard, easy, a_class(), claim, budget_steps=3)
    assert found.answers
    assert isinstance(found.answers["a"], Exhausted)
    assert (found.verdict, found.node) == ("Fits", "b")


HARD = ((0, 0), (0, 0), (1, 1), (1, 1))
EASY = ((0, 0), (0, 1))


def numbered(*pairs: tuple[int, int]) -> list[Json]:
    """A device for each (numa, card)."""
    return [
        {"name": f"gpu-{number}", "attributes": {"numa": {"int": numa}, "card": {"int": card}}}
        for number, (numa, card) in enumerate(pairs)
    ]


# -- the object


def keys_of(value: Any) -> Iterator[str]:
    """The names of all fields, at whatever depth."""
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def a_hard_case() -> list[Json]:
    """Something of everything that an explanation can tell: shares, taints, holders, constraints, alternatives."""
    taints = [{"key": "maintenance", "effect": "NoSchedule"}]
    plain: list[Json] = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n // 2}}} for n in range(4)]
    plain[3]["taints"] = taints
    shared = [{"name": "card", "allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10"}}}]
    consumed = {"shareID": "0b7c1f0e-52a8-4a6e-8f2f-5b5f7a1d0c11", "consumedCapacity": {"bandwidth": "10"}}
    sharer = an_allocated_claim("sharer", "card")
    sharer["status"]["allocation"]["devices"]["results"][0] |= {"driver": "net.example", **consumed}
    half = a_slice("half", driver="half.example", devices=[{"name": "x"}])
    half["spec"]["pool"]["resourceSliceCount"] = 2
    alternatives = [{"name": "two", "deviceClassName": "gpu", "count": 2}, {"name": "one", "deviceClassName": "card"}]
    claim = a_claim("c", a_request(count=4), {"name": "other", "firstAvailable": alternatives})
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/numa", "requests": ["gpu"]}]
    classes = [a_class(expressions=[f'device.driver == "{DRIVER}"']), a_class("card")]
    slices = [a_slice(devices=plain), a_slice("net", devices=shared, driver="net.example"), half]
    return [a_node(), a_node("node-2"), *slices, *classes, an_allocated_claim("held", "gpu-0"), sharer, claim]


def test_object_says_what_the_text_says() -> None:
    reported = object_on("claim/c", a_hard_case(), "--kubernetes", "1.37")
    assert (reported["apiVersion"], reported["kind"]) == ("dra-scheduler.dev/v1alpha1", "Explanation")
    assert (reported["pod"], reported["claims"]) == (None, [{"namespace": "default", "name": "c", "allocated": None}])
    assert (reported["verdict"], reported["policy"], reported["features"]["kubernetes"]) == (
        "DoesNotFit",
        "first-fit",
        "1.37",
    )
    node = reported["node"]
    assert (node["name"], node["verdict"], node["refusedBy"], node["devices"]) == (
        "node-1",
        "DoesNotFit",
        "Devices",
        "DoesNotFit",
    )
    gpu = node["requests"][0]
    assert (gpu["claim"], gpu["request"], gpu["wanted"], gpu["total"]) == ("default/c", "gpu", 4, 5)
    assert [(one["kind"], one["count"]) for one in gpu["refused"]] == [("Selector", 1), ("Taint", 1), ("InUse", 1)]
    assert gpu["refused"][2]["holders"] == [{"claim": "default/held", "devices": 1}]
    assert [one["device"] for one in gpu["left"]] == ["gpu-1", "gpu-2"]
    refused = [one for request in node["requests"] for one in request["refused"]]
    (short,) = next(one["short"] for one in refused if one["kind"] == "Capacity")
    assert short == {"capacity": "bandwidth", "devices": 1, "everyShareTakesAll": True}
    assert node["conflict"]["wishes"] == [{"claim": "default/c", "request": "gpu"}]
    assert node["conflict"]["text"].startswith("Because request gpu needs 4 devices, and 2 are left on node node-1")
    assert node["unusablePools"][0]["driver"] == "half.example"
    assert [(one["name"], one["verdict"], one["score"]) for one in reported["otherNodes"]] == [
        ("node-2", "DoesNotFit", None)
    ]


def test_remedies_of_the_object_name_what_to_change() -> None:
    reported = object_on("claim/c", [*a_cluster(count=1), an_allocated_claim("h", "gpu-0"), a_claim("c")])
    assert reported["node"]["remedies"] == [
        {"kind": "ReleaseClaims", "claims": ["default/h"], "text": "claim default/h released"}
    ]
    numa = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n}}} for n in range(2)]
    claim = a_claim("c", a_request(count=2))
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/numa"}]
    count, dropped = object_on("claim/c", [a_node(), a_slice(devices=numa), a_class(), claim])["node"]["remedies"]
    assert {key: count[key] for key in ("kind", "claim", "request", "count", "insteadOfAll")} == {
        "kind": "LowerCount",
        "claim": "default/c",
        "request": "gpu",
        "count": 1,
        "insteadOfAll": False,
    }
    assert (dropped["kind"], dropped["constraint"], dropped["matchAttribute"]) == (
        "DropConstraint",
        0,
        f"{DRIVER}/numa",
    )
    tainted = [{"name": "x", "taints": [{"key": "k", "effect": "NoExecute"}]}]
    (tolerate,) = object_on("claim/c", [a_node(), a_slice(devices=tainted), a_class(), a_claim("c")])["node"][
        "remedies"
    ]
    assert tolerate["kind"] == "TolerateTaints"
    assert tolerate["taints"] == [{"claim": "default/c", "request": "gpu", "key": "k", "effect": "NoExecute"}]


def test_every_field_of_the_object_is_documented() -> None:
    documented = set(re.findall(r"`(?:[\w\[\].]*\.)?(\w+)(?:\[\])?`", (ROOT / "docs" / "explain.md").read_text()))
    cases = [
        object_on("claim/c", a_hard_case(), "--kubernetes", "1.37"),
        object_on("p", [*a_cluster("a", "b"), a_pod("p", template="one")]),
    ]
    fields = {key for case in cases for key in keys_of(case)}
    assert fields - documented == set()


def test_example_of_the_documentation_is_what_comes_out() -> None:
    numa = [{"name": f"gpu-{number}", "attributes": {"numa": {"int": number // 4}}} for number in range(8)]
    objects = [a_class(), a_pod("train-0", claim="train-0", namespace="ml")]
    claim = a_claim("train-0", a_request("gpus", count=4), namespace="ml")
    claim["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/numa", "requests": ["gpus"]}]
    held = {"notebook": ("gpu-07", ["gpu-1"]), "tuning": ("gpu-07", ["gpu-5"])}
    for number in range(40):
        node = f"gpu-{number:02}"
        objects += [a_node(node), a_slice(node=node, devices=numa)]
        held |= {f"busy-{number}": (node, [f"gpu-{n}" for n in range(6 + number % 3)])} if number != 7 else {}
    holders = [an_allocated_claim(name, *devices, node=node) for name, (node, devices) in held.items()]
    for holder in holders:
        holder["metadata"]["namespace"] = "ml"
    example = (ROOT / "docs" / "explain.md").read_text().partition("```\n")[2].partition("```")[0]
    assert run_on("ml/train-0", [*objects, *holders, claim]).out == example


# -- fleets


def test_wish_of_the_example_fleet_is_one_device_too_large() -> None:
    run = dra("explain", "research/wish", FLEET)
    assert run.code == 1
    reported = section(run, "node gpu-b, the nearest")
    assert reported[-2:] == ["would fit if", "request gpus: count 4"]


@pytest.fixture(scope="module")
def explained() -> dict[str, tuple[Explanation, Result]]:
    """Each pod of the recorded fleet with what is said of it when its turn comes, and what becomes of it."""
    if not INVENTORIES.is_dir():
        pytest.skip(f"the fleet is not at hand: {INVENTORIES} is absent")
    paths = [str(INVENTORIES / name) for name in ("cluster.yaml", "pending.yaml")]
    world = Input.of(inventory_of(read(paths), (), FEATURES, keep_going=False), FEATURES)
    placement = world.placement(FEATURES)
    found = {}
    for pod in sorted(world.pending, key=order_of):
        found[pod.name] = (explain(placement, placement.look(pod)), placement.place(pod))
    return found


def test_what_is_explained_is_what_is_done(explained: dict[str, tuple[Explanation, Result]]) -> None:
    assert len(explained) == 72
    for reported, result in explained.values():
        assert (reported.verdict == "Fits") == isinstance(result, PlacedPod)
        if isinstance(result, PlacedPod):
            assert reported.node == result.node
            assert taken(reported) == [claim.allocation for claim in result.claims]
        else:
            assert reason_of(result) == told(reported).partition(": ")[2].partition("\n")[0]


def taken(reported: Explanation) -> list[Allocation | None]:
    """The allocations of the claims: those that they have, and those that its node gives to the others."""
    given: Iterator[Allocation] = iter(())
    if reported.on_node:
        assert isinstance(reported.on_node.answer, Allocated)
        given = iter(reported.on_node.answer.allocations)
    return [claim.allocation or next(given) for claim in reported.claims]


@pytest.mark.parametrize("name", ["vgpu-3", "small-5"])
def test_bandwidth_without_a_request_policy_is_reported_in_the_first_line(
    name: str, explained: dict[str, tuple[Explanation, Result]]
) -> None:
    first, *rest = told(explained[name][0]).splitlines()
    assert "every share takes all of capacity bandwidth, which has no request policy" in first
    (remedy,) = [line for line in rest if line.endswith("released") or "claims released: " in line]
    assert "ml/small-0-dev-" in remedy


def test_each_refused_pod_has_a_conflict_or_an_error_that_reports_why(
    explained: dict[str, tuple[Explanation, Result]],
) -> None:
    reported = {name: one.on_node for name, (one, _) in explained.items() if one.verdict != "Fits"}
    kinds = Counter(name.rpartition("-")[0] for name in reported)
    assert kinds == {"mig": 2, "small": 6, "train": 1, "vgpu": 9, "wish": 1, "node": 2}
    for name, on_node in reported.items():
        assert on_node
        if name.startswith("node-"):
            assert "pool gpu.nvidia.example/gpu-07 is being updated" in str(on_node.answer)
        else:
            assert on_node.conflict
            assert on_node.conflict.is_minimal
            assert on_node.remedies


def test_flexible_pods_get_their_first_alternative(explained: dict[str, tuple[Explanation, Result]]) -> None:
    stories = [one.on_node for name, (one, _) in explained.items() if name.startswith("flex-")]
    assert stories
    for on_node in stories:
        assert on_node
        assert [funnel.request for funnel in on_node.offer.funnels] == ["gpu/h100", "gpu/a100"]
        assert on_node.passed_over == ()


# All that waits


def test_all_pods_and_claims_are_explained_each_on_what_those_before_it_leave() -> None:
    objects = [*a_cluster(count=2), a_pod("a", template="one"), a_pod("b", template="one"), a_pod("c", template="one")]
    run = dra("explain", "--all", "-", stdin=text_of(*objects, a_claim("unused")))
    assert run.code == 1
    heads = [block.splitlines()[0] for block in run.out.split("\n\n") if block.startswith(("pod", "claim"))]
    assert [head.split(":")[0] for head in heads] == [
        "pod default/a fits",
        "pod default/b fits",
        "pod default/c does not fit",
        "claim default/unused does not fit",
    ]
    assert run.err.endswith("2 of 4 fit\n")


def held_on(*nodes: str) -> list[Json]:
    """Nodes with two devices, one of which is in use, and a pod that needs two."""
    held = [an_allocated_claim(f"of-{node}", "gpu-0", node=node) for node in nodes]
    objects = [one for node in nodes for one in (a_node(node), a_slice(node=node))]
    return [a_class(), *objects, *held, a_claim("two", a_request(count=2)), a_pod("p", claim="two")]


def without_holders(found: Any) -> Any:
    return orjson.loads(re.sub(r" \(held by [^()]*\)", "", orjson.dumps(found).decode()))


def test_all_say_of_each_what_is_said_of_it_alone_but_for_holders_on_other_nodes() -> None:
    objects = [*held_on("a", "b", "c"), a_node("d", unschedulable=True), a_slice(node="d")]
    [one] = orjson.loads(dra("explain", "--all", "-", "-o", "json", stdin=text_of(*objects)).out)["items"]
    alone = object_on("p", objects)
    assert one["node"] == alone["node"]
    assert "held by default/of-a" in one["reason"]
    assert [other["reason"].count("held by") for other in alone["otherNodes"]] == [1, 1, 0]
    assert [other["reason"].count("held by") for other in one["otherNodes"]] == [0, 0, 0]
    assert one["preemption"].pop("nodes") == []
    assert [told["name"] for told in alone["preemption"].pop("nodes")] == ["a", "b", "c", "d"]
    assert without_holders(one) == without_holders(alone)


def test_equal_nodes_are_worked_out_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[NodeAnswer] = []

    def text(answer: NodeAnswer) -> str:
        said.append(answer)
        return answer_text(answer)

    monkeypatch.setattr(placement_report, "answer_text", text)
    run = run_on("--all", held_on(*(f"node-{number:02}" for number in range(40))))
    assert "39 nodes (node-01, " in run.out
    assert len(said) < 5


def test_a_list_without_items_is_a_list() -> None:
    run = dra("explain", "--all", "-", "-o", "json", stdin=text_of(*a_cluster()))
    assert orjson.loads(run.out)["items"] == []
    assert run.out == orjson.dumps(orjson.loads(run.out), option=orjson.OPT_INDENT_2).decode() + "\n"
    several = run_on("--all", [*a_cluster(), a_claim("x"), a_claim("y")], "-o", "json").out
    assert several == orjson.dumps(orjson.loads(several), option=orjson.OPT_INDENT_2).decode() + "\n"


def test_all_say_what_allocate_does() -> None:
    paths = [FLEET]
    found = orjson.loads(dra("explain", "--all", *paths, "-o", "json").out)
    assert found["kind"] == "ExplanationList"
    placed = {item["pod"]["name"]: item["node"]["name"] for item in found["items"] if item["verdict"] == "Fits"}
    items = orjson.loads(dra("allocate", *paths, "-o", "json").out)["items"]
    pods = {item["metadata"]["name"]: item["spec"].get("nodeName") for item in items if item["kind"] == "Pod"}
    assert {name: node for name, node in pods.items() if node} == placed


def test_all_that_fits_ends_with_0() -> None:
    run = dra("explain", "--all", "-", stdin=text_of(*a_cluster(), a_pod("p", template="one")))
    assert (run.code, run.err) == (0, "1 of 1 fit\n")


@pytest.mark.parametrize("option", [["--node", "a"], ["--in-order"]])
def test_all_goes_without_one_node_or_order(option: list[str]) -> None:
    run = dra("explain", "--all", *option, FLEET)
    assert run.code == 2
    assert "--all explains everything in order and on all nodes" in run.err


# -- a volume that keeps the pod on a node

KEPT = "PersistentVolumeClaim default/data keeps the pod on node b by its annotation volume.kubernetes.io/selected-node"


def pinned_to_b(*more: Json) -> list[Json]:
    """A pod with a device and a volume, for which node b was asked once; no other node has devices unless told so."""
    claim = a_volume_claim()
    claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "b"}
    storage = [a_storage_class(), a_volume(node="nowhere"), claim]
    return [*more, *storage, a_class(), a_claim("c"), a_pod("p", claim="c", volumes=volumes_of("data"))]


def test_volume_that_keeps_the_pod_where_it_does_not_fit_is_named() -> None:
    objects = pinned_to_b(*a_cluster("a"), a_node("b"))
    for options in ((), ("--node", "a"), ("--node", "b")):
        assert run_on("p", objects, *options).out.splitlines()[1].strip().startswith(KEPT)
    assert object_on("p", objects)["keptBy"].startswith(KEPT)
    assert f"; {KEPT}" in dra("allocate", "-", stdin=text_of(*objects)).out


def test_volume_that_keeps_the_pod_on_the_only_node_that_can_is_named() -> None:
    run = run_on("p", pinned_to_b(*a_cluster("a", "b")))
    assert headline(run) == "pod default/p fits: node b, the only one that can"
    assert run.out.splitlines()[1].strip().startswith(KEPT)


def test_pod_whose_volume_was_asked_for_nowhere_is_kept_by_none() -> None:
    objects = [one for one in pinned_to_b(*a_cluster("a", "b")) if one["metadata"].get("name") != "data"]
    assert object_on("p", [*objects, a_volume_claim()])["keptBy"] is None


def test_pods_of_one_workload_with_one_reason_are_explained_once() -> None:
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}]
    pods = [a_pod(f"j-{number:03}", template="many") for number in range(198)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = owner
    objects = [*a_cluster(count=1), a_template("many", a_request(count=9)), *pods, a_pod("z", template="many")]
    run = dra("explain", "--all", "-", stdin=text_of(*objects))
    assert [line for line in run.out.splitlines() if line.startswith("pod ")] == [
        f"pod default/{name} does not fit: 0/1 nodes: no node has 9 devices for request gpu, the most is 1, on node-1 "
        "(of 1 device)"
        for name in ("j-000 and 197 more", "z")
    ]
    wide = dra("explain", "--all", "-", "-o", "wide", stdin=text_of(*objects)).out
    assert len([line for line in wide.splitlines() if line.startswith("pod ")]) == 199
    assert len(orjson.loads(dra("explain", "--all", "-", "-o", "json", stdin=text_of(*objects)).out)["items"]) == 199
